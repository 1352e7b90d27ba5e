//! What an approver has to know of whoever reads, or writes, the group's offsets.

use super::{Planning, drift_limit, members_seen, waits};
use crate::group::Activity;
use crate::guard::rules::jump_without_members;
use crate::guard::sample::latest_members;
use crate::plan::Warning;

/// Whom to stop: the members of the planning reading or, where it saw nobody, those of the guard's latest looks.
pub(super) fn warning(planning: &Planning<'_>) -> Option<Warning> {
    let drift_limit = drift_limit(planning);
    match planning.seen.activity() {
        Activity::Active { state, members } => {
            let members = members_seen(&members);
            Some(if waits(planning) {
                Warning::MustBeStopped {
                    members,
                    drift_limit,
                }
            } else {
                let state = state.to_string();
                Warning::ActiveNow { state, members }
            })
        }
        Activity::Inactive | Activity::Unproven { .. } if waits(planning) => {
            let members = latest_members(planning.looks, planning.now);
            (!members.is_empty()).then_some(Warning::MustStayStopped {
                members,
                drift_limit,
            })
        }
        Activity::Inactive | Activity::Unproven { .. } => None,
    }
}

/// Whether something writes the group's offsets that is none of its members, as far as is configured or was seen.
pub(super) fn written_from_outside(planning: &Planning<'_>) -> Option<Warning> {
    let why = if planning.policy.guard.external_offsets {
        "so configured: external_offsets".to_owned()
    } else {
        jump_without_members(planning.looks, planning.now)?.to_string()
    };
    Some(Warning::WrittenFromOutside { why })
}
