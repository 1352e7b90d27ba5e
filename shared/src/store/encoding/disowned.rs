//! What rewinds undid of a checkpoint, as one attribute of its header.
//!
//! One plan that undid the whole of it is written as its id alone, as all releases do. Everything else is JSON, packed
//! where it is long. To a reader of an earlier release that is the odd id of a plan that undid all: it offers less than it
//! might, and nothing that it must not.

use data_encoding::BASE64;

use super::packed::{Packed, unpack};
use crate::domain::disowned::{Disowned, Undone};
use crate::domain::ids::PlanId;
use crate::store::item::Damaged;

/// The attribute.
pub(in crate::store) const DISOWNED_BY: &str = "disowned_by";

/// Above that many bytes the JSON is packed.
const PLAIN: usize = 1 << 10;

/// The most that the attribute may take up, in bytes: a header has room for it beside its other bodies. Above that the
/// whole checkpoint counts as undone.
const LONGEST: usize = 16 << 10;

/// Before packed JSON. No id of a plan begins so.
const PACKED: &str = "packed:";

/// The attribute's text.
pub(in crate::store) fn write(disowned: &Disowned) -> String {
    if let Some(plan) = disowned.wholly_by() {
        return plan.0.clone();
    }
    let json = serde_json::to_string(disowned).unwrap_or_default();
    if (1..=PLAIN).contains(&json.len()) {
        return json;
    }
    let packed = Packed::new(disowned).map(|packed| BASE64.encode(packed.bytes()));
    match packed {
        Ok(packed) if PACKED.len() + packed.len() <= LONGEST => format!("{PACKED}{packed}"),
        _ => disowned
            .widened()
            .wholly_by()
            .map_or_else(String::new, |plan| plan.0.clone()),
    }
}

/// What the attribute says.
pub(in crate::store) fn read(text: &str) -> Result<Disowned, Damaged> {
    let damaged = Damaged {
        attribute: DISOWNED_BY,
    };
    if let Some(packed) = text.strip_prefix(PACKED) {
        let packed = BASE64.decode(packed.as_bytes()).ok();
        return packed
            .and_then(|packed| unpack(&packed).ok())
            .ok_or(damaged);
    }
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|_| damaged);
    }
    Ok(Disowned::by_one(PlanId(text.to_owned()), Undone::All))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::offset::TopicPartition;

    fn plan(name: &str) -> PlanId {
        PlanId(name.to_owned())
    }

    fn again(disowned: &Disowned) -> Disowned {
        let text = write(disowned);
        assert!(text.len() <= LONGEST, "{}", text.len());
        read(&text).unwrap()
    }

    #[test]
    fn a_mark_of_an_earlier_release_is_of_the_whole_checkpoint() {
        let whole = Disowned::by_one(plan("01J"), Undone::All);
        assert_eq!(read("01J").unwrap(), whole);
        assert_eq!(write(&whole), "01J", "and is what its readers know");
    }

    #[test]
    fn marks_of_partitions_come_back_short_or_long() {
        let few = Undone::of(&[TopicPartition::new("shipments", 1)]);
        let few = Disowned::by_one(plan("01J"), few);
        assert_eq!(write(&few), r#"{"01J":{"shipments":[[1,1]]}}"#);
        assert_eq!(again(&few), few);
        // Every second partition of a thousand topics whose names are as long as Kafka allows.
        let name = |n: i32| format!("{n:05}-{}", "orders.".repeat(35))[..249].to_owned();
        let many: Vec<_> = (0..10_000)
            .map(|n| TopicPartition::new(name(n % 1000), n / 1000 * 2))
            .collect();
        let many = Disowned::by_one(plan("01J"), Undone::of(&many));
        println!(
            "10,000 partitions of 1,000 topics: {} bytes",
            write(&many).len()
        );
        assert!(write(&many).starts_with(PACKED));
        assert_eq!(again(&many), many);
    }

    #[test]
    fn what_does_not_fit_is_of_the_whole_checkpoint() {
        let noise = |n: i32| {
            use sha2::{Digest, Sha256};
            data_encoding::HEXLOWER.encode(&Sha256::digest(n.to_le_bytes()))
        };
        let many: Vec<_> = (0..2_000)
            .map(|n| TopicPartition::new(noise(n), n))
            .collect();
        let many = Disowned::by_one(plan("01J"), Undone::of(&many));
        assert_eq!(again(&many), Disowned::by_one(plan("01J"), Undone::All));
    }

    #[test]
    fn a_damaged_mark_is_damage_and_not_a_good_checkpoint() {
        for text in ["{", "packed:", "packed:AAAA", r#"{"01J":7}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
