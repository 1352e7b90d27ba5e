//! Secrets from Secrets Manager, kept for a few minutes.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::SdkError;
use tokio::sync::Mutex;

use crate::error::ErrorClass;

/// How long a value is used before it is read again. Short enough for a rotation, long enough for an invocation.
const KEPT: Duration = Duration::from_secs(300);

/// A secret value. It shows itself to nobody who does not ask by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A secret could not be read. Its value is in no error.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The call failed.
    #[error("Secrets Manager gave no value for {arn}: {code}")]
    Unreadable {
        /// The secret's ARN, which is no secret.
        arn: String,
        /// The error's code.
        code: String,
        /// Whether another try may help.
        transient: bool,
    },
    /// The secret holds something else than what is needed.
    #[error("secret {arn} is not usable: {problem}")]
    Unusable {
        /// The secret's ARN.
        arn: String,
        /// What is needed.
        problem: String,
    },
}

impl SecretsError {
    /// What can be done about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreadable {
                transient: true, ..
            } => ErrorClass::Transient,
            Self::Unreadable { .. } | Self::Unusable { .. } => ErrorClass::Internal,
        }
    }
}

/// A version of a secret, by the label that a rotation moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Current,
    Previous,
}

impl Stage {
    const fn name(self) -> &'static str {
        match self {
            Self::Current => "AWSCURRENT",
            Self::Previous => "AWSPREVIOUS",
        }
    }
}

/// What was read, and when; a version need not exist.
type Kept = (Instant, Option<Secret>);

/// Reads secrets by ARN.
#[derive(Debug)]
pub struct Secrets {
    client: Client,
    kept: Mutex<HashMap<(String, Stage), Kept>>,
}

impl Secrets {
    /// A reader over `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            kept: Mutex::new(HashMap::new()),
        }
    }

    /// The secret's current value.
    ///
    /// # Errors
    /// There is none to be had.
    pub async fn get(&self, arn: &str) -> Result<Secret, SecretsError> {
        let value = self.read(arn, Stage::Current).await?;
        value.ok_or_else(|| SecretsError::Unusable {
            arn: arn.to_owned(),
            problem: "it holds no text".to_owned(),
        })
    }

    /// The value that the current one replaced, where there was one.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn previous(&self, arn: &str) -> Result<Option<Secret>, SecretsError> {
        self.read(arn, Stage::Previous).await
    }

    async fn read(&self, arn: &str, stage: Stage) -> Result<Option<Secret>, SecretsError> {
        // Held across the call: two callers need not ask twice.
        let mut kept = self.kept.lock().await;
        let key = (arn.to_owned(), stage);
        if let Some((read_at, secret)) = kept.get(&key)
            && read_at.elapsed() < KEPT
        {
            return Ok(secret.clone());
        }
        let call = self.client.get_secret_value().secret_id(arn);
        let secret = match call.version_stage(stage.name()).send().await {
            Ok(value) => value.secret_string.map(Secret),
            Err(error) => {
                let service = error.as_service_error();
                let code = service.and_then(|error| error.meta().code());
                if stage == Stage::Previous && code == Some("ResourceNotFoundException") {
                    None
                } else {
                    return Err(SecretsError::Unreadable {
                        arn: arn.to_owned(),
                        transient: !matches!(error, SdkError::ServiceError(_)),
                        code: code.unwrap_or("no answer").to_owned(),
                    });
                }
            }
        };
        kept.insert(key, (Instant::now(), secret.clone()));
        Ok(secret)
    }
}
