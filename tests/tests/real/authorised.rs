//! A stack whose brokers have an authorizer.

use offset_guard_local::stack::{BOOTSTRAP, CLUSTER_ID, Stack, StackOptions};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, World};

/// Two names of one cluster: one to be asked group by group, one to be run as a whole.
const WATCHED: &str = r#"
[clusters.main]
bootstrap_servers = ["@BOOTSTRAP@"]
auth = "plaintext"

[clusters.whole]
bootstrap_servers = ["@BOOTSTRAP@"]
cluster_id = "@CLUSTER_ID@"
auth = "plaintext"

[[groups]]
cluster = "main"
pattern = "test-*"
settle_seconds = 2

[[groups]]
cluster = "whole"
name = "orders-sync"

[[groups]]
cluster = "whole"
name = "no-such-group"

[[groups]]
cluster = "whole"
pattern = "app-*"
"#;

pub(crate) fn watched(properties: &[(&str, &str)]) -> StackOptions {
    let mut options = StackOptions {
        config: WATCHED
            .replace("@BOOTSTRAP@", BOOTSTRAP)
            .replace("@CLUSTER_ID@", CLUSTER_ID),
        ..StackOptions::default()
    };
    let properties = properties.iter().copied();
    options.kafka.properties = properties
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    options
}

/// A stack whose brokers ask an authorizer: what nobody was given rights to, everybody may do; else only who was.
pub(crate) async fn authorised() -> Result<World, Box<dyn std::error::Error>> {
    let options = watched(&[
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("allow.everyone.if.no.acl.found", "true"),
    ]);
    World::of(Stack::shared(&options).await?, CLASSIC_ON_4)
}

/// Gives `operation` on a topic or group to `principal`, and so takes every other one from everybody else.
pub(crate) async fn allow(
    world: &World,
    principal: &str,
    operation: &str,
    on: [&str; 2],
) -> Outcome {
    acl(world, &["--add"], principal, operation, on).await
}

pub(crate) async fn acl(
    world: &World,
    action: &[&str],
    principal: &str,
    operation: &str,
    on: [&str; 2],
) -> Outcome {
    let who = ["--allow-principal", principal, "--operation", operation];
    let args = [action, &who, &on].concat();
    let output = world.stack.cli()?.acls(&args).await?;
    if output.success {
        return Ok(());
    }
    Err(format!("{}{}", output.stdout, output.stderr).into())
}
