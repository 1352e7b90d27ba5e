//! What the use cases need of an AWS, where nothing is deployed.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
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
pub fn sdk(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

/// A new table.
///
/// # Errors
/// DynamoDB refuses.
pub async fn table(sdk: &SdkConfig, name: &str) -> Result<Store> {
    let client = aws_sdk_dynamodb::Client::new(sdk);
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
    Ok(Store::new(DynamoTable::new(client, name.to_owned())))
}

/// The ARN of a new state machine that does nothing, for whoever starts executions of which nothing is wanted.
///
/// # Errors
/// Step Functions refuses.
pub async fn state_machine(sdk: &SdkConfig, name: &str) -> Result<String> {
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
