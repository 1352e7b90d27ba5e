use std::fmt::Write as _;

use super::*;
use crate::domain::guard::policy::{
    GuardPolicy, HeaderSet, Isolation, RemediationAction, SkipOn, Validator,
};

const ONE_CLUSTER: &str = r#"
[clusters.local]
bootstrap_servers = ["127.0.0.1:9092"]
auth = "plaintext"
"#;

fn with_groups(groups: &str) -> Config {
    Config::parse(&format!("{ONE_CLUSTER}{groups}")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn resolved(config: &Config, group: &str) -> GroupPolicy {
    config
        .resolve("local", &GroupId(group.to_owned()))
        .unwrap()
        .policy
}

/// Files that are wrong, each with the text that says so. A change of wording shows as a change of one file.
#[test]
fn errors_name_the_place_and_what_to_write() {
    let files: &[(&str, &str)] = &[
        ("nothing at all", ""),
        ("nothing in it", "groups = []\n[clusters]\n"),
        (
            "not TOML",
            "[clusters.local\nauth = plaintext\n[[groups]]\nname = \"g\"\n",
        ),
        (
            "a key twice",
            "[policy]\nsettle_seconds = 1\nsettle_seconds = 2\n",
        ),
        (
            "unknown keys, near and far",
            "[clusters.a]\nbootstrap_server = [\"h:1\"]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [policies]\n[[groups]]\nname = \"g\"\nsettle_secs = 5\nowner = \"team\"\n",
        ),
        (
            "missing keys",
            "[clusters.a]\n[[groups]]\nsettle_seconds = 5\n",
        ),
        (
            "wrong types",
            "[clusters.a]\nbootstrap_servers = \"h:1\"\nauth = 5\ncluster_id = \"\"\nrest_proxy_url = 1\n\
             [policy]\nkeep_checkpoints = \"many\"\nsettle_seconds = 1.5\n[[groups]]\nname = [\"g\"]\n",
        ),
        (
            "tables where values belong, and values where tables do",
            "policy = 5\ngroups = 6\n[clusters]\na = 7\n",
        ),
        (
            "bootstrap servers that are no host:port",
            "[clusters.a]\nbootstrap_servers = [\"h\"]\nauth = \"tls\"\n\
             [clusters.b]\nbootstrap_servers = []\nauth = \"tls\"\n\
             [clusters.c]\nbootstrap_servers = [\"h:0\"]\nauth = \"tls\"\n\
             [clusters.d]\nbootstrap_servers = [\"h:1,i:2\"]\nauth = \"tls\"\n\
             [[groups]]\ncluster = \"a\"\nname = \"g\"\n",
        ),
        (
            "kinds of auth",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"scram_sha256\"\n\
             [clusters.b]\nbootstrap_servers = [\"h:1\"]\nauth = \"kerberos\"\n\
             [clusters.c]\nbootstrap_servers = [\"h:1\"]\nauth = \"msk_iam\"\n\
             [clusters.d]\nbootstrap_servers = [\"h:1\"]\nauth = { msk_iam = {} }\n\
             [clusters.e]\nbootstrap_servers = [\"h:1\"]\nauth = { msk_aim = { region = \"eu-west-1\" } }\n\
             [clusters.f]\nbootstrap_servers = [\"h:1\"]\nauth = { msk_iam = { region = \"eu west\", zone = 1 } }\n\
             [[groups]]\ncluster = \"a\"\nname = \"g\"\n",
        ),
        (
            "secrets",
            "[clusters.missing]\nbootstrap_servers = [\"h:1\"]\nauth = \"mtls\"\n\
             [clusters.needless]\nbootstrap_servers = [\"h:1\"]\nauth = \"plaintext\"\n\
             secrets = { read = \"arn:aws:secretsmanager:x:1:secret:r\", guard = \"arn:aws:secretsmanager:x:1:secret:g\", apply = \"arn:aws:secretsmanager:x:1:secret:a\" }\n\
             [clusters.pasted]\nbootstrap_servers = [\"h:1\"]\nauth = \"sasl_plain\"\n\
             secrets = { read = \"hunter2\", guards = \"arn:aws:secretsmanager:x:1:secret:g\" }\n\
             [[groups]]\ncluster = \"pasted\"\nname = \"g\"\n",
        ),
        (
            "a REST Proxy with credentials in its address, and one by another scheme",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\nrest_proxy_url = \"https://me:hunter2@proxy\"\n\
             [clusters.b]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\nrest_proxy_url = \"kafka://proxy\"\n\
             [[groups]]\ncluster = \"a\"\nname = \"g\"\n",
        ),
        (
            "policies out of bounds, said once",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [policy]\napprove_within_seconds = 3541\nkeep_checkpoints = 0\nsettle_seconds = -1\n\
             wait_for_empty_seconds = 21601\ndrift_limit = 99999999999\nmin_history_seconds = 4294967296\n\
             apply_within_seconds = 0\n\
             [[groups]]\nname = \"g\"\nwait_for_empty_seconds = 2100\n",
        ),
        (
            "too little time to apply, in the defaults and in a group",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [policy]\nwait_for_empty_seconds = 2040\n[[groups]]\nname = \"g\"\n",
        ),
        (
            "too little time to apply, in a group alone",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [[groups]]\nname = \"g\"\nwait_for_empty_seconds = 840\nsettle_seconds = 60\napply_within_seconds = 900\n",
        ),
        (
            "names and patterns",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [[groups]]\nname = \"g\"\npattern = \"h*\"\n\
             [[groups]]\nname = \"g-*\"\n\
             [[groups]]\npattern = \"exact\"\n\
             [[groups]]\nname = \"  \"\n\
             [[groups]]\nname = \"twice\"\n\
             [[groups]]\nname = \"twice\"\n\
             [[groups]]\npattern = \"t*\"\n\
             [[groups]]\npattern = \"t*\"\n",
        ),
        (
            "groups of no cluster",
            "[clusters.east]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [clusters.west]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [[groups]]\nname = \"g\"\n\
             [[groups]]\ncluster = \"wset\"\nname = \"g\"\n\
             [[groups]]\ncluster = \"production\"\nname = \"g\"\n",
        ),
        (
            "a guard's values",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [policy.guard]\nmin_samples = 0\nrebalance_grace_seconds = 61\nstall_seconds = 86401\ndry_run = \"no\"\n\
             remediation_action = \"SKIP_POISON_RECORDS\"\nisolation = 1\nskip_on = \"unlikely or not\"\n\
             quarantine_topic = \"a b\"\nmonitored_topics = [\n  \"orders\",\n  \"..\",\n  7,\n]\n\
             validators = [\"jsn\", \"avro-or-so\", \"max-bytes\", \"max-bytes:0\", \"json:5\"]\nheader_sets = [\"srping\"]\n\
             rewind_record_count = 0\nmax_records_per_plan = 0\nmax_skips_per_day = -1\nmax_poll_records = 0\n\
             deadlock_lag = 5\n\
             [[groups]]\nname = \"g\"\n",
        ),
        (
            "a guard that would keep records nowhere, and one that would watch what it keeps",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [policy.guard]\ndry_run = false\n\
             [[groups]]\nname = \"nowhere\"\n\
             [[groups]]\nname = \"nowhere-either\"\nguard = { skip_on = \"suspected\" }\n\
             [[groups]]\nname = \"somewhere\"\nguard = { quarantine_topic = \"q\" }\n\
             [[groups]]\nname = \"loses\"\nguard = { publish_to_dlq_topic = false }\n\
             [[groups]]\nname = \"rewinds\"\nguard = { remediation_action = \"REWIND_OFFSET\" }\n\
             [[groups]]\nname = \"itself\"\nguard = { quarantine_topic = \"q\", monitored_topics = [\"a\", \"q\"] }\n\
             [[groups]]\nname = \"no-table\"\nguard = true\n",
        ),
        (
            "a guard of the defaults that watches what it keeps, said once",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n\
             [policy]\nguard = { quarantine_topic = \"q\", monitored_topics = [\"q\"] }\n\
             [[groups]]\nname = \"g\"\nguard = { dry_run = true }\n",
        ),
        (
            "senders",
            "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"tls\"\n[[groups]]\nname = \"g\"\n\
             [senders.missing]\n\
             [senders.\"no/path\"]\nkind = \"json\"\nsecret = \"arn:aws:secretsmanager:x:1:secret:n\"\ngroups = [\"*\"]\n\
             [senders.pasted]\nkind = \"alert-manager\"\nsecret = \"hunter2\"\ngroups = []\n\
             [senders.late]\nkind = \"alertmanager\"\nsecret = \"arn:aws:secretsmanager:x:1:secret:l\"\ngroups = [\"g\"]\n\
             cooldown_seconds = 600\nrepeat_interval_seconds = 600\n\
             [senders.known]\nkind = \"grafana\"\nsecret = \"arn:aws:secretsmanager:x:1:secret:l\"\ngroups = [\"g\"]\n\
             cluster = \"b\"\ngroup_lable = \"group\"\nruns_per_minute = 0\n\
             [senders.oncall]\nkind = \"operator\"\nsecret = \"arn:aws:secretsmanager:x:1:secret:o\"\ngroups = [\"g\"]\n\
             cooldown_seconds = 5\nprevious_secret_seconds = 604801\n",
        ),
    ];
    let mut golden = String::new();
    for (what, file) in files {
        let errors = Config::parse(file).expect_err(what);
        writeln!(golden, "=== {what}\n{}\n---\n{errors}\n", file.trim_end()).unwrap();
    }
    insta::assert_snapshot!(golden);
}

#[test]
fn no_error_repeats_a_value_that_may_be_a_secret() {
    let file = "[clusters.a]\nbootstrap_servers = [\"h:1\"]\nauth = \"sasl_plain\"\n\
                secrets = { read = \"hunter2\", guard = \"hunter2\", apply = \"hunter2\" }\n\
                rest_proxy_url = \"https://u:hunter2@proxy\"\n[[groups]]\nname = \"g\"\n";
    let errors = Config::parse(file).unwrap_err();
    assert_eq!(errors.0.len(), 4, "{errors}");
    assert!(!errors.to_string().contains("hunter2"), "{errors}");
}

#[test]
fn the_example_is_right_and_shows_the_true_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/config/offset-guard.toml");
    let config = Config::load(path).unwrap();
    let staging = config
        .resolve("staging", &GroupId("anything".into()))
        .unwrap();
    assert_eq!(
        staging.policy,
        GroupPolicy {
            keep_checkpoints: 24,
            ..GroupPolicy::default()
        }
    );
    assert_eq!(
        staging.cluster.auth,
        AuthKind::MskIam {
            region: "eu-west-1".into()
        }
    );
    assert!(staging.cluster.secrets.is_none());
    assert_eq!(
        staging.cluster.rest_proxy_url.as_ref().map(Url::as_str),
        Some("https://rest-proxy.staging.example.com:8082/")
    );
    let production = config
        .resolve("production", &GroupId("shipment-sync".into()))
        .unwrap();
    assert_eq!(production.policy.wait_for_empty_seconds, Some(900));
    assert_eq!(production.policy.drift_limit, 500);
    assert_eq!(
        production.policy.guard,
        GuardPolicy {
            dry_run: false,
            quarantine_topic: Some("shipments.quarantine".to_owned()),
            isolation: Isolation::ReadCommitted,
            validators: vec![Validator::Json, Validator::MaxBytes(1_000_000)],
            ..GuardPolicy::default()
        }
    );
    let secrets = production.cluster.secrets.as_ref().unwrap();
    assert!(secrets.read.ends_with("read-AbCdEf") && secrets.apply.ends_with("apply-AbCdEf"));
    assert!(!config.matches("production", &GroupId("anything".into())));
    let kinds = config.senders().map(|sender| sender.kind.name());
    let kinds: BTreeSet<_> = kinds.collect();
    assert_eq!(kinds.len(), 4, "one of each kind: {kinds:?}");
    let alertmanager = config.sender("alertmanager").unwrap();
    let plain = config.sender("runbook").unwrap();
    assert_eq!(alertmanager.previous_secret_seconds, 3_600);
    assert_eq!(plain.previous_secret_seconds, 3_600);
    // What it writes out is what the other one leaves out, but for the label.
    let written = AlertRules {
        group_label: "group".to_owned(),
        ..alertmanager.alerts.clone().unwrap()
    };
    assert_eq!(plain.alerts.as_ref(), Some(&written));
}

#[test]
fn a_sender_may_name_what_its_table_names() {
    let config = with_groups(
        "[[groups]]\npattern = \"*\"\n[senders.s]\nkind = \"json\"\ngroups = [\"exact\", \"some-*\"]\n\
         secret = \"arn:aws:secretsmanager:x:1:secret:s\"\ncluster = \"local\"\n",
    );
    let sender = config.sender("s").unwrap();
    let may = |cluster, group: &str| sender.may_name(cluster, &GroupId(group.to_owned()));
    assert!(may("local", "exact") && may("local", "some-thing"));
    for other in ["exactly", "an-exact", "Some-thing", ""] {
        assert!(!may("local", other), "{other}");
    }
    assert!(!may("elsewhere", "exact"), "only of its cluster");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load("no/such/file.toml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to read the configuration no/such/file.toml"
    );
}

#[test]
fn an_exact_name_wins_over_patterns_and_the_first_pattern_over_later_ones() {
    let config = with_groups(
        r#"
        [[groups]]
        pattern = "a*"
        drift_limit = 1
        [[groups]]
        pattern = "ab?"
        drift_limit = 2
        [[groups]]
        name = "abc"
        drift_limit = 3
        "#,
    );
    let limit = |group| resolved(&config, group).drift_limit;
    assert_eq!(limit("abc"), 3);
    assert_eq!(limit("abd"), 1);
    assert_eq!(limit("a"), 1);
    for group in ["b", "A", "xabc", ""] {
        assert!(!config.matches("local", &GroupId(group.into())), "{group}");
    }
    assert_eq!(
        config.configured_groups("local").collect::<Vec<_>>(),
        [&GroupId("abc".into())]
    );
}

#[test]
fn a_name_is_exact_whatever_letters_it_has() {
    let config = with_groups(
        "[[groups]]\nname = \"jobs?v2\"\nkeep_checkpoints = 2\n\
         [[groups]]\nname = \"*bold*\"\nkeep_checkpoints = 3\n\
         [[groups]]\npattern = \"*bold*\"\nkeep_checkpoints = 4\n\
         [senders.exact]\nkind = \"operator\"\n\
         secret = \"arn:aws:secretsmanager:eu-west-1:111122223333:secret:exact\"\n\
         groups = [\"jobs?v2\"]\n\
         [senders.wide]\nkind = \"operator\"\n\
         secret = \"arn:aws:secretsmanager:eu-west-1:111122223333:secret:wide\"\n\
         groups = [\"jobs*\"]\n",
    );
    let named: Vec<_> = config
        .configured_groups("local")
        .map(|group| group.0.as_str())
        .collect();
    assert_eq!(named, ["jobs?v2", "*bold*"]);
    let kept = |group: &str| {
        let group = GroupId(group.to_owned());
        config
            .resolve("local", &group)
            .map(|found| found.policy.keep_checkpoints)
    };
    assert_eq!(kept("jobs?v2"), Some(2));
    assert_eq!(
        kept("jobs-v2"),
        None,
        "a question mark in a name is a letter"
    );
    assert_eq!(
        kept("*bold*"),
        Some(3),
        "the name wins over a pattern of the same letters"
    );
    assert_eq!(kept("embolden"), Some(4));
    let may_name = |sender: &str, group: &str| {
        let sender = config.sender(sender).unwrap();
        sender.may_name("local", &GroupId(group.to_owned()))
    };
    assert!(may_name("exact", "jobs?v2") && !may_name("exact", "jobs-v2"));
    assert!(may_name("wide", "jobs?v2") && may_name("wide", "jobs-v2"));
}

#[test]
fn a_name_that_no_key_can_hold_is_refused_and_the_longest_is_not() {
    let longest = "注".repeat(333);
    let config = with_groups(&format!("[[groups]]\nname = \"{longest}\"\n"));
    assert!(config.matches("local", &GroupId(longest.clone())));
    let text = format!("{}[[groups]]\nname = \"{longest}注\"\n", ONE_CLUSTER);
    let errors = Config::parse(&text).unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    assert!(
        errors
            .to_string()
            .contains("a group's name of 1,002 bytes cannot be kept"),
        "{errors}"
    );
}

#[test]
fn the_nearest_name_is_one_of_those_that_may_be_named() {
    let config =
        with_groups("[[groups]]\nname = \"OrderService\"\n[[groups]]\nname = \"billing\"\n");
    let near = |written: &str, only: &str| {
        let near = config.nearest_group("local", &GroupId(written.to_owned()), |group| {
            only.is_empty() || group.0 == only
        });
        near.map(|group| group.0.as_str())
    };
    assert_eq!(near("orderservice", ""), Some("OrderService"));
    assert_eq!(near("biling", ""), Some("billing"));
    assert_eq!(near("orderservice", "billing"), None);
    assert_eq!(near("something-else", ""), None);
}

#[test]
fn groups_are_parted_by_the_pattern_that_counts_for_them() {
    let config = with_groups(
        r#"
        [[groups]]
        pattern = "a*"
        max_groups = 3
        [[groups]]
        pattern = "*"
        [[groups]]
        name = "abc"
        "#,
    );
    let ids = |names: &[&str]| names.iter().map(|name| GroupId((*name).into())).collect();
    let all: Vec<_> = ids(&["abc", "abd", "b", "a"]);
    let patterns = config.by_pattern("local", all);
    let parted: Vec<_> = patterns
        .into_iter()
        .map(|of| (of.pattern, of.max_groups, of.groups))
        .collect();
    assert_eq!(
        parted,
        [
            ("a*".to_owned(), 3, ids(&["a", "abd"]).into_iter().collect()),
            ("*".to_owned(), 200, ids(&["b"]).into_iter().collect()),
        ]
    );
    assert_eq!(config.by_pattern("elsewhere", ids(&["b"])), []);
}

#[test]
fn only_a_pattern_has_a_most_of_groups() {
    let errors = Config::parse(
        r#"
        [clusters.local]
        bootstrap_servers = ["localhost:9092"]
        auth = "plaintext"
        [[groups]]
        name = "abc"
        max_groups = 3
        "#,
    );
    let text = errors.unwrap_err().to_string();
    assert!(text.contains("a name is one group"), "{text}");
}

#[test]
fn a_group_belongs_to_one_cluster() {
    let config = Config::parse(
        r#"
        [clusters.east]
        bootstrap_servers = ["h:1"]
        auth = "tls"
        [clusters.west]
        bootstrap_servers = ["h:1"]
        auth = "tls"
        [[groups]]
        cluster = "east"
        name = "g"
        [[groups]]
        cluster = "west"
        name = "g"
        drift_limit = 5
        [[groups]]
        cluster = "west"
        pattern = "w*"
        "#,
    )
    .unwrap();
    let group = GroupId("g".into());
    let limit = |cluster| config.resolve(cluster, &group).unwrap().policy.drift_limit;
    assert_eq!(limit("east"), 10_000);
    assert_eq!(limit("west"), 5);
    assert!(config.resolve("north", &group).is_none());
    assert!(!config.matches("east", &GroupId("w1".into())));
    assert!(config.matches("west", &GroupId("w1".into())));
    assert_eq!(config.clusters().count(), 2);
    assert!(
        config.cluster(None).is_none(),
        "two clusters: none is meant"
    );
    assert_eq!(config.cluster(Some("west")).unwrap().name, "west");
}

#[test]
fn the_only_cluster_is_meant_where_none_is_named() {
    let config = with_groups("[[groups]]\nname = \"g\"\n");
    assert_eq!(config.cluster(None).unwrap().name, "local");
    assert!(config.cluster(Some("other")).is_none());
    assert!(config.matches("local", &GroupId("g".into())));
}

#[test]
fn a_group_can_take_back_a_wait_that_the_defaults_set() {
    let config = with_groups(
        "[policy]\nwait_for_empty_seconds = 600\n[[groups]]\nname = \"waits\"\n\
         [[groups]]\nname = \"does-not\"\nwait_for_empty_seconds = 0\n",
    );
    assert_eq!(resolved(&config, "waits").wait_for_empty_seconds, Some(600));
    assert_eq!(resolved(&config, "does-not").wait_for_empty_seconds, None);
}

#[test]
fn the_longest_times_allowed_are_allowed() {
    let config = with_groups(
        "[[groups]]\nname = \"g\"\napprove_within_seconds = 3540\nwait_for_empty_seconds = 839\n\
         settle_seconds = 60\napply_within_seconds = 900\nkeep_checkpoints = 1\n",
    );
    let policy = resolved(&config, "g");
    assert_eq!(policy.approve_within_seconds, 3540);
    assert_eq!(policy.apply_within_seconds, 900);
    assert_eq!(policy.keep_checkpoints, 1);
}

#[test]
fn a_guard_inherits_key_by_key() {
    let config = with_groups(
        r#"
        [policy.guard]
        remediation_action = "REWIND_OFFSET"
        quarantine_topic = "all.quarantine"
        monitored_topics = ["orders"]
        validators = ["json", "utf8", "schema-registry", "max-bytes:4294967295"]
        header_sets = ["connect", "spring"]
        min_samples = 12
        [[groups]]
        name = "inherits"
        [[groups]]
        name = "changes"
        guard = { min_samples = 1, validators = [], monitored_topics = [], external_offsets = true }
        [[groups]]
        name = "all"
        [groups.guard]
        deadlock_lag_threshold = 0
        rebalance_grace_seconds = 60
        remediation_action = "AUDIT_ONLY"
        rewind_record_count = 1000000
        quarantine_topic = "q_1.a-B"
        publish_to_dlq_topic = false
        dry_run = false
        monitored_topics = ["a", "b"]
        min_samples = 2
        stall_seconds = 0
        max_skips_per_day = 0
        isolation = "read_uncommitted"
        skip_on = "suspected"
        max_records_per_plan = 500
        rejected_for_seconds = 7776000
        validators = ["max-bytes:1"]
        max_poll_records = 1
        external_offsets = true
        header_sets = ["spring"]
        "#,
    );
    let defaults = GuardPolicy {
        remediation_action: RemediationAction::RewindOffset,
        quarantine_topic: Some("all.quarantine".to_owned()),
        monitored_topics: vec!["orders".to_owned()],
        validators: vec![
            Validator::Json,
            Validator::Utf8,
            Validator::SchemaRegistry,
            Validator::MaxBytes(u32::MAX),
        ],
        header_sets: vec![HeaderSet::Connect, HeaderSet::Spring],
        min_samples: 12,
        ..GuardPolicy::default()
    };
    let of = |group| resolved(&config, group).guard;
    assert_eq!(of("inherits"), defaults);
    assert_eq!(
        of("changes"),
        GuardPolicy {
            min_samples: 1,
            validators: vec![],
            monitored_topics: vec![],
            external_offsets: true,
            ..defaults
        }
    );
    assert_eq!(
        of("all"),
        GuardPolicy {
            deadlock_lag_threshold: 0,
            rebalance_grace_seconds: 60,
            remediation_action: RemediationAction::AuditOnly,
            rewind_record_count: 1_000_000,
            quarantine_topic: Some("q_1.a-B".to_owned()),
            publish_to_dlq_topic: false,
            dry_run: false,
            monitored_topics: vec!["a".to_owned(), "b".to_owned()],
            min_samples: 2,
            stall_seconds: 0,
            max_skips_per_day: 0,
            isolation: Isolation::ReadUncommitted,
            skip_on: SkipOn::Suspected,
            max_records_per_plan: 500,
            rejected_for_seconds: 7_776_000,
            validators: vec![Validator::MaxBytes(1)],
            max_poll_records: Some(1),
            external_offsets: true,
            header_sets: vec![HeaderSet::Spring],
        }
    );
}

/// What decides what happens to a group is in its hash; a secret, a comment and another group are not.
#[test]
fn the_hash_of_a_group_covers_what_applies_to_it_and_no_more() {
    let file = |servers: &str, auth: &str, more: &str, group: &str| {
        Config::parse(&format!(
            "[clusters.a]\nbootstrap_servers = [\"{servers}\"]\nauth = {auth}\n{more}\n[[groups]]\nname = \"g\"\n{group}\n"
        ))
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    let hash = |config: &Config| {
        config
            .resolve("a", &GroupId("g".into()))
            .unwrap()
            .config_hash
    };
    let secrets = |name: &str| {
        let arn = format!("arn:aws:secretsmanager:x:1:secret:{name}");
        format!("secrets = {{ read = \"{arn}\", guard = \"{arn}\", apply = \"{arn}\" }}")
    };
    let base = file("h:1", "\"sasl_plain\"", &secrets("one"), "");
    let same = [
        file("h:1", "\"sasl_plain\"", &secrets("two"), ""),
        file("h:1", "\"sasl_plain\"", &secrets("one"), "# a comment"),
        file(
            "h:1",
            "\"sasl_plain\"",
            &secrets("one"),
            "settle_seconds = 60",
        ),
        file(
            "h:1",
            "\"sasl_plain\"",
            &secrets("one"),
            "[[groups]]\nname = \"other\"",
        ),
    ];
    for config in &same {
        assert_eq!(hash(config), hash(&base));
        assert_ne!(config.hash(), base.hash());
    }
    let pinned = secrets("one") + "\ncluster_id = \"c\"";
    let others = [
        file("h:2", "\"sasl_plain\"", &secrets("one"), ""),
        file("h:1", "\"scram_sha_512\"", &secrets("one"), ""),
        file("h:1", "\"sasl_plain\"", &pinned, ""),
        file("h:1", "\"sasl_plain\"", &secrets("one"), "drift_limit = 1"),
        file(
            "h:1",
            "\"sasl_plain\"",
            &secrets("one"),
            "guard = { stall_seconds = 1 }",
        ),
        file("h:1", "{ msk_iam = { region = \"eu-west-1\" } }", "", ""),
        file("h:1", "{ msk_iam = { region = \"eu-west-2\" } }", "", ""),
    ];
    let mut hashes: BTreeSet<_> = others.iter().map(hash).collect();
    hashes.insert(hash(&base));
    assert_eq!(hashes.len(), others.len() + 1);
}
