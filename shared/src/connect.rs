//! From the configuration and its secrets to a connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::aws::msk_iam::MskIamTokens;
use crate::aws::secrets::{Secret, Secrets, SecretsError};
use crate::config::{AuthKind, ClusterConfig, Config};
use crate::error::Error;
use crate::failure::chain;
use crate::kafka::{
    Auth, ConnectionSettings, GroupReader, GroupWriter, ReaderProgram, RecordKeeper, RecordReader,
    SaslCredentials,
};
use crate::ports::{Brokers, Role};
use crate::rest_proxy::{self, RestProxy};

/// The clusters of the configuration, with their secrets.
#[derive(Debug, Clone)]
pub struct KafkaBrokers {
    config: Arc<Config>,
    secrets: Secrets,
    deadline: Option<Instant>,
}

impl KafkaBrokers {
    /// The clusters of `config`. No read ends later than it takes by itself.
    #[must_use]
    pub fn new(config: Arc<Config>, secrets: Secrets) -> Self {
        Self {
            config,
            secrets,
            deadline: None,
        }
    }

    /// The same, with no read lasting beyond `deadline`.
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }

    fn configured(&self, cluster: &str) -> Result<&ClusterConfig, Error> {
        self.config
            .cluster(Some(cluster))
            .ok_or_else(|| Error::Broken(format!("cluster {cluster} is not configured")))
    }

    async fn settings(&self, cluster: &str, role: Role) -> Result<ConnectionSettings, Error> {
        settings(self.configured(cluster)?, role, &self.secrets).await
    }
}

impl Brokers for KafkaBrokers {
    type Groups = GroupReader;
    type Records = RecordReader;
    type Keeper = RecordKeeper;
    type Writer = GroupWriter;

    async fn connect_groups(&self, cluster: &str, role: Role) -> Result<GroupReader, Error> {
        let reader = GroupReader::connect(self.settings(cluster, role).await?)?;
        Ok(match self.deadline {
            Some(deadline) => reader.until(deadline),
            None => reader,
        })
    }

    async fn connect_records(&self, cluster: &str, role: Role) -> Result<RecordReader, Error> {
        let settings = self.settings(cluster, role).await?;
        let reader = RecordReader::connect(settings, ReaderProgram::this())?;
        Ok(match self.deadline {
            Some(deadline) => reader.until(deadline),
            None => reader,
        })
    }

    async fn connect_keeper(&self, cluster: &str) -> Result<RecordKeeper, Error> {
        let settings = self.settings(cluster, Role::Guard).await?;
        Ok(RecordKeeper::connect(settings)?)
    }

    async fn connect_writer(&self, cluster: &str) -> Result<GroupWriter, Error> {
        let settings = self.settings(cluster, Role::Apply).await?;
        Ok(GroupWriter::connect(&settings)?)
    }

    async fn find_rest_proxy(&self, cluster: &str) -> Result<Option<RestProxy>, Error> {
        let configured = self.configured(cluster)?;
        let Some(url) = configured.rest_proxy_url.clone() else {
            return Ok(None);
        };
        let credentials = rest_proxy_credentials(configured, &self.secrets).await;
        Ok(Some(RestProxy {
            credentials: credentials.map_err(|error| chain(&error)),
            url,
        }))
    }
}

/// How to connect to `cluster` as `role`.
///
/// # Errors
/// The secret cannot be read, or does not hold what the cluster's authentication needs.
async fn settings(
    cluster: &ClusterConfig,
    role: Role,
    secrets: &Secrets,
) -> Result<ConnectionSettings, Error> {
    let secret = match &cluster.secrets {
        None => None,
        Some(arns) => {
            let arn = match role {
                Role::Read => &arns.read,
                Role::Guard => &arns.guard,
                Role::Apply => &arns.apply,
            };
            Some(Fields::of(arn, secrets.get(arn).await?.expose())?)
        }
    };
    let needed = || {
        secret
            .as_ref()
            .ok_or_else(|| Error::Broken("the cluster's authentication needs a secret".to_owned()))
    };
    let credentials = || -> Result<SaslCredentials, Error> {
        let secret = needed()?;
        Ok(SaslCredentials {
            username: secret.field("username")?,
            password: Secret::new(secret.field("password")?),
            tls: true,
        })
    };
    let auth = match &cluster.auth {
        AuthKind::Plaintext => Auth::Plaintext,
        AuthKind::Tls => Auth::Tls,
        AuthKind::SaslPlain => Auth::SaslPlain(credentials()?),
        AuthKind::ScramSha256 => Auth::ScramSha256(credentials()?),
        AuthKind::ScramSha512 => Auth::ScramSha512(credentials()?),
        AuthKind::Mtls => Auth::Mtls {
            cert_pem: Secret::new(needed()?.field("certificate")?),
            key_pem: Secret::new(needed()?.field("private_key")?),
        },
        AuthKind::MskIam { region } => {
            Auth::OauthBearer(Arc::new(MskIamTokens::new(region.clone())))
        }
    };
    Ok(ConnectionSettings::new(
        cluster.bootstrap_servers.join(","),
        auth,
    ))
}

/// What the cluster's REST Proxy wants to know who asks: `rest_proxy_username` and `rest_proxy_password` of the guard's
/// secret. `None` where there is no proxy, no secret, or neither field.
///
/// # Errors
/// The secret cannot be read, or has one of the two fields alone.
async fn rest_proxy_credentials(
    cluster: &ClusterConfig,
    secrets: &Secrets,
) -> Result<Option<rest_proxy::Credentials>, Error> {
    let (Some(_), Some(arns)) = (&cluster.rest_proxy_url, &cluster.secrets) else {
        return Ok(None);
    };
    let secret = Fields::of(&arns.guard, secrets.get(&arns.guard).await?.expose())?;
    Ok(proxy_credentials(&secret)?)
}

fn proxy_credentials(secret: &Fields) -> Result<Option<rest_proxy::Credentials>, SecretsError> {
    const USERNAME: &str = "rest_proxy_username";
    const PASSWORD: &str = "rest_proxy_password";
    if !secret.has(USERNAME) && !secret.has(PASSWORD) {
        return Ok(None);
    }
    Ok(Some(rest_proxy::Credentials {
        username: secret.field(USERNAME)?,
        password: Secret::new(secret.field(PASSWORD)?),
    }))
}

/// The text fields of a JSON secret.
struct Fields {
    arn: String,
    fields: BTreeMap<String, String>,
}

impl Fields {
    fn of(arn: &str, json: &str) -> Result<Self, SecretsError> {
        // The parser's own error would quote the secret.
        let fields = serde_json::from_str(json).map_err(|_| SecretsError::Unusable {
            arn: arn.to_owned(),
            problem: "it is no JSON object of texts".to_owned(),
        })?;
        Ok(Self {
            arn: arn.to_owned(),
            fields,
        })
    }

    fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    fn field(&self, name: &str) -> Result<String, SecretsError> {
        self.fields
            .get(name)
            .cloned()
            .ok_or_else(|| SecretsError::Unusable {
                arn: self.arn.clone(),
                problem: format!("it has no field {name}"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_may_hold_both_credentials_of_the_proxy_or_none() {
        let of = |json| proxy_credentials(&Fields::of("arn:x", json).unwrap());
        let none = of(r#"{"username": "u", "password": "p"}"#).unwrap();
        assert!(none.is_none());
        let both = of(r#"{"rest_proxy_username": "me", "rest_proxy_password": "hunter2"}"#);
        let both = both.unwrap().unwrap();
        assert_eq!(
            (both.username.as_str(), both.password.expose()),
            ("me", "hunter2")
        );
        for (half, missing) in [
            (r#"{"rest_proxy_username": "me"}"#, "rest_proxy_password"),
            (
                r#"{"rest_proxy_password": "hunter2"}"#,
                "rest_proxy_username",
            ),
        ] {
            let error = of(half).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("secret arn:x is not usable: it has no field {missing}")
            );
        }
    }
}
