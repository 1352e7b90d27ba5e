//! Alerts: one run a group, however many alerts there are.

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::answer::Answer;
use super::body::firing;
use super::choose::{Chosen, groups};
use super::deps::WebhookDeps;
use super::fault::ApiFault;
use crate::app::hand_over::{HandedOver, NotHandedOver, RunAsked, hand_over_run};
use crate::config::{AlertRules, Sender};
use crate::domain::incident::Subject;
use crate::wire::guard::GuardEvent;

/// How many groups of one notification are seen to at once.
const AT_ONCE: usize = 8;

/// Takes a notification.
pub(super) async fn take_alerts(
    sender: &Sender,
    rules: &AlertRules,
    text: &str,
    deps: &WebhookDeps,
) -> Result<Answer, ApiFault> {
    let alerts = firing(sender.kind, rules, text)?;
    if alerts.is_empty() {
        let message = "no alert is firing, so there is nothing to look at";
        return Ok(Answer::new(200, "NOTHING_FIRING", message));
    }
    let Chosen {
        groups,
        mut problems,
    } = groups(&deps.config, sender, rules, &alerts);
    let refused = problems.len();
    if groups.is_empty()
        && let Some(problem) = problems.pop()
    {
        return Err(problem);
    }
    if refused > 0 {
        tracing::warn!(
            sender = sender.name,
            refused,
            "alerts name no group of their sender"
        );
    }
    let runs = groups
        .into_iter()
        .map(|((cluster, group), since)| RunAsked {
            sender: &sender.name,
            rules: Some(rules),
            subject: Subject::Group {
                cluster: cluster.clone(),
                group: group.clone(),
            },
            since,
            asked: None,
            event: GuardEvent {
                cluster: Some(cluster),
                group: Some(group.0),
                ..GuardEvent::default()
            },
        });
    let handed: Vec<Result<HandedOver, NotHandedOver>> = stream::iter(runs)
        .map(|run| hand_over_run(deps.handing_over(), run))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut incidents = Vec::new();
    let mut duplicates = 0_u32;
    for one in handed {
        match one? {
            HandedOver::Now { incident } => incidents.push(json!(incident)),
            HandedOver::Covered => duplicates += 1,
        }
    }
    let answer = if incidents.is_empty() {
        let message = "a run has it already, or had it a short while ago";
        Answer::new(200, "DUPLICATE", message)
    } else {
        Answer::new(202, "ACCEPTED", "guard looks at every group that is named")
    };
    Ok(answer
        .with("incidents", incidents)
        .with("duplicates", duplicates)
        .with("refused", refused))
}
