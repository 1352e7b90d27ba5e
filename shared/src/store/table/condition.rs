//! Under which condition a write happens, as a value: rendered for DynamoDB, evaluated in memory.

use std::cmp::Ordering;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::store::item::Item;

/// What must hold of the item at a write's key for the write to happen.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) enum Condition {
    /// The attribute is not there. Of an attribute of the key: there is no such item.
    Absent(&'static str),
    /// The attribute is there.
    Present(&'static str),
    /// The attribute compares so with a value. An attribute that is not there, or has another type, differs from every
    /// value and is neither below nor above it.
    Compares(&'static str, Comparison, AttributeValue),
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds.
    Any(Vec<Condition>),
}

/// How an attribute compares with a value. Numbers compare as numbers, and texts by their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Comparison {
    /// It is this value.
    Equals,
    /// It is not this value.
    Differs,
    /// It is below this value.
    Less,
    /// It is this value or below it.
    AtMost,
    /// It is above this value.
    More,
}

/// There is no such item.
pub(in crate::store) fn no_item() -> Condition {
    absent("pk")
}

/// There is such an item.
pub(in crate::store) fn item_exists() -> Condition {
    present("pk")
}

/// The item has no such attribute.
pub(in crate::store) fn absent(attribute: &'static str) -> Condition {
    Condition::Absent(attribute)
}

/// The item has such an attribute.
pub(in crate::store) fn present(attribute: &'static str) -> Condition {
    Condition::Present(attribute)
}

/// The attribute is `value`.
pub(in crate::store) fn equals(attribute: &'static str, value: AttributeValue) -> Condition {
    Condition::Compares(attribute, Comparison::Equals, value)
}

/// The attribute is not `value`, or not there.
pub(in crate::store) fn differs(attribute: &'static str, value: AttributeValue) -> Condition {
    Condition::Compares(attribute, Comparison::Differs, value)
}

/// The attribute is there and below `value`.
pub(in crate::store) fn less(attribute: &'static str, value: AttributeValue) -> Condition {
    Condition::Compares(attribute, Comparison::Less, value)
}

/// The attribute is there and `value` or below it.
pub(in crate::store) fn at_most(attribute: &'static str, value: AttributeValue) -> Condition {
    Condition::Compares(attribute, Comparison::AtMost, value)
}

/// The attribute is there and above `value`.
pub(in crate::store) fn more(attribute: &'static str, value: AttributeValue) -> Condition {
    Condition::Compares(attribute, Comparison::More, value)
}

impl Condition {
    /// Both hold.
    pub(in crate::store) fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut all) => {
                all.push(other);
                Self::All(all)
            }
            first => Self::All(vec![first, other]),
        }
    }

    /// One of them holds, or both.
    pub(in crate::store) fn or(self, other: Self) -> Self {
        match self {
            Self::Any(mut any) => {
                any.push(other);
                Self::Any(any)
            }
            first => Self::Any(vec![first, other]),
        }
    }

    /// Whether it holds of an item, or of none.
    pub(in crate::store) fn holds(&self, item: Option<&Item>) -> bool {
        let found = |attribute: &str| item.and_then(|item| item.get(attribute));
        match self {
            Self::Absent(attribute) => found(attribute).is_none(),
            Self::Present(attribute) => found(attribute).is_some(),
            Self::Compares(attribute, comparison, value) => {
                let order = found(attribute).and_then(|found| compare(found, value));
                match comparison {
                    Comparison::Equals => order == Some(Ordering::Equal),
                    Comparison::Differs => order != Some(Ordering::Equal),
                    Comparison::Less => order == Some(Ordering::Less),
                    Comparison::AtMost => order.is_some_and(Ordering::is_le),
                    Comparison::More => order == Some(Ordering::Greater),
                }
            }
            Self::All(all) => all.iter().all(|condition| condition.holds(item)),
            Self::Any(any) => any.iter().any(|condition| condition.holds(item)),
        }
    }
}

/// How two values of one type compare; `None` for values of two types. Flags are only equal or not.
fn compare(found: &AttributeValue, value: &AttributeValue) -> Option<Ordering> {
    match (found, value) {
        (AttributeValue::S(found), AttributeValue::S(value)) => {
            Some(found.as_bytes().cmp(value.as_bytes()))
        }
        (AttributeValue::N(found), AttributeValue::N(value)) => {
            let number = |text: &str| text.parse::<i128>().ok();
            Some(number(found)?.cmp(&number(value)?))
        }
        (AttributeValue::Bool(found), AttributeValue::Bool(value)) => {
            (found == value).then_some(Ordering::Equal)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::item::{number, text};

    fn item() -> Item {
        Item::from([
            ("pk".to_owned(), text("p")),
            ("word".to_owned(), text("b")),
            ("count".to_owned(), number(10)),
        ])
    }

    #[test]
    fn an_attribute_that_is_absent_differs_and_is_neither_below_nor_above() {
        for (condition, of_item, of_none) in [
            (no_item(), false, true),
            (item_exists(), true, false),
            (absent("gone"), true, true),
            (equals("gone", text("b")), false, false),
            (differs("gone", text("b")), true, true),
            (less("gone", text("z")), false, false),
            (at_most("gone", text("z")), false, false),
            (more("gone", text("a")), false, false),
        ] {
            assert_eq!(condition.holds(Some(&item())), of_item, "{condition:?}");
            assert_eq!(condition.holds(None), of_none, "{condition:?}");
        }
    }

    #[test]
    fn numbers_compare_as_numbers_and_types_do_not_mix() {
        for (condition, holds) in [
            (less("count", number(9)), false),
            (less("count", number(10)), false),
            (at_most("count", number(10)), true),
            (less("count", number(100)), true),
            (equals("count", text("10")), false),
            (differs("count", text("10")), true),
            (less("word", text("c")), true),
            (less("word", text("a")), false),
            (more("count", number(9)), true),
            (more("count", number(10)), false),
        ] {
            assert_eq!(condition.holds(Some(&item())), holds, "{condition:?}");
        }
    }

    #[test]
    fn alternatives_and_conjunctions_nest() {
        let either = no_item().or(less("count", number(11)).and(equals("word", text("b"))));
        assert!(either.holds(None) && either.holds(Some(&item())));
        let neither = no_item().or(less("count", number(11)).and(equals("word", text("c"))));
        assert!(!neither.holds(Some(&item())));
    }
}
