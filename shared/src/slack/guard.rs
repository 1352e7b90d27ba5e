//! What people are told of a run of the guard. Nothing here is a record's payload: evidence holds outlines alone.

use std::cmp::Reverse;

use serde_json::Value;

use super::messages::{Message, escape, first};
use crate::domain::guard::run::{GuardAction, GuardRun, SecondSource};
use crate::domain::guard::verdict::{Evidence, Finding, GroupFinding, Status};
use crate::domain::text::{count, grouped, time};

/// How many pieces of evidence stand for a verdict; the rest is in the stored run.
const TELLING: usize = 2;

/// A group needs attention, or could not be read.
#[must_use]
pub fn guard_alert(run: &GuardRun) -> Value {
    let mark = match run.status {
        Status::Critical => "🚨",
        Status::Warning => "⚠",
        Status::Unknown => "❔",
        Status::Healthy => "✔",
    };
    let title = format!(
        "{mark} {}: group {} on {}",
        run.status,
        escape(&run.group.0),
        escape(&run.cluster)
    );
    let mut lines = vec![escape(&run.summary())];
    if let Some(state) = run.state {
        lines.push(format!(
            "{state} with {} in the last of {}",
            count(run.members, "member"),
            count(run.looks, "look")
        ));
    }
    lines.extend(run.of_group.as_ref().map(of_group));
    // What needs a person first.
    let mut findings: Vec<_> = run.findings.iter().collect();
    findings.sort_by_key(|finding| Reverse(finding.status));
    let mut ends = vec![action(run)];
    ends.extend(first(&run.withheld, |r| {
        escape(&format!("• Not proposed: {r}"))
    }));
    match &run.second_source {
        SecondSource::NotConfigured | SecondSource::Agrees => {}
        other @ (SecondSource::Differs { .. }
        | SecondSource::Alone { .. }
        | SecondSource::AnotherCluster { .. }
        | SecondSource::Unavailable { .. }) => {
            ends.push(escape(&format!("Second source: {other}")));
        }
    }
    Message::titled(title)
        .section(&lines)
        .section(&first(&findings, |f| told(run, f)))
        .section(&ends)
        .small(&format!("Run {} of {}", escape(&run.id.0), time(run.at)))
        .json()
}

/// What is wrong with the group as a whole, in one line.
fn of_group(finding: &GroupFinding) -> String {
    escape(&format!(
        "• {} ({} confidence): {}. → {}",
        finding.verdict,
        finding.confidence,
        telling(&finding.evidence),
        finding.next_step()
    ))
}

/// The evidence that stands for a verdict.
fn telling(evidence: &[Evidence]) -> String {
    let seen = evidence.iter().take(TELLING).map(ToString::to_string);
    seen.collect::<Vec<_>>().join("; ")
}

/// One finding in one line.
fn told(run: &GuardRun, finding: &Finding) -> String {
    let lag = finding.lag.map_or("lag unknown".to_owned(), |lag| {
        format!("lag {}", grouped(lag))
    });
    let seen = telling(&finding.evidence);
    escape(&format!(
        "• {} {} ({} confidence, {lag}): {}. → {}",
        finding.partition,
        finding.verdict,
        finding.confidence,
        seen,
        run.next_step(finding)
    ))
}

/// What was done about it.
fn action(run: &GuardRun) -> String {
    let records = match run.records.len() {
        0 => String::new(),
        1 => " It passes over one record.".to_owned(),
        several => format!(" It passes over {}.", count(several, "record")),
    };
    match &run.action {
        GuardAction::Nothing => "Nothing is proposed.".to_owned(),
        GuardAction::WouldPropose { plan } => {
            format!("Dry run: plan {plan} would be proposed, and nothing was changed.{records}")
        }
        GuardAction::Proposed { plan } => {
            format!("Plan {plan} is proposed and waits for its approval.{records}")
        }
        GuardAction::RecoveryLive { plan } => {
            format!("The recovery of plan {plan} is open, so nothing was planned.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guard::quarantine::SkippedRecord;
    use crate::domain::guard::verdict::{Confidence, Verdict};
    use crate::domain::ids::PlanId;
    use crate::domain::offset::{GroupId, TopicPartition};
    use crate::domain::refusal::Refusal;
    use crate::domain::testing::guard_run::{finding, guard_run as run};

    /// Everything that the message shows.
    fn text(message: &Value) -> String {
        let blocks = message["blocks"].as_array().unwrap();
        assert!(blocks.len() <= 50, "as many blocks as a message may have");
        let texts: Vec<_> = blocks
            .iter()
            .map(|block| {
                let small = &block["elements"][0]["text"];
                let text = block["text"]["text"].as_str().or(small.as_str());
                text.unwrap()
            })
            .inspect(|text| assert!(text.chars().count() <= 3_000, "Slack refuses a longer one"))
            .collect();
        texts.join("\n")
    }

    #[test]
    fn what_is_wrong_with_the_group_as_a_whole_is_told() {
        let run = GuardRun {
            findings: Vec::new(),
            of_group: Some(GroupFinding {
                verdict: Verdict::CrashLoop,
                confidence: Confidence::Medium,
                status: Status::Critical,
                evidence: vec![Evidence::NeverCommitted {
                    members: 7,
                    runs: 3,
                }],
            }),
            ..run()
        };
        let text = guard_alert(&run).to_string();
        for told in ["CRASH_LOOP", "7 members came and went", "auto.offset.reset"] {
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn people_read_what_is_wrong_how_sure_that_is_and_what_to_do_next() {
        insta::assert_snapshot!(text(&guard_alert(&run())));
    }

    #[test]
    fn a_group_that_could_not_be_read_is_told_as_unknown() {
        let unread = GuardRun {
            status: Status::Unknown,
            failed: Some("no broker answered".to_owned()),
            state: None,
            findings: Vec::new(),
            verdicts: [].into(),
            withheld: Vec::new(),
            records: Vec::new(),
            second_source: SecondSource::Unavailable {
                why: "status 503".to_owned(),
            },
            action: GuardAction::Nothing,
            ..run()
        };
        insta::assert_snapshot!(text(&guard_alert(&unread)));
    }

    #[test]
    fn each_deed_says_whether_anything_was_changed() {
        let plan = || PlanId("01JPLAN".to_owned());
        for (action, said) in [
            (GuardAction::Nothing, "Nothing is proposed."),
            (
                GuardAction::WouldPropose { plan: plan() },
                "Dry run: plan 01JPLAN would be proposed, and nothing was changed.",
            ),
            (
                GuardAction::RecoveryLive { plan: plan() },
                "The recovery of plan 01JPLAN is open, so nothing was planned.",
            ),
        ] {
            let run = GuardRun { action, ..run() };
            let text = text(&guard_alert(&run));
            assert!(text.contains(said), "{text}");
        }
    }

    /// Nobody is told to approve what there is no plan for.
    #[test]
    fn what_is_advised_fits_what_is_proposed() {
        let plan = || PlanId("01JPLAN".to_owned());
        let approve = "approve the skip";
        assert!(text(&guard_alert(&run())).contains(approve));
        let too_small = GuardRun {
            withheld: vec![Refusal::QuarantineUnusable {
                topic: "quarantine".to_owned(),
                partition: Some(TopicPartition::new("shipments", 0)),
                why: "its max.message.bytes is 10".to_owned(),
            }],
            records: Vec::new(),
            action: GuardAction::Nothing,
            ..run()
        };
        // A plan for another partition is none for this one.
        let of_another = GuardRun {
            records: vec![SkippedRecord {
                partition: TopicPartition::new("shipments", 9),
                ..run().records.remove(0)
            }],
            ..run()
        };
        let dry = GuardRun {
            action: GuardAction::WouldPropose { plan: plan() },
            ..run()
        };
        let live = GuardRun {
            action: GuardAction::RecoveryLive { plan: plan() },
            ..run()
        };
        for (run, advised) in [
            (too_small, "its skip is not proposed in this run"),
            (of_another, "its skip is not proposed in this run"),
            (dry, "this is a dry run"),
            (live, "decide the recovery that is open"),
        ] {
            let text = text(&guard_alert(&run));
            assert!(!text.contains(approve), "{text}");
            assert!(text.contains(advised), "{text}");
        }
    }

    #[test]
    fn a_hostile_group_and_a_hundred_findings_are_harmless_and_fit() {
        let findings = (0..100).map(|n| Finding {
            partition: TopicPartition::new("<!channel>&".repeat(40), n),
            ..finding(n, Verdict::PoisonSuspected, Some(u64::MAX))
        });
        let hostile = GuardRun {
            group: GroupId("<script>alert(1)</script>&\"' <!channel>\n*bold*".to_owned()),
            findings: findings.collect(),
            second_source: SecondSource::Differs {
                how: "<https://evil.example|approve>".repeat(200),
            },
            ..run()
        };
        let message = guard_alert(&hostile);
        let text = text(&message);
        let title = message["text"].as_str().unwrap();
        assert!(!title.contains('<') && !title.contains('>'), "{title}");
        // Everything else is plain text, whatever stands in it.
        assert!(!message.to_string().contains("mrkdwn\","), "{message}");
        for block in message["blocks"].as_array().unwrap() {
            let small = &block["elements"][0]["type"];
            let kind = block["text"]["type"].as_str().or(small.as_str());
            assert_eq!(kind, Some("plain_text"), "{block}");
        }
        assert!(text.contains("… and 90 more"), "{text}");
    }
}
