//! The whole plan as CSV, to be downloaded.

use super::responses::csv_file;
use crate::app::approval_case::ApprovalCase;
use crate::http::Response;

/// The most that one answer holds, in bytes. A function answers with 6 MB (AWS Lambda quotas), in which every line end
/// and quotation mark of it takes up two.
const PART: usize = 4 << 20;

/// The table in parts that each fit an answer, cut between rows. Joined in order they are the whole.
pub(super) fn split_csv(csv: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = csv;
    while rest.len() > PART {
        let head = rest.as_bytes().get(..PART).unwrap_or_default();
        let rows = head.iter().rposition(|byte| *byte == b'\n');
        // A line end is never within a character.
        let Some((part, after)) = rows.and_then(|last| rest.split_at_checked(last + 1)) else {
            break;
        };
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// One part, from 1; of a number beyond the last, the last.
pub(super) fn answer_csv(case: &ApprovalCase, part: usize) -> Response {
    // An id is a ULID; whatever else would be stored as one gives no name to a file.
    let id = &case.plan.id.0;
    let name = if !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        format!("plan-{id}")
    } else {
        "plan".to_owned()
    };
    let csv = case.plan.to_csv();
    let parts = split_csv(&csv);
    let part = part.clamp(1, parts.len());
    let name = if parts.len() == 1 {
        format!("{name}.csv")
    } else {
        format!("{name}.part-{part}-of-{}.csv", parts.len())
    };
    let body = parts.get(part - 1).copied().unwrap_or_default();
    csv_file(&name, body.to_owned())
}
