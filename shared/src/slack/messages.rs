//! The texts that people get. Everything that comes from outside is escaped.

use serde_json::{Value, json};

use crate::domain::approval::Approval;
use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::offset::CommittedOffset;
use crate::domain::plan::Plan;

/// How many moves or reasons a message names.
const SHOWN: usize = 10;

/// Slack's three control characters, as its own documentation of formatting text asks for.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn message(text: &str, lines: &[String]) -> Value {
    json!({
        "text": text,
        "unfurl_links": false,
        "unfurl_media": false,
        "blocks": [{
            "type": "section",
            "text": {"type": "mrkdwn", "text": format!("*{text}*\n{}", lines.join("\n"))},
        }],
    })
}

fn offset(committed: &Option<CommittedOffset>) -> String {
    committed
        .as_ref()
        .map_or("no commit".to_owned(), |c| c.offset.to_string())
}

fn more(all: usize) -> Option<String> {
    (all > SHOWN).then(|| format!("… and {} more", all - SHOWN))
}

/// Somebody has to decide.
#[must_use]
pub fn approval(plan: &Plan, approval: &Approval, link: &str) -> Value {
    let text = format!(
        "Approval needed: move group {} on {}",
        escape(&plan.group.0),
        escape(&plan.cluster)
    );
    let mut lines = vec![format!(
        "{} partitions to {}: at most {} records replayed, at most {} skipped",
        plan.moves.len(),
        escape(&plan.source.to_string()),
        plan.replayed(),
        plan.skipped()
    )];
    lines.extend(
        plan.warnings
            .iter()
            .map(|w| format!("⚠ {}", escape(&w.to_string()))),
    );
    lines.extend(plan.moves.iter().take(SHOWN).map(|m| {
        format!(
            "• {}: {} → {}",
            escape(&m.partition.to_string()),
            offset(&m.from),
            offset(&m.to)
        )
    }));
    lines.extend(more(plan.moves.len()));
    if !plan.requested_by.is_empty() || !plan.reason.is_empty() {
        lines.push(format!(
            "Asked for by {}: {}",
            escape(&plan.requested_by),
            escape(&plan.reason)
        ));
    }
    lines.push(format!(
        "Decide before {}: <{link}|read the plan>",
        approval.approve_by
    ));
    message(&text, &lines)
}

/// What became of it.
#[must_use]
pub fn result(audit: &Audit) -> Value {
    let mark = match audit.status {
        AuditStatus::Succeeded => "✔",
        AuditStatus::Failed => "✖",
    };
    let group = audit.group.as_ref().map_or("?", |group| group.0.as_str());
    let text = format!("{mark} {}: group {}", audit.code, escape(group));
    let mut lines = vec![escape(&audit.message)];
    if audit.refusals.len() > 1 {
        let reasons = audit.refusals.iter().take(SHOWN);
        lines = reasons
            .map(|r| format!("• {}", escape(&r.to_string())))
            .collect();
        lines.extend(more(audit.refusals.len()));
    }
    lines.extend(audit.partitions.iter().take(SHOWN).map(|p| {
        let outcome = p
            .outcome
            .as_ref()
            .map_or(String::new(), |o| format!(": {o}"));
        format!(
            "• {}: {} → {}{outcome}",
            escape(&p.partition.to_string()),
            offset(&p.from),
            offset(&p.to)
        )
    }));
    lines.extend(more(audit.partitions.len()));
    lines.push(format!("Execution {}", escape(&audit.execution)));
    message(&text, &lines)
}
