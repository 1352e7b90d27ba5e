//! Everything that needs real parts: Apache Kafka itself, the real state machine, a real browser.

mod approval;
mod asked;
mod browser;
mod incident;
mod secrecy;
mod secrets;
mod telling;
