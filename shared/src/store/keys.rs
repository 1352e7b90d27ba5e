//! Where everything lies: `pk` starts with the item's type, so that a role can be held to its types.

use jiff::Timestamp;

use super::secret::LinkHash;
use crate::domain::guard::quarantine::DedupeId;
use crate::domain::ids::{CheckpointId, ExecutionArn};
use crate::domain::ids::{GroupKey, PlanId};
use crate::domain::incident::Subject;
use crate::domain::offset::{ClusterId, GroupId};

/// The sort key of an item that is alone under its `pk`.
const ALONE: &str = "-";

/// Of sort keys that begin with a time.
pub(super) const TIMED: &str = "T#";

/// What no sort key that begins with a time is above. `$` follows `#`.
pub(super) const TIMED_END: &str = "T$";

/// Of the sort keys of answers.
pub(super) const ANSWERS: &str = "ANSWERS#";

/// The key of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub(super) pk: String,
    pub(super) sk: String,
}

impl Key {
    pub(super) fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }
}

/// A name as a part of a key. `#` parts the parts, and group ids may hold it.
fn part(name: &str) -> String {
    name.replace('%', "%25").replace('#', "%23")
}

/// An instant as text that sorts as time does: UTC, nanoseconds, always as wide. Nothing here is older than 1970.
pub(super) fn instant(at: Timestamp) -> String {
    format!("{:.9}", at.max(Timestamp::UNIX_EPOCH))
}

fn of_group(kind: &str, group: &GroupKey) -> String {
    format!(
        "{kind}#{}#{}",
        part(&group.cluster_id.0),
        part(&group.group.0)
    )
}

/// Everything that is known of a group's past.
pub(super) fn checkpoints(group: &GroupKey) -> String {
    of_group("CHECKPOINT", group)
}

pub(super) fn checkpoint(group: &GroupKey, ended_at: Timestamp, id: &CheckpointId) -> Key {
    let sk = format!("{TIMED}{}#{}", instant(ended_at), part(&id.0));
    Key::new(checkpoints(group), sk)
}

/// What no sort key of `at` or later is below.
pub(super) fn from(at: Timestamp) -> String {
    format!("{TIMED}{}", instant(at))
}

/// What no sort key of a checkpoint of `at` or earlier is above. `$` follows `#`.
pub(super) fn checkpoints_until(at: Timestamp) -> String {
    format!("{TIMED}{}$", instant(at))
}

pub(super) fn checkpoint_chunks(group: &GroupKey, id: &CheckpointId) -> String {
    let group = of_group("CHECKPOINTCHUNK", group);
    format!("{group}#{}", part(&id.0))
}

/// Of the sort keys of a cluster's groups.
pub(super) const GROUPS: &str = "GROUP#";

/// The groups of a cluster that have checkpoints.
pub(super) fn checkpointed(cluster: &ClusterId) -> String {
    format!("CHECKPOINT#{}", part(&cluster.0))
}

pub(super) fn checkpointed_group(group: &GroupKey) -> Key {
    let sk = format!("{GROUPS}{}", part(&group.group.0));
    Key::new(checkpointed(&group.cluster_id), sk)
}

/// What became of the latest checkpoint runs.
pub(super) fn checkpoint_head(group: &GroupKey) -> Key {
    Key::new(checkpoints(group), "HEAD")
}

/// When a recovery last moved the group.
pub(super) fn moved(group: &GroupKey) -> Key {
    Key::new(of_group("MOVED", group), ALONE)
}

/// The marker of a scheduled run.
pub(super) fn run(group: &GroupKey, scheduled: Timestamp) -> Key {
    Key::new(of_group("RUN", group), instant(scheduled))
}

fn plans(id: &PlanId) -> String {
    format!("PLAN#{}", part(&id.0))
}

pub(super) fn plan(id: &PlanId) -> Key {
    Key::new(plans(id), "META")
}

/// The pointer from a plan to its newest approval.
pub(super) fn approval_pointer(id: &PlanId) -> Key {
    Key::new(format!("APPROVALOF#{}", part(&id.0)), ALONE)
}

/// That nobody was told of a plan's newest approval.
pub(super) fn untold(id: &PlanId) -> Key {
    Key::new(approval_pointer(id).pk, "UNTOLD")
}

pub(super) fn recoveries(plan: &PlanId) -> String {
    format!("RECOVERY#{}", part(&plan.0))
}

pub(super) fn recovery(plan: &PlanId) -> Key {
    Key::new(recoveries(plan), ALONE)
}

pub(super) fn pre_image(plan: &PlanId) -> Key {
    Key::new(recoveries(plan), "PREIMAGE")
}

pub(super) fn answers(plan: &PlanId, request: usize, attempt: &str) -> Key {
    let sk = format!("{ANSWERS}{request:05}#{}", part(attempt));
    Key::new(recoveries(plan), sk)
}

pub(super) fn result(plan: &PlanId) -> Key {
    Key::new(recoveries(plan), "RESULT")
}

pub(super) fn claim(group: &GroupKey) -> Key {
    Key::new(of_group("CLAIM", group), ALONE)
}

/// Who asked by the execution of a name.
pub(super) fn requester(execution_name: &str) -> Key {
    Key::new(format!("REQUESTER#{}", part(execution_name)), ALONE)
}

/// Every recovery without a report.
pub(super) const OPEN: &str = "OPEN";

pub(super) fn open(plan: &PlanId) -> Key {
    Key::new(OPEN.to_owned(), part(&plan.0))
}

/// The audit records of a group; of none, where it was never known.
pub(super) fn audits(cluster: Option<&ClusterId>, group: Option<&GroupId>) -> String {
    let cluster = cluster.map_or(String::new(), |cluster| part(&cluster.0));
    let group = group.map_or(String::new(), |group| part(&group.0));
    format!("AUDIT#{cluster}#{group}")
}

pub(super) fn audit(
    cluster: Option<&ClusterId>,
    group: Option<&GroupId>,
    at: Timestamp,
    execution: &ExecutionArn,
) -> Key {
    let sk = format!("{TIMED}{}#{}", instant(at), part(&execution.0));
    Key::new(audits(cluster, group), sk)
}

/// The pointer from an execution to its audit record, and the proof that there is only one.
pub(super) fn audit_pointer(execution: &ExecutionArn) -> Key {
    Key::new(format!("AUDITOF#{}", part(&execution.0)), ALONE)
}

/// That the people have been told what an execution's audit record says. Apart from the record: nothing changes that.
pub(super) fn audit_told(execution: &ExecutionArn) -> Key {
    Key::new(audit_pointer(execution).pk, "TOLD")
}

/// Of the sort keys of the places in a ring of samples.
pub(super) const PLACES: &str = "PLACE#";

pub(super) fn samples(group: &GroupKey) -> String {
    of_group("SAMPLE", group)
}

/// Where a ring of samples stands.
pub(super) fn sample_head(group: &GroupKey) -> Key {
    Key::new(samples(group), "HEAD")
}

/// Which probes of a group are under way, and which ended the process that read.
pub(super) fn probe_notes(group: &GroupKey) -> Key {
    Key::new(samples(group), "PROBES")
}

pub(super) fn sample_place(group: &GroupKey, place: u64) -> Key {
    Key::new(samples(group), format!("{PLACES}{place:02}"))
}

/// The runs of the guard over a group, of a cluster by its name in the configuration: its own id need not be known.
pub(super) fn guard_runs(cluster: &str, group: &GroupId) -> String {
    format!("GUARDRUN#{}#{}", part(cluster), part(&group.0))
}

pub(super) fn guard_run(cluster: &str, group: &GroupId, at: Timestamp, id: &str) -> Key {
    let sk = format!("{}#{}", from(at), part(id));
    Key::new(guard_runs(cluster, group), sk)
}

/// What people were told last of a group.
pub(super) fn told(cluster: &str, group: &GroupId) -> Key {
    let pk = format!("TOLD#{}#{}", part(cluster), part(&group.0));
    Key::new(pk, ALONE)
}

/// The ledger's entry of one record.
pub(super) fn quarantine(dedupe_id: &DedupeId) -> Key {
    Key::new(format!("QUARANTINE#{}", part(&dedupe_id.0)), ALONE)
}

fn approvals(link: &LinkHash) -> String {
    format!("APPROVAL#{}", link.0)
}

pub(super) fn approval(link: &LinkHash) -> Key {
    Key::new(approvals(link), ALONE)
}

/// The task token lies apart, so that no reader of an approval ever holds it.
pub(super) fn task_token(link: &LinkHash) -> Key {
    Key::new(approvals(link), "TOKEN")
}

pub(super) fn apply_switch() -> Key {
    Key::new("CONTROL".to_owned(), "APPLY")
}

/// Before the name of every incident.
const INCIDENT: &str = "INCIDENT#";

pub(super) fn incident(subject: &Subject) -> Key {
    let name = match subject {
        Subject::Group { cluster, group } => {
            format!("GROUP#{}#{}", part(cluster), part(&group.0))
        }
        Subject::Request { sender, key } => format!("REQUEST#{}#{}", part(sender), part(key)),
    };
    Key::new(format!("{INCIDENT}{name}"), ALONE)
}

/// How other functions name an incident and one run of it.
pub(super) fn incident_key(key: &Key, run: &str) -> String {
    let name = key.pk.strip_prefix(INCIDENT).unwrap_or(&key.pk);
    format!("{name}#{run}")
}

/// The incident and the run that such a name is of; `None` where it is none.
pub(super) fn of_incident_key(incident: &str) -> Option<(Key, &str)> {
    let (name, run) = incident.rsplit_once('#')?;
    let known = name.starts_with("GROUP#") || name.starts_with("REQUEST#");
    known.then(|| (Key::new(format!("{INCIDENT}{name}"), ALONE), run))
}

/// That the execution of a name was asked for over HTTP.
pub(super) fn asked_over_http(execution_name: &str) -> Key {
    Key::new(format!("{INCIDENT}HTTP#{}", part(execution_name)), ALONE)
}

/// How many runs a sender was given in a minute since 1970.
pub(super) fn runs_of_minute(sender: &str, minute: i64) -> Key {
    let pk = format!("{INCIDENT}RUNS#{}", part(sender));
    Key::new(pk, minute.to_string())
}

/// Of the sort keys of chunks.
pub(super) const CHUNKS: &str = "CHUNK#";

/// What begins the sort key of every chunk of one body. It holds the body's hash, so that two writers of one item never mix theirs.
pub(super) fn chunks_of(sha256: &str) -> String {
    format!("{CHUNKS}{sha256}#")
}

pub(super) fn chunk(sha256: &str, index: usize) -> String {
    format!("{}{index:05}", chunks_of(sha256))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(cluster: &str, name: &str) -> GroupKey {
        GroupKey::new(ClusterId(cluster.to_owned()), GroupId(name.to_owned()))
    }

    #[test]
    fn parts_never_run_into_each_other() {
        let pk = |c: &str, g: &str| checkpoints(&group(c, g));
        assert_eq!(pk("a#b", "c%"), "CHECKPOINT#a%23b#c%25");
        assert_ne!(pk("a#b", "c"), pk("a", "b#c"));
        assert_ne!(pk("a", "%23"), pk("a", "#"));
    }

    proptest! {
        #[test]
        fn two_names_never_share_a_part(a in "[#%0-9a-c]{0,8}", b in "[#%0-9a-c]{0,8}") {
            prop_assert_eq!(part(&a) == part(&b), a == b);
            prop_assert!(!part(&a).contains('#'));
        }

        #[test]
        fn keys_sort_as_time_does(
            a in 0_i64..253_402_207_200, b in 0_i64..253_402_207_200,
            nanos_a in 0_i32..1_000_000_000, nanos_b in 0_i32..1_000_000_000,
        ) {
            let a = Timestamp::new(a, nanos_a).unwrap();
            let b = Timestamp::new(b, nanos_b).unwrap();
            let group = group("c", "g");
            let id = CheckpointId("i".to_owned());
            let sk = |at| checkpoint(&group, at, &id).sk;
            prop_assert_eq!(sk(a).cmp(&sk(b)), a.cmp(&b));
            prop_assert_eq!(instant(a).parse::<Timestamp>().unwrap(), a);
        }
    }

    /// Amazon DynamoDB, "Naming rules and data types": 2,048 bytes for a partition key, 1,024 for a sort key.
    #[test]
    fn the_longest_name_of_a_group_fits_every_key() {
        let cluster = "c".repeat(64);
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let ulid = "0".repeat(26);
        for name in [
            "a".repeat(GroupId::LONGEST),
            "#".repeat(GroupId::LONGEST / 3),
            "注".repeat(GroupId::LONGEST / 3),
        ] {
            let group = group(&cluster, &name);
            assert_eq!(group.group.check(), Ok(()));
            let id = CheckpointId(ulid.clone());
            let keys = [
                checkpoint(&group, at, &id),
                Key::new(checkpoint_chunks(&group, &id), chunk(&"f".repeat(64), 0)),
                checkpointed_group(&group),
                run(&group, at),
                claim(&group),
                audit(
                    Some(&group.cluster_id),
                    Some(&group.group),
                    at,
                    &ExecutionArn("e".repeat(200)),
                ),
                sample_place(&group, 0),
                guard_run(&cluster, &group.group, at, &ulid),
                told(&cluster, &group.group),
                incident(&Subject::Group {
                    cluster: cluster.clone(),
                    group: group.group.clone(),
                }),
            ];
            for Key { pk, sk } in keys {
                assert!(
                    pk.len() <= 2_048 && sk.len() <= 1_024,
                    "{} and {}: {pk}",
                    pk.len(),
                    sk.len()
                );
            }
        }
        let too_long = group(&cluster, &"a".repeat(1_100));
        assert!(checkpointed_group(&too_long).sk.len() > 1_024);
    }

    #[test]
    fn a_time_before_1970_is_the_first_key_of_all() {
        let old = Timestamp::from_second(-62_135_596_800).unwrap();
        assert_eq!(instant(old), "1970-01-01T00:00:00.000000000Z");
    }
}
