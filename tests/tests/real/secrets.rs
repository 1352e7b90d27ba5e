//! The secrets of a stack, which only its owner reads.

use offset_guard_tests::World;

use crate::asked::Result;

/// The ARN of the key that signs the approval page's forms.
pub(crate) async fn form_key_arn(world: &World) -> Result<String> {
    let secrets = aws_sdk_secretsmanager::Client::new(world.operator.sdk());
    let all = secrets.list_secrets().send().await?;
    let is_key = |text: &str| text.contains("form tokens");
    let key = all
        .secret_list()
        .iter()
        .find(|secret| secret.description().is_some_and(is_key))
        .and_then(|secret| secret.arn());
    Ok(key.ok_or("there is no form key")?.to_owned())
}

/// The key itself.
pub(crate) async fn form_key(world: &World) -> Result<String> {
    let secrets = aws_sdk_secretsmanager::Client::new(world.operator.sdk());
    let key = form_key_arn(world).await?;
    let value = secrets.get_secret_value().secret_id(key).send().await?;
    let text = value.secret_string().ok_or("the form key is no text")?;
    Ok(text.to_owned())
}
