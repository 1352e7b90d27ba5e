//! Logging in to MSK with the credentials of the environment.

use std::time::Duration;

use crate::domain::secret::Secret;
use crate::kafka::{LoginToken, TokenSource};

/// Longest wait for AWS credentials.
const SIGNING_TIMEOUT: Duration = Duration::from_secs(10);

/// Signs tokens for the MSK clusters of one region.
#[derive(Debug)]
pub struct MskIamTokens {
    region: String,
}

impl MskIamTokens {
    /// Tokens for the clusters of `region`.
    #[must_use]
    pub fn new(region: String) -> Self {
        Self { region }
    }
}

impl TokenSource for MskIamTokens {
    fn issue_token(&self) -> Result<LoginToken, String> {
        let region = aws_config::Region::new(self.region.clone());
        let signing = aws_msk_iam_sasl_signer::generate_auth_token(region);
        let (text, expires_at_ms) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?
            .block_on(async { tokio::time::timeout(SIGNING_TIMEOUT, signing).await })
            .map_err(|_| "no AWS credentials within 10 s".to_owned())?
            .map_err(|error| error.to_string())?;
        Ok(LoginToken {
            text: Secret::new(text),
            expires_at_ms,
        })
    }
}
