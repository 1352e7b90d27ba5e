//! Whether the two sources contradict each other.

use jiff::SignedDuration;

use super::{Opinion, SeenGroup, SeenOffset};
use crate::domain::group::{GroupState, GroupType};
use crate::domain::guard::run::SecondSource;
use crate::domain::guard::sample::{PartitionSample, Sample};

/// How much older than the end of its reading what a sample says may be.
const LONGEST_READING: SignedDuration = SignedDuration::from_secs(30);

/// How many contradictions are named.
const NAMED: usize = 3;

/// What the proxy's opinion comes to beside a sample of the brokers.
///
/// The two are not of one moment, so only what consumers that read on in between cannot explain is a difference.
#[must_use]
pub fn compare(opinion: &Opinion, sample: &Sample) -> SecondSource {
    let unavailable = |why: String| SecondSource::Unavailable { why };
    match opinion {
        Opinion::Unavailable(unanswered) => unavailable(unanswered.to_string()),
        Opinion::AnotherCluster { seen } => SecondSource::AnotherCluster {
            seen: match seen.as_slice() {
                [] => "none".to_owned(),
                seen => {
                    let seen: Vec<_> = seen.iter().map(|id| id.0.as_str()).collect();
                    seen.join(", ")
                }
            },
        },
        Opinion::NoSuchGroup if sample.state == GroupState::Dead => SecondSource::Agrees,
        Opinion::NoSuchGroup => unavailable("it knows no such group, or may not see it".to_owned()),
        // Versions before the consumer protocol take a group that speaks it for a dead one.
        Opinion::Group(seen)
            if seen.state == Some(GroupState::Dead) && sample.group_type == GroupType::Consumer =>
        {
            unavailable("it is too old for groups of the consumer protocol".to_owned())
        }
        Opinion::Group(seen) => {
            let differences = differences(seen, sample);
            match (&seen.offsets, differences.is_empty()) {
                (_, false) => SecondSource::Differs {
                    how: in_short(&differences),
                },
                (Err(unanswered), true) => unavailable(unanswered.to_string()),
                (Ok(_), true) => SecondSource::Agrees,
            }
        }
    }
}

fn differences(seen: &SeenGroup, sample: &Sample) -> Vec<String> {
    let of_group = of_state(seen, sample);
    let offsets = seen.offsets.iter().flatten().flatten();
    let of_partitions = offsets.filter_map(|(partition, at)| {
        let sampled = sample.of_partition(partition)?;
        let how = of_partition(seen, at, sampled, sample)?;
        Some(format!("{partition}: {how}"))
    });
    of_group.into_iter().chain(of_partitions).collect()
}

/// A group on its way between two states is in neither, and anything may be seen of it.
fn of_state(seen: &SeenGroup, sample: &Sample) -> Option<String> {
    let contradict = match (seen.state?, sample.state) {
        (GroupState::Empty, GroupState::Stable) => !sample.members.is_empty(),
        (GroupState::Stable, GroupState::Empty) => sample.is_empty() && seen.members != Some(0),
        (GroupState::Dead, GroupState::Empty | GroupState::Stable)
        | (GroupState::Empty | GroupState::Stable, GroupState::Dead) => true,
        _ => false,
    };
    contradict.then(|| {
        let members = |count: Option<usize>| match count {
            Some(count) => format!(" (members: {count})"),
            None => String::new(),
        };
        format!(
            "the group is {}{}, where the brokers say {}{}",
            seen.state.unwrap_or(GroupState::Unknown),
            members(seen.members),
            sample.state,
            members(Some(sample.members.len())),
        )
    })
}

/// Commits and logs only go forward by themselves. So what was seen since an instant bounds from below all that is seen
/// after it, and what is seen bounds from above all that was seen before.
fn of_partition(
    seen: &SeenGroup,
    at: &SeenOffset,
    sampled: &PartitionSample,
    sample: &Sample,
) -> Option<String> {
    let is_older = seen.ended_at + LONGEST_READING <= sample.at;
    let current = at.current_offset;
    match sampled.committed {
        Some(committed) if seen.began_at >= sampled.still_since && current < committed => {
            Some(format!("it says {current}, behind {committed}"))
        }
        Some(committed) if is_older && current > committed => {
            Some(format!("it says {current}, beyond {committed}"))
        }
        None if is_older => Some(format!("it says {current}, where there is no commit")),
        _ => {
            let (end, log) = (at.log_end_offset, &sampled.log);
            if seen.began_at >= sampled.stable_since && end < log.last_stable {
                let stable = log.last_stable;
                Some(format!("it ends the log at {end}, before {stable}"))
            } else if is_older && end > log.high {
                Some(format!("it ends the log at {end}, beyond {}", log.high))
            } else {
                None
            }
        }
    }
}

fn in_short(differences: &[String]) -> String {
    let mut named: Vec<_> = differences.iter().take(NAMED).cloned().collect();
    if differences.len() > NAMED {
        named.push(format!("and {} more", differences.len() - NAMED));
    }
    named.join("; ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{ProxyError, Unanswered};
    use super::*;
    use crate::domain::group::MemberSeen;
    use crate::domain::offset::{ClusterId, Fault, TopicPartition, Watermarks};
    use crate::domain::testing::at_second as at;

    fn partition(n: i32) -> TopicPartition {
        TopicPartition::new("orders", n)
    }

    /// Of 1000 s: partition 0 stands at 43 since 400 s, with the log's end at 90 since 500 s; partition 1 has no commit;
    /// partition 2 could not be read.
    fn sample() -> Sample {
        let read = |committed| PartitionSample {
            committed,
            log: Watermarks {
                log_start: 5,
                last_stable: 90,
                high: 93,
                leader_epoch: None,
            },
            owner: None,
            unstable: false,
            still_since: at(400),
            stable_since: at(500),
            longest_pause_seconds: 0,
        };
        Sample {
            run: at(1000),
            at: at(1000),
            state: GroupState::Stable,
            group_type: GroupType::Classic,
            is_simple: false,
            members: vec![MemberSeen {
                member_id: "m-1".to_owned(),
                client_id: "c".to_owned(),
                host: "/h".to_owned(),
            }],
            topics: BTreeMap::new(),
            moved_at: None,
            trouble: None,
            recovery: None,
            partitions: [
                (partition(0), Ok(read(Some(43)))),
                (partition(1), Ok(read(None))),
                (partition(2), Err(Fault::NoLeader)),
            ]
            .into(),
        }
    }

    /// Read at `seconds`: the same as the sample, but for partition 0.
    fn seen(seconds: i64, current_offset: i64, log_end_offset: i64) -> SeenGroup {
        let seen = SeenOffset {
            current_offset,
            log_end_offset,
        };
        SeenGroup {
            began_at: at(seconds),
            ended_at: at(seconds),
            state: Some(GroupState::Stable),
            members: Some(1),
            offsets: Ok(Some([(partition(0), seen)].into())),
        }
    }

    fn how(seen: SeenGroup, sample: &Sample) -> String {
        match compare(&Opinion::Group(seen), sample) {
            SecondSource::Differs { how } => how,
            SecondSource::Agrees => String::new(),
            other => other.to_string(),
        }
    }

    #[test]
    fn only_what_consumers_that_read_on_cannot_explain_is_a_difference() {
        // When it was read, its commit and its end of the log, and what is said to that.
        let cases = [
            (1001, 43, 90, ""),
            (1001, 44, 120, ""),
            (1001, 42, 90, "orders-0: it says 42, behind 43"),
            (1001, 43, 89, "orders-0: it ends the log at 89, before 90"),
            // While the sample was read: it may be a little older or newer.
            (990, 44, 94, ""),
            (990, 42, 90, "orders-0: it says 42, behind 43"),
            // Between two readings that say the same.
            (700, 43, 90, ""),
            (700, 42, 90, "orders-0: it says 42, behind 43"),
            (700, 44, 90, "orders-0: it says 44, beyond 43"),
            (700, 43, 94, "orders-0: it ends the log at 94, beyond 93"),
            (700, 43, 93, ""),
            // Before the sample knows anything: it may have moved since, but not back.
            (300, 10, 50, ""),
            (300, 44, 50, "orders-0: it says 44, beyond 43"),
        ];
        for (seconds, current, end, said) in cases {
            let told = how(seen(seconds, current, end), &sample());
            assert_eq!(told, said, "at {seconds}: {current} of {end}");
        }
    }

    #[test]
    fn a_partition_that_one_of_them_does_not_know_is_no_difference_and_a_removed_commit_is() {
        let with = |n, seconds| {
            let mut seen = seen(seconds, 43, 90);
            let at = SeenOffset {
                current_offset: 7,
                log_end_offset: 90,
            };
            seen.offsets = Ok(Some([(partition(n), at)].into()));
            how(seen, &sample())
        };
        assert_eq!(with(2, 1001), "", "not read");
        assert_eq!(with(9, 1001), "", "not watched");
        assert_eq!(with(1, 1001), "", "its first commit");
        let removed = "orders-1: it says 7, where there is no commit";
        assert_eq!(with(1, 700), removed);
    }

    #[test]
    fn states_that_exclude_each_other_are_a_difference_and_those_on_the_way_are_none() {
        use GroupState::{Dead, Empty, PreparingRebalance, Stable};
        let cases = [
            (Some(Stable), Stable, ""),
            (Some(Empty), Empty, ""),
            (None, Stable, ""),
            (Some(PreparingRebalance), Empty, ""),
            (Some(Empty), PreparingRebalance, ""),
            (
                Some(Empty),
                Stable,
                "the group is Empty (members: 1), where the brokers say Stable (members: 1)",
            ),
            (
                Some(Stable),
                Empty,
                "the group is Stable (members: 1), where the brokers say Empty (members: 0)",
            ),
            (
                Some(Dead),
                Stable,
                "the group is Dead (members: 1), where the brokers say Stable (members: 1)",
            ),
            (
                Some(Stable),
                Dead,
                "the group is Stable (members: 1), where the brokers say Dead (members: 1)",
            ),
        ];
        for (said, state, told) in cases {
            let mut sample = sample();
            sample.state = state;
            if state == Empty {
                sample.members.clear();
            }
            let mut seen = seen(1001, 43, 90);
            seen.state = said;
            assert_eq!(how(seen, &sample), told, "{said:?} beside {state}");
        }
    }

    #[test]
    fn what_it_cannot_say_is_named_and_never_an_agreement() {
        let mut sample = sample();
        let unavailable = |why: &str| SecondSource::Unavailable {
            why: why.to_owned(),
        };
        let unanswered = Unanswered {
            asked: "the group's lags",
            error: ProxyError::Forbidden,
        };
        let why = "asked for the group's lags: the credentials do not allow it (status 403)";
        let opinion = Opinion::Unavailable(unanswered);
        assert_eq!(compare(&opinion, &sample), unavailable(why));
        let mut without = seen(1001, 43, 90);
        without.offsets = Err(unanswered);
        assert_eq!(how(without.clone(), &sample), unavailable(why).to_string());
        without.state = Some(GroupState::Empty);
        assert!(how(without.clone(), &sample).starts_with("the group is Empty"));
        without.offsets = Ok(None);
        without.state = Some(GroupState::Stable);
        assert_eq!(how(without, &sample), "");

        let none = unavailable("it knows no such group, or may not see it");
        assert_eq!(compare(&Opinion::NoSuchGroup, &sample), none);
        let other = |ids: &[&str]| Opinion::AnotherCluster {
            seen: ids.iter().map(|id| ClusterId((*id).to_owned())).collect(),
        };
        let seen_clusters = |seen: &str| SecondSource::AnotherCluster {
            seen: seen.to_owned(),
        };
        assert_eq!(compare(&other(&["a", "b"]), &sample), seen_clusters("a, b"));
        assert_eq!(compare(&other(&[]), &sample), seen_clusters("none"));

        sample.group_type = GroupType::Consumer;
        let mut dead = seen(1001, 43, 90);
        dead.state = Some(GroupState::Dead);
        let old = unavailable("it is too old for groups of the consumer protocol");
        assert_eq!(compare(&Opinion::Group(dead), &sample), old);
        sample.state = GroupState::Dead;
        assert_eq!(
            compare(&Opinion::NoSuchGroup, &sample),
            SecondSource::Agrees
        );
    }

    #[test]
    fn of_many_differences_a_few_are_named() {
        let mut sample = sample();
        let mut seen = seen(1001, 43, 90);
        let of = sample.partitions[&partition(0)].clone();
        let behind = SeenOffset {
            current_offset: 1,
            log_end_offset: 90,
        };
        sample.partitions = (0..9).map(|n| (partition(n), of.clone())).collect();
        seen.offsets = Ok(Some((0..9).map(|n| (partition(n), behind)).collect()));
        assert_eq!(
            how(seen, &sample),
            "orders-0: it says 1, behind 43; orders-1: it says 1, behind 43; \
             orders-2: it says 1, behind 43; and 6 more"
        );
    }
}
