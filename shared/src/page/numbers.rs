//! How the page writes numbers and lengths of time.

/// A change of an offset, with a true minus, which is as wide as the plus and is not broken off its number.
pub(super) fn describe_change(change: i128) -> String {
    match change {
        0 => "0 (metadata)".to_owned(),
        1.. => format!("+{change}"),
        _ => format!("\u{2212}{}", change.unsigned_abs()),
    }
}

/// A length of time, rounded down, in the two units that matter.
pub(super) fn describe_span(seconds: i64) -> String {
    match seconds {
        7_200.. => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{} s", seconds.max(0)),
    }
}
