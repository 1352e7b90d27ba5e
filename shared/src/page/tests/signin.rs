//! Sign-in against an issuer on loopback, and a table that knows of one link that it was given out, and of nothing else
//! anything that can be read: 503 is what comes after the gate.

use std::collections::BTreeSet;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::respond::{cut_off, with_table_at};
use super::*;
use crate::aws::secrets::Secret;
use crate::http::Response;
use crate::oidc::tests::{Key, Shared, issuer};
use crate::oidc::{Client, Provider};
use crate::page::{PageDeps, SignIn, respond};

const SESSION: &str = "__Host-offset-guard-session";
const SIGN_IN: &str = "__Host-offset-guard-signin";

struct Scene {
    deps: PageDeps,
    key: Key,
    script: Shared,
}

impl Scene {
    async fn new() -> Self {
        let key = Key::new("one", Algorithm::ES256);
        let script = issuer(&key).await;
        let provider = Provider::new(&script.lock().unwrap().issuer).unwrap();
        let mut deps = with_table_at(&table().await);
        deps.sign_in = Some(SignIn {
            provider: Arc::new(provider),
            client: Client {
                id: "offset-guard".to_owned(),
                secret: Secret::new("secret"),
                groups: BTreeSet::from(["approvers".to_owned(), "leads".to_owned()]),
                groups_claim: "groups".to_owned(),
                person_claim: "sub".to_owned(),
            },
        });
        Self { deps, key, script }
    }

    async fn ask(&self, mut request: Request, query: &str, cookies: &[&str]) -> Response {
        request.query = query.to_owned();
        for cookie in cookies {
            request = request.with_header("cookie", cookie);
        }
        respond(&request, &self.deps).await
    }

    async fn get(&self, query: &str, cookies: &[&str]) -> Response {
        let link = link();
        self.ask(request(Method::GET, link.expose()), query, cookies)
            .await
    }

    /// Begins: the cookie, and what the issuer was sent.
    async fn begin(&self) -> (String, BTreeMap<String, String>) {
        let response = self.get("signin=yes", &[]).await;
        assert_eq!(response.status, 303, "{}", response.body);
        let location = response.headers["location"].to_str().unwrap().to_owned();
        let query = Url::parse(&location).unwrap();
        let query = query.query_pairs().into_owned().collect();
        (cookie(&response, SIGN_IN), query)
    }

    /// The issuer vouches for a member of these groups.
    fn vouch(&self, nonce: &str, groups: &[&str]) {
        let mut script = self.script.lock().unwrap();
        let now = now().as_second();
        let claims = json!({
            "iss": script.issuer, "sub": "7", "aud": "offset-guard", "nonce": nonce, "iat": now, "exp": now + 60,
            "name": "Mara Ito", "groups": groups,
        });
        script.token = (200, json!({ "id_token": self.key.sign(&claims) }));
    }

    async fn back(&self, query: &str, cookies: &[&str]) -> Response {
        let callback = request(Method::GET, "signin/callback");
        self.ask(callback, query, cookies).await
    }

    /// The session's cookie of somebody in these groups.
    async fn session(&self, groups: &[&str]) -> String {
        let (cookie, sent) = self.begin().await;
        self.vouch(&sent["nonce"], groups);
        let query = format!("code=abc&state={}", sent["state"]);
        let response = self.back(&query, &[&cookie]).await;
        assert_eq!(response.status, 303, "{}", response.body);
        let location = format!("../{}", link().expose());
        assert_eq!(response.headers["location"], location.as_str());
        // The sign-in is over: its cookie goes.
        let cleared = response.cookies.iter().find(|set| set.starts_with(SIGN_IN));
        assert!(cleared.unwrap().contains("=; Max-Age=0;"), "{cleared:?}");
        self::cookie(&response, SESSION)
    }
}

/// Where a table is asked: of the link's approval it holds the key alone, and of other links nothing.
async fn table() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

async fn answer(mut stream: TcpStream) {
    let hash = HEXLOWER.encode(&Sha256::digest(link().expose()));
    let known = format!("APPROVAL#{hash}");
    let mut text = String::new();
    let mut piece = [0; 4_096];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
        let Some((_, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        // A request's end is that of its body, which is JSON.
        let Ok(body) = serde_json::from_str::<Value>(body) else {
            continue;
        };
        let asked = &body["Key"];
        let found = match asked["pk"]["S"].as_str() {
            Some(pk) if pk == known => json!({ "Item": asked }),
            _ => json!({}),
        };
        let found = found.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            found.len()
        );
        let _ = stream.write_all(format!("{head}{found}").as_bytes()).await;
        return;
    }
}

/// The pair that a browser sends back.
fn cookie(response: &Response, name: &str) -> String {
    let set = response.cookies.iter().find(|set| set.starts_with(name));
    let set = set.unwrap_or_else(|| panic!("no {name} in {:?}", response.cookies));
    let (pair, attributes) = set.split_once("; ").unwrap();
    // What makes a browser keep it to itself (RFC 6265bis section 4.1.3.2).
    for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
        assert!(attributes.split("; ").any(|one| one == attribute), "{set}");
    }
    assert!(!attributes.contains("Domain"), "{set}");
    pair.to_owned()
}

#[tokio::test]
async fn nothing_is_looked_up_for_whoever_has_not_signed_in() {
    let scene = Scene::new().await;
    let link = link();
    let fields = [
        ("decision", "approve"),
        ("token", "x"),
        ("group", "shipment-sync"),
    ];
    for (request, query) in [
        (request(Method::GET, link.expose()), ""),
        (request(Method::GET, link.expose()), "format=csv"),
        (request(Method::GET, link.expose()), "page=2"),
        (request(Method::HEAD, link.expose()), ""),
        (request(Method::HEAD, link.expose()), "signin=yes"),
        (post(link.expose(), &fields), ""),
    ] {
        let method = request.method.clone().unwrap();
        let response = scene.ask(request, query, &[]).await;
        assert_eq!(response.status, 403, "{method} {query}");
        assert_eq!(response.cookies, Vec::<String>::new(), "{method} {query}");
        if method != Method::HEAD {
            assert!(response.body.contains("Sign in to see this plan"));
            assert!(response.body.contains("href=\"?signin=yes\""));
        }
    }
    assert_eq!(scene.get("signin=yes", &[]).await.status, 303);
    let nowhere = scene.ask(request(Method::GET, "no-link"), "signin=yes", &[]);
    assert_eq!(nowhere.await.status, 404);
}

#[tokio::test]
async fn a_member_gets_through_and_for_half_an_hour() {
    let mut scene = Scene::new().await;
    let session = scene.session(&["leads", "others"]).await;
    assert_eq!(scene.get("", &[&session]).await.status, 503);
    assert_eq!(
        scene.get("", &["other=1; more=2", &session]).await.status,
        503
    );
    let link = link();
    let form = post(link.expose(), &[("decision", "reject")]);
    assert_eq!(scene.ask(form, "", &[&session]).await.status, 503);

    // Two of them are none: a browser never sends two.
    assert_eq!(scene.get("", &[&session, &session]).await.status, 403);
    // Neither is one that is for something else.
    let (begun, _) = scene.begin().await;
    for (name, other) in [(SESSION, &begun), (SIGN_IN, &session)] {
        let (_, value) = other.split_once('=').unwrap();
        assert_eq!(
            scene.get("", &[&format!("{name}={value}")]).await.status,
            403
        );
    }
    // A group that is not asked for any more lets nobody in.
    let mut sign_in = scene.deps.sign_in.clone().unwrap();
    sign_in.client.groups = BTreeSet::from(["approvers".to_owned()]);
    scene.deps.sign_in = Some(sign_in);
    assert_eq!(scene.get("", &[&session]).await.status, 403);

    let mut scene = Scene::new().await;
    let session = scene.session(&["approvers"]).await;
    scene.deps.form_key = FormKey::new(&[8; 32], Some(&[7; 32])).unwrap();
    // The other scene's issuer has another port, so its session is its own.
    assert_eq!(scene.get("", &[&session]).await.status, 503);
    scene.deps.form_key = FormKey::new(&[8; 32], None).unwrap();
    assert_eq!(scene.get("", &[&session]).await.status, 403);
    scene.deps.form_key = key();
    scene.deps.now = || now() + minutes(29);
    assert_eq!(scene.get("", &[&session]).await.status, 503);
    scene.deps.now = || now() + minutes(30);
    assert_eq!(scene.get("", &[&session]).await.status, 403);
}

#[tokio::test]
async fn whoever_is_in_no_group_that_may_is_told_so_and_not_which_those_are() {
    let scene = Scene::new().await;
    for groups in [&[][..], &["others"], &["Approvers"]] {
        let session = scene.session(groups).await;
        let response = scene.get("", &[&session]).await;
        assert_eq!(response.status, 403);
        let says = "You are signed in as Mara Ito, and are in none of the groups whose members may see this plan and decide.";
        assert!(response.body.contains(says), "{}", response.body);
        assert!(!response.body.contains("approvers") && !response.body.contains("leads"));
        assert!(response.body.contains("href=\"?signin=again\""));
    }
}

#[tokio::test]
async fn what_comes_back_is_the_answer_to_what_was_begun_here() {
    let scene = Scene::new().await;
    let (begun, sent) = scene.begin().await;
    let (other, other_sent) = scene.begin().await;
    let (state, other_state) = (&sent["state"], &other_sent["state"]);
    assert_ne!(state, other_state);
    scene.vouch(&sent["nonce"], &["approvers"]);
    let good = format!("code=abc&state={state}");
    let session = scene.session(&["approvers"]).await;
    scene.vouch(&sent["nonce"], &["approvers"]);
    let asked = || {
        let mut script = scene.script.lock().unwrap();
        std::mem::take(&mut script.asked).len()
    };
    asked();
    let begun = begun.as_str();
    let bad: [(String, &[&str], u16); 9] = [
        // Another browser, or another sign-in in this one.
        (good.clone(), &[], 403),
        (good.clone(), &[&session], 403),
        (good.clone(), &[&other], 403),
        (format!("code=abc&state={other_state}"), &[begun], 403),
        ("code=abc".to_owned(), &[begun], 403),
        ("code=abc&state=".to_owned(), &[begun], 403),
        // The right browser, and no answer.
        (format!("state={state}"), &[begun], 400),
        (
            format!("error=access_denied&code=abc&state={state}"),
            &[begun],
            403,
        ),
        (format!("{good}&iss=https://evil.example"), &[begun], 400),
    ];
    for (query, cookies, status) in bad {
        let response = scene.back(&query, cookies).await;
        assert_eq!(
            (response.status, &response.cookies),
            (status, &Vec::new()),
            "{query}"
        );
        assert!(response.body.contains("You are not signed in"), "{query}");
        assert!(!response.body.contains("access_denied") && !response.body.contains("abc"));
    }
    assert_eq!(asked(), 0, "no code is exchanged for any of these");

    // A code that was used before, a token of another sign-in, an issuer that is down.
    scene.script.lock().unwrap().token = (400, json!({ "error": "invalid_grant" }));
    assert_eq!(scene.back(&good, &[begun]).await.status, 403);
    scene.vouch(&other_sent["nonce"], &["approvers"]);
    let response = scene.back(&good, &[begun]).await;
    assert_eq!((response.status, response.cookies.len()), (403, 0));
    scene.script.lock().unwrap().token = (502, json!(null));
    let response = scene.back(&good, &[begun]).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.headers["retry-after"], "5");
    let again = format!("href=\"../{}?signin=yes\"", link().expose());
    assert!(response.body.contains(&again), "{}", response.body);

    // An answer that names its issuer rightly.
    scene.vouch(&sent["nonce"], &["approvers"]);
    let base = scene.script.lock().unwrap().issuer.clone();
    let query = format!("{good}&iss={base}");
    assert_eq!(scene.back(&query, &[begun]).await.status, 303);
}

#[tokio::test]
async fn for_a_link_that_was_never_given_out_nothing_is_begun() {
    let scene = Scene::new().await;
    let strange = LinkId::parse("ISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-P0A").unwrap();
    for query in ["signin=yes", "signin=again"] {
        let response = scene.ask(request(Method::GET, strange.expose()), query, &[]);
        let response = response.await;
        assert_eq!(
            (response.status, response.cookies.len()),
            (404, 0),
            "{query}"
        );
        assert!(
            response.body.contains("There is no such approval"),
            "{query}"
        );
    }
    assert_eq!(
        scene.script.lock().unwrap().asked.len(),
        0,
        "the issuer was not asked for anything"
    );
    // A table that cannot be reached begins nothing either.
    let mut scene = scene;
    scene.deps.store = cut_off().await.store;
    let response = scene.get("signin=yes", &[]).await;
    assert_eq!((response.status, response.cookies.len()), (503, 0));
}

#[tokio::test]
async fn a_sign_in_is_waited_for_ten_minutes() {
    let mut scene = Scene::new().await;
    let (begun, sent) = scene.begin().await;
    scene.vouch(&sent["nonce"], &["approvers"]);
    scene.deps.now = || now() + minutes(10);
    let query = format!("code=abc&state={}", sent["state"]);
    assert_eq!(scene.back(&query, &[&begun]).await.status, 403);
}

#[tokio::test]
async fn where_nobody_signs_in_there_is_no_way_to() {
    let deps = cut_off().await;
    assert!(deps.sign_in.is_none());
    let callback = request(Method::GET, "signin/callback");
    assert_eq!(respond(&callback, &deps).await.status, 404);
    let link = link();
    let mut begin = request(Method::GET, link.expose());
    begin.query = "signin=yes".to_owned();
    // As without the question.
    assert_eq!(respond(&begin, &deps).await.status, 503);
}
