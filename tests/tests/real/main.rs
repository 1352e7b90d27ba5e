//! Everything that needs real parts: Apache Kafka itself, the real state machine, a real browser.

#![forbid(unsafe_code)]

mod aborts;
mod alerts;
mod apply_faults;
mod approval;
mod asked;
mod authorised;
mod bench;
mod big_move;
mod browser;
mod checkpoints;
mod events;
mod forged;
mod guard;
mod guard_situations;
mod half_applied;
mod history;
mod incident;
mod processes;
mod readme;
mod records;
mod refusals;
mod restored;
mod rights;
mod scale;
mod secrecy;
mod secrets;
mod sign_in;
mod supersede;
mod telling;
mod waiting;
mod webhook;
