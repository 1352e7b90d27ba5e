//! A request, apart from the shape that API Gateway gives it.

use std::collections::BTreeMap;

use aws_lambda_events::http::Method;
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A request. Headers are plain text: anybody may send one that HTTP does not allow, and is answered all the same.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `None` where the event has none, or one that HTTP does not allow.
    pub method: Option<Method>,
    /// `METHOD /path/{parameter}`, as the template names it.
    pub route_key: String,
    pub path: String,
    /// The parameters of the path, where the route has any.
    pub parameters: BTreeMap<String, String>,
    /// The query, as it was sent.
    pub query: String,
    /// By lower-case name; a header that was sent several times is one, joined by commas (RFC 9110 section 5.3).
    headers: BTreeMap<String, String>,
    cookies: Vec<String>,
    body: String,
    is_base64_encoded: bool,
    /// The claims of the token that the route's JWT authorizer found to be good.
    pub claims: Map<String, Value>,
}

/// An event that is none of an HTTP API. The parser's own text is not kept: it may repeat what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event is none of an HTTP API")]
pub struct UnreadableEvent;

/// Why a body is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFault {
    /// It is longer than it may be.
    TooLarge,
    /// It is not what its encoding says, or is not UTF-8 where text is asked for.
    Garbled,
}

/// As much of API Gateway's event as is looked at.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    route_key: Option<String>,
    raw_path: Option<String>,
    raw_query_string: Option<String>,
    headers: Option<Map<String, Value>>,
    cookies: Option<Vec<Value>>,
    path_parameters: Option<BTreeMap<String, String>>,
    request_context: Option<Context>,
    body: Option<String>,
    is_base64_encoded: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    http: Option<Http>,
    authorizer: Option<Authorizer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Http {
    method: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Authorizer {
    jwt: Option<Jwt>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jwt {
    claims: Option<Map<String, Value>>,
}

impl Request {
    /// Reads an event of the HTTP API.
    ///
    /// # Errors
    /// It is none.
    pub fn from_event(event: Value) -> Result<Self, UnreadableEvent> {
        let event: Event = serde_json::from_value(event).map_err(|_| UnreadableEvent)?;
        let context = event.request_context.unwrap_or_default();
        let method = context.http.unwrap_or_default().method;
        let jwt = context.authorizer.and_then(|authorizer| authorizer.jwt);
        let mut request = Self {
            method: Method::from_bytes(method.as_bytes()).ok(),
            route_key: event.route_key.unwrap_or_default(),
            path: event.raw_path.unwrap_or_default(),
            parameters: event.path_parameters.unwrap_or_default(),
            query: event.raw_query_string.unwrap_or_default(),
            body: event.body.unwrap_or_default(),
            is_base64_encoded: event.is_base64_encoded,
            claims: jwt.and_then(|jwt| jwt.claims).unwrap_or_default(),
            ..Self::default()
        };
        for (name, value) in event.headers.unwrap_or_default() {
            let values = match value {
                Value::Array(values) => values,
                one => vec![one],
            };
            for value in values.iter().filter_map(Value::as_str) {
                request = request.with_header(&name, value);
            }
        }
        for cookie in event.cookies.unwrap_or_default() {
            if let Value::String(cookie) = cookie {
                request.cookies.push(cookie);
            }
        }
        Ok(request)
    }

    /// The same request with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        // API Gateway moves cookies out of the headers; the local AWS leaves them there.
        if name.eq_ignore_ascii_case("cookie") {
            self.cookies.push(value.to_owned());
            return self;
        }
        let all = self.headers.entry(name.to_ascii_lowercase());
        all.and_modify(|all| {
            all.push_str(", ");
            all.push_str(value);
        })
        .or_insert(value.to_owned());
        self
    }

    /// The same request with this body: as it is, or `encoded` as base64.
    #[must_use]
    pub fn with_body(self, body: String, is_base64_encoded: bool) -> Self {
        Self {
            body,
            is_base64_encoded,
            ..self
        }
    }

    /// A header's value, by its name in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(&name.to_ascii_lowercase())?;
        Some(value)
    }

    /// The value of a cookie. A browser sends one of a name that starts with `__Host-`; of several, none is believed.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let mut values = self
            .cookies
            .iter()
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value);
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// A parameter of the path; empty where the route has none of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The first value of a field of the query.
    #[must_use]
    pub fn query_field(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }

    /// The body, of at most `most` bytes.
    ///
    /// # Errors
    /// It is longer, or is not what its encoding says.
    pub fn body(&self, most: usize) -> Result<Vec<u8>, BodyFault> {
        if !self.is_base64_encoded {
            return match self.body.len() <= most {
                true => Ok(self.body.clone().into_bytes()),
                false => Err(BodyFault::TooLarge),
            };
        }
        // What is plainly too long is not decoded.
        if self.body.len() / 4 * 3 > most + 2 {
            return Err(BodyFault::TooLarge);
        }
        let bytes = BASE64
            .decode(self.body.as_bytes())
            .map_err(|_| BodyFault::Garbled)?;
        match bytes.len() <= most {
            true => Ok(bytes),
            false => Err(BodyFault::TooLarge),
        }
    }

    /// The body as text, of at most `most` bytes.
    ///
    /// # Errors
    /// It is longer, is not what its encoding says, or is not UTF-8.
    pub fn text(&self, most: usize) -> Result<String, BodyFault> {
        String::from_utf8(self.body(most)?).map_err(|_| BodyFault::Garbled)
    }
}
