//! The `guard` table of `[policy]` and of a group.

use super::section::Section;
use crate::domain::guard::policy::{
    GuardPolicy, HeaderSet, Isolation, MOST_RECORDS_PER_PLAN, RemediationAction, SkipOn, Validator,
};
use crate::domain::near::instead;

const WRITE: &str =
    "a table: guard = { ... }, or [policy.guard], or [groups.guard] after its group";

const ACTIONS: [(&str, RemediationAction); 3] = [
    ("SKIP_POISON_RECORD", RemediationAction::SkipPoisonRecord),
    ("REWIND_OFFSET", RemediationAction::RewindOffset),
    ("AUDIT_ONLY", RemediationAction::AuditOnly),
];

const ISOLATIONS: [(&str, Isolation); 3] = [
    ("unknown", Isolation::Unknown),
    ("read_committed", Isolation::ReadCommitted),
    ("read_uncommitted", Isolation::ReadUncommitted),
];

const SKIP_ON: [(&str, SkipOn); 2] = [("likely", SkipOn::Likely), ("suspected", SkipOn::Suspected)];

const VALIDATORS: [(&str, Validator); 4] = [
    ("json", Validator::Json),
    ("utf8", Validator::Utf8),
    ("schema-registry", Validator::SchemaRegistry),
    ("not-null", Validator::NotNull),
];

/// What begins the validator that has a number.
const MAX_BYTES: &str = "max-bytes";

const HEADER_SETS: [(&str, HeaderSet); 2] = [
    ("spring", HeaderSet::Spring),
    ("connect", HeaderSet::Connect),
];

/// As long as plans are kept, in seconds: what was rejected is read from them.
const LONGEST_NO: u32 = 90 * 86_400;

/// Kafka's limit for a topic's name.
const LONGEST_TOPIC: usize = 249;

/// The policy that the table makes of `base`, whose own faults are said elsewhere.
pub(super) fn policy(
    section: &mut Section<'_>,
    base: &GuardPolicy,
    base_is_right: bool,
) -> GuardPolicy {
    let Some(mut section) = section.section("guard", WRITE) else {
        return base.clone();
    };
    let quarantine_topic = section.optional(
        "quarantine_topic",
        "a topic's exact name: quarantine_topic = \"TOPIC.quarantine\"",
        |value| topic(value.as_str()?),
    );
    let policy = GuardPolicy {
        deadlock_lag_threshold: section
            .number("deadlock_lag_threshold", 0..=u64::from(u32::MAX))
            .unwrap_or(base.deadlock_lag_threshold),
        rebalance_grace_seconds: section
            .number("rebalance_grace_seconds", 0..=60)
            .unwrap_or(base.rebalance_grace_seconds),
        remediation_action: section
            .word("remediation_action", &ACTIONS)
            .unwrap_or(base.remediation_action),
        rewind_record_count: section
            .number("rewind_record_count", 1..=1_000_000)
            .unwrap_or(base.rewind_record_count),
        quarantine_topic: quarantine_topic.or_else(|| base.quarantine_topic.clone()),
        publish_to_dlq_topic: section
            .flag("publish_to_dlq_topic")
            .unwrap_or(base.publish_to_dlq_topic),
        dry_run: section.flag("dry_run").unwrap_or(base.dry_run),
        monitored_topics: section
            .list(
                "monitored_topics",
                "a list of topics' exact names; empty for all that the group has",
                |name| topic(name).ok_or("no topic can have this name".to_owned()),
            )
            .unwrap_or_else(|| base.monitored_topics.clone()),
        min_samples: section
            .number("min_samples", 1..=12)
            .unwrap_or(base.min_samples),
        stall_seconds: section
            .number("stall_seconds", 0..=86_400)
            .unwrap_or(base.stall_seconds),
        max_skips_per_day: section
            .number("max_skips_per_day", 0..=1_000)
            .unwrap_or(base.max_skips_per_day),
        isolation: section
            .word("isolation", &ISOLATIONS)
            .unwrap_or(base.isolation),
        skip_on: section.word("skip_on", &SKIP_ON).unwrap_or(base.skip_on),
        max_records_per_plan: section
            .number("max_records_per_plan", 1..=MOST_RECORDS_PER_PLAN)
            .unwrap_or(base.max_records_per_plan),
        rejected_for_seconds: section
            .number("rejected_for_seconds", 0..=LONGEST_NO)
            .unwrap_or(base.rejected_for_seconds),
        validators: section
            .list(
                "validators",
                "a list: validators = [\"json\", \"max-bytes:65536\"]",
                validator,
            )
            .unwrap_or_else(|| base.validators.clone()),
        max_poll_records: section
            .number("max_poll_records", 1..=100_000)
            .or(base.max_poll_records),
        external_offsets: section
            .flag("external_offsets")
            .unwrap_or(base.external_offsets),
        header_sets: section
            .list(
                "header_sets",
                "a list: header_sets = [\"spring\", \"connect\"]",
                |set| {
                    let known = HEADER_SETS.into_iter().find(|(name, _)| *name == set);
                    known.map(|(_, set)| set).ok_or_else(|| {
                        let names = HEADER_SETS.iter().map(|(name, _)| *name);
                        format!("no such set; {}", instead(set, names, "write"))
                    })
                },
            )
            .unwrap_or_else(|| base.header_sets.clone()),
    };
    if base_is_right
        && let Some(topic) = &policy.quarantine_topic
        && policy.monitored_topics.contains(topic)
    {
        let key = if section.has("quarantine_topic") {
            "quarantine_topic"
        } else {
            "monitored_topics"
        };
        section.wrong(
            key,
            "the quarantine topic cannot be watched as well; leave it out of monitored_topics, or name another one",
        );
    }
    section.finish();
    policy
}

/// Reports what is missing of the policy of one group, `section`. What `[policy]` leaves open its groups may fill in.
pub(super) fn check(section: &Section<'_>, policy: &GuardPolicy) {
    let keeps = policy.remediation_action == RemediationAction::SkipPoisonRecord
        && policy.publish_to_dlq_topic;
    if keeps && !policy.dry_run && policy.quarantine_topic.is_none() {
        section.wrong(
            "guard",
            "it is to skip records and to keep them, but not where; write quarantine_topic = \"TOPIC.quarantine\" \
             here or in [policy.guard], or publish_to_dlq_topic = false to lose them, or dry_run = true",
        );
    }
}

/// The name of a topic, if Kafka would have it.
fn topic(name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = (1..=LONGEST_TOPIC).contains(&name.len())
        && name.chars().all(legal)
        && !matches!(name, "." | "..");
    is_name.then(|| name.to_owned())
}

fn validator(text: &str) -> Result<Validator, String> {
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    };
    if name == MAX_BYTES {
        let most = number.and_then(|number| number.parse().ok());
        return most
            .filter(|most| *most > 0)
            .map(Validator::MaxBytes)
            .ok_or_else(|| {
                format!("write the most bytes that a value may have: \"{MAX_BYTES}:65536\"")
            });
    }
    let known = VALIDATORS.into_iter().find(|(known, _)| *known == name);
    match (known, number) {
        (Some((_, validator)), None) => Ok(validator),
        (Some((known, _)), Some(_)) => Err(format!("it takes no number; write \"{known}\"")),
        (None, _) => {
            let names = VALIDATORS.iter().map(|(name, _)| *name).chain([MAX_BYTES]);
            Err(format!(
                "no such validator; {}",
                instead(name, names, "write")
            ))
        }
    }
}
