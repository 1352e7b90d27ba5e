//! Starting other functions without waiting for them.

use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use serde::Serialize;

use crate::failure::{ErrorClass, chain};

/// Lambda. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Functions {
    client: Client,
}

/// A function could not be started.
///
/// Holds text alone, and nothing of the event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invoke failed: {detail}")]
pub struct InvokeError {
    /// What may be done about it.
    pub class: ErrorClass,
    /// What was said.
    pub detail: String,
}

impl Functions {
    /// Lambda, reached through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Hands an event over to a function (`Invoke` with the invocation type `Event`): it is queued, and Lambda runs it,
    /// again where it fails, until its destination for failures has it.
    ///
    /// # Errors
    /// It was not taken, or nobody knows whether it was.
    pub async fn start(&self, function: &str, event: &impl Serialize) -> Result<(), InvokeError> {
        let payload = serde_json::to_vec(event).map_err(|error| InvokeError {
            class: ErrorClass::Internal,
            detail: error.to_string(),
        })?;
        let invoke = self
            .client
            .invoke()
            .function_name(function)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(payload));
        match invoke.send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(failure(&error)),
        }
    }
}

fn failure<E>(error: &SdkError<E>) -> InvokeError
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    let Some(answer) = error.as_service_error() else {
        return InvokeError {
            class: ErrorClass::Transient,
            detail: chain(error),
        };
    };
    let code = answer.code().unwrap_or("an error without a code");
    let server_error =
        matches!(error, SdkError::ServiceError(e) if e.raw().status().is_server_error());
    let class = match code {
        "TooManyRequestsException" | "ThrottlingException" | "ResourceConflictException" => {
            ErrorClass::Transient
        }
        _ if server_error => ErrorClass::Transient,
        _ => ErrorClass::Internal,
    };
    let detail = answer
        .message()
        .map_or(code.to_owned(), |message| format!("{code}: {message}"));
    InvokeError { class, detail }
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::config::retry::RetryConfig;
    use aws_sdk_lambda::config::{BehaviorVersion, Credentials, Region};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What one start comes to where Lambda answers so, and what Lambda was asked.
    async fn start(status: u16, code: &str) -> (Result<(), InvokeError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let code = code.to_owned();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = String::new();
            while !asked.ends_with('}') {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.unwrap();
                asked.push_str(std::str::from_utf8(&part[..read]).unwrap());
            }
            let body = json!({"Message": "no"}).to_string();
            let answer = format!(
                "HTTP/1.1 {status} x\r\nx-amzn-errortype: {code}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            asked
        });
        let config = aws_sdk_lambda::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .endpoint_url(format!("http://{address}"))
            .build();
        let functions = Functions::new(Client::from_conf(config));
        let started = functions.start("guard", &json!({"group": "g"})).await;
        (started, asked.await.unwrap())
    }

    #[tokio::test]
    async fn a_start_does_not_wait_for_the_run() {
        let (started, asked) = start(202, "").await;
        assert_eq!(started, Ok(()));
        assert!(asked.contains("/functions/guard/invocations"), "{asked}");
        assert!(asked.contains("x-amz-invocation-type: Event"), "{asked}");
        assert!(asked.ends_with(r#"{"group":"g"}"#), "{asked}");
    }

    #[tokio::test]
    async fn a_start_that_was_not_taken_has_its_class() {
        for (status, code, class) in [
            (429, "TooManyRequestsException", ErrorClass::Transient),
            (500, "ServiceException", ErrorClass::Transient),
            (502, "EC2ThrottledException", ErrorClass::Transient),
            (404, "ResourceNotFoundException", ErrorClass::Internal),
            (403, "AccessDeniedException", ErrorClass::Internal),
        ] {
            let error = start(status, code).await.0.unwrap_err();
            assert_eq!(error.class, class, "{code}");
            assert!(error.detail.starts_with(code), "{error}");
        }
    }
}
