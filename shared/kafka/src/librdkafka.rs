//! librdkafka in safe terms: its configuration, its handles, and its admin requests with a deadline.

pub(crate) mod admin_client;
pub(crate) mod callbacks;
pub(crate) mod handle;
pub(crate) mod properties;
pub(crate) mod session;
