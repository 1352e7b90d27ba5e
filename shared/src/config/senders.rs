//! Who may call the webhook, and for which groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use toml::de::DeValue;
use wildmatch::WildMatch;

use super::section::{Section, text};
use super::{Defaults, is_secret_arn};
use crate::domain::near::instead;
use crate::domain::offset::GroupId;

/// What a sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderKind {
    /// Prometheus Alertmanager's webhook, version 4.
    Alertmanager,
    /// A contact point of Grafana's own alerting.
    Grafana,
    /// One alert as a plain JSON object, for everything else.
    Json,
    /// An operator's requests: for a rewind, or to guard.
    Operator,
}

impl SenderKind {
    const ALL: [Self; 4] = [
        Self::Alertmanager,
        Self::Grafana,
        Self::Json,
        Self::Operator,
    ];

    /// Its name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alertmanager => "alertmanager",
            Self::Grafana => "grafana",
            Self::Json => "json",
            Self::Operator => "operator",
        }
    }
}

/// What a sender may name: a group, or all that a pattern matches.
#[derive(Clone, PartialEq)]
pub enum Allowed {
    /// The group of exactly this name, whatever letters it has.
    Group(GroupId),
    /// Every group that it matches.
    Pattern(WildMatch),
}

impl Allowed {
    /// Whether `group` is one of them.
    #[must_use]
    pub fn allows(&self, group: &GroupId) -> bool {
        match self {
            Self::Group(name) => name == group,
            Self::Pattern(glob) => glob.matches(&group.0),
        }
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(name) => write!(f, "{}", name.0),
            Self::Pattern(glob) => write!(f, "{glob}"),
        }
    }
}

/// How the alerts of a sender are read, and how many runs they may start.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertRules {
    /// The label (of [`SenderKind::Json`]: the field) that holds the cluster's name in this file.
    pub cluster_label: String,
    /// The label or field that holds the group.
    pub group_label: String,
    /// How long the end of a run covers alerts that had begun before it, in seconds. Shorter than the interval at which
    /// the sender repeats an alert, so that a repetition is never lost.
    pub cooldown_seconds: u32,
    /// How many runs its alerts may start in a minute. What is more is to be sent again.
    pub runs_per_minute: u32,
}

/// One sender.
#[derive(Debug, Clone, PartialEq)]
pub struct Sender {
    /// Its name in this file, and in its path.
    pub name: String,
    /// What it sends.
    pub kind: SenderKind,
    /// The ARN of its bearer secret.
    pub secret: String,
    /// How long the secret before the current one is still accepted, in seconds since the current one was made.
    pub previous_secret_seconds: u32,
    /// The only cluster that it speaks of.
    pub cluster: Option<String>,
    /// What of the configured groups it may name.
    pub groups: Vec<Allowed>,
    /// How many requests an operator may make in a minute.
    pub requests_per_minute: u32,
    /// `Some` for everything but an operator.
    pub alerts: Option<AlertRules>,
}

/// How many requests an operator may make in a minute, where the file does not say.
const REQUESTS_PER_MINUTE: u32 = 30;

impl Sender {
    /// A person whom the issuer knows and who asks as an operator does: for any configured group, and by no secret.
    #[must_use]
    pub fn person(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: SenderKind::Operator,
            secret: String::new(),
            previous_secret_seconds: 0,
            cluster: None,
            groups: vec![Allowed::Pattern(WildMatch::new("*"))],
            requests_per_minute: REQUESTS_PER_MINUTE,
            alerts: None,
        }
    }

    /// Whether it may name this group.
    #[must_use]
    pub fn may_name(&self, cluster: &str, group: &GroupId) -> bool {
        let of_cluster = self.cluster.as_ref().is_none_or(|only| only == cluster);
        of_cluster && self.groups.iter().any(|allowed| allowed.allows(group))
    }
}

/// Every sender of the file, by name.
pub(super) fn senders(file: &mut Section<'_>, defaults: &Defaults) -> BTreeMap<String, Sender> {
    let mut secrets = BTreeSet::new();
    file.sections("senders", "a table a sender: [senders.NAME]")
        .into_iter()
        .filter_map(|(name, section)| {
            let sender = sender(name, section, defaults, &mut secrets)?;
            Some((name.to_owned(), sender))
        })
        .collect()
}

/// One sender. `secrets` holds those of the senders before it.
fn sender(
    name: &str,
    mut section: Section<'_>,
    defaults: &Defaults,
    secrets: &mut BTreeSet<String>,
) -> Option<Sender> {
    let in_a_path = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(in_a_path) {
        section.wrong_here(
            "a sender's name stands in its path; write letters, digits, - and _, at most 64",
        );
    }
    let kind = kind(&mut section);
    let secret = section.required(
        "secret",
        "the ARN of a secret in Secrets Manager",
        |value| {
            text(value)
                .filter(|arn| is_secret_arn(arn))
                .map(str::to_owned)
        },
    );
    if secret
        .as_ref()
        .is_some_and(|arn| !secrets.insert(arn.clone()))
    {
        section.wrong(
            "secret",
            "another sender has it already, and could not be told from this one; write one of its own",
        );
    }
    let previous_secret_seconds = section
        .number("previous_secret_seconds", 0..=604_800)
        .unwrap_or(3_600);
    let cluster = cluster(&mut section, defaults);
    let groups = section.required(
        "groups",
        "a list of names and patterns: groups = [\"shipment-sync\", \"billing-*\"]",
        |value| allowed(value, &defaults.names),
    );
    let requests_per_minute = match kind {
        // Where the kind is not known, no key of any kind is called unknown.
        Some(SenderKind::Operator) | None => section.number("requests_per_minute", 1..=1_000),
        Some(_) => None,
    };
    let alerts = match kind {
        Some(SenderKind::Operator) => None,
        kind => Some(alert_rules(&mut section, kind)),
    };
    section.finish();
    Some(Sender {
        name: name.to_owned(),
        kind: kind?,
        secret: secret?,
        previous_secret_seconds,
        cluster,
        groups: groups?,
        requests_per_minute: requests_per_minute.unwrap_or(REQUESTS_PER_MINUTE),
        alerts,
    })
}

fn kind(section: &mut Section<'_>) -> Option<SenderKind> {
    let names = || SenderKind::ALL.iter().map(|kind| kind.name());
    let write = "kind = \"alertmanager\", \"grafana\", \"json\" or \"operator\"";
    let written = section.required("kind", write, text)?;
    let kind = SenderKind::ALL
        .into_iter()
        .find(|kind| kind.name() == written);
    if kind.is_none() {
        let problem = format!("no such kind; {}", instead(written, names(), "write"));
        section.wrong("kind", problem);
    }
    kind
}

fn cluster(section: &mut Section<'_>, defaults: &Defaults) -> Option<String> {
    let write = "the only cluster that it speaks of: cluster = \"NAME\"";
    let cluster = section.optional("cluster", write, text)?;
    let known = || defaults.clusters.iter().map(String::as_str);
    if !known().any(|name| name == cluster) {
        let problem = format!("no such cluster; {}", instead(cluster, known(), "write"));
        section.wrong("cluster", problem);
    }
    Some(cluster.to_owned())
}

/// `configured` are the groups in the file by name: what is one of these is no pattern, whatever letters it has.
fn allowed<'t>(value: &'t DeValue<'t>, configured: &BTreeSet<String>) -> Option<Vec<Allowed>> {
    let names = value.as_array()?.iter().map(|name| text(name.get_ref()));
    let names: BTreeSet<&str> = names.collect::<Option<_>>()?;
    let allowed = names.into_iter().map(|name| {
        if configured.contains(name) || !name.contains(['*', '?']) {
            Allowed::Group(GroupId(name.to_owned()))
        } else {
            Allowed::Pattern(WildMatch::new(name))
        }
    });
    Some(allowed.collect()).filter(|allowed: &Vec<_>| !allowed.is_empty())
}

fn alert_rules(section: &mut Section<'_>, kind: Option<SenderKind>) -> AlertRules {
    let label = |section: &mut Section<'_>, key, default: &str| {
        section
            .optional(key, "the name of a label of the alerts", text)
            .unwrap_or(default)
            .to_owned()
    };
    let group_by_default = match kind {
        Some(SenderKind::Json) => "group",
        _ => "consumergroup",
    };
    let cooldown_seconds = section
        .number("cooldown_seconds", 0..=86_400)
        .unwrap_or(900);
    let repeat_interval_seconds = section
        .number("repeat_interval_seconds", 1..=2_592_000)
        .unwrap_or(14_400);
    if cooldown_seconds >= repeat_interval_seconds {
        section.wrong(
            "cooldown_seconds",
            format!(
                "{cooldown_seconds} s would cover the next repetition of an alert too; write less than \
                 repeat_interval_seconds, which is {repeat_interval_seconds}"
            ),
        );
    }
    AlertRules {
        cluster_label: label(section, "cluster_label", "cluster"),
        group_label: label(section, "group_label", group_by_default),
        cooldown_seconds,
        runs_per_minute: section.number("runs_per_minute", 1..=1_000).unwrap_or(20),
    }
}
