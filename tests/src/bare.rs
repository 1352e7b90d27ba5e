//! The parts of a local AWS that the use cases need, where nothing is deployed.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use aws_sdk_sfn::error::DisplayErrorContext;
use offset_guard::store::{DynamoTable, Store};
use offset_guard_local::aws::REGION;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A state machine that does nothing.
const NOTHING: &str =
    r#"{"StartAt": "Nothing", "States": {"Nothing": {"Type": "Pass", "End": true}}}"#;

/// How to reach the local AWS at `endpoint`.
#[must_use]
pub fn local_sdk(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

/// Creates a table with the keys of the template.
///
/// # Errors
/// DynamoDB refuses.
pub async fn create_table(client: &Client, name: &str) -> Result<Store> {
    let mut create = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest);
    for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        let key = KeySchemaElement::builder().attribute_name(name);
        create = create
            .attribute_definitions(attribute.attribute_type(ScalarAttributeType::S).build()?)
            .key_schema(key.key_type(kind).build()?);
    }
    create.send().await?;
    Ok(Store::new(DynamoTable::new(
        client.clone(),
        name.to_owned(),
    )))
}

/// Creates a state machine that does nothing, for tests that start executions and want nothing of them, and returns its
/// ARN.
///
/// # Errors
/// Step Functions refuses.
pub async fn create_state_machine(sdk: &SdkConfig, name: &str) -> Result<String> {
    let created = aws_sdk_sfn::Client::new(sdk)
        .create_state_machine()
        .name(name)
        .role_arn("arn:aws:iam::000000000000:role/nothing")
        .definition(NOTHING)
        .send()
        .await
        .map_err(|error| DisplayErrorContext(&error).to_string())?;
    Ok(created.state_machine_arn)
}
