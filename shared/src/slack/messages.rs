//! The texts that people get. Everything that comes from outside is escaped.

use serde_json::{Value, json};

use crate::domain::approval::Approval;
use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::offset::CommittedOffset;
use crate::domain::plan::{Plan, partitions};
use crate::domain::recovery::Outcome;
use crate::page::visible;

/// How many moves, warnings or reasons a message names.
pub(super) const SHOWN: usize = 10;
/// How long one text of strangers may get, escaped; two of them fit a section.
const LONGEST_TEXT: usize = 1_400;
/// How long a section's text may be (Slack's reference of the section block); a message with a longer one is refused.
const LONGEST_SECTION: usize = 3_000;

/// The length that Slack may count: that of JavaScript's strings, which is never less than that in characters.
fn length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// A text of strangers: in one line, with what is hidden made visible, without Slack's control characters (as its
/// documentation of formatting text asks for), and cut where it is too long to be read.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    let mut length = 0;
    let line = text.replace("\r\n", " ").replace(['\r', '\n'], " ");
    for c in visible(&line).chars() {
        let part = match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            c => c.to_string(),
        };
        length += self::length(&part);
        if length >= LONGEST_TEXT {
            escaped.push('…');
            break;
        }
        escaped.push_str(&part);
    }
    escaped
}

/// A message of as many sections as its lines need.
pub(super) fn message(text: &str, lines: &[String]) -> Value {
    let mut sections = vec![format!("*{text}*")];
    for line in lines {
        match sections.last_mut() {
            Some(section) if length(section) + 1 + length(line) <= LONGEST_SECTION => {
                section.push('\n');
                section.push_str(line);
            }
            _ => sections.push(line.clone()),
        }
    }
    let blocks: Vec<_> = sections
        .into_iter()
        // Verbatim: nothing that a stranger wrote becomes a link or a mention by itself.
        .map(|text| json!({ "type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true} }))
        .collect();
    json!({
        "text": text,
        "unfurl_links": false,
        "unfurl_media": false,
        "blocks": blocks,
    })
}

fn offset(committed: &Option<CommittedOffset>) -> String {
    committed
        .as_ref()
        .map_or("no commit".to_owned(), |c| c.offset.to_string())
}

pub(super) fn more(all: usize) -> Option<String> {
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
        "{} to {}: at most {} records replayed, at most {} skipped",
        partitions(plan.moves.len()),
        escape(&plan.source.to_string()),
        plan.replayed(),
        plan.skipped()
    )];
    let warnings = plan.warnings.iter().take(SHOWN);
    lines.extend(warnings.map(|w| format!("⚠ {}", escape(&w.to_string()))));
    lines.extend(more(plan.warnings.len()));
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
    // The message of a refusal is its reasons in one line; that of a change that was stopped half-way is not.
    let refused = matches!(audit.outcome, None | Some(Outcome::NotApplied));
    if audit.refusals.len() > 1 && refused {
        lines.clear();
    }
    if audit.refusals.len() > 1 || !refused {
        let reasons = audit.refusals.iter().take(SHOWN);
        lines.extend(reasons.map(|r| format!("• {}", escape(&r.to_string()))));
        lines.extend(more(audit.refusals.len()));
    }
    lines.extend(audit.partitions.iter().take(SHOWN).map(|p| {
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
    lines.extend(more(audit.partitions.len()));
    lines.push(format!("Execution {}", escape(&audit.execution)));
    message(&text, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_strangers_write_is_more_than_text() {
        assert_eq!(
            escape(
                "<!channel> & <@U1>\r\nDecide before noon:\n<https://evil.example|read the plan>"
            ),
            "&lt;!channel&gt; &amp; &lt;@U1&gt; Decide before noon: &lt;https://evil.example|read the plan&gt;"
        );
        assert_eq!(escape("pay\u{202E}daol\t"), "pay⟨U+202E⟩daol⟨U+0009⟩");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for long in ["&".repeat(5_000), "é".repeat(5_000), "𐀀".repeat(5_000)] {
            let cut = escape(&long);
            assert!(length(&cut) <= LONGEST_TEXT, "{}", length(&cut));
            assert!(length(&cut) > LONGEST_TEXT - 6);
            let whole = cut.trim_end_matches('…');
            assert!(whole.is_empty() || !whole.ends_with("&am"), "{cut}");
            assert!(whole.split("&amp;").all(|part| !part.contains('&')));
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
        let message = message("Approval needed", &lines);
        let sections: Vec<_> = message["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["text"]["text"].as_str().unwrap())
            .collect();
        assert!(sections.iter().all(|text| length(text) <= LONGEST_SECTION));
        assert!(sections.len() <= 50, "as many blocks as a message may have");
        let all = sections.join("\n");
        assert_eq!(all, format!("*Approval needed*\n{}", lines.join("\n")));
    }
}
