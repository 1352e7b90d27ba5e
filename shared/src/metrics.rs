//! Counts that alarms watch, in CloudWatch's embedded metric format: a line of the log that CloudWatch takes for a
//! metric, so that a function needs no way to CloudWatch and waits for none.

use std::io::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::env;

/// Where the metrics stand.
const NAMESPACE: &str = "OffsetGuard";

/// What is counted. `template.yaml` has an alarm of the same name for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// A message did not reach Slack.
    SlackNotDelivered,
}

impl Metric {
    /// Its name in CloudWatch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SlackNotDelivered => "SlackNotDelivered",
        }
    }
}

/// Counts one.
pub fn count(metric: Metric) {
    let function = env::optional("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
    let line = line(metric, &function, Timestamp::now());
    // One write, so that no other line of the log comes in between. Nothing waits for a count.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// The line (Embedded metric format specification, in the CloudWatch user guide). It is told of by function.
fn line(metric: Metric, function: &str, at: Timestamp) -> Value {
    json!({
        "_aws": {
            "Timestamp": at.as_millisecond(),
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [["FunctionName"]],
                "Metrics": [{ "Name": metric.name(), "Unit": "Count" }],
            }],
        },
        "FunctionName": function,
        metric.name(): 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_metric_with_all_that_its_declaration_names() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let line = line(Metric::SlackNotDelivered, "og-approval-task", at);
        assert_eq!(
            line.to_string(),
            r#"{"FunctionName":"og-approval-task","SlackNotDelivered":1,"_aws":{"CloudWatchMetrics":[{"Dimensions":[["FunctionName"]],"Metrics":[{"Name":"SlackNotDelivered","Unit":"Count"}],"Namespace":"OffsetGuard"}],"Timestamp":1800000000000}}"#
        );
    }
}
