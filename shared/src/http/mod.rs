//! HTTP as API Gateway passes it on (HTTP API, payload format 2.0): what the page and the API read and answer.

mod request;
mod response;

pub use request::{BodyFault, Request, UnreadableEvent};
pub use response::Response;
