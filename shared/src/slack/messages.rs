//! The texts that people get. What comes from outside stands in plain text, where it can neither call people nor look like
//! more than it is.

use serde_json::{Value, json};

use crate::domain::approval::Approval;
use crate::domain::audit::{Audit, AuditPartition, AuditStatus};
use crate::domain::guard::quarantine::Kept;
use crate::domain::offset::CommittedOffset;
use crate::domain::plan::{LeftAlone, Plan, partitions};
use crate::domain::recovery::{Outcome, PartitionOutcome, Recovery};
use crate::domain::report::EndCode;
use crate::domain::text::{count, grouped, time};
use crate::page::visible;

/// How many moves, warnings or reasons a message names.
pub(super) const SHOWN: usize = 10;
/// How long one text of strangers may get; two of them fit a section.
const LONGEST_TEXT: usize = 1_400;
/// How long a section's text may be (Slack's reference of the section block); a message with a longer one is refused.
const LONGEST_SECTION: usize = 3_000;
/// How long a header's text may be (Slack's reference of the header block).
const LONGEST_HEADER: usize = 150;

/// The length that Slack may count: that of JavaScript's strings, which is never less than that in characters.
fn length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// A text of strangers: in one line, with what is hidden made visible, and cut where it is too long to be read. It goes
/// into plain text alone, where no sign has a meaning: names can be copied from there as they are.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    let mut length = 0;
    let line = text.replace("\r\n", " ").replace(['\r', '\n'], " ");
    for c in visible(&line).chars() {
        length += c.len_utf16();
        if length >= LONGEST_TEXT {
            escaped.push('…');
            break;
        }
        escaped.push(c);
    }
    escaped
}

/// A message: its title, which is what a phone shows of it, and blocks.
pub(super) struct Message {
    title: String,
    blocks: Vec<Value>,
}

impl Message {
    /// Text of strangers in `title` is one line.
    pub(super) fn titled(title: String) -> Self {
        let kind = if length(&title) <= LONGEST_HEADER {
            "header"
        } else {
            "section"
        };
        Self {
            blocks: vec![json!({ "type": kind, "text": plain(&title) })],
            title,
        }
    }

    /// Adds lines, in as many sections as they need.
    pub(super) fn section(mut self, lines: &[String]) -> Self {
        let mut sections: Vec<String> = Vec::new();
        for line in lines {
            match sections.last_mut() {
                Some(section) if length(section) + 1 + length(line) <= LONGEST_SECTION => {
                    section.push('\n');
                    section.push_str(line);
                }
                _ => sections.push(line.clone()),
            }
        }
        let sections = sections
            .iter()
            .map(|text| json!({ "type": "section", "text": plain(text) }));
        self.blocks.extend(sections);
        self
    }

    /// Adds a line that ends in a link. Nothing of strangers may be in it: this is the one line with markup.
    pub(super) fn link(mut self, line: &str, url: &str, called: &str) -> Self {
        let text = format!("{line}<{url}|{called}>");
        let text = json!({ "type": "mrkdwn", "text": text, "verbatim": true });
        self.blocks.push(json!({ "type": "section", "text": text }));
        self
    }

    /// Adds a line in small print.
    pub(super) fn small(mut self, line: &str) -> Self {
        let block = json!({ "type": "context", "elements": [plain(line)] });
        self.blocks.push(block);
        self
    }

    pub(super) fn json(self) -> Value {
        json!({
            "text": without_markup(&self.title),
            "mrkdwn": false,
            "unfurl_links": false,
            "unfurl_media": false,
            "blocks": self.blocks,
        })
    }
}

/// A text that Slack shows as it is, without emoji for names between colons.
fn plain(text: &str) -> Value {
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

/// A text for where Slack reads markup whatever is said: without its control characters, as its documentation of
/// formatting text asks for.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The lines of the first few of `all`, and how many more there are.
pub(super) fn first<T>(all: &[T], line: impl FnMut(&T) -> String) -> Vec<String> {
    let mut lines: Vec<_> = all.iter().take(SHOWN).map(line).collect();
    if all.len() > SHOWN {
        lines.push(format!("… and {} more", grouped(all.len() - SHOWN)));
    }
    lines
}

fn offset(committed: &Option<CommittedOffset>) -> String {
    committed
        .as_ref()
        .map_or("no commit".to_owned(), |c| c.offset.to_string())
}

/// Somebody has to decide.
#[must_use]
pub fn approval(plan: &Plan, recovery: &Recovery, approval: &Approval, link: &str) -> Value {
    let title = format!(
        "Approval needed: move group {} on {}",
        escape(&plan.group.0),
        escape(&plan.cluster)
    );
    let summary = format!(
        "{} to {}: at most {} replayed, at most {} skipped",
        partitions(plan.moves.len()),
        escape(&plan.source.to_string()),
        count(plan.replayed(), "record"),
        grouped(plan.skipped())
    );
    let decide = format!("Decide before {}: ", time(approval.approve_by));
    let mut asked = format!(
        "Asked for by {}",
        escape(&plan.asked_by(approval.from_dry_run))
    );
    if !plan.reason.is_empty() {
        asked.push_str(": ");
        asked.push_str(&escape(&plan.reason));
    }
    let mut told: Vec<_> = recovery.rights_warning().into_iter().collect();
    told.extend(plan.drift_warning());
    told.extend(plan.warnings.iter().map(ToString::to_string));
    let mut warnings = first(&told, |w| format!("⚠ {}", escape(w)));
    let members = plan.members_to_stop();
    if !members.is_empty() {
        warnings.push("To be stopped after approving:".to_owned());
        warnings.extend(first(members, |m| {
            format!("• {} at {}", escape(&m.client_id), escape(&m.host))
        }));
    }
    let moves = first(&plan.moves, |m| {
        format!(
            "• {}: {} → {}",
            escape(&m.partition.to_string()),
            offset(&m.from),
            escape(&m.target())
        )
    });
    let skips = first(&plan.skips, |skipped| {
        let kept = match &skipped.kept {
            Kept::In(copy) => format!("kept at {}", escape(&copy.to_string())),
            Kept::No => "NOT KEPT".to_owned(),
            Kept::NotYet => "not kept yet".to_owned(),
        };
        format!(
            "• never read: {}@{}, {kept}",
            escape(&skipped.partition.to_string()),
            skipped.record.offset
        )
    });
    let withheld: Vec<_> = plan
        .left_alone
        .iter()
        .filter(|(_, why)| matches!(why, LeftAlone::Withheld { .. }))
        .collect();
    let withheld = first(&withheld, |(partition, why)| {
        escape(&format!("• not in this plan: {partition}, {why}"))
    });
    Message::titled(title)
        .section(&[summary, asked])
        .link(&decide, link, "read the plan")
        .section(&warnings)
        .section(&moves)
        .section(&skips)
        .section(&withheld)
        .small(&format!("Plan {}, digest {}", plan.id, approval.digest))
        .json()
}

/// What became of it. Where offsets may have been moved and it is not proven how, it is an alert.
#[must_use]
pub fn result(audit: &Audit) -> Value {
    let unsettled = [
        EndCode::PartiallyApplied,
        EndCode::OutcomeUnknown,
        EndCode::Overwritten,
    ];
    let unsettled = unsettled.iter().any(|end| end.code() == audit.code);
    let mark = match audit.status {
        AuditStatus::Succeeded => "✔",
        AuditStatus::Failed if unsettled => "🚨",
        AuditStatus::Failed => "✖",
    };
    let group = audit.group.as_ref().map_or("?", |group| group.0.as_str());
    let title = format!("{mark} {}: group {}", audit.code, escape(group));
    // The message of a refusal is its reasons in one line; that of a change that was stopped half-way is not.
    let refused = matches!(audit.outcome, None | Some(Outcome::NotApplied));
    let listed = audit.refusals.len() > 1 || !refused;
    let mut lines = Vec::new();
    if audit.refusals.len() <= 1 || !refused {
        lines.push(escape(&audit.message));
    }
    if listed {
        lines.extend(first(&audit.refusals, |r| {
            format!("• {}", escape(&r.to_string()))
        }));
    }
    // What needs a person first.
    let settled = |p: &&AuditPartition| {
        matches!(
            p.outcome,
            Some(PartitionOutcome::Applied | PartitionOutcome::AppliedThenMoved { .. })
        )
    };
    let mut all: Vec<_> = audit.partitions.iter().collect();
    all.sort_by_key(settled);
    let mut moves = Vec::new();
    if unsettled {
        moves.push("Keep the consumers stopped until each of these was looked at:".to_owned());
    }
    moves.extend(first(&all, |p| {
        let outcome = p
            .outcome
            .as_ref()
            .map_or(String::new(), |o| format!(": {}", escape(&o.to_string())));
        format!(
            "• {}: {} → {}{outcome}",
            escape(&p.partition.to_string()),
            offset(&p.from),
            offset(&p.to)
        )
    }));
    Message::titled(title)
        .section(&lines)
        .section(&moves)
        .small(&format!("Execution {}", escape(&audit.execution.0)))
        .json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::group::MemberSeen;
    use crate::domain::identity::{Identity, Requester};
    use crate::domain::offset::TopicPartition;
    use crate::domain::plan::Warning;
    use crate::domain::refusal::Refusal;
    use crate::domain::testing::pending_approval as pending;
    use crate::domain::testing::shown::{plan, skip};

    fn opened(plan: &Plan) -> Recovery {
        Recovery::open(plan, &"arn:of:an:execution".into(), plan.created_at)
    }

    #[test]
    fn an_approver_reads_which_rights_the_brokers_say_nothing_of() {
        let mut plan = plan();
        plan.warnings.clear();
        let mut recovery = opened(&plan);
        let says = |recovery: &Recovery| {
            told(&approval(&plan, recovery, &pending(&plan), LINK)).contains("applying principal")
        };
        assert!(!says(&recovery));
        recovery.unknown_rights = Some("READ on topic b".to_owned());
        assert!(says(&recovery));
    }

    #[test]
    fn an_approver_reads_how_far_commits_may_go_forward_where_nobody_was_seen_whom_to_stop() {
        let mut plan = plan();
        plan.warnings.clear();
        let message = told(&approval(&plan, &opened(&plan), &pending(&plan), LINK));
        let expected =
            "may go forward by at most 10,000 offsets per partition, and what is read until then";
        assert!(message.contains(expected), "{message}");
    }

    /// What should be passed over as well is named with its reason, and so is a topic that is not safe.
    #[test]
    fn an_approver_reads_what_is_withheld_and_how_safe_the_copies_are() {
        let mut plan = skip();
        let partition = TopicPartition::new("shipments", 5);
        let why = "the copy takes 1001 bytes <!channel>".to_owned();
        plan.left_alone = vec![
            (partition, LeftAlone::Withheld { why }),
            (TopicPartition::new("shipments", 6), LeftAlone::NotSelected),
        ];
        plan.warnings.push(Warning::QuarantineAtRisk {
            topic: "kept".to_owned(),
            why: "it has one replica: a copy is on one broker alone".to_owned(),
        });
        let message = told(&approval(&plan, &opened(&plan), &pending(&plan), LINK));
        let expected =
            "not in this plan: shipments-5, withheld: the copy takes 1001 bytes <!channel>";
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains("shipments-6"), "{message}");
        assert!(message.contains("it has one replica"), "{message}");
    }

    #[test]
    fn nothing_that_strangers_write_is_more_than_text() {
        assert_eq!(
            escape(
                "<!channel> & <@U1>\r\nDecide before noon:\n<https://evil.example|read the plan>"
            ),
            "<!channel> & <@U1> Decide before noon: <https://evil.example|read the plan>"
        );
        assert_eq!(
            without_markup("<!channel> &amp;"),
            "&lt;!channel&gt; &amp;amp;"
        );
        assert_eq!(escape("pay\u{202E}daol\t"), "pay⟨U+202E⟩daol⟨U+0009⟩");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for long in ["&".repeat(5_000), "é".repeat(5_000), "𐀀".repeat(5_000)] {
            let cut = escape(&long);
            assert!(length(&cut) <= LONGEST_TEXT, "{}", length(&cut));
            assert!(length(&cut) > LONGEST_TEXT - 6);
            assert!(cut.ends_with('…'), "{cut}");
        }
        assert_eq!(
            escape(&"x".repeat(LONGEST_TEXT - 1)).len(),
            LONGEST_TEXT - 1
        );
    }

    #[test]
    fn every_line_is_told_and_no_section_is_too_long() {
        let lines: Vec<_> = (0..25)
            .map(|n| format!("{n} {}", escape(&"&".repeat(2_000))))
            .collect();
        let message = Message::titled("Approval needed".to_owned())
            .section(&lines)
            .json();
        let sections: Vec<_> = message["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["text"]["text"].as_str().unwrap())
            .collect();
        assert!(sections.iter().all(|text| length(text) <= LONGEST_SECTION));
        assert!(sections.len() <= 50, "as many blocks as a message may have");
        let all = sections.join("\n");
        assert_eq!(all, format!("Approval needed\n{}", lines.join("\n")));
    }

    /// All texts of a message, a blank line between blocks.
    fn told(message: &Value) -> String {
        let blocks = message["blocks"].as_array().unwrap();
        let texts: Vec<_> = blocks
            .iter()
            .map(|block| match block["type"].as_str() {
                Some("header" | "section") => block["text"].clone(),
                Some("context") => block["elements"][0].clone(),
                other => panic!("{other:?}"),
            })
            .map(|text| {
                let shown = text["text"].as_str().unwrap();
                if text["type"] == "mrkdwn" {
                    assert_eq!(text["verbatim"], true);
                    let own = format!("<{LINK}|read the plan>");
                    let (before, after) = shown.split_once(&own).unwrap();
                    assert!(before.starts_with("Decide before 2") && after.is_empty());
                } else {
                    assert_eq!(
                        (&text["type"], &text["emoji"]),
                        (&json!("plain_text"), &json!(false))
                    );
                }
                shown.to_owned()
            })
            .collect();
        assert_eq!(message["mrkdwn"], false);
        assert_eq!(message["unfurl_links"], false);
        assert_eq!(message["unfurl_media"], false);
        assert!(texts.len() <= 50);
        assert!(
            texts
                .iter()
                .all(|t| (1..=LONGEST_SECTION).contains(&length(t)))
        );
        texts.join("\n\n")
    }

    const LINK: &str = "https://guard.example/approvals/x";

    fn audit(code: &str, outcome: Option<Outcome>) -> Audit {
        let plan = plan();
        let partition = |partition, outcome| AuditPartition {
            partition: TopicPartition::new("shipments", partition),
            from: Some(CommittedOffset::bare(43)),
            to: Some(CommittedOffset::bare(31)),
            before: None,
            outcome: Some(outcome),
        };
        let seen = "no answer".to_owned();
        Audit {
            at: plan.created_at,
            plan: Some(plan.id.clone()),
            execution: "recovery-1".into(),
            cluster_id: Some(plan.cluster_id.clone()),
            group: Some(plan.group.clone()),
            status: AuditStatus::Failed,
            code: code.to_owned(),
            message: "it cannot be said of every partition whether it was moved".to_owned(),
            requested_by: String::new(),
            requester: Requester::Unverified,
            from_dry_run: false,
            reason: String::new(),
            decided_by: None,
            decider: None,
            decided_at: None,
            digest: None,
            refusals: vec![Refusal::ApplySwitchedOff],
            outcome,
            partitions: vec![
                partition(0, PartitionOutcome::Applied),
                partition(1, PartitionOutcome::Unknown { seen }),
            ],
        }
    }

    #[test]
    fn an_approver_reads_what_moves_whom_to_stop_and_until_when_to_decide() {
        let plan = plan();
        insta::assert_snapshot!(told(&approval(
            &plan,
            &opened(&plan),
            &pending(&plan),
            LINK
        )));

        let skip = skip();
        let told = told(&approval(&skip, &opened(&skip), &pending(&skip), LINK));
        assert!(
            told.contains("• never read: shipments-1@43, kept at quarantine-0@7\n• never read: shipments-1@44, NOT KEPT"),
            "{told}"
        );
    }

    #[test]
    fn who_asked_is_shown_as_proven_only_where_it_is() {
        let asked = |change: fn(&mut Plan, &mut Approval)| {
            let mut plan = plan();
            plan.reason = String::new();
            plan.requested_by = "guard".to_owned();
            let mut pending = pending(&plan);
            change(&mut plan, &mut pending);
            let told = told(&approval(&plan, &opened(&plan), &pending, LINK));
            let (_, asked) = told.split_once("\nAsked for by ").unwrap();
            asked.lines().next().unwrap().to_owned()
        };
        let proven = "subject 7 (\"Mara Ito\"), identity verified by https://id.example";
        assert_eq!(asked(|_, _| ()), "\"guard\" (not verified)");
        assert_eq!(
            asked(|plan, _| plan.requester = Requester::Guard),
            "the guard"
        );
        let mara = || Requester::Verified(Identity::new("https://id.example", "7", "Mara Ito"));
        assert_eq!(
            asked(|plan, _| plan.requester =
                Requester::Verified(Identity::new("https://id.example", "7", "Mara Ito"))),
            proven
        );
        assert_eq!(mara().shown(""), proven);
        let imitated = asked(|plan, _| {
            plan.requested_by =
                "subject 7 (\"Mara Ito\"), identity verified by https://id.example".to_owned();
        });
        assert!(imitated.starts_with("\"subject 7 (\\\"Mara"), "{imitated}");
        assert!(imitated.ends_with("\" (not verified)"), "{imitated}");
        assert_eq!(
            asked(|_, pending| pending.from_dry_run = true),
            "\"guard\" (not verified) as a dry run; started by somebody who is not verified"
        );
    }

    #[test]
    fn a_name_can_be_copied_from_a_message_as_it_is() {
        for name in [
            "_ingest_",
            "*bold*",
            "~old~",
            "Host`1`",
            ":white_check_mark: VERIFIED",
            "a&b <c>",
        ] {
            let mut plan = plan();
            plan.group.0 = name.to_owned();
            plan.moves[0].partition.topic = name.to_owned();
            plan.reason = name.to_owned();
            let asked = approval(&plan, &opened(&plan), &pending(&plan), LINK);
            let text = told(&asked);
            for line in [
                format!("Approval needed: move group {name} on orders-prod\n"),
                format!("\n• {name}-1: 43 → 31\n"),
                format!(": {name}\n"),
            ] {
                assert!(text.contains(&line), "{line} is not in {text}");
            }
            let mut audit = audit("VERIFIED", Some(Outcome::Verified));
            audit.group = Some(plan.group.clone());
            assert!(told(&result(&audit)).contains(&format!("group {name}\n")));
        }
    }

    #[test]
    fn an_end_that_is_not_proven_is_an_alert_with_what_needs_a_person_first() {
        insta::assert_snapshot!(told(&result(&audit(
            "OUTCOME_UNKNOWN",
            Some(Outcome::Unknown)
        ))));
        let refused = result(&audit("REFUSED", None));
        assert!(refused["text"].as_str().unwrap().starts_with('✖'));
        assert!(!told(&refused).contains("Keep the consumers stopped"));
    }

    #[test]
    fn every_message_is_harmless_and_fits_however_it_is_filled() {
        let evil = format!(
            "<!channel>&<{LINK}|click>\n*now*\u{202E}{}",
            "&".repeat(3_000)
        );
        let mut plan = plan();
        plan.group.0 = evil.clone();
        plan.cluster = evil.clone();
        plan.requested_by = evil.clone();
        plan.reason = evil.clone();
        plan.moves[0].partition.topic = evil.clone();
        plan.moves = vec![plan.moves[0].clone(); 40];
        let member = MemberSeen {
            client_id: evil.clone(),
            member_id: evil.clone(),
            host: evil.clone(),
        };
        plan.warnings = vec![
            Warning::MustBeStopped {
                members: vec![member; 40],
                drift_limit: 1,
            };
            40
        ];
        let mut audit = audit("REFUSED", None);
        audit.group = Some(plan.group.clone());
        audit.execution = evil.as_str().into();
        audit.message = evil.clone();
        audit.partitions[1].outcome = Some(PartitionOutcome::Unknown { seen: evil.clone() });
        audit.partitions[1].partition.topic = evil.clone();
        audit.partitions = vec![audit.partitions[1].clone(); 40];
        for (message, own) in [
            (approval(&plan, &opened(&plan), &pending(&plan), LINK), 1),
            (result(&audit), 0),
        ] {
            // What is no plain text is the page's own line: `told` sees to it.
            let text = told(&message);
            let marked = message["blocks"].as_array().unwrap().iter();
            let marked = marked.filter(|block| block["text"]["type"] == "mrkdwn");
            assert_eq!(marked.count(), own);
            assert!(!text.contains("\n*now*") && !text.contains('\u{202E}'));
            assert!(!message["text"].as_str().unwrap().contains('<'));
            assert!(text.contains("<!channel>&"));
        }
    }
}
