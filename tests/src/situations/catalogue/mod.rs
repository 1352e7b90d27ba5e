//! The situations.

use offset_guard::domain::guard::verdict::Verdict::{self, CaughtUp, Moving, Waiting};

use super::policy::Policy;
use super::{Lay, Situation};

mod going;
mod logs;
mod members;
mod poison;
mod transactions;

/// What is said of a partition with which nothing is the matter.
const FINE: &[Verdict] = &[CaughtUp, Moving, Waiting];

/// All situations, in the order of the table.
#[must_use]
pub fn all() -> Vec<Situation> {
    [
        going::situations(),
        poison::situations(),
        members::situations(),
        transactions::situations(),
        logs::situations(),
    ]
    .concat()
}

/// The situation of that name.
#[must_use]
pub fn named(name: &str) -> Option<Situation> {
    all().into_iter().find(|situation| situation.name == name)
}

fn situation(name: &'static str, policy: Policy, what: &'static str, lay: Lay) -> Situation {
    Situation {
        name,
        what,
        policy,
        consumer_protocol: false,
        lay,
    }
}

impl Situation {
    const fn with_consumer_protocol(self) -> Self {
        Self {
            consumer_protocol: true,
            ..self
        }
    }
}
