//! A plan's canonical form: a CSV whose SHA-256 is the plan's digest.
//!
//! It holds codes and values and no sentence, so that another wording makes no plan stale. The page shows the sentences.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Plan, PlanDigest};
use crate::guard::quarantine::{Kept, SkippedRecord};
use crate::identity::Requester;
use crate::offset::{CommittedOffset, TopicPartition};

/// How many cells every row has: spreadsheets and strict readers want one width, and this is that of the moves.
const WIDTH: usize = 16;

/// Up to how many bytes metadata is written out. Of more, the hash stands for it: nobody reads them, and with them a
/// plan of many partitions would fill tens of megabytes.
const METADATA_SHOWN: usize = 32;

impl Plan {
    /// The canonical form: a CSV (RFC 4180, lines ending in a line feed) of rows of one width.
    ///
    /// Every field that decides what will happen is in it, so two plans with one digest do the same. The first cell of a
    /// row says what the row is. Texts are written as `cell` has it.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut rows = Rows::new();
        rows.add(["row", "name", "value", "facts"]);
        self.add_fields(&mut rows);
        self.add_moves(&mut rows);
        self.add_skips(&mut rows);
        self.add_left_alone(&mut rows);
        rows.finish()
    }

    /// The digest that an approval is bound to.
    #[must_use]
    pub fn digest(&self) -> PlanDigest {
        PlanDigest(HEXLOWER.encode(&Sha256::digest(self.to_csv())))
    }

    fn add_fields(&self, rows: &mut Rows) {
        let mut field_with =
            |name: &str, value: &str, facts: &str| rows.add(["field", name, value, facts]);
        field_with("csv_version", &self.csv_version.to_string(), "");
        let source: &str = (&self.source).into();
        field_with("source", source, &facts(&self.source));
        let (requester, identity) = match &self.requester {
            Requester::Unverified => ("UNVERIFIED", String::new()),
            Requester::Guard => ("GUARD", String::new()),
            Requester::Verified(identity) => ("VERIFIED", cell(&json(identity))),
        };
        field_with("requester", requester, &identity);
        for warning in &self.warnings {
            field_with("warning", warning.into(), &facts(warning));
        }
        let mut field = |name: &str, value: String| field_with(name, &value, "");
        field("plan", cell(&self.id.0));
        field("cluster", cell(&self.cluster));
        field("cluster_id", cell(&self.cluster_id.0));
        field("group", cell(&self.group.0));
        field("group_type", self.group_type.to_string());
        field("state", self.state.to_string());
        field("config_hash", cell(&self.config_hash));
        field("created_at", self.created_at.to_string());
        field("approve_by", self.approve_by.to_string());
        field(
            "apply_within_seconds",
            self.apply_within_seconds.to_string(),
        );
        field("waits_for_empty", self.waits_for_empty.to_string());
        field("drift_limit", self.drift_limit.to_string());
        let disowns = self.disowns.map(|disowns| disowns.after.to_string());
        field("disowns_after", disowns.unwrap_or_default());
        field("requested_by", cell(&self.requested_by));
        if let Requester::Verified(identity) = &self.requester {
            for alias in identity.aliases() {
                field("requester_alias", cell(alias));
            }
        }
        field("four_eyes", self.four_eyes.to_string());
        field("reason", cell(&self.reason));
    }

    fn add_moves(&self, rows: &mut Rows) {
        rows.add([
            "row",
            "topic",
            "partition",
            "topic_id",
            "current_offset",
            "current_epoch",
            "current_metadata",
            "target_offset",
            "target_epoch",
            "target_metadata",
            "may_rise_to",
            "log_start",
            "last_stable",
            "high",
            "leader_epoch",
            "lost",
        ]);
        for m in &self.moves {
            let [topic, partition] = place(&m.partition);
            let [current, current_epoch, current_metadata] = triple(m.from.as_ref());
            let [target, target_epoch, target_metadata] = triple(m.to.as_ref());
            rows.add([
                "move",
                &topic,
                &partition,
                &cell(&some(m.topic_id)),
                &current,
                &current_epoch,
                &current_metadata,
                &target,
                &target_epoch,
                &target_metadata,
                &some(m.may_rise_to),
                &m.log.log_start.to_string(),
                &m.log.last_stable.to_string(),
                &m.log.high.to_string(),
                &some(m.log.leader_epoch),
                &m.lost.to_string(),
            ]);
        }
    }

    /// The records that are passed over: where, when, how big, their hash, what is wrong with them, where they are kept.
    fn add_skips(&self, rows: &mut Rows) {
        if self.skips.is_empty() {
            return;
        }
        rows.add([
            "row",
            "topic",
            "partition",
            "offset",
            "leader_epoch",
            "timestamp_type",
            "timestamp_ms",
            "key_bytes",
            "value_bytes",
            "fingerprint",
            "dedupe_id",
            "validator",
            "problem",
            "kept",
            "copy",
        ]);
        for skipped in &self.skips {
            let [topic, partition] = place(&skipped.partition);
            let record = &skipped.record;
            let [validator, problem] = failure(skipped);
            let (kept, copy) = kept(&skipped.kept);
            rows.add([
                "passed over",
                &topic,
                &partition,
                &record.offset.to_string(),
                &some(record.leader_epoch),
                &record.timestamp_type.to_string(),
                &record.timestamp_ms.to_string(),
                &some(record.key_bytes),
                &some(record.value_bytes),
                &cell(&record.fingerprint.0),
                &cell(&skipped.dedupe_id.to_string()),
                &validator,
                &problem,
                kept,
                &copy,
            ]);
        }
    }

    fn add_left_alone(&self, rows: &mut Rows) {
        if self.left_alone.is_empty() {
            return;
        }
        rows.add(["row", "topic", "partition", "why", "facts"]);
        for (partition, why) in &self.left_alone {
            let [topic, partition] = place(partition);
            rows.add(["left alone", &topic, &partition, why.into(), &facts(why)]);
        }
    }
}

/// The CSV so far.
struct Rows(csv::Writer<Vec<u8>>);

impl Rows {
    fn new() -> Self {
        Self(csv::Writer::from_writer(Vec::new()))
    }

    /// Adds a row, filled up with empty cells.
    #[expect(
        clippy::expect_used,
        reason = "memory takes every row, and all are of one width: a failure is a bug"
    )]
    fn add<const N: usize>(&mut self, cells: [&str; N]) {
        const { assert!(N <= WIDTH) };
        let row = cells.into_iter().chain([""; WIDTH]).take(WIDTH);
        self.0.write_record(row).expect("a row is written");
    }

    #[expect(clippy::expect_used, reason = "as above; rows are made of text")]
    fn finish(self) -> String {
        let bytes = self.0.into_inner().expect("the rows are written");
        String::from_utf8(bytes).expect("the rows are text")
    }
}

/// A text of strangers as a cell: as within a JSON string, but for quotation marks, which CSV doubles. That keeps every
/// row one line, and what a text was can be told from what it became.
///
/// Where a spreadsheet might begin to read a formula, the character that begins one is escaped as `\u` with four
/// digits: before the first letter or digit of the cell, and of what follows a semicolon, at which spreadsheets of many
/// countries part cells.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        let starts_formula = matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
        match c {
            '\\' => cell.push_str("\\\\"),
            c if c.is_control() || (begins && starts_formula) => {
                // Every control character and every sign above is of the basic plane.
                let _ = write!(cell, "\\u{:04x}", u32::from(c));
            }
            c => cell.push(c),
        }
        begins = c == ';' || (begins && !c.is_alphanumeric());
    }
    cell
}

fn place(partition: &TopicPartition) -> [String; 2] {
    [cell(&partition.topic), partition.partition.to_string()]
}

fn some(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Offset, epoch and metadata, empty where absent.
fn triple(committed: Option<&CommittedOffset>) -> [String; 3] {
    committed.map_or_else(Default::default, |c| {
        [
            c.offset.to_string(),
            some(c.leader_epoch),
            metadata(&c.metadata),
        ]
    })
}

/// Metadata, which need not be text: in hexadecimal, or its hash.
fn metadata(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => String::new(),
        1..=METADATA_SHOWN => format!("hex {}", HEXLOWER.encode(bytes)),
        _ => format!("sha256 {}", HEXLOWER.encode(&Sha256::digest(bytes))),
    }
}

/// The validator that a record fails, and what it finds wrong.
fn failure(skipped: &SkippedRecord) -> [String; 2] {
    skipped
        .failure
        .as_ref()
        .map_or_else(Default::default, |failure| {
            [cell(&failure.validator.to_string()), cell(&failure.problem)]
        })
}

fn kept(kept: &Kept) -> (&'static str, String) {
    match kept {
        Kept::In(copy) => ("KEPT", cell(&copy.to_string())),
        Kept::No => ("NOT_KEPT", String::new()),
        Kept::NotYet => ("NOT_KEPT_YET", String::new()),
    }
}

/// What a value says beside its variant, as JSON; empty where that is nothing.
fn facts(value: &impl Serialize) -> String {
    // `{"Variant":facts}`, or the name alone. Written as text, whose fields stand in the order of the declaration.
    let json = json(value);
    let facts = json.strip_suffix('}').and_then(|json| json.split_once(':'));
    facts.map_or_else(String::new, |(_, facts)| cell(facts))
}

#[expect(
    clippy::expect_used,
    reason = "values with names as keys always have a form in JSON: a failure is a bug"
)]
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a value is written as JSON")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::Warning;
    use crate::testing::*;

    /// The rows as a strict reader sees them: one that finds a row of another width fails.
    fn read(csv: &str) -> Vec<Vec<String>> {
        csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(csv.as_bytes())
            .records()
            .map(|row| row.unwrap().iter().map(str::to_owned).collect())
            .collect()
    }

    /// What a cell was before it was one.
    fn text(cell: &str) -> String {
        let quoted = cell.replace('"', "\\\"");
        serde_json::from_str(&format!("\"{quoted}\"")).unwrap()
    }

    fn evil(texts: &[String; 4]) -> Plan {
        let mut plan = Scene::incident().ready();
        let [group, topic, reason, requested_by] = texts.clone();
        plan.group.0 = group;
        plan.moves[0].partition.topic = topic.clone();
        plan.left_alone[0].0.topic = topic;
        plan.reason = reason;
        plan.requested_by = requested_by.clone();
        plan.warnings.push(Warning::TopicIdUnknown {
            topic: requested_by,
        });
        plan
    }

    fn may_begin_a_formula(cell: &str) -> bool {
        cell.split([';', '\t', '\r', '\n']).any(|part| {
            let part = part
                .trim_start_matches(|c: char| !c.is_alphanumeric() && !"=+-@＝＋－＠".contains(c));
            part.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
        })
    }

    fn arb_text() -> impl Strategy<Value = String> {
        let sign = prop::sample::select(vec![
            "=", "+", "-", "@", "＝", "\t", "\r", "\n", "\r\n", ";", ",", "\"", "'", "\\",
            "\\u003d", " ", "x", "7", "\u{0}", "\u{202e}", "é",
        ]);
        prop::collection::vec(sign, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn no_text_of_strangers_begins_a_formula_and_every_row_is_as_wide(
            texts in [arb_text(), arb_text(), arb_text(), arb_text()],
        ) {
            let plan = evil(&texts);
            let csv = plan.to_csv();
            let rows = read(&csv);
            prop_assert_eq!(rows.len(), csv.lines().count(), "a row is a line");
            for row in &rows {
                prop_assert_eq!(row.len(), WIDTH);
                for cell in row {
                    prop_assert!(!may_begin_a_formula(cell), "{:?}", cell);
                }
            }
            // And each can be told from what it became.
            let field = |name: &str| {
                let row = rows.iter().find(|row| row[0] == "field" && row[1] == name).unwrap();
                text(&row[2])
            };
            prop_assert_eq!([field("group"), field("reason"), field("requested_by")],
                [texts[0].clone(), texts[2].clone(), texts[3].clone()]);
            let moved = rows.iter().find(|row| row[0] == "move").unwrap();
            prop_assert_eq!(text(&moved[1]), texts[1].clone());
        }

        /// What people read of a plan is no part of it.
        #[test]
        fn the_form_holds_no_sentence(topic in arb_text(), partitions in 1..90_usize) {
            let mut plan = Scene::incident().ready();
            plan.warnings = vec![
                Warning::TopicIdUnknown { topic: topic.clone() },
                Warning::Removes { partitions },
                Warning::AssignOnly,
            ];
            let csv = plan.to_csv();
            for warning in &plan.warnings {
                prop_assert!(!csv.contains(&warning.to_string()), "{}", warning);
            }
            prop_assert!(!csv.contains(&plan.source.to_string()));
            for (_, why) in &plan.left_alone {
                prop_assert!(!csv.contains(&why.to_string()));
            }
            // Another value is another digest, and the same one is the same.
            let mut other = plan.clone();
            other.warnings[0] = Warning::TopicIdUnknown { topic: format!("{topic}x") };
            prop_assert_ne!(other.digest(), plan.digest());
            other.warnings[0] = plan.warnings[0].clone();
            prop_assert_eq!(other.digest(), plan.digest());
            other.warnings[1] = Warning::MetadataDropped { partitions };
            prop_assert_ne!(other.digest(), plan.digest(), "the same facts under another code");
        }

        #[test]
        fn two_texts_are_two_cells(a in arb_text(), b in arb_text()) {
            prop_assert_eq!(a == b, cell(&a) == cell(&b));
        }
    }

    #[test]
    fn a_formula_is_shown_as_the_text_that_it_is() {
        assert_eq!(cell("=WEBSERVICE(B15&B4)"), "\\u003dWEBSERVICE(B15&B4)");
        assert_eq!(cell(" \"+1\""), " \"\\u002b1\"");
        assert_eq!(cell("a;=1"), "a;\\u003d1");
        assert_eq!(cell("a-b=c; d+e"), "a-b=c; d+e");
        assert_eq!(cell("a\tb\\\r\n"), "a\\u0009b\\\\\\u000d\\u000a");
    }

    /// The longest metadata that brokers take by default, on both sides of ten thousand moves.
    #[test]
    fn a_plan_of_ten_thousand_partitions_with_long_metadata_is_a_few_megabytes() {
        let mut plan = Scene::incident().ready();
        let only = plan.moves[0].clone();
        plan.moves = (0..10_000)
            .map(|n| {
                let mut m = only.clone();
                m.partition.partition = n;
                for (committed, fill) in [(&mut m.from, 1), (&mut m.to, 2)] {
                    committed.as_mut().unwrap().metadata = vec![fill; 4096];
                }
                m
            })
            .collect();
        let csv = plan.to_csv();
        assert!(csv.len() < 4 << 20, "{}", csv.len());
        let digest = plan.digest();
        plan.moves[9_999].to.as_mut().unwrap().metadata[4095] ^= 1;
        assert_ne!(plan.digest(), digest, "the last byte counts");
    }
}
