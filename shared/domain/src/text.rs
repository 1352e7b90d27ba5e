//! How times and counts are written for people: the same in Slack, on the page and in every refusal.

use std::fmt;

use jiff::Timestamp;

/// An instant to the second, in UTC. Nobody reads nanoseconds.
#[must_use]
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A count with its thousands apart. Offsets are not written so: they are copied into other tools.
#[must_use]
pub fn grouped(n: impl fmt::Display) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun, which is given in the singular: `1 record`, `1,203 records`.
#[must_use]
pub fn count(n: impl fmt::Display, noun: &str) -> String {
    let n = grouped(n);
    let s = if n == "1" { "" } else { "s" };
    format!("{n} {noun}{s}")
}

/// The form of a verb that agrees with a count: `was` for one, `were` for all others.
#[must_use]
pub fn verb<'v>(n: impl fmt::Display, one: &'v str, many: &'v str) -> &'v str {
    if n.to_string() == "1" { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_agrees_with_its_noun_and_has_its_thousands_apart() {
        let records: Vec<_> = [0_u64, 1, 2, 999, 1_203, 1_000_000, u64::MAX]
            .map(|n| count(n, "record"))
            .into();
        assert_eq!(
            records,
            [
                "0 records",
                "1 record",
                "2 records",
                "999 records",
                "1,203 records",
                "1,000,000 records",
                "18,446,744,073,709,551,615 records",
            ]
        );
        assert_eq!(
            [verb(1, "was", "were"), verb(2, "was", "were")],
            ["was", "were"]
        );
    }

    #[test]
    fn a_time_has_seconds_and_its_zone() {
        let at = "2026-11-30T09:00:40.806470934Z".parse().unwrap();
        assert_eq!(time(at), "2026-11-30 09:00:40 UTC");
    }
}
