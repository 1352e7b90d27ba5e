//! Everything that needs real parts: Apache Kafka itself, the real state machine, a real browser.

mod aborts;
mod alerts;
mod apply_faults;
mod approval;
mod asked;
mod bench;
mod browser;
mod checkpoints;
mod events;
mod forged;
mod guard;
mod guard_situations;
mod history;
mod incident;
mod processes;
mod records;
mod refusals;
mod scale;
mod secrecy;
mod secrets;
mod sign_in;
mod supersede;
mod telling;
mod webhook;
