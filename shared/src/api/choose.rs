//! From labels to configured groups, and to nothing else.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::body::Alert;
use super::fault::ApiFault;
use crate::config::{AlertRules, Config, Sender};
use crate::domain::offset::GroupId;

/// The groups to be looked at, each with when the newest of its alerts began, and why the other alerts name none.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) groups: BTreeMap<(String, GroupId), Option<Timestamp>>,
    pub(super) problems: Vec<ApiFault>,
}

/// Which groups the alerts of a sender are about.
pub(super) fn groups(
    config: &Config,
    sender: &Sender,
    rules: &AlertRules,
    alerts: &[Alert],
) -> Chosen {
    let mut chosen = Chosen::default();
    for alert in alerts {
        let label = |name: &str| alert.labels.get(name).map(String::as_str);
        let group = label(&rules.group_label);
        let cluster = label(&rules.cluster_label);
        let named = match group {
            Some(group) => permitted(config, sender, cluster, group),
            None => Err(ApiFault::NoGroup {
                problem: format!(
                    "an alert has no label {:?}; add it, or name another one as group_label in the configuration",
                    rules.group_label
                ),
            }),
        };
        match named {
            Ok(group) => {
                let newest = chosen.groups.entry(group).or_default();
                *newest = alert.since.max(*newest);
            }
            Err(problem) => chosen.problems.push(problem),
        }
    }
    chosen
}

/// A name as an answer repeats it: in quotes, and cut where it is long.
pub(super) fn shown(name: &str) -> String {
    const SHOWN: usize = 100;
    match name.char_indices().nth(SHOWN) {
        None => format!("{name:?}"),
        Some((end, _)) => format!("{:?}", format!("{}…", &name[..end])),
    }
}

/// The configured group of these names, if the sender may name it.
pub(super) fn permitted(
    config: &Config,
    sender: &Sender,
    cluster: Option<&str>,
    group: &str,
) -> Result<(String, GroupId), ApiFault> {
    let no_group = |problem: String| ApiFault::NoGroup { problem };
    let named = GroupId(group.to_owned());
    named.check().map_err(|error| no_group(error.to_string()))?;
    // What the sender's table says stands over what an alert calls its cluster.
    let cluster = sender.cluster.as_deref().or(cluster);
    let Some(cluster) = config.cluster(cluster) else {
        return Err(no_group(match cluster {
            None => "several clusters are configured; name one of them".to_owned(),
            Some(_) => "no cluster of this name is configured; write a name under [clusters], or set the sender's \
                        cluster in the configuration"
                .to_owned(),
        }));
    };
    if !config.matches(&cluster.name, &named) {
        // Nobody hears of a group that the sender may not name.
        let near = config.nearest_group(&cluster.name, &named, |group| {
            sender.may_name(&cluster.name, group)
        });
        let instead = match near {
            Some(near) => format!("did you mean {:?}?", near.0),
            None => "write a configured one".to_owned(),
        };
        return Err(no_group(format!(
            "group {} of cluster {} is not configured; {instead}",
            shown(group),
            cluster.name
        )));
    }
    if !sender.may_name(&cluster.name, &named) {
        return Err(ApiFault::NotAllowed {
            group: group.to_owned(),
        });
    }
    Ok((cluster.name.clone(), named))
}
