//! librdkafka's configuration for the clients of this crate.

use std::collections::BTreeMap;

use rdkafka::config::ClientConfig;
use ulid::Ulid;

use crate::settings::{Auth, ConnectionSettings, SaslCredentials};

/// librdkafka's configuration for a consumer that never subscribes.
///
/// Its group is its own: librdkafka crashes a handle without a group on `NOT_COORDINATOR`, and a handle that carried the
/// name of a real group could be taken for a member of that group.
pub(crate) fn consumer_config(settings: &ConnectionSettings) -> ClientConfig {
    let mut config = client_config(settings);
    config
        .set("group.id", format!("offset-guard-{}", Ulid::generate()))
        // It never subscribes; these say that it could not commit or store anything if it did.
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false");
    config
}

/// The properties of `config` by name, secrets included.
pub(crate) fn to_map(config: &ClientConfig) -> BTreeMap<String, String> {
    let properties = config.config_map().into_iter();
    properties
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The configuration whose properties are `properties`.
pub(crate) fn from_map(properties: &BTreeMap<String, String>) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (name, value) in properties {
        config.set(name, value);
    }
    config
}

/// librdkafka's configuration for a client of any kind.
pub(crate) fn client_config(settings: &ConnectionSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &settings.bootstrap_servers)
        .set("client.id", "offset-guard")
        // A producer's default is true, and a write to a missing topic would create it.
        .set("allow.auto.create.topics", "false")
        // librdkafka's defaults (30 s, 60 s, 10 s) are longer than a function may run.
        .set("socket.connection.setup.timeout.ms", "5000")
        .set("socket.timeout.ms", "10000")
        .set("api.version.request.timeout.ms", "5000")
        .set("reconnect.backoff.max.ms", "1000")
        // Brokers close idle connections; that is not worth a log line.
        .set("log.connection.close", "false");
    let protocol = set_login(&mut config, &settings.auth);
    config.set("security.protocol", protocol);
    if matches!(protocol, "SSL" | "SASL_SSL") {
        match &settings.ca_pem {
            Some(pem) => config.set("ssl.ca.pem", pem),
            // OpenSSL is linked statically and does not know where this system keeps its authorities.
            None => config.set("ssl.ca.location", "probe"),
        };
    }
    config
}

/// Sets how to log in, and returns the protocol for it.
fn set_login(config: &mut ClientConfig, auth: &Auth) -> &'static str {
    match auth {
        Auth::Plaintext => "PLAINTEXT",
        Auth::Tls => "SSL",
        Auth::SaslPlain(credentials) => set_credentials(config, "PLAIN", credentials),
        Auth::ScramSha256(credentials) => set_credentials(config, "SCRAM-SHA-256", credentials),
        Auth::ScramSha512(credentials) => set_credentials(config, "SCRAM-SHA-512", credentials),
        Auth::Mtls { cert_pem, key_pem } => {
            config
                .set("ssl.certificate.pem", cert_pem.expose())
                .set("ssl.key.pem", key_pem.expose());
            "SSL"
        }
        Auth::OauthBearer(_) => {
            config.set("sasl.mechanism", "OAUTHBEARER");
            "SASL_SSL"
        }
    }
}

fn set_credentials(
    config: &mut ClientConfig,
    mechanism: &str,
    credentials: &SaslCredentials,
) -> &'static str {
    config
        .set("sasl.mechanism", mechanism)
        .set("sasl.username", &credentials.username)
        .set("sasl.password", credentials.password.expose());
    if credentials.tls {
        "SASL_SSL"
    } else {
        "SASL_PLAINTEXT"
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use offset_guard_domain::secret::Secret;
    use rdkafka::consumer::BaseConsumer;

    use super::*;
    use crate::codes::ErrorCode;
    use crate::librdkafka::handle::Handle;
    use crate::meaning::CodeClass;
    use crate::token::{LoginToken, TokenSource};

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

    fn credentials(tls: bool) -> SaslCredentials {
        SaslCredentials {
            username: "guard".to_owned(),
            password: Secret::new("hunter2"),
            tls,
        }
    }

    #[derive(Debug)]
    struct NoToken;

    impl TokenSource for NoToken {
        fn issue_token(&self) -> Result<LoginToken, String> {
            Err("no token here".to_owned())
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
            Auth::OauthBearer(Arc::new(NoToken)),
        ];
        for auth in every {
            let name = format!("{auth:?}");
            let settings = ConnectionSettings::new("127.0.0.1:1", auth);
            let client: Result<BaseConsumer, _> = consumer_config(&settings).create();
            assert!(client.is_ok(), "{name}: {:?}", client.err());
        }
        let own_authority = ConnectionSettings {
            ca_pem: Some(CERTIFICATE.to_owned()),
            ..ConnectionSettings::new("127.0.0.1:1", Auth::Tls)
        };
        let client: Result<BaseConsumer, _> = consumer_config(&own_authority).create();
        assert!(client.is_ok(), "{:?}", client.err());
    }

    /// The login fails with the code that a refused login has, so that nobody waits for it to get better.
    #[test]
    fn a_source_without_a_token_is_a_refused_login() {
        let settings = ConnectionSettings::new("127.0.0.1:1", Auth::OauthBearer(Arc::new(NoToken)));
        let handle = Handle::new(&settings).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let is_refused = |code: ErrorCode| code.class() == CodeClass::NotAuthorised;
        while !handle.last_error().is_some_and(is_refused) {
            assert!(Instant::now() < deadline, "{:?}", handle.last_error());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(handle.last_error(), Some(ErrorCode::AUTHENTICATION));
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
