//! What senders write: Alertmanager's and Grafana's notifications, and plain JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::Problem;
use crate::config::{AlertRules, SenderKind};

/// How many alerts one notification may have.
const MOST_ALERTS: usize = 500;

/// A firing alert: what it says of itself, and when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alert {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) since: Option<Timestamp>,
}

/// A notification as Alertmanager and Grafana write it. What is not named here is not looked at, since newer versions
/// add fields.
#[derive(Deserialize)]
struct Notification {
    version: String,
    alerts: Vec<Notified>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notified {
    status: Status,
    labels: BTreeMap<String, String>,
    starts_at: Timestamp,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Firing,
    Resolved,
}

/// The firing alerts of a body.
pub(super) fn firing(
    kind: SenderKind,
    rules: &AlertRules,
    text: &str,
) -> Result<Vec<Alert>, Problem> {
    match kind {
        SenderKind::Alertmanager => notification(text, "4"),
        SenderKind::Grafana => notification(text, "1"),
        SenderKind::Json | SenderKind::Operator => plain(rules, text),
    }
}

/// Reads JSON, or says what is wrong with it.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| Problem::Body(error.to_string()))
}

fn notification(text: &str, version: &str) -> Result<Vec<Alert>, Problem> {
    let notification: Notification = json(text)?;
    if notification.version != version {
        return Err(Problem::Body(format!(
            "the body has another version than {version:?}; leave the sender's own format as it is, or make the \
             sender one of kind \"json\""
        )));
    }
    if notification.alerts.len() > MOST_ALERTS {
        return Err(Problem::TooMany);
    }
    let firing = notification.alerts.into_iter();
    let firing = firing.filter(|alert| alert.status == Status::Firing);
    let firing = firing.map(|alert| Alert {
        labels: alert.labels,
        since: Some(alert.starts_at),
    });
    Ok(firing.collect())
}

/// One alert as a JSON object: the fields that name cluster and group, and `status` and `starts_at` where there are any.
fn plain(rules: &AlertRules, text: &str) -> Result<Vec<Alert>, Problem> {
    let mut fields: Map<String, Value> = json(text)?;
    let mut field = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::Body(format!("{name}: write a text"))),
    };
    let labels: Vec<(String, Option<String>)> = vec![
        (rules.cluster_label.clone(), field(&rules.cluster_label)?),
        (rules.group_label.clone(), field(&rules.group_label)?),
    ];
    let status = field("status")?;
    let since = match field("starts_at")? {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Problem::Body(
                "starts_at: write an RFC 3339 instant with a zone, such as 2026-11-30T10:00:00Z"
                    .to_owned(),
            )
        })?),
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(Problem::Body(format!(
            "{unknown:?} is no field here; write {:?}, {:?}, \"status\" and \"starts_at\"",
            rules.cluster_label, rules.group_label
        )));
    }
    match status.as_deref() {
        None | Some("firing") => Ok(vec![Alert {
            labels: labels
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
            since,
        }]),
        Some("resolved") => Ok(Vec::new()),
        Some(_) => Err(Problem::Body(
            "status: write \"firing\" or \"resolved\", or leave it out".to_owned(),
        )),
    }
}
