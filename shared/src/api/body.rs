//! What senders write: Alertmanager's and Grafana's notifications, and plain JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fault::ApiFault;
use crate::config::{AlertRules, SenderKind};
use crate::domain::near::instead;

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
) -> Result<Vec<Alert>, ApiFault> {
    match kind {
        SenderKind::Alertmanager => notification(text, "4"),
        SenderKind::Grafana => notification(text, "1"),
        SenderKind::Json | SenderKind::Operator => plain(rules, text),
    }
}

/// Reads JSON, or says where it is none and where it is not of the form that is looked for.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T, ApiFault> {
    // First as JSON alone, so that what comes behind it is no JSON either.
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        ApiFault::Body(format!(
            "the body is no JSON at line {line}, column {column}; write a JSON object"
        ))
    })?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        ApiFault::Body(match error.path().to_string().as_str() {
            "." => "the body is not of the form that this sender writes, or a part of it is missing; leave the sender's \
                    own format as it is"
                .to_owned(),
            path => format!(
                "{path} is not of the form that this sender writes, or a part of it is missing; leave the sender's own \
                 format as it is"
            ),
        })
    })
}

fn notification(text: &str, version: &str) -> Result<Vec<Alert>, ApiFault> {
    let notification: Notification = json(text)?;
    if notification.version != version {
        return Err(ApiFault::Body(format!(
            "the body has another version than {version:?}; leave the sender's own format as it is, or make the \
             sender one of kind \"json\""
        )));
    }
    if notification.alerts.len() > MOST_ALERTS {
        return Err(ApiFault::TooMany);
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
fn plain(rules: &AlertRules, text: &str) -> Result<Vec<Alert>, ApiFault> {
    let mut fields: Map<String, Value> = json(text)?;
    let mut field = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiFault::Body(format!("{name}: write a text in quotes"))),
    };
    let labels: Vec<(String, Option<String>)> = vec![
        (rules.cluster_label.clone(), field(&rules.cluster_label)?),
        (rules.group_label.clone(), field(&rules.group_label)?),
    ];
    let status = field("status")?;
    let since = match field("starts_at")? {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            ApiFault::Body(
                "starts_at: write an RFC 3339 instant with a zone, such as 2026-11-30T10:00:00Z"
                    .to_owned(),
            )
        })?),
    };
    if let Some(unknown) = fields.keys().next() {
        let known = [
            &rules.cluster_label,
            &rules.group_label,
            "status",
            "starts_at",
        ];
        let instead = instead(unknown, known.into_iter(), "the fields are");
        return Err(ApiFault::Body(format!(
            "{unknown:?} is no field here; {instead}"
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
        Some(_) => Err(ApiFault::Body(
            "status: write \"firing\" or \"resolved\", or leave it out".to_owned(),
        )),
    }
}
