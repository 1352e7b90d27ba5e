//! The one configuration file: which clusters and groups there are, and how each group is to be treated.
//!
//! A request names a cluster and a group of this file and nothing else: no address, no secret and no topic ever comes
//! from outside. The file is TOML; `infra/config/offset-guard.toml` is a commented example of all of it.
//!
//! An exact group name wins over every pattern; of several patterns that match, the first in the file wins.

mod guard;
mod section;
mod senders;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use url::Url;
use wildmatch::WildMatch;

pub use self::section::ConfigError;
use self::section::{Report, Section, text};
pub use self::senders::{AlertRules, Allowed, Sender, SenderKind};
use crate::domain::fleet::PatternGroups;
use crate::domain::near::{instead, nearest};
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::policy::GroupPolicy;

/// The waiting task times out after 3600 s; the last minute is left for delivering a late decision.
const LONGEST_APPROVAL: u32 = 3_540;
/// Waiting for the group to be Empty is polling, and an execution's history ends at 25,000 events.
const LONGEST_APPLY: u32 = 21_600;

/// How Offset Guard proves to the brokers who it is. What is secret about it is not here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// Neither encryption nor authentication.
    Plaintext,
    /// Encryption alone.
    Tls,
    /// SASL/PLAIN over TLS; the secret holds `username` and `password`.
    SaslPlain,
    /// SASL/SCRAM-SHA-256 over TLS; the secret holds `username` and `password`.
    ScramSha256,
    /// SASL/SCRAM-SHA-512 over TLS (what MSK calls SASL/SCRAM); the secret holds `username` and `password`.
    ScramSha512,
    /// A client certificate; the secret holds `certificate` and `private_key`, both PEM.
    Mtls,
    /// MSK's IAM access control: a token signed with the function's own role, and no secret.
    MskIam {
        /// The cluster's AWS region.
        region: String,
    },
}

impl AuthKind {
    /// Whether it needs a secret.
    #[must_use]
    pub fn needs_secrets(&self) -> bool {
        match self {
            Self::Plaintext | Self::Tls | Self::MskIam { .. } => false,
            Self::SaslPlain | Self::ScramSha256 | Self::ScramSha512 | Self::Mtls => true,
        }
    }
}

/// ARNs of JSON secrets in Secrets Manager, one a role, so that what only reads cannot alter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleSecrets {
    /// For reading: DESCRIBE on the groups and their topics.
    pub read: String,
    /// For guard: the same, READ on the topics and WRITE on the quarantine topic.
    pub guard: String,
    /// For applying: READ on the groups and their topics.
    pub apply: String,
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Its name in this file.
    pub name: String,
    /// Brokers to begin with, each `host:port`.
    pub bootstrap_servers: Vec<String>,
    /// The only cluster id that is accepted from these brokers.
    pub cluster_id: Option<ClusterId>,
    /// How to authenticate.
    pub auth: AuthKind,
    /// Where the credentials are; `Some` exactly where [`AuthKind::needs_secrets`].
    pub secrets: Option<RoleSecrets>,
    /// A REST Proxy (Confluent v3 API), asked as a second, read-only source.
    pub rest_proxy_url: Option<Url>,
}

/// A configured group, with all that applies to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedGroup<'c> {
    /// Its cluster.
    pub cluster: &'c ClusterConfig,
    /// How it is treated.
    pub policy: GroupPolicy,
    /// Lower-case hexadecimal SHA-256 over the policy and over where and how the cluster is reached, secrets left out:
    /// a plan made under another one is stale, and a rotated secret makes no plan stale.
    pub config_hash: String,
}

#[derive(Debug)]
enum Selector {
    Name(GroupId),
    Pattern(WildMatch),
}

/// How many groups of a pattern one run looks at, where the file does not say.
const MAX_GROUPS: usize = 200;

#[derive(Debug)]
struct GroupEntry {
    cluster: String,
    selector: Selector,
    /// How many groups of a pattern one run looks at.
    max_groups: usize,
    policy: GroupPolicy,
}

/// The file, read and found right.
#[derive(Debug)]
pub struct Config {
    clusters: BTreeMap<String, ClusterConfig>,
    groups: Vec<GroupEntry>,
    senders: BTreeMap<String, Sender>,
    hash: String,
}

/// Everything that is wrong with the file, in its order. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("failed to read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that cannot be meant.
    #[error("the configuration {} is wrong", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All of it.
        source: ConfigErrors,
    },
}

impl Config {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|source| LoadError::Invalid {
            path: path.to_owned(),
            source,
        })
    }

    /// Checks the text of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it; where the text is no TOML, that alone.
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        let report = Report::new(text);
        let (document, syntax) = DeTable::parse_recoverable(text);
        for error in &syntax {
            report.add(&error.span().unwrap_or_default(), "", error.message());
        }
        if !syntax.is_empty() {
            return Err(ConfigErrors(report.into_errors()));
        }

        let mut file = Section::new(&report, "", 0..0, document.get_ref());
        let clusters: BTreeMap<_, _> = file
            .sections("clusters", "a table a cluster: [clusters.NAME]")
            .into_iter()
            .filter_map(|(name, section)| Some((name.to_owned(), cluster(name, section)?)))
            .collect();
        let errors_before = report.count();
        let defaults = file.section("policy", "a table: [policy]").map_or_else(
            GroupPolicy::default,
            |mut section| {
                let policy = policy(&mut section, &GroupPolicy::default(), true);
                section.finish();
                policy
            },
        );
        let mut defaults = Defaults {
            names: BTreeSet::new(),
            policy: defaults,
            right: report.count() == errors_before,
            // By the file, not by what could be read of it: a broken cluster is still the one that is meant.
            clusters: document
                .get_ref()
                .get("clusters")
                .and_then(|value| value.get_ref().as_table())
                .map(|table| table.keys().map(|key| key.get_ref().to_string()).collect())
                .unwrap_or_default(),
        };
        let groups = groups(&mut file, &defaults);
        defaults.names = groups
            .iter()
            .filter_map(|entry| match &entry.selector {
                Selector::Name(name) => Some(name.0.clone()),
                Selector::Pattern(_) => None,
            })
            .collect();
        let senders = senders::senders(&mut file, &defaults);
        let in_file = |key: &str| document.get_ref().get(key).map(Spanned::get_ref);
        if in_file("clusters").is_none_or(|v| v.as_table().is_some_and(DeTable::is_empty)) {
            file.wrong(
                "clusters",
                "there is no cluster; write [clusters.NAME] with bootstrap_servers and auth",
            );
        }
        if in_file("groups").is_none_or(|v| v.as_array().is_some_and(|groups| groups.is_empty())) {
            file.wrong(
                "groups",
                "there is no group; write [[groups]] with name = \"GROUP\" or pattern = \"PREFIX*\"",
            );
        }
        file.finish();

        let errors = report.into_errors();
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }
        Ok(Self {
            clusters,
            groups,
            senders,
            hash: HEXLOWER.encode(&Sha256::digest(text)),
        })
    }

    /// Lower-case hexadecimal SHA-256 of the file's text.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Every cluster, by name.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterConfig> {
        self.clusters.values()
    }

    /// The cluster of that name. Where no name is given and there is exactly one cluster, that one is meant.
    #[must_use]
    pub fn cluster(&self, name: Option<&str>) -> Option<&ClusterConfig> {
        match name {
            Some(name) => self.clusters.get(name),
            None if self.clusters.len() == 1 => self.clusters.values().next(),
            None => None,
        }
    }

    /// Every sender, by name.
    pub fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.senders.values()
    }

    /// The sender of that name.
    #[must_use]
    pub fn sender(&self, name: &str) -> Option<&Sender> {
        self.senders.get(name)
    }

    /// All that applies to a group; `None` if it is not configured.
    #[must_use]
    pub fn resolve(&self, cluster: &str, group: &GroupId) -> Option<ResolvedGroup<'_>> {
        let cluster = self.clusters.get(cluster)?;
        let entry = self.entry(&cluster.name, group)?;
        Some(ResolvedGroup {
            cluster,
            policy: entry.policy.clone(),
            config_hash: config_hash(cluster, &entry.policy),
        })
    }

    /// The groups of a cluster that are configured by their exact names, in the order of the file.
    pub fn configured_groups(&self, cluster: &str) -> impl Iterator<Item = &GroupId> {
        self.of(cluster).filter_map(|entry| match &entry.selector {
            Selector::Name(name) => Some(name),
            Selector::Pattern(_) => None,
        })
    }

    /// The group's name that is nearest to one that is not configured, of those in the file by name that `may_name` allows.
    #[must_use]
    pub fn nearest_group(
        &self,
        cluster: &str,
        written: &GroupId,
        may_name: impl Fn(&GroupId) -> bool,
    ) -> Option<&GroupId> {
        let groups: Vec<_> = self
            .configured_groups(cluster)
            .filter(|group| may_name(group))
            .collect();
        let near = nearest(&written.0, groups.iter().map(|group| group.0.as_str()))?;
        groups.into_iter().find(|group| group.0 == near)
    }

    /// Those of `groups` that are configured by a pattern, by the pattern that counts for each, in the order of the file.
    #[must_use]
    pub fn by_pattern(
        &self,
        cluster: &str,
        groups: impl IntoIterator<Item = GroupId>,
    ) -> Vec<PatternGroups> {
        let mut patterns = Vec::new();
        let mut of = BTreeMap::new();
        for (place, entry) in self.groups.iter().enumerate() {
            if let (true, Selector::Pattern(glob)) = (entry.cluster == cluster, &entry.selector) {
                of.insert(place, patterns.len());
                patterns.push(PatternGroups {
                    pattern: glob.to_string(),
                    max_groups: entry.max_groups,
                    groups: BTreeSet::new(),
                });
            }
        }
        for group in groups {
            let place = self.place(cluster, &group);
            let pattern = place.and_then(|place| of.get(&place));
            if let Some(pattern) = pattern.and_then(|pattern| patterns.get_mut(*pattern)) {
                pattern.groups.insert(group);
            }
        }
        patterns
    }

    /// Whether a group is configured, by its name or by a pattern.
    #[must_use]
    pub fn matches(&self, cluster: &str, group: &GroupId) -> bool {
        self.entry(cluster, group).is_some()
    }

    fn of(&self, cluster: &str) -> impl Iterator<Item = &GroupEntry> {
        self.groups
            .iter()
            .filter(move |entry| entry.cluster == cluster)
    }

    fn entry(&self, cluster: &str, group: &GroupId) -> Option<&GroupEntry> {
        self.groups.get(self.place(cluster, group)?)
    }

    /// Which entry counts for a group: the one with its name, or the first whose pattern it matches.
    fn place(&self, cluster: &str, group: &GroupId) -> Option<usize> {
        let position = |matches: &dyn Fn(&Selector) -> bool| {
            let mut entries = self.groups.iter();
            entries.position(|entry| entry.cluster == cluster && matches(&entry.selector))
        };
        let exact = |selector: &Selector| matches!(selector, Selector::Name(name) if name == group);
        let globbed = |selector: &Selector| matches!(selector, Selector::Pattern(glob) if glob.matches(&group.0));
        position(&exact).or_else(|| position(&globbed))
    }
}

/// What the groups of a file inherit.
struct Defaults {
    policy: GroupPolicy,
    /// Whether `[policy]` was right, so that its errors are not said again for every group.
    right: bool,
    clusters: Vec<String>,
    /// The groups that are configured by their names, on whichever cluster.
    names: BTreeSet<String>,
}

fn config_hash(cluster: &ClusterConfig, policy: &GroupPolicy) -> String {
    #[derive(Serialize)]
    struct Applies<'a> {
        cluster: &'a str,
        bootstrap_servers: &'a [String],
        cluster_id: Option<&'a ClusterId>,
        auth: &'a AuthKind,
        policy: &'a GroupPolicy,
    }
    let applies = Applies {
        cluster: &cluster.name,
        bootstrap_servers: &cluster.bootstrap_servers,
        cluster_id: cluster.cluster_id.as_ref(),
        auth: &cluster.auth,
        policy,
    };
    // As a `Value`, which cannot fail where a struct of texts and numbers is concerned, keys sorted.
    let canonical = serde_json::json!(applies).to_string();
    HEXLOWER.encode(&Sha256::digest(canonical))
}

fn cluster(name: &str, mut section: Section<'_>) -> Option<ClusterConfig> {
    let bootstrap_servers = section.required(
        "bootstrap_servers",
        "a list of host:port: bootstrap_servers = [\"broker-1:9092\"]",
        |value| {
            let servers = value.as_array()?.iter();
            let servers = servers.map(|server| host_and_port(server.get_ref()));
            servers
                .collect::<Option<Vec<_>>>()
                .filter(|servers| !servers.is_empty())
        },
    );
    let cluster_id = section
        .optional(
            "cluster_id",
            "the id that the brokers say: cluster_id = \"...\"",
            text,
        )
        .map(|id| ClusterId(id.to_owned()));
    let auth = auth(&mut section);
    let secrets = secrets(&mut section, auth.as_ref());
    let rest_proxy_url = section.optional(
        "rest_proxy_url",
        "an http:// or https:// address without credentials: rest_proxy_url = \"https://rest-proxy:8082\"",
        |value| {
            let url = Url::parse(value.as_str()?).ok()?;
            let bare = url.username().is_empty() && url.password().is_none();
            (matches!(url.scheme(), "http" | "https") && url.has_host() && bare).then_some(url)
        },
    );
    section.finish();
    Some(ClusterConfig {
        name: name.to_owned(),
        bootstrap_servers: bootstrap_servers?,
        cluster_id,
        auth: auth?,
        secrets,
        rest_proxy_url,
    })
}

fn host_and_port(server: &DeValue<'_>) -> Option<String> {
    let (host, port) = server.as_str()?.rsplit_once(':')?;
    let named =
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == ',' || c == '/');
    (named && port.parse::<u16>().ok()? != 0).then(|| format!("{host}:{port}"))
}

fn auth(section: &mut Section<'_>) -> Option<AuthKind> {
    const BARE: [(&str, AuthKind); 6] = [
        ("plaintext", AuthKind::Plaintext),
        ("tls", AuthKind::Tls),
        ("sasl_plain", AuthKind::SaslPlain),
        ("scram_sha_256", AuthKind::ScramSha256),
        ("scram_sha_512", AuthKind::ScramSha512),
        ("mtls", AuthKind::Mtls),
    ];
    const IAM: &str = "auth = { msk_iam = { region = \"eu-west-1\" } }";
    let write = "auth = \"scram_sha_512\", another kind by its name, or ".to_owned() + IAM;
    let value = section.required("auth", &write, |value| {
        (value.is_str() || value.is_table()).then_some(value)
    })?;
    if let Some(kind) = value.as_str() {
        let known = BARE.into_iter().find(|(name, _)| *name == kind);
        if known.is_none() {
            let problem = if kind == "msk_iam" {
                format!("it needs the region; write {IAM}")
            } else {
                let names = BARE.iter().map(|(name, _)| *name);
                format!(
                    "no such kind; {}",
                    instead(kind, names, &format!("write {IAM}, or"))
                )
            };
            section.wrong("auth", problem);
        }
        return known.map(|(_, kind)| kind);
    }
    let mut kinds = section.section("auth", IAM)?;
    let mut iam = if kinds.has("msk_iam") {
        kinds.section("msk_iam", IAM)
    } else {
        kinds.wrong_here(format!("`msk_iam` is missing; write {IAM}"));
        kinds.value("msk_iam");
        None
    };
    let region = iam.as_mut().and_then(|iam| {
        iam.required("region", "region = \"eu-west-1\"", |value| {
            text(value).filter(|region| {
                region
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            })
        })
    });
    if let Some(iam) = iam {
        iam.finish();
    }
    kinds.finish();
    Some(AuthKind::MskIam {
        region: region?.to_owned(),
    })
}

fn secrets(section: &mut Section<'_>, auth: Option<&AuthKind>) -> Option<RoleSecrets> {
    const WRITE: &str = "secrets = { read = \"arn:...\", guard = \"arn:...\", apply = \"arn:...\" }, \
                         the same ARN again where roles share one";
    // Where the kind is wrong, nothing can be said of its secrets.
    let needed = auth.is_some_and(AuthKind::needs_secrets);
    if auth.is_some() && !needed && section.has("secrets") {
        section.wrong(
            "secrets",
            "this kind of auth uses none; leave it out, or write the kind of auth that is meant",
        );
    }
    if needed && !section.has("secrets") {
        section.wrong_here(format!("`secrets` is missing; write {WRITE}"));
    }
    let mut secrets = section.section("secrets", WRITE)?;
    let mut arn = |role: &'static str| {
        secrets.required(role, "the ARN of a secret in Secrets Manager", |value| {
            text(value)
                .filter(|arn| is_secret_arn(arn))
                .map(str::to_owned)
        })
    };
    let (read, guard, apply) = (arn("read"), arn("guard"), arn("apply"));
    secrets.finish();
    Some(RoleSecrets {
        read: read?,
        guard: guard?,
        apply: apply?,
    })
}

fn is_secret_arn(text: &str) -> bool {
    text.starts_with("arn:") && text.contains(":secretsmanager:")
}

/// The policy that `section` makes of `base`, whose own faults are said elsewhere.
fn policy(section: &mut Section<'_>, base: &GroupPolicy, base_is_right: bool) -> GroupPolicy {
    let policy = GroupPolicy {
        wait_for_empty_seconds: section
            .number("wait_for_empty_seconds", 0..=LONGEST_APPLY)
            // 0 takes a wait back that `[policy]` sets: TOML has no way to say "none".
            .map_or(base.wait_for_empty_seconds, |wait| {
                (wait > 0).then_some(wait)
            }),
        settle_seconds: section
            .number("settle_seconds", 0..=LONGEST_APPLY)
            .unwrap_or(base.settle_seconds),
        drift_limit: section
            .number("drift_limit", 0..=u64::from(u32::MAX))
            .unwrap_or(base.drift_limit),
        approve_within_seconds: section
            .number("approve_within_seconds", 1..=LONGEST_APPROVAL)
            .unwrap_or(base.approve_within_seconds),
        apply_within_seconds: section
            .number("apply_within_seconds", 1..=LONGEST_APPLY)
            .unwrap_or(base.apply_within_seconds),
        keep_checkpoints: section
            .number("keep_checkpoints", 1..=u32::MAX)
            .unwrap_or(base.keep_checkpoints),
        min_history_seconds: section
            .number("min_history_seconds", 0..=u32::MAX)
            .unwrap_or(base.min_history_seconds),
        four_eyes: section
            .optional("four_eyes", "true or false", DeValue::as_bool)
            .unwrap_or(base.four_eyes),
        guard: guard::policy(section, &base.guard, base_is_right),
    };
    let rest = policy
        .wait_for_empty_seconds
        .map_or(0, |wait| wait.saturating_add(policy.settle_seconds));
    if base_is_right && policy.apply_within_seconds <= rest {
        section.wrong(
            "apply_within_seconds",
            format!(
                "{} s end before the group can have come to rest; write more than \
                 wait_for_empty_seconds and settle_seconds together, which are {rest}",
                policy.apply_within_seconds
            ),
        );
    }
    policy
}

fn groups(file: &mut Section<'_>, defaults: &Defaults) -> Vec<GroupEntry> {
    let mut seen = BTreeSet::new();
    file.array("groups", "a table a group: [[groups]]")
        .into_iter()
        .filter_map(|section| group(section, defaults, &mut seen))
        .collect()
}

/// One group. `seen` holds the cluster of those before it, and their name or pattern.
fn group(
    mut section: Section<'_>,
    defaults: &Defaults,
    seen: &mut BTreeSet<(String, &'static str, String)>,
) -> Option<GroupEntry> {
    let name = section.optional("name", "the group's exact name: name = \"GROUP\"", text);
    let pattern = section.optional("pattern", "a glob: pattern = \"PREFIX*\"", text);
    if let Some(called) = name.or(pattern) {
        section.rename(format!("{} ({called})", section.at()));
    }
    let is_glob = |text: &str| text.contains(['*', '?']);
    match (section.has("name"), section.has("pattern")) {
        (true, true) => section.wrong(
            "pattern",
            "a group has a name or a pattern; leave one of them out",
        ),
        (false, false) => section.wrong_here("write name = \"GROUP\" or pattern = \"PREFIX*\""),
        _ => {}
    }
    if let Some(Err(problem)) = name.map(|name| GroupId(name.to_owned()).check()) {
        section.wrong("name", problem.to_string());
    }
    if pattern.is_some_and(|pattern| !is_glob(pattern)) {
        section.wrong(
            "pattern",
            "a pattern has a * or a ?; for one group write name = \"...\"",
        );
    }

    let max_groups = section.number("max_groups", 1..=10_000);
    if name.is_some() && section.has("max_groups") {
        section.wrong(
            "max_groups",
            "a name is one group; leave it out, or write it beside a pattern",
        );
    }
    let cluster = group_cluster(&mut section, defaults);
    let policy = policy(&mut section, &defaults.policy, defaults.right);
    if defaults.right {
        guard::check(&section, &policy.guard);
    }
    let key = if name.is_some() { "name" } else { "pattern" };
    if let (Some(cluster), Some(called)) = (&cluster, name.or(pattern))
        && !seen.insert((cluster.clone(), key, called.to_owned()))
    {
        section.wrong(
            key,
            "it stands above already, and the first one counts; leave this one out",
        );
    }
    section.finish();
    let selector = match (name, pattern) {
        (Some(name), _) => Selector::Name(GroupId(name.to_owned())),
        (None, pattern) => Selector::Pattern(WildMatch::new(pattern?)),
    };
    Some(GroupEntry {
        cluster: cluster?,
        selector,
        max_groups: max_groups.unwrap_or(MAX_GROUPS),
        policy,
    })
}

fn group_cluster(section: &mut Section<'_>, defaults: &Defaults) -> Option<String> {
    const WRITE: &str = "cluster = \"NAME\", a name under [clusters]";
    let known = || defaults.clusters.iter().map(String::as_str);
    match (defaults.clusters.as_slice(), section.has("cluster")) {
        ([only], false) => {
            section.value("cluster");
            return Some(only.clone());
        }
        // The missing clusters are an error of their own.
        ([], false) => {
            section.value("cluster");
            return None;
        }
        _ => {}
    }
    let cluster = section.required("cluster", WRITE, text)?;
    if !known().any(|name| name == cluster) {
        let problem = format!("no such cluster; {}", instead(cluster, known(), "write"));
        section.wrong("cluster", problem);
        return None;
    }
    Some(cluster.to_owned())
}

#[cfg(test)]
mod tests;
