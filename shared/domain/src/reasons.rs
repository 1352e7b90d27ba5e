//! Many refusals in few words: a group may have as many as it has partitions, and the texts that pass from state to
//! state, to Slack and to a person have room for a few. All of them stay in the plan, the recovery and the audit record.

use super::refusal::Refusal;
use super::text::grouped;

/// How many refusals a text spells out.
pub const SPELT_OUT: usize = 10;

/// The longest that one of them may be, in characters.
pub const LONGEST_REASON: usize = 500;

/// At most [`SPELT_OUT`] of the refusals, in their order: the first of each code before a second of any, so that no code
/// hides behind thousands of another.
#[must_use]
pub fn foremost(refusals: &[Refusal]) -> Vec<&Refusal> {
    if refusals.len() <= SPELT_OUT {
        return refusals.iter().collect();
    }
    let codes: Vec<_> = refusals.iter().map(Refusal::code).collect();
    let is_first_of_code = |&n: &usize| !codes[..n].contains(&codes[n]);
    let (first, further): (Vec<_>, Vec<_>) = (0..codes.len()).partition(is_first_of_code);
    let mut chosen: Vec<_> = first.into_iter().chain(further).take(SPELT_OUT).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|n| &refusals[n]).collect()
}

/// How many refusals there are of each code, in the order in which the codes first occur.
#[must_use]
pub fn by_code(refusals: &[Refusal]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for code in refusals.iter().map(Refusal::code) {
        match counts.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => counts.push((code, 1)),
        }
    }
    counts
}

/// The codes, each once: `GROUP_ACTIVE`, or `12 FORWARD_MOVE` where there are several.
#[must_use]
pub fn codes(refusals: &[Refusal]) -> Vec<String> {
    by_code(refusals)
        .into_iter()
        .map(|(code, count)| match count {
            1 => code,
            count => format!("{} {code}", grouped(count)),
        })
        .collect()
}

/// The refusals in one text; where there are more than [`SPELT_OUT`], the foremost and how many there are of each code.
#[must_use]
pub fn told(refusals: &[Refusal]) -> String {
    let foremost: Vec<_> = foremost(refusals)
        .into_iter()
        .map(|refusal| cut(&refusal.to_string(), LONGEST_REASON))
        .collect();
    let foremost = foremost.join("; ");
    if refusals.len() <= SPELT_OUT {
        return foremost;
    }
    let all: Vec<_> = by_code(refusals)
        .into_iter()
        .map(|(code, count)| format!("{} {code}", grouped(count)))
        .collect();
    format!(
        "{foremost}; {} refusals in all: {}",
        grouped(refusals.len()),
        all.join(", ")
    )
}

/// A text of at most `longest` characters; what is missing at its end is marked by an ellipsis.
#[must_use]
pub fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset::TopicPartition;

    fn forward(partition: i32) -> Refusal {
        Refusal::BrokerRejected {
            partition: TopicPartition::new("shipments", partition),
            error: "UNKNOWN_MEMBER_ID".to_owned(),
        }
    }

    #[test]
    fn a_few_refusals_are_told_whole() {
        assert_eq!(told(&[]), "");
        let few: Vec<_> = (0..10).map(forward).collect();
        let whole: Vec<_> = few.iter().map(ToString::to_string).collect();
        assert_eq!(told(&few), whole.join("; "));
        assert_eq!(codes(&few), ["10 BROKER_REJECTED"]);
        assert_eq!(codes(&few[..1]), ["BROKER_REJECTED"]);
    }

    #[test]
    fn of_ten_thousand_the_first_ten_are_told_and_all_are_counted() {
        let mut many: Vec<_> = (0..10_000).map(forward).collect();
        many.push(Refusal::ApplySwitchedOff);
        let text = told(&many);
        assert!(text.len() < 4_000, "{}", text.len());
        assert_eq!(foremost(&many).len(), SPELT_OUT);
        // The one of another code is not lost behind the others.
        assert!(
            text.contains(&Refusal::ApplySwitchedOff.to_string()),
            "{text}"
        );
        assert!(
            text.contains("shipments-8") && !text.contains("shipments-9"),
            "{text}"
        );
        let end = "; 10,001 refusals in all: 10,000 BROKER_REJECTED, 1 APPLY_SWITCHED_OFF";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(
            codes(&many),
            ["10,000 BROKER_REJECTED", "APPLY_SWITCHED_OFF"]
        );
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = Refusal::InvalidRequest {
            field: "to_datetime".to_owned(),
            problem: "ä".repeat(200_000),
        };
        let text = told(&[long]);
        assert_eq!(text.chars().count(), LONGEST_REASON);
        assert!(text.ends_with('…'));
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
