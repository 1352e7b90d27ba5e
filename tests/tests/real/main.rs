//! Everything that needs real parts: Apache Kafka itself, the real state machine, a real browser.

mod approval;
mod asked;
mod events;
mod incident;
