//! The decision: who may take it, how often it is taken, and what never takes it.

mod decisions;
mod page;
