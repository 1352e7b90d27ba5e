//! How to reach a cluster, and as whom.

use std::time::Duration;

use rdkafka::ClientConfig;

use offset_guard_domain::secret::Secret;

/// A user name and a password for SASL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret,
    /// Whether the connection is encrypted (`SASL_SSL`) or not (`SASL_PLAINTEXT`).
    pub tls: bool,
}

/// As whom to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Neither encryption nor authentication.
    Plaintext,
    /// Encryption, no client authentication.
    Tls,
    /// SASL/PLAIN.
    SaslPlain(Credentials),
    /// SASL/SCRAM-SHA-256.
    ScramSha256(Credentials),
    /// SASL/SCRAM-SHA-512 (the one that MSK offers).
    ScramSha512(Credentials),
    /// TLS with a client certificate.
    Mtls {
        /// The client's certificate chain, PEM.
        cert_pem: Secret,
        /// The client's private key, PEM.
        key_pem: Secret,
    },
    /// MSK's IAM access control: SASL/OAUTHBEARER with a token signed by the credentials of the environment.
    MskIam {
        /// The cluster's AWS region.
        region: String,
    },
}

/// How to reach one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// `host:port`, comma-separated.
    pub bootstrap_servers: String,
    /// As whom to connect.
    pub auth: Auth,
    /// A certificate authority of one's own, PEM; without it the system's are looked for.
    pub ca_pem: Option<String>,
    /// How long one request may take at most; its first tries are given less.
    pub request_timeout: Duration,
    /// How long a whole call with its retries may take.
    pub call_timeout: Duration,
}

impl ConnectionSettings {
    /// `bootstrap_servers` with `auth`, 15 s for a request and 45 s for a call.
    pub fn new(bootstrap_servers: impl Into<String>, auth: Auth) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.into(),
            auth,
            ca_pem: None,
            request_timeout: Duration::from_secs(15),
            call_timeout: Duration::from_secs(45),
        }
    }

    /// librdkafka's configuration for a consumer that never subscribes.
    ///
    /// `group_id` is the handle's own: librdkafka crashes a handle without one on `NOT_COORDINATOR`, and a handle that
    /// carried the name of a real group could be taken for a member of it.
    pub(super) fn consumer_config(&self, group_id: &str) -> ClientConfig {
        let mut config = self.client_config();
        config
            .set("group.id", group_id)
            // It never subscribes; these say that it could not commit or store anything if it did.
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false");
        config
    }

    /// librdkafka's configuration for a client of any kind.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap_servers)
            .set("client.id", "offset-guard")
            // A producer's own is true: to write into a topic that is not there would create it.
            .set("allow.auto.create.topics", "false")
            // librdkafka's own (30 s, 60 s, 10 s) are longer than a function may run.
            .set("socket.connection.setup.timeout.ms", "5000")
            .set("socket.timeout.ms", "10000")
            .set("api.version.request.timeout.ms", "5000")
            .set("reconnect.backoff.max.ms", "1000")
            // Brokers close idle connections; that is not worth a log line.
            .set("log.connection.close", "false");
        let sasl = |config: &mut ClientConfig, mechanism: &str, credentials: &Credentials| {
            config
                .set("sasl.mechanism", mechanism)
                .set("sasl.username", &credentials.username)
                .set("sasl.password", credentials.password.expose());
            credentials.tls
        };
        let (protocol, tls) = match &self.auth {
            Auth::Plaintext => ("PLAINTEXT", false),
            Auth::Tls => ("SSL", true),
            Auth::SaslPlain(credentials) => protocol(sasl(&mut config, "PLAIN", credentials)),
            Auth::ScramSha256(credentials) => {
                protocol(sasl(&mut config, "SCRAM-SHA-256", credentials))
            }
            Auth::ScramSha512(credentials) => {
                protocol(sasl(&mut config, "SCRAM-SHA-512", credentials))
            }
            Auth::Mtls { cert_pem, key_pem } => {
                config
                    .set("ssl.certificate.pem", cert_pem.expose())
                    .set("ssl.key.pem", key_pem.expose());
                ("SSL", true)
            }
            Auth::MskIam { .. } => {
                config.set("sasl.mechanism", "OAUTHBEARER");
                ("SASL_SSL", true)
            }
        };
        config.set("security.protocol", protocol);
        if tls {
            match &self.ca_pem {
                Some(pem) => config.set("ssl.ca.pem", pem),
                // OpenSSL is linked statically and does not know where this system keeps its authorities.
                None => config.set("ssl.ca.location", "probe"),
            };
        }
        config
    }
}

fn protocol(tls: bool) -> (&'static str, bool) {
    (if tls { "SASL_SSL" } else { "SASL_PLAINTEXT" }, tls)
}

#[cfg(test)]
mod tests {
    use rdkafka::consumer::BaseConsumer;

    use super::super::handle::Handle;
    use super::*;

    /// A key and its self-signed certificate, made for this test and used nowhere.
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgt74sDs3CNK6YwJ11\n\
rPkrWRMxwHgVhR9xSJH5H7ceaXGhRANCAAQwnxXC//dFQIYfpqd81hYDn+S92nhh\n\
Jlu3IgyrBoC5Rm9kM/MrbwPZUXz27eordnU9wiEjI2Equu09981YqqP9\n\
-----END PRIVATE KEY-----\n";
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBdTCCARugAwIBAgIUYjZIW2co3LYIW0RgZRyHdv11W1wwCgYIKoZIzj0EAwIw\n\
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMzAwODA5MDNaGA8yMTI2MTEwNjA4MDkw\n\
M1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDCf\n\
FcL/90VAhh+mp3zWFgOf5L3aeGEmW7ciDKsGgLlGb2Qz8ytvA9lRfPbt6it2dT3C\n\
ISMjYSq67T33zViqo/2jUzBRMB0GA1UdDgQWBBRsLNF0IxvLEke3fWrSN6x5ngxe\n\
pzAfBgNVHSMEGDAWgBRsLNF0IxvLEke3fWrSN6x5ngxepzAPBgNVHRMBAf8EBTAD\n\
AQH/MAoGCCqGSM49BAMCA0gAMEUCIBD5z1XcbOGP93UveQ1olL6Ivf4GD5k7UrWa\n\
KzWRGSxeAiEAytm+D1XsGvcTOBs0caqoDcGiFzA6DicFbFPF3ERNAgw=\n\
-----END CERTIFICATE-----\n";

    fn credentials(tls: bool) -> Credentials {
        Credentials {
            username: "guard".to_owned(),
            password: Secret::new("hunter2"),
            tls,
        }
    }

    fn mtls(key: &str) -> Auth {
        Auth::Mtls {
            cert_pem: Secret::new(CERTIFICATE),
            key_pem: Secret::new(key),
        }
    }

    /// A librdkafka that was built without TLS or SASL compiles and links, and only says so here.
    #[test]
    fn a_client_can_be_built_for_every_mechanism() {
        let every = [
            Auth::Plaintext,
            Auth::Tls,
            Auth::SaslPlain(credentials(true)),
            Auth::SaslPlain(credentials(false)),
            Auth::ScramSha256(credentials(true)),
            Auth::ScramSha512(credentials(true)),
            mtls(KEY),
            Auth::MskIam {
                region: "eu-west-1".to_owned(),
            },
        ];
        for auth in every {
            let name = format!("{auth:?}");
            let settings = ConnectionSettings::new("127.0.0.1:1", auth);
            let client: Result<BaseConsumer, _> = settings.consumer_config("test").create();
            assert!(client.is_ok(), "{name}: {:?}", client.err());
        }
        let own_authority = ConnectionSettings {
            ca_pem: Some(CERTIFICATE.to_owned()),
            ..ConnectionSettings::new("127.0.0.1:1", Auth::Tls)
        };
        let client: Result<BaseConsumer, _> = own_authority.consumer_config("test").create();
        assert!(client.is_ok(), "{:?}", client.err());
    }

    #[test]
    fn no_secret_is_shown_and_none_is_repeated_by_an_error() {
        let settings = ConnectionSettings::new("127.0.0.1:1", mtls("hunter2, which is no key"));
        let error = Handle::new(&settings).unwrap_err();
        let plain = ConnectionSettings::new("127.0.0.1:1", Auth::SaslPlain(credentials(true)));
        for shown in [
            format!("{settings:?} {plain:?}"),
            format!("{error} {error:?}"),
        ] {
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(!shown.contains("PRIVATE KEY"), "{shown}");
        }
        assert!(error.to_string().contains("ssl.key.pem"), "{error}");
    }
}
