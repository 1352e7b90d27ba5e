//! Reads tables of the file key by key, and keeps everything that is wrong with them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::domain::near::instead;

/// One thing that is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// The table and the key; empty for the file as a whole.
    pub at: String,
    /// What is wrong and what to write instead.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.problem)
    }
}

/// Collects what is wrong, so that one run shows all of it.
pub(super) struct Report<'t> {
    text: &'t str,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            errors: RefCell::default(),
        }
    }

    pub(super) fn add(
        &self,
        span: &Range<usize>,
        at: impl Into<String>,
        problem: impl Into<String>,
    ) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        self.errors.borrow_mut().push(ConfigError {
            line: before.matches('\n').count() + 1,
            at: at.into(),
            problem: problem.into(),
        });
    }

    pub(super) fn count(&self) -> usize {
        self.errors.borrow().len()
    }

    /// All errors, in the order of the file.
    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| error.line);
        errors
    }
}

/// One table while it is read. The keys that are asked for are the keys that it may have.
pub(super) struct Section<'t> {
    report: &'t Report<'t>,
    at: String,
    span: Range<usize>,
    table: &'t DeTable<'t>,
    asked: BTreeSet<&'static str>,
}

impl<'t> Section<'t> {
    pub(super) fn new(
        report: &'t Report<'t>,
        at: impl Into<String>,
        span: Range<usize>,
        table: &'t DeTable<'t>,
    ) -> Self {
        Self {
            report,
            at: at.into(),
            span,
            table,
            asked: BTreeSet::new(),
        }
    }

    /// Where this table is, as errors call it.
    pub(super) fn at(&self) -> &str {
        &self.at
    }

    /// Calls this table by a better name from now on.
    pub(super) fn rename(&mut self, at: String) {
        self.at = at;
    }

    fn path(&self, key: &str) -> String {
        if self.at.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.at)
        }
    }

    /// The value of `key`, if the table has it.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.asked.insert(key);
        self.table.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reports a problem with the value of `key`.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.report.add(&span, self.path(key), problem);
    }

    /// Reports a problem with the table as a whole.
    pub(super) fn wrong_here(&self, problem: impl Into<String>) {
        self.report.add(&self.span, &*self.at, problem);
    }

    /// The value of a key that has to be there, converted by `read`; `write` says what a right one looks like.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        write: &str,
        read: impl FnOnce(&'t DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        if !self.has(key) {
            self.asked.insert(key);
            self.wrong_here(format!("`{key}` is missing; write {write}"));
        }
        self.optional(key, write, read)
    }

    /// The value of a key that may be left out, converted by `read`.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        write: &str,
        read: impl FnOnce(&'t DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value.get_ref());
        if read.is_none() {
            // The value itself is not repeated: a secret may have been pasted where its name belongs.
            self.wrong(key, format!("write {write}"));
        }
        read
    }

    /// A whole number within `range`.
    pub(super) fn number<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let write = format!("a whole number from {} to {}", range.start(), range.end());
        self.optional(key, &write, |value| {
            let digits = value.as_integer()?;
            let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok()?;
            T::try_from(number).ok().filter(|n| range.contains(n))
        })
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.optional(key, "true or false", DeValue::as_bool)
    }

    /// One of a few values, by its name.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, known: &[(&str, T)]) -> Option<T> {
        let names = || known.iter().map(|(name, _)| *name);
        let quoted: Vec<_> = names().map(|name| format!("\"{name}\"")).collect();
        let word = self.optional(key, &quoted.join(" or "), DeValue::as_str)?;
        let value = known.iter().find(|(name, _)| *name == word);
        if value.is_none() {
            let problem = format!("no such value; {}", instead(word, names(), "write"));
            self.wrong(key, problem);
        }
        value.map(|(_, value)| *value)
    }

    /// A list of texts, each converted by `read`, which says what is wrong with one.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        write: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let array = self.optional(key, write, DeValue::as_array)?;
        let at = self.path(key);
        let mut list = Vec::new();
        for (index, value) in array.iter().enumerate() {
            let read = match value.get_ref().as_str() {
                Some(text) => read(text),
                None => Err(format!("write {write}")),
            };
            match read {
                Ok(read) => list.push(read),
                Err(problem) => {
                    let at = format!("{at}[{}]", index + 1);
                    self.report.add(&value.span(), at, problem);
                }
            }
        }
        Some(list)
    }

    /// The table under `key`.
    pub(super) fn section(&mut self, key: &'static str, write: &str) -> Option<Self> {
        let span = self.value(key)?.span();
        let table = self.optional(key, write, DeValue::as_table)?;
        Some(Self::new(self.report, self.path(key), span, table))
    }

    /// The tables under `key`, each with its name.
    pub(super) fn sections(&mut self, key: &'static str, write: &str) -> Vec<(&'t str, Self)> {
        let Some(tables) = self.optional(key, write, DeValue::as_table) else {
            return Vec::new();
        };
        let at = self.path(key);
        tables
            .iter()
            .filter_map(|(name, value)| {
                let at = format!("{at}.{}", name.get_ref());
                let Some(table) = value.get_ref().as_table() else {
                    self.report.add(&value.span(), at, format!("write {write}"));
                    return None;
                };
                let section = Self::new(self.report, at, value.span(), table);
                Some((&**name.get_ref(), section))
            })
            .collect()
    }

    /// The tables in the array under `key`.
    pub(super) fn array(&mut self, key: &'static str, write: &str) -> Vec<Self> {
        let Some(array) = self.optional(key, write, DeValue::as_array) else {
            return Vec::new();
        };
        let at = self.path(key);
        array
            .iter()
            .enumerate()
            .filter_map(|(index, value)| {
                let at = format!("{at}[{}]", index + 1);
                let Some(table) = value.get_ref().as_table() else {
                    self.report.add(&value.span(), at, format!("write {write}"));
                    return None;
                };
                Some(Self::new(self.report, at, value.span(), table))
            })
            .collect()
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let name = &**key.get_ref();
            if !self.asked.contains(name) {
                let known = self.asked.iter().copied();
                let problem = format!("unknown key; {}", instead(name, known, "a key here is"));
                self.report.add(&key.span(), self.path(name), problem);
            }
        }
    }
}

/// Text that is not empty.
pub(super) fn text<'t>(value: &'t DeValue<'t>) -> Option<&'t str> {
    value.as_str().filter(|text| !text.trim().is_empty())
}
