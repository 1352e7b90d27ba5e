//! Reads a JSON object field by field, and says of every fault at once where it is and what to write.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::domain::near::nearest;
use crate::domain::refusal::Refusal;

/// How many characters of a wrong value an answer repeats.
const SHOWN: usize = 40;

/// One object, and what is wrong with it so far.
#[derive(Debug)]
pub(super) struct Fields<'v> {
    object: &'v Map<String, Value>,
    /// The list that the object stands in, and its row there, counted from 1.
    row: Option<(&'static str, usize)>,
    asked: Vec<&'static str>,
    /// Faults that are none where a field of an unknown name was meant: each with the fields that would have mended it.
    missing: Vec<(Vec<&'static str>, Refusal)>,
    wrong: Vec<Refusal>,
}

impl<'v> Fields<'v> {
    pub(super) fn new(object: &'v Map<String, Value>) -> Self {
        Self {
            object,
            row: None,
            asked: Vec::new(),
            missing: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// The same of an object in a list.
    pub(super) fn in_row(object: &'v Map<String, Value>, list: &'static str, row: usize) -> Self {
        Self {
            row: Some((list, row)),
            ..Self::new(object)
        }
    }

    /// Notes a fault of a field.
    pub(super) fn wrong(&mut self, field: &str, problem: impl AsRef<str>) {
        let fault = self.fault(field, problem.as_ref());
        self.wrong.push(fault);
    }

    /// Notes the faults of the objects in one of its lists.
    pub(super) fn extend(&mut self, faults: Vec<Refusal>) {
        self.wrong.extend(faults);
    }

    /// Notes that none of `mended_by` is there.
    pub(super) fn missing(&mut self, field: &str, mended_by: &[&'static str], problem: &str) {
        let fault = self.fault(field, problem);
        self.missing.push((mended_by.to_vec(), fault));
    }

    /// How many faults there are so far.
    pub(super) fn faults(&self) -> usize {
        self.wrong.len() + self.missing.len()
    }

    /// A text.
    pub(super) fn text(&mut self, field: &'static str, write: &str) -> Option<&'v str> {
        self.read(field, write, Value::as_str)
    }

    /// A text that must be there.
    pub(super) fn required_text(&mut self, field: &'static str, write: &str) -> Option<&'v str> {
        self.require(field, write);
        self.text(field, write)
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, field: &'static str) -> Option<bool> {
        self.read(field, "true or false, without quotes", Value::as_bool)
    }

    /// A whole number within `range`.
    pub(super) fn whole(&mut self, field: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let write = whole_number(&range);
        self.read(field, &write, |value| {
            value.as_i64().filter(|number| range.contains(number))
        })
    }

    /// A whole number within `range` that must be there.
    pub(super) fn required_whole(
        &mut self,
        field: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<i64> {
        self.require(field, &whole_number(&range));
        self.whole(field, range)
    }

    /// A list.
    pub(super) fn list(&mut self, field: &'static str, write: &str) -> Option<&'v [Value]> {
        self.read(field, write, |value| value.as_array().map(Vec::as_slice))
    }

    /// An object.
    pub(super) fn object(
        &mut self,
        field: &'static str,
        write: &str,
    ) -> Option<&'v Map<String, Value>> {
        self.read(field, write, Value::as_object)
    }

    /// Whether the field stands there, be it right or wrong.
    pub(super) fn has(&self, field: &str) -> bool {
        self.object.get(field).is_some_and(|value| !value.is_null())
    }

    /// The fields that were asked for.
    pub(super) fn asked(&self) -> &[&'static str] {
        &self.asked
    }

    /// Every fault, those of fields that nobody asked for among them.
    pub(super) fn finish(mut self) -> Vec<Refusal> {
        let asked = self.asked.clone();
        let unknown: Vec<_> = self
            .object
            .keys()
            .filter(|name| !asked.contains(&name.as_str()))
            .map(|name| (name.as_str(), nearest(name, asked.iter().copied())))
            .collect();
        for (name, near) in &unknown {
            let known = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("the fields are {}", asked.join(", ")),
            };
            self.wrong(
                &shown_text(name),
                format!("there is no such field; {known}"),
            );
        }
        let meant = |field: &&str| unknown.iter().any(|(_, near)| *near == Some(*field));
        let missing = std::mem::take(&mut self.missing);
        let missing = missing
            .into_iter()
            .filter(|(mended_by, _)| !mended_by.iter().any(meant));
        missing.map(|(_, fault)| fault).chain(self.wrong).collect()
    }

    fn require(&mut self, field: &'static str, write: &str) {
        if !self.has(field) {
            self.missing(field, &[field], &format!("it is missing; write {write}"));
        }
    }

    fn read<T>(
        &mut self,
        field: &'static str,
        write: &str,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Option<T> {
        self.asked.push(field);
        let value = self.object.get(field).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.wrong(field, format!("{}; write {write}", shown(value)));
        }
        read
    }

    fn fault(&self, field: &str, problem: &str) -> Refusal {
        match self.row {
            None => invalid(field, problem),
            Some((list, row)) => invalid(list, format!("row {row}, {field}: {problem}")),
        }
    }
}

fn whole_number(range: &RangeInclusive<i64>) -> String {
    match (*range.start(), *range.end()) {
        (i64::MIN, i64::MAX) => "a whole number without quotes, such as -3".to_owned(),
        (from, to) => format!("a whole number from {from} to {to}, without quotes"),
    }
}

/// What was found where something else should be.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "there is no value".to_owned(),
        Value::Bool(flag) => format!("{flag} is true or false"),
        Value::Number(number) if number.is_f64() => format!("{number} has a fraction"),
        Value::Number(number) => format!("{number} is a number"),
        Value::String(text) => format!("{:?} is a text", shown_text(text)),
        Value::Array(_) => "it is a list".to_owned(),
        Value::Object(_) => "it is an object".to_owned(),
    }
}

/// The beginning of a text, where it is long.
fn shown_text(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

pub(super) fn invalid(field: &str, problem: impl Into<String>) -> Refusal {
    Refusal::InvalidRequest {
        field: field.to_owned(),
        problem: problem.into(),
    }
}
