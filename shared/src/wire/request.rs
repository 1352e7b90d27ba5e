//! A request to move a group, as a person or a tool writes it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde_json::{Map, Value};

use super::LONGEST_TEXT;
use super::fields::{Fields, invalid, shown};
use crate::domain::identity::Requester;
use crate::domain::ids::CheckpointId;
use crate::domain::ids::PlanId;
use crate::domain::offset::{GroupId, TopicPartition};
use crate::domain::refusal::Refusal;
use crate::domain::request::{Allowances, ResetSpec, RewindRequest, Selection};

/// The targets that a request can have.
const TARGETS: [&str; 9] = [
    "rewind_before",
    "checkpoint_id",
    "to_datetime",
    "by_duration",
    "to_offsets",
    "shift_by",
    "to_earliest",
    "undo",
    "finish",
];

const INSTANT: &str = "2026-11-30T10:00:00Z or 2026-11-30T15:30:00+05:30";
const DURATION: &str = "PT2H30M or P1DT12H";
const OFFSETS: &str = "[{\"topic\": \"orders\", \"partition\": 0, \"offset\": 31}]";
const TOPICS: &str = "a list of topics: [\"orders\", \"shipments:0,3\"]";

/// Reads a request, or says everything that is wrong with it.
///
/// `only_cluster` is meant where the request names none.
///
/// # Errors
/// One [`Refusal::InvalidRequest`] per fault.
pub fn parse_request(
    written: &Value,
    only_cluster: Option<&str>,
) -> Result<RewindRequest, Vec<Refusal>> {
    let Some(object) = written.as_object() else {
        let problem =
            "the input has none; write {\"request\": {\"group\": ..., \"rewind_before\": ...}}";
        return Err(vec![invalid("request", problem)]);
    };
    let mut fields = Fields::new(object);
    let request = read(&mut fields, only_cluster);
    match (request, fields.finish()) {
        (Some(request), faults) if faults.is_empty() => Ok(request),
        (_, faults) => Err(faults),
    }
}

/// The fields that a request may have.
#[must_use]
pub fn request_fields() -> Vec<&'static str> {
    let nothing = Map::new();
    let mut fields = Fields::new(&nothing);
    read(&mut fields, None);
    fields.asked().to_vec()
}

/// The request, as far as it is right: every field is read, and every fault noted.
fn read(fields: &mut Fields<'_>, only_cluster: Option<&str>) -> Option<RewindRequest> {
    let target = target(fields);
    let selection = selection(fields);
    let cluster = fields.text("cluster", "a cluster's name in the configuration");
    let cluster = cluster.or(only_cluster);
    if cluster.is_none() && !fields.has("cluster") {
        let problem = "several clusters are configured; name one of them";
        fields.missing("cluster", &["cluster"], problem);
    }
    let group = group(fields);
    let dry_run = fields.flag("dry_run").unwrap_or(true);
    let allow = Allowances {
        clamp: fields.flag("allow_clamp").unwrap_or_default(),
        forward: fields.flag("allow_forward").unwrap_or_default(),
        restore_missing: fields.flag("restore_missing").unwrap_or_default(),
        stateful: fields.flag("allow_stateful").unwrap_or_default(),
    };
    let reason = short_text(fields, "reason");
    let requested_by = short_text(fields, "requested_by");
    Some(RewindRequest {
        cluster: cluster?.to_owned(),
        group: group?,
        target: target?,
        selection,
        allow,
        dry_run,
        reason,
        requested_by,
        // Whoever writes a request can write anything.
        requester: Requester::Unverified,
    })
}

/// The group's name, which must be there and not too long to be looked after.
pub(super) fn group(fields: &mut Fields<'_>) -> Option<GroupId> {
    let group = fields.required_text("group", "the group's exact name")?;
    let group = GroupId(group.to_owned());
    match group.check() {
        Ok(()) => Some(group),
        Err(problem) => {
            fields.wrong("group", problem.to_string());
            None
        }
    }
}

/// A text for people.
pub(super) fn short_text(fields: &mut Fields<'_>, field: &'static str) -> String {
    let text = fields.text(field, "a text").unwrap_or_default();
    let length = text.chars().count();
    if length > LONGEST_TEXT {
        let problem = format!("it has {length} characters; write at most {LONGEST_TEXT}");
        fields.wrong(field, problem);
    }
    text.to_owned()
}

/// An instant, as RFC 3339 or as the page and Slack write one.
fn instant(fields: &mut Fields<'_>, field: &'static str) -> Option<Timestamp> {
    let text = fields.text(field, INSTANT)?;
    let zoned = text.strip_suffix(" UTC").map(|text| format!("{text}Z"));
    let instant = zoned.as_deref().unwrap_or(text).parse();
    if instant.is_err() {
        let problem = format!(
            "{}, and no instant with a zone; write {INSTANT}",
            shown(&text.into())
        );
        fields.wrong(field, problem);
    }
    instant.ok()
}

/// As Kafka's own tool reads one: P1D is 24 hours.
fn duration(fields: &mut Fields<'_>) -> Option<SignedDuration> {
    let text = fields.text("by_duration", DURATION)?;
    let duration = text
        .parse::<Span>()
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let duration = duration.ok().filter(|long| *long > SignedDuration::ZERO);
    if duration.is_none() {
        let problem = format!(
            "{}, and no positive duration; write {DURATION}",
            shown(&text.into())
        );
        fields.wrong("by_duration", problem);
    }
    duration
}

/// The one target, or a fault for none, for several, and for one that cannot be read.
fn target(fields: &mut Fields<'_>) -> Option<ResetSpec> {
    let before = instant(fields, "rewind_before").map(ResetSpec::RewindBefore);
    let checkpoint = fields
        .text("checkpoint_id", "a checkpoint's id")
        .map(|id| ResetSpec::Checkpoint(CheckpointId(id.to_owned())));
    let at = instant(fields, "to_datetime").map(ResetSpec::ToDatetime);
    let ago = duration(fields).map(ResetSpec::ByDuration);
    let offsets = to_offsets(fields);
    let shift = fields.whole("shift_by", i64::MIN..=i64::MAX);
    let earliest = fields.flag("to_earliest");
    if earliest == Some(false) {
        fields.wrong("to_earliest", "write true, or leave it out");
    }
    let undo = fields
        .text("undo", "the id of the plan that is to be undone")
        .map(|plan| ResetSpec::Undo(PlanId(plan.to_owned())));
    let finish = fields
        .text("finish", "the id of the plan that is to be finished")
        .map(|plan| ResetSpec::Finish(PlanId(plan.to_owned())));
    let given: Vec<_> = TARGETS
        .into_iter()
        .filter(|target| fields.has(target))
        .collect();
    let known = TARGETS.join(", ");
    match given.as_slice() {
        [_] => {}
        [] => {
            let problem = format!("no target is given; give exactly one of {known}");
            fields.missing("request", &TARGETS, &problem);
        }
        several => {
            let problem = format!(
                "{} targets are given ({}); give exactly one of {known}",
                several.len(),
                several.join(", ")
            );
            fields.wrong("request", problem);
        }
    }
    let earliest = earliest.filter(|to| *to).map(|_| ResetSpec::ToEarliest);
    let found = [
        before,
        checkpoint,
        at,
        ago,
        offsets,
        shift.map(ResetSpec::ShiftBy),
        earliest,
        undo,
        finish,
    ];
    found.into_iter().flatten().next()
}

fn to_offsets(fields: &mut Fields<'_>) -> Option<ResetSpec> {
    let rows = fields.list("to_offsets", OFFSETS)?;
    if rows.is_empty() {
        let problem = format!("it is empty; write {OFFSETS}");
        fields.wrong("to_offsets", problem);
        return None;
    }
    let before = fields.faults();
    let mut targets = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for (row, written) in (1..).zip(rows) {
        let Some(object) = written.as_object() else {
            let problem = format!("row {row}: {}; write {OFFSETS}", shown(written));
            fields.wrong("to_offsets", problem);
            continue;
        };
        let mut columns = Fields::in_row(object, "to_offsets", row);
        let topic = columns.required_text("topic", "the topic's exact name");
        let partition = columns.required_whole("partition", 0..=i64::from(i32::MAX));
        let offset = columns.required_whole("offset", 0..=i64::MAX);
        if let (Some(topic), Some(partition)) = (topic, partition)
            && let Ok(partition) = i32::try_from(partition)
        {
            let partition = TopicPartition::new(topic, partition);
            if let Some(first) = seen.insert(partition.clone(), row) {
                let problem =
                    format!("{partition} stands in row {first} already; leave one of them out");
                columns.wrong("partition", problem);
            }
            targets.extend(offset.map(|offset| (partition, offset)));
        }
        let faults = columns.finish();
        fields.extend(faults);
    }
    (fields.faults() == before).then_some(ResetSpec::ToOffsets(targets))
}

/// `orders` or `orders:0,3`, as Kafka's own tool takes them.
fn selection(fields: &mut Fields<'_>) -> Selection {
    let Some(topics) = fields.list("topics", TOPICS) else {
        return Selection::All;
    };
    if topics.is_empty() {
        let problem = "name at least one topic, or leave it out for all";
        fields.wrong("topics", problem);
    }
    let mut selected: BTreeMap<String, Option<Vec<i32>>> = BTreeMap::new();
    for (row, written) in (1..).zip(topics) {
        let Some((topic, partitions)) = written.as_str().and_then(topic_and_partitions) else {
            let problem = format!(
                "row {row}: {}, and no topic with or without partitions; write {TOPICS}",
                shown(written)
            );
            fields.wrong("topics", problem);
            continue;
        };
        match (selected.get_mut(topic), partitions) {
            (Some(Some(known)), Some(more)) => known.extend(more),
            (Some(known), None) => *known = None,
            (Some(None), Some(_)) => {}
            (None, partitions) => {
                selected.insert(topic.to_owned(), partitions);
            }
        }
    }
    Selection::Only(selected)
}

fn topic_and_partitions(written: &str) -> Option<(&str, Option<Vec<i32>>)> {
    match written.split_once(':') {
        None => Some((written, None)),
        Some((topic, list)) => {
            let list: Result<Vec<i32>, _> = list.split(',').map(str::parse).collect();
            Some((topic, Some(list.ok()?)))
        }
    }
}

#[cfg(test)]
mod tests;
