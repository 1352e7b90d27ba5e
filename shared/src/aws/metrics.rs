//! Numbers that alarms and dashboards watch, in CloudWatch's embedded metric format: a line of the log that CloudWatch
//! takes for metrics, so that a function needs no way to CloudWatch and waits for none.
//!
//! Crates for this keep a registry in the process, in which a group that is not read any more would live on. What is
//! written here is a function of one run alone.

use std::io::Write;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use strum::VariantNames;

use crate::environment;

pub mod guard;

/// Where the metrics stand.
pub const NAMESPACE: &str = "OffsetGuard";

/// Counts one if a guard run could read its group's offsets.
const GROUPS_SAMPLED: &str = "GroupsSampled";

/// Counts one if a guard run could not read its group's offsets.
const GROUPS_UNKNOWN: &str = "GroupsUnknown";

/// What CloudWatch takes for a dimension's value at most, in characters (CloudWatch API reference, `Dimension`).
const LONGEST_DIMENSION: usize = 1_024;

/// What is counted. `template.yaml` has an alarm of the same name for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
pub enum Metric {
    /// A message did not reach Slack.
    SlackNotDelivered,
    /// A run had no time for a group.
    GroupsNotReached,
    /// A pattern has more groups than one run looks at.
    PatternCapMet,
}

impl Metric {
    /// Its name in CloudWatch.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The names of everything that is told apart by function, which is what an alarm of the template can watch.
#[must_use]
pub fn names_by_function() -> Vec<&'static str> {
    [Metric::VARIANTS, &[GROUPS_SAMPLED, GROUPS_UNKNOWN]].concat()
}

/// Counts one.
pub fn count(metric: Metric) {
    count_many(metric, 1);
}

/// Counts so many at once.
pub fn count_many(metric: Metric, many: u64) {
    write(&Line::new(Timestamp::now()).by_function(&[(metric.name(), Unit::Count, many)]));
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Seconds,
    None,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Seconds => "Seconds",
            Self::None => "None",
        }
    }
}

/// One line (Embedded metric format specification, in the CloudWatch user guide).
struct Line {
    at: Timestamp,
    directives: Vec<Value>,
    fields: Map<String, Value>,
}

impl Line {
    fn new(at: Timestamp) -> Self {
        Self {
            at,
            directives: Vec::new(),
            fields: Map::new(),
        }
    }

    /// Adds numbers, told apart by some dimensions.
    fn with(
        mut self,
        dimensions: &[(&'static str, &str)],
        numbers: &[(&'static str, Unit, u64)],
    ) -> Self {
        let names: Vec<_> = dimensions.iter().map(|(name, _)| *name).collect();
        let metrics: Vec<_> = numbers
            .iter()
            .map(|(name, unit, _)| json!({ "Name": name, "Unit": unit.name() }))
            .collect();
        self.directives.push(json!({
            "Namespace": NAMESPACE,
            "Dimensions": [names],
            "Metrics": metrics,
        }));
        for (name, value) in dimensions {
            self.fields
                .insert((*name).to_owned(), dimension(value).into());
        }
        for (name, _, number) in numbers {
            self.fields.insert((*name).to_owned(), (*number).into());
        }
        self
    }

    /// Adds numbers, told apart by the function alone: what an alarm can name when it is deployed.
    fn by_function(self, numbers: &[(&'static str, Unit, u64)]) -> Self {
        let function = environment::optional("AWS_LAMBDA_FUNCTION_NAME");
        let function = function.as_deref().unwrap_or("local");
        self.with(&[("FunctionName", function)], numbers)
    }

    /// The line, said to be of `level`. In the JSON log format Lambda drops lines below the function's level, takes one
    /// without level or time for INFO, and changes nothing else of what a custom runtime writes.
    fn json(&self, level: &str) -> Value {
        let mut line = self.fields.clone();
        let declared = json!({
            "Timestamp": self.at.as_millisecond(),
            "CloudWatchMetrics": self.directives,
        });
        line.insert("_aws".to_owned(), declared);
        line.insert("level".to_owned(), level.into());
        line.insert("timestamp".to_owned(), format!("{:.3}", self.at).into());
        Value::Object(line)
    }
}

/// A dimension's value as CloudWatch takes it: ASCII without control characters, not blank, without a colon in front.
fn dimension(text: &str) -> String {
    let mut value = String::new();
    if text.trim().is_empty() || text.starts_with(':') {
        value.push('\\');
    }
    for c in text.chars() {
        let c = if c == ' ' || c.is_ascii_graphic() {
            c.to_string()
        } else {
            c.escape_unicode().to_string()
        };
        if value.len() + c.len() > LONGEST_DIMENSION {
            break;
        }
        value.push_str(&c);
    }
    value
}

fn write(line: &Line) {
    // At the lowest level that is let through, a metric is there whatever level the function logs at.
    let level = environment::optional("AWS_LAMBDA_LOG_LEVEL").unwrap_or("INFO".to_owned());
    let line = line.json(&level);
    // One write, so that no other line of the log comes in between. Nothing waits for a metric.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_all_that_its_declarations_name_and_passes_every_level() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let line = Line::new(at)
            .with(&[("FunctionName", "og")], &[("Lost", Unit::Count, 1)])
            .json("ERROR");
        assert_eq!(
            line.to_string(),
            r#"{"FunctionName":"og","Lost":1,"_aws":{"CloudWatchMetrics":[{"Dimensions":[["FunctionName"]],"Metrics":[{"Name":"Lost","Unit":"Count"}],"Namespace":"OffsetGuard"}],"Timestamp":1800000000000},"level":"ERROR","timestamp":"2027-01-15T08:00:00.000Z"}"#
        );
    }

    #[test]
    fn every_name_of_a_group_becomes_a_dimension_that_cloudwatch_takes() {
        assert_eq!(dimension("orders <eu> & 1"), "orders <eu> & 1");
        assert_eq!(dimension("é\n"), "\\u{e9}\\u{a}");
        assert_eq!(dimension(":x"), "\\:x");
        assert_eq!(dimension("  "), "\\  ");
        assert_eq!(dimension(""), "\\");
        let long = dimension(&"\u{10ffff}".repeat(500));
        assert!(long.len() <= LONGEST_DIMENSION && long.ends_with('}'));
    }
}
