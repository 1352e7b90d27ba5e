//! Everything that needs real parts: Apache Kafka itself, the real state machine, a real browser.

mod checkpoints;
mod incident;
