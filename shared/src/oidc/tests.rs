//! An issuer on loopback that signs whatever a test wants, and what becomes of it.

use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::id_token::verify;
use super::*;
use crate::domain::identity::Requester;

const ISSUER: &str = "https://id.example/realms/ops";
const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn client() -> Client {
    Client {
        id: "offset-guard".to_owned(),
        secret: Secret::new("a/secret+with:signs"),
        groups: BTreeSet::from(["approvers".to_owned()]),
        groups_claim: "groups".to_owned(),
        person_claim: "sub".to_owned(),
    }
}

/// A key pair of the issuer.
pub(crate) struct Key {
    algorithm: Algorithm,
    private: EncodingKey,
    public: Jwk,
}

impl Key {
    pub(crate) fn new(id: &str, algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let private = match algorithm {
            Algorithm::ES256 => {
                let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
                EncodingKey::from_ec_der(made.unwrap().as_ref())
            }
            Algorithm::EdDSA => {
                let made = Ed25519KeyPair::generate_pkcs8v1(&random);
                EncodingKey::from_ed_der(made.unwrap().as_ref())
            }
            _ => {
                let made = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
                let pkcs8 = made.as_der().unwrap();
                // The PKCS #1 key that is wanted lies behind 26 bytes that are the same for all keys of this size.
                EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..])
            }
        };
        let mut public = Jwk::from_encoding_key(&private, algorithm).unwrap();
        public.common.key_id = Some(id.to_owned());
        Self {
            algorithm,
            private,
            public,
        }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid.clone_from(&self.public.common.key_id);
        encode(&header, claims, &self.private).unwrap()
    }
}

fn keys(keys: &[&Key]) -> JwkSet {
    let public = keys.iter().map(|key| key.public.clone());
    JwkSet {
        keys: public.collect(),
    }
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "7", "aud": "offset-guard", "nonce": "the-nonce", "iat": NOW, "exp": NOW + 300,
        "name": "Mara Ito", "groups": ["approvers", "others"],
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn check(token: &str, keys: &JwkSet) -> Result<Person, BadIdToken> {
    verify(token, keys, ISSUER, &client(), "the-nonce", at(NOW))
}

fn mara() -> Person {
    Person {
        identity: Identity::new(ISSUER, "7", "Mara Ito"),
        groups: BTreeSet::from(["approvers".to_owned(), "others".to_owned()]),
    }
}

#[test]
fn every_kind_of_key_pair_is_believed() {
    let kinds = [
        Algorithm::RS256,
        Algorithm::PS256,
        Algorithm::ES256,
        Algorithm::EdDSA,
    ];
    for kind in kinds {
        let key = Key::new("one", kind);
        let token = key.sign(&claims());
        assert_eq!(check(&token, &keys(&[&key])), Ok(mara()), "{kind:?}");
    }
}

#[test]
fn each_claim_is_held_to_what_it_must_be() {
    use BadIdToken::{Audience, Expired, Issuer, Malformed, Nobody, Nonce, NotYetValid};
    let key = Key::new("one", Algorithm::ES256);
    let keys = keys(&[&key]);
    let bad = [
        (
            with("iss", json!("https://id.example/realms/other")),
            Issuer,
        ),
        (with("iss", json!(format!("{ISSUER}/"))), Issuer),
        (with("iss", json!([ISSUER, "https://evil.example"])), Issuer),
        (without("iss"), Malformed),
        (with("aud", json!("another-client")), Audience),
        (with("aud", json!(["another-client"])), Audience),
        (
            with("aud", json!(["offset-guard", "another-client"])),
            Audience,
        ),
        (with("azp", json!("another-client")), Audience),
        (without("aud"), Malformed),
        (with("nonce", json!("another-nonce")), Nonce),
        (with("nonce", json!("")), Nonce),
        (with("nonce", Value::Null), Nonce),
        (without("nonce"), Nonce),
        (with("exp", json!(NOW - 60)), Expired),
        (with("exp", json!(0)), Expired),
        (with("exp", json!("never")), Malformed),
        (without("exp"), Malformed),
        (with("nbf", json!(NOW + 61)), NotYetValid),
        (with("nbf", json!("now")), Malformed),
        (with("iat", json!(NOW + 61)), NotYetValid),
        (without("sub"), Malformed),
        (with("sub", json!("")), Nobody),
    ];
    for (claims, why) in bad {
        assert_eq!(check(&key.sign(&claims), &keys), Err(why), "{claims}");
    }
    let good = [
        with("exp", json!(NOW - 59)),
        with("nbf", json!(NOW + 60)),
        with("aud", json!(["offset-guard"])),
        {
            let mut several = with("aud", json!(["offset-guard", "another-client"]));
            several["azp"] = json!("offset-guard");
            several
        },
    ];
    for claims in good {
        assert_eq!(check(&key.sign(&claims), &keys), Ok(mara()), "{claims}");
    }
}

#[test]
fn a_signature_is_the_issuers_or_the_token_is_nothing() {
    let (key, other) = (
        Key::new("one", Algorithm::RS256),
        Key::new("one", Algorithm::RS256),
    );
    let set = keys(&[&key]);
    let token = key.sign(&claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let part = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());

    let forged = other.sign(&claims());
    assert_eq!(check(&forged, &set), Err(BadIdToken::Signature));
    let changed = format!("{header}.{}.{signature}", part(with("sub", json!("8"))));
    assert_eq!(check(&changed, &set), Err(BadIdToken::Signature));
    assert_eq!(
        check(&format!("{message}."), &set),
        Err(BadIdToken::Signature)
    );

    // No signature, however it is spelt.
    for none in ["none", "None", "NONE", ""] {
        for signature in ["", signature] {
            let header = part(json!({ "alg": none, "kid": "one" }));
            let token = format!("{header}.{}.{signature}", part(claims()));
            assert_eq!(check(&token, &set), Err(BadIdToken::Algorithm), "{none:?}");
        }
    }
    // A keyed hash with what everybody knows, and with what the client knows.
    let public = serde_json::to_vec(&key.public).unwrap();
    for secret in [public.as_slice(), client().secret.expose().as_bytes()] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("one".to_owned());
        let secret = EncodingKey::from_secret(secret).unwrap();
        let token = encode(&header, &claims(), &secret).unwrap();
        assert_eq!(check(&token, &set), Err(BadIdToken::Algorithm));
    }
    for text in ["", "..", "a.b.c", "no token", &format!("{token}.{token}")] {
        assert!(check(text, &set).is_err(), "{text}");
    }
}

#[test]
fn only_a_key_that_is_named_and_signs_is_taken() {
    use BadIdToken::UnknownKey;
    let (one, two) = (
        Key::new("one", Algorithm::ES256),
        Key::new("two", Algorithm::ES256),
    );
    let token = two.sign(&claims());
    assert_eq!(check(&token, &keys(&[&one])), Err(UnknownKey));
    assert_eq!(check(&token, &keys(&[&one, &two])), Ok(mara()));
    assert_eq!(check(&token, &keys(&[])), Err(UnknownKey));
    // Where a token names no key, there must be no choice.
    let unnamed = encode(&Header::new(Algorithm::ES256), &claims(), &one.private).unwrap();
    assert_eq!(check(&unnamed, &keys(&[&one])), Ok(mara()));
    assert_eq!(check(&unnamed, &keys(&[&one, &two])), Err(UnknownKey));
    // A key for encryption, and one for another kind of signature.
    let mut set = keys(&[&two]);
    set.keys[0].common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Encryption);
    assert_eq!(check(&token, &set), Err(UnknownKey));
    let rsa = Key::new("two", Algorithm::PS256);
    assert_eq!(check(&token, &keys(&[&rsa])), Err(UnknownKey));
}

#[test]
fn groups_are_a_list_or_one_name_and_anything_else_is_none() {
    let key = Key::new("one", Algorithm::ES256);
    let groups = |value| {
        let person = check(&key.sign(&with("groups", value)), &keys(&[&key])).unwrap();
        person.groups.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(groups(json!(["b", "a", 3, null])), ["a", "b"]);
    assert_eq!(groups(json!("approvers")), ["approvers"]);
    for none in [json!(null), json!(7), json!({ "approvers": true })] {
        assert_eq!(groups(none), Vec::<String>::new());
    }
    let none = check(&key.sign(&without("groups")), &keys(&[&key])).unwrap();
    assert_eq!(none.groups, BTreeSet::new());
}

/// What an issuer on loopback says, and what it was asked.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) issuer: String,
    discovery: Value,
    keys: Value,
    pub(crate) token: (u16, Value),
    pub(crate) asked: Vec<(String, String)>,
}

pub(crate) type Shared = Arc<Mutex<Script>>;

/// An issuer that answers by its script.
pub(crate) async fn issuer(key: &Key) -> Shared {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let script = Arc::new(Mutex::new(Script {
        discovery: json!({
            "issuer": base, "authorization_endpoint": format!("{base}/auth?tenant=1"),
            "token_endpoint": format!("{base}/token"), "jwks_uri": format!("{base}/keys"),
        }),
        keys: serde_json::to_value(keys(&[key])).unwrap(),
        token: (400, json!({ "error": "invalid_grant" })),
        issuer: base,
        asked: Vec::new(),
    }));
    let shared = script.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            let mut length = 0;
            // Requests here are small: their end comes with the head, or in the next piece.
            while let Ok(more @ 1..) = stream.read(&mut request[length..]).await {
                length += more;
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else {
                    continue;
                };
                let long = head
                    .lines()
                    .filter_map(|line| line.split_once(": "))
                    .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                    .map_or(0, |(_, length)| length.parse().unwrap());
                if body.len() < long {
                    continue;
                }
                let (status, answer) = {
                    let mut script = shared.lock().unwrap();
                    script.asked.push((head.to_owned(), body.to_owned()));
                    match head.split(' ').nth(1).unwrap() {
                        "/.well-known/openid-configuration" => (200, script.discovery.clone()),
                        "/keys" => (200, script.keys.clone()),
                        "/token" => script.token.clone(),
                        _ => (404, Value::Null),
                    }
                };
                let answer = answer.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nLocation: /keys\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    answer.len()
                );
                stream
                    .write_all(format!("{head}{answer}").as_bytes())
                    .await
                    .unwrap();
                break;
            }
        }
    });
    script
}

const BACK: &str = "https://guard.example/approvals/signin/callback";

async fn sign_in(provider: &Provider, challenge: &Challenge) -> Result<Person, OidcError> {
    provider
        .person(&client(), BACK, "the code", challenge, at(NOW))
        .await
}

fn grant(script: &Shared, key: &Key, challenge: &Challenge) {
    let mut script = script.lock().unwrap();
    let mut claims = with("iss", json!(script.issuer));
    claims["nonce"] = json!(challenge.nonce);
    script.token = (200, json!({ "id_token": key.sign(&claims) }));
}

fn provider(script: &Shared) -> Provider {
    Provider::new(&script.lock().unwrap().issuer).unwrap()
}

#[tokio::test]
async fn a_code_is_exchanged_with_the_secret_and_the_verifier() {
    let key = Key::new("one", Algorithm::ES256);
    let script = issuer(&key).await;
    let provider = provider(&script);
    let challenge = Challenge::random().unwrap();
    let url = provider
        .authorization_url(&client(), BACK, &challenge, true)
        .await
        .unwrap();
    let query: std::collections::BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    for (name, value) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "offset-guard"),
        ("redirect_uri", BACK),
        ("state", &challenge.state),
        ("nonce", &challenge.nonce),
        ("code_challenge_method", "S256"),
        ("prompt", "login"),
    ] {
        assert_eq!(query[name], value);
    }
    let hash = BASE64URL_NOPAD.encode(&Sha256::digest(&challenge.verifier));
    assert_eq!(query["code_challenge"], hash);
    assert!(!url.as_str().contains(&challenge.verifier));

    grant(&script, &key, &challenge);
    let person = sign_in(&provider, &challenge).await.unwrap();
    assert_eq!(person.identity.subject, "7");
    let asked = std::mem::take(&mut script.lock().unwrap().asked);
    assert_eq!(asked.len(), 3, "discovery and keys are asked for once");
    let (head, body) = &asked[2];
    // Both halves are encoded before they are joined (RFC 6749 section 2.3.1).
    let pair = data_encoding::BASE64.encode(b"offset-guard:a%2Fsecret%2Bwith%3Asigns");
    assert!(
        head.to_lowercase().contains("authorization: basic"),
        "{head}"
    );
    assert!(head.contains(&pair), "{head}");
    let form: std::collections::BTreeMap<_, _> = url::form_urlencoded::parse(body.as_bytes())
        .into_owned()
        .collect();
    assert_eq!(form["code"], "the code");
    assert_eq!(form["code_verifier"], challenge.verifier);
    assert_eq!(form["redirect_uri"], BACK);
    assert!(!form.contains_key("client_secret"));

    // An issuer that takes the secret in the form alone.
    script.lock().unwrap().discovery["token_endpoint_auth_methods_supported"] =
        json!(["client_secret_post"]);
    let provider = self::provider(&script);
    sign_in(&provider, &challenge).await.unwrap();
    let (head, body) = script.lock().unwrap().asked.pop().unwrap();
    assert!(!head.to_lowercase().contains("authorization"), "{head}");
    assert!(
        body.contains("client_secret=a%2Fsecret%2Bwith%3Asigns"),
        "{body}"
    );
}

#[tokio::test]
async fn a_subject_that_may_be_another_one_for_another_client_is_told_apart() {
    let key = Key::new("one", Algorithm::ES256);
    let challenge = Challenge::random().unwrap();
    for (types, claim, comparable) in [
        (json!(["public"]), "sub", true),
        (json!(["pairwise", "public"]), "sub", true),
        (json!(["pairwise"]), "sub", false),
        (json!([]), "sub", false),
        // Who says nothing is not taken at a word that was not given.
        (Value::Null, "sub", false),
        // Another claim is the deployer's own choice.
        (json!(["pairwise"]), "oid", true),
    ] {
        let script = issuer(&key).await;
        script.lock().unwrap().discovery["subject_types_supported"] = types.clone();
        let issuer = script.lock().unwrap().issuer.clone();
        let mut claims = with("iss", json!(issuer));
        claims["nonce"] = json!(challenge.nonce);
        claims["oid"] = json!("o-1");
        script.lock().unwrap().token = (200, json!({ "id_token": key.sign(&claims) }));
        let client = Client {
            person_claim: claim.to_owned(),
            ..client()
        };
        let provider = provider(&script);
        let signed_in = provider.person(&client, BACK, "the code", &challenge, at(NOW));
        let decider = signed_in.await.unwrap().identity;
        let asked = Identity::new(&issuer, "of another client", "Mara");
        let approved = Requester::Verified(asked).approved_by(Some(&decider));
        assert_eq!(
            approved.is_ok(),
            comparable,
            "{types} {claim}: {approved:?}"
        );
    }
}

#[tokio::test]
async fn a_new_key_is_looked_for_and_not_for_every_stranger() {
    let (old, new) = (
        Key::new("old", Algorithm::ES256),
        Key::new("new", Algorithm::ES256),
    );
    let script = issuer(&old).await;
    let provider = provider(&script);
    let challenge = Challenge::random().unwrap();
    grant(&script, &old, &challenge);
    assert!(sign_in(&provider, &challenge).await.is_ok());

    script.lock().unwrap().keys = serde_json::to_value(keys(&[&new])).unwrap();
    grant(&script, &new, &challenge);
    let unknown = Err(OidcError::Token(BadIdToken::UnknownKey));
    script.lock().unwrap().asked.clear();
    for _ in 0..3 {
        assert_eq!(sign_in(&provider, &challenge).await, unknown);
    }
    // Read a moment ago: only the token endpoint was asked.
    assert_eq!(script.lock().unwrap().asked.len(), 3);
    provider.age(std::time::Duration::from_secs(31)).await;
    assert!(sign_in(&provider, &challenge).await.is_ok());
    grant(&script, &Key::new("third", Algorithm::ES256), &challenge);
    script.lock().unwrap().asked.clear();
    assert_eq!(sign_in(&provider, &challenge).await, unknown);
    assert_eq!(script.lock().unwrap().asked.len(), 1);
}

#[tokio::test]
async fn keys_of_unknown_kinds_keep_no_other_key_out() {
    let key = Key::new("one", Algorithm::ES256);
    let script = issuer(&key).await;
    let challenge = Challenge::random().unwrap();
    grant(&script, &key, &challenge);
    let known = serde_json::to_value(&key.public).unwrap();
    script.lock().unwrap().keys = json!({ "keys": [
        { "kty": "EC", "crv": "P-999", "x": "AA", "y": "AA", "kid": "curve" },
        { "kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "kind" },
        7,
        known,
    ]});
    assert!(sign_in(&provider(&script), &challenge).await.is_ok());

    // What is no set of keys is an answer that cannot be read.
    script.lock().unwrap().keys = json!({ "keys": known });
    let unread = Err(OidcError::Unreadable { what: "key set" });
    assert_eq!(sign_in(&provider(&script), &challenge).await, unread);
}

#[tokio::test]
async fn an_issuer_that_says_no_or_nonsense_lets_nobody_in() {
    let key = Key::new("one", Algorithm::ES256);
    let script = issuer(&key).await;
    let provider = provider(&script);
    let challenge = Challenge::random().unwrap();
    let what = "token endpoint";
    let status = |status| OidcError::Status { what, status };
    for (answer, error) in [
        // A code that was used before.
        (
            (400, json!({ "error": "invalid_grant" })),
            OidcError::Refused("invalid_grant".to_owned()),
        ),
        (
            (401, json!({ "error": "invalid_client" })),
            OidcError::Refused("invalid_client".to_owned()),
        ),
        // Nothing of an answer is repeated that is not one of the protocol's words.
        ((400, json!({ "error": "the code SECRET" })), status(400)),
        ((400, json!("x")), status(400)),
        ((500, json!({ "error": "server_error" })), status(500)),
        // A redirect is not followed, with a secret least of all.
        ((302, json!({})), status(302)),
        (
            (200, json!({ "access_token": "x" })),
            OidcError::Unreadable { what },
        ),
        (
            (200, json!({ "id_token": "x" })),
            OidcError::Token(BadIdToken::Malformed),
        ),
    ] {
        script.lock().unwrap().token = answer;
        assert_eq!(sign_in(&provider, &challenge).await, Err(error));
    }
    // A token of another sign-in.
    grant(&script, &key, &Challenge::random().unwrap());
    let nonce = Err(OidcError::Token(BadIdToken::Nonce));
    assert_eq!(sign_in(&provider, &challenge).await, nonce);
}

#[tokio::test]
async fn an_issuer_is_who_it_says_and_nobody_listens_in() {
    for address in [
        "http://id.example",
        "http://localhost:1",
        "ftp://id.example",
        "id.example",
        "https://id.example?x",
    ] {
        assert!(Provider::new(address).is_err(), "{address}");
    }
    let key = Key::new("one", Algorithm::ES256);
    for (name, value) in [
        ("issuer", "https://evil.example"),
        ("token_endpoint", "http://id.example/token"),
        ("jwks_uri", "http://id.example/keys"),
        ("authorization_endpoint", "http://id.example/auth"),
    ] {
        let script = issuer(&key).await;
        script.lock().unwrap().discovery[name] = json!(value);
        let challenge = Challenge::random().unwrap();
        let begun = provider(&script)
            .authorization_url(&client(), BACK, &challenge, false)
            .await;
        assert!(matches!(begun, Err(OidcError::Discovery(_))), "{name}");
    }
}

#[test]
fn what_is_secret_is_not_printed() {
    let challenge = Challenge::random().unwrap();
    let shown = format!("{challenge:?} {:?}", client());
    for secret in [
        &challenge.state,
        &challenge.verifier,
        &client().secret.expose().to_owned(),
    ] {
        assert!(!shown.contains(secret));
    }
    assert_ne!(challenge, Challenge::random().unwrap());
}
