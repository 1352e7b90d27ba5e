//! Conditions, changes and ranges in DynamoDB's expression language.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::store::item::text;
use crate::store::table::{Change, Comparison, Condition, Range};

/// The names and values that the expressions of one request stand for.
///
/// In an expression each attribute is `#name`, since DynamoDB reserves several hundred words, and each value `:n`.
#[derive(Default)]
pub(super) struct Terms {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Terms {
    /// The names; an empty map would be refused.
    pub(super) fn names(&self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| self.names.clone())
    }

    /// The values; an empty map would be refused.
    pub(super) fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }

    fn name(&mut self, attribute: &str) -> String {
        let name = format!("#{attribute}");
        self.names.insert(name.clone(), attribute.to_owned());
        name
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let name = format!(":{}", self.values.len());
        self.values.insert(name.clone(), value);
        name
    }

    /// `ConditionExpression`; of no condition, none.
    pub(super) fn condition(&mut self, condition: Option<&Condition>) -> Option<String> {
        condition.map(|condition| self.render(condition))
    }

    fn render(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Absent(attribute) => {
                format!("attribute_not_exists({})", self.name(attribute))
            }
            Condition::Present(attribute) => format!("attribute_exists({})", self.name(attribute)),
            Condition::Compares(attribute, comparison, value) => {
                let sign = match comparison {
                    Comparison::Equals => "=",
                    Comparison::Differs => "<>",
                    Comparison::Less => "<",
                    Comparison::AtMost => "<=",
                    Comparison::More => ">",
                };
                format!(
                    "{} {sign} {}",
                    self.name(attribute),
                    self.value(value.clone())
                )
            }
            Condition::All(all) => self.joined(all, " AND "),
            Condition::Any(any) => self.joined(any, " OR "),
        }
    }

    fn joined(&mut self, conditions: &[Condition], by: &str) -> String {
        let parts: Vec<_> = conditions
            .iter()
            .map(|condition| match condition {
                Condition::All(_) | Condition::Any(_) => format!("({})", self.render(condition)),
                _ => self.render(condition),
            })
            .collect();
        parts.join(by)
    }

    /// `UpdateExpression`.
    pub(super) fn update(&mut self, changes: &[Change]) -> String {
        let (mut set, mut remove, mut add) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            match change {
                Change::Set(attribute, value) => {
                    set.push(format!(
                        "{} = {}",
                        self.name(attribute),
                        self.value(value.clone())
                    ));
                }
                Change::SetOnce(attribute, value) => {
                    let (name, value) = (self.name(attribute), self.value(value.clone()));
                    set.push(format!("{name} = if_not_exists({name}, {value})"));
                }
                Change::Remove(attribute) => remove.push(self.name(attribute)),
                Change::Add(attribute, more) => {
                    let more = AttributeValue::N(more.to_string());
                    add.push(format!("{} {}", self.name(attribute), self.value(more)));
                }
            }
        }
        let clauses = [("SET", set), ("REMOVE", remove), ("ADD", add)];
        let clauses: Vec<_> = clauses
            .into_iter()
            .filter(|(_, parts)| !parts.is_empty())
            .map(|(clause, parts)| format!("{clause} {}", parts.join(", ")))
            .collect();
        clauses.join(" ")
    }

    /// `KeyConditionExpression`.
    pub(super) fn within(&mut self, pk: &str, range: Range) -> String {
        let pk = format!("{} = {}", self.name("pk"), self.value(text(pk)));
        match range {
            Range::All => pk,
            Range::Prefix(prefix) => {
                let (sk, prefix) = (self.name("sk"), self.value(text(prefix)));
                format!("{pk} AND begins_with({sk}, {prefix})")
            }
            Range::Between(from, to) => {
                let (sk, from, to) = (
                    self.name("sk"),
                    self.value(text(from)),
                    self.value(text(to)),
                );
                format!("{pk} AND {sk} BETWEEN {from} AND {to}")
            }
        }
    }

    /// `ProjectionExpression`; of no attributes, none, which means all.
    pub(super) fn only(&mut self, attributes: &[&str]) -> Option<String> {
        let names: Vec<_> = attributes
            .iter()
            .map(|attribute| self.name(attribute))
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::item::{number, text};
    use crate::store::table::{absent, at_most, equals, no_item};

    #[test]
    fn a_condition_is_rendered_with_its_names_and_values() {
        let free = no_item()
            .or(at_most("expires_at", text("12:00")))
            .or(equals("execution", text("e")).and(equals("plan", text("p"))));
        let mut terms = Terms::default();
        assert_eq!(
            terms.condition(Some(&free)).unwrap(),
            "attribute_not_exists(#pk) OR #expires_at <= :0 OR (#execution = :1 AND #plan = :2)"
        );
        let mut names: Vec<_> = terms.names().unwrap().into_values().collect();
        names.sort();
        assert_eq!(names, ["execution", "expires_at", "pk", "plan"]);
        assert_eq!(terms.values().unwrap()[":2"], text("p"));
    }

    #[test]
    fn alternatives_within_a_conjunction_are_in_brackets() {
        let own = absent("closed_at").and(absent("by").or(equals("by", text("e"))));
        assert_eq!(
            Terms::default().condition(Some(&own)).unwrap(),
            "attribute_not_exists(#closed_at) AND (attribute_not_exists(#by) OR #by = :0)"
        );
    }

    #[test]
    fn changes_are_rendered_by_their_kind() {
        let changes = [
            Change::Remove("gone"),
            Change::Set("a", text("1")),
            Change::Add("fence", 1),
            Change::SetOnce("b", text("2")),
        ];
        let mut terms = Terms::default();
        assert_eq!(
            terms.update(&changes),
            "SET #a = :0, #b = if_not_exists(#b, :2) REMOVE #gone ADD #fence :1"
        );
        assert_eq!(terms.values().unwrap()[":1"], number(1));
    }

    #[test]
    fn nothing_to_name_is_no_map() {
        let mut terms = Terms::default();
        assert_eq!(terms.condition(None), None);
        assert_eq!(terms.only(&[]), None);
        assert!(terms.names().is_none() && terms.values().is_none());
    }
}
