//! What an approver has to know of a plan.

use std::collections::BTreeSet;

use super::group::stateful_kind;
use super::making::{Making, waits_for_empty};
use crate::group::{Activity, GroupDescription, GroupState, MemberSeen};
use crate::guard::rules::jump_without_members;
use crate::guard::sample::latest_members;
use crate::offset::TopicPartition;
use crate::plan::{PartitionMove, Warning, total};

impl Making<'_> {
    pub(super) fn warn(self, moves: &[PartitionMove], dropped_metadata: usize) -> Vec<Warning> {
        let Ok(description) = &self.planning.seen.description else {
            return Vec::new();
        };
        let mut warnings = Vec::new();
        if description.state == GroupState::Dead {
            warnings.push(Warning::CreatesGroup);
        }
        warnings.extend(warn_of_counts(moves));
        warnings.extend(self.warn_of_members());
        warnings.extend(self.warn_of_writers());
        warnings.extend(self.warn_of_target(moves));
        if dropped_metadata > 0 {
            warnings.push(Warning::MetadataDropped {
                partitions: dropped_metadata,
            });
        }
        let removed = moves.iter().filter(|m| m.to.is_none()).count();
        if removed > 0 {
            warnings.push(Warning::Removes {
                partitions: removed,
            });
        }
        warnings.extend(self.warn_of_kind(description));
        warnings.extend(self.warn_of_unknown_topics(moves));
        warnings
    }

    /// Whom to stop: the members of the planning reading or, where it saw nobody, those of the guard's latest looks.
    fn warn_of_members(self) -> Option<Warning> {
        let planning = self.planning;
        let drift_limit = self.drift_limit();
        let waits = waits_for_empty(planning.policy);
        match planning.seen.activity() {
            Activity::Active { state, members } => {
                let members = MemberSeen::all(&members);
                Some(if waits {
                    Warning::MustBeStopped {
                        members,
                        drift_limit,
                    }
                } else {
                    let state = state.to_string();
                    Warning::ActiveNow { state, members }
                })
            }
            Activity::Inactive | Activity::Unproven { .. } if waits => {
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
    fn warn_of_writers(self) -> Option<Warning> {
        let planning = self.planning;
        let why = if planning.policy.guard.external_offsets {
            "so configured: external_offsets".to_owned()
        } else {
            jump_without_members(planning.looks, planning.now)?.to_string()
        };
        Some(Warning::WrittenFromOutside { why })
    }

    /// What there is to know of where the targets come from.
    fn warn_of_target(self, moves: &[PartitionMove]) -> Vec<Warning> {
        let moved: BTreeSet<&TopicPartition> = moves.iter().map(|m| &m.partition).collect();
        let mut warnings = self.target.warnings.clone();
        let older = self.target.then.iter().flat_map(|then| &then.older);
        warnings.extend(older.filter_map(|older| {
            let of_it = older.partitions.iter().filter(|at| moved.contains(at));
            let partitions = of_it.count();
            (partitions > 0).then(|| Warning::OlderCheckpoint {
                partitions,
                id: older.id.clone(),
                ended_at: older.ended_at,
                by: older.by.clone(),
            })
        }));
        let where_moved = self.target.warnings_where_moved.iter();
        let where_moved = where_moved.filter(|(partition, _)| moved.contains(partition));
        warnings.extend(where_moved.map(|(_, warning)| warning.clone()));
        warnings
    }

    fn warn_of_kind(self, description: &GroupDescription) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let then = self.target.then.as_ref();
        if let Some(kind) = stateful_kind(self.planning, description, then) {
            warnings.push(Warning::Stateful {
                kind: kind.to_owned(),
            });
        }
        if description.is_simple && description.state != GroupState::Dead {
            warnings.push(Warning::AssignOnly);
        }
        warnings
    }

    /// Topics of which a new one of the same name could not be noticed.
    fn warn_of_unknown_topics(self, moves: &[PartitionMove]) -> Vec<Warning> {
        let has_source = self.target.then.is_some();
        let topics: BTreeSet<_> = moves.iter().map(|m| m.partition.topic.as_str()).collect();
        let unidentified = topics.into_iter().filter(|topic| {
            self.topic_id_now(topic).is_none()
                || (has_source && self.topic_id_then(topic).is_none())
        });
        unidentified
            .map(|topic| Warning::TopicIdUnknown {
                topic: topic.to_owned(),
            })
            .collect()
    }
}

/// Records that are lost, may be lost, and are passed over.
fn warn_of_counts(moves: &[PartitionMove]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let lost = total(moves.iter().map(|m| m.lost));
    if lost > 0 {
        warnings.push(Warning::Lost { offsets: lost });
    }
    let rising = moves.iter().filter(|m| m.may_rise_to.is_some());
    let partitions = rising.clone().count();
    if partitions > 0 {
        warnings.push(Warning::MayRise {
            partitions,
            offsets: total(rising.map(PartitionMove::may_still_lose)),
        });
    }
    let skips = total(moves.iter().map(PartitionMove::skipped));
    if skips > 0 {
        warnings.push(Warning::Skips { offsets: skips });
    }
    warnings
}
