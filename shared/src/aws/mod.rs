//! AWS apart from the table: other functions, executions of the state machine, secrets, and metrics.

pub mod lambda;
pub mod metrics;
pub mod secrets;
pub mod step_functions;
