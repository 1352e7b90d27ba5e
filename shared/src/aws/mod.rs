//! AWS apart from the table: other functions, executions of the state machine, secrets, metrics, and logging in to MSK.

pub mod lambda;
pub mod metrics;
pub mod msk_iam;
pub mod secrets;
pub mod step_functions;
