//! Secrets from Secrets Manager, kept for a few minutes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::SdkError;
use jiff::Timestamp;
use tokio::sync::Mutex;

use crate::failure::ErrorClass;
pub use offset_guard_domain::secret::Secret;

/// How long a value is used before it is read again. Short enough for a rotation, long enough for an invocation.
pub const KEPT: Duration = Duration::from_secs(300);

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

/// One version of a secret.
#[derive(Debug, Clone)]
struct Version {
    secret: Secret,
    /// When it was made; what does not say so is as old as can be.
    created_at: Timestamp,
}

/// A secret and the one that it replaced, for as long as that is still in use somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotating {
    /// The current value.
    pub current: Secret,
    /// When it was made.
    pub since: Timestamp,
    /// The value before it, where there was one.
    pub previous: Option<Secret>,
}

/// What was read, and when; a version need not exist.
type Kept = (Instant, Option<Version>);

/// Reads secrets by ARN. Cheap to clone; clones share what they have read.
#[derive(Debug, Clone)]
pub struct Secrets {
    client: Client,
    kept: Arc<Mutex<HashMap<(String, Stage), Kept>>>,
}

impl Secrets {
    /// A reader over `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            kept: Arc::default(),
        }
    }

    /// The secret's current value.
    ///
    /// # Errors
    /// There is none to be had.
    pub async fn get(&self, arn: &str) -> Result<Secret, SecretsError> {
        Ok(self.current(arn, KEPT).await?.secret)
    }

    /// Both values, read again where they were read longer than `at_most` ago.
    ///
    /// # Errors
    /// They cannot be read, or there is no current one.
    pub async fn rotating(&self, arn: &str, at_most: Duration) -> Result<Rotating, SecretsError> {
        let current = self.current(arn, at_most).await?;
        let previous = self.read(arn, Stage::Previous, at_most).await?;
        Ok(Rotating {
            current: current.secret,
            since: current.created_at,
            previous: previous.map(|version| version.secret),
        })
    }

    async fn current(&self, arn: &str, at_most: Duration) -> Result<Version, SecretsError> {
        let version = self.read(arn, Stage::Current, at_most).await?;
        version.ok_or_else(|| SecretsError::Unusable {
            arn: arn.to_owned(),
            problem: "it holds no text".to_owned(),
        })
    }

    async fn read(
        &self,
        arn: &str,
        stage: Stage,
        at_most: Duration,
    ) -> Result<Option<Version>, SecretsError> {
        // Held across the call: two callers need not ask twice.
        let mut kept = self.kept.lock().await;
        let key = (arn.to_owned(), stage);
        if let Some((read_at, version)) = kept.get(&key)
            && read_at.elapsed() < at_most
        {
            return Ok(version.clone());
        }
        let call = self.client.get_secret_value().secret_id(arn);
        let version = match call.version_stage(stage.name()).send().await {
            Ok(value) => {
                let created_at = value.created_date.map(|at| at.secs());
                let created_at = created_at.and_then(|at| Timestamp::from_second(at).ok());
                value.secret_string.map(|secret| Version {
                    secret: Secret::new(secret),
                    created_at: created_at.unwrap_or(Timestamp::UNIX_EPOCH),
                })
            }
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
        kept.insert(key, (Instant::now(), version.clone()));
        Ok(version)
    }
}
