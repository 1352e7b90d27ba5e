//! Everything that needs real parts: Apache Kafka itself, the real state machine, a real browser.

mod events;
mod incident;
