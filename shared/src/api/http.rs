//! Requests and answers, apart from the shape that API Gateway gives them.

use std::collections::{BTreeMap, BTreeSet};

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use aws_lambda_events::encodings::Body;
use aws_lambda_events::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use aws_lambda_events::http::{HeaderMap, HeaderValue};
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::problem::Problem;
use crate::oidc::listed;

/// What a body may have, in bytes.
pub const LONGEST_BODY: usize = 256 * 1024;

/// As much of API Gateway's event (HTTP API, payload format 2.0) as is looked at. Headers are plain text here: a value
/// that is no valid header must be answered too.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// `METHOD /path/{parameter}`, as the template names it.
    pub route_key: String,
    /// The parameters of the path, where the route has any.
    pub path_parameters: Option<BTreeMap<String, String>>,
    /// The headers, named in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Option<String>,
    /// Whether the body is encoded.
    pub is_base64_encoded: bool,
    /// What API Gateway itself found out.
    pub request_context: Context,
}

/// See [`Request`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Whom a route's authorizer let in.
    pub authorizer: Option<Authorizer>,
}

/// See [`Request`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Authorizer {
    /// The token that a JWT authorizer found to be good.
    pub jwt: Option<Jwt>,
}

/// See [`Request`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Jwt {
    /// Its claims, each as text.
    pub claims: BTreeMap<String, Value>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// A claim of the token that the route's JWT authorizer found to be good.
    pub(super) fn claim(&self, name: &str) -> Option<&str> {
        let jwt = self.request_context.authorizer.as_ref()?.jwt.as_ref()?;
        let claim = jwt.claims.get(name)?.as_str()?;
        Some(claim).filter(|claim| !claim.is_empty())
    }

    /// The names in such a claim: a list, or one name.
    pub(super) fn listed(&self, name: &str) -> BTreeSet<String> {
        let jwt = self.request_context.authorizer.as_ref();
        let claim = jwt.and_then(|authorizer| authorizer.jwt.as_ref()?.claims.get(name));
        match claim {
            Some(Value::String(text)) => listed(text),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                names
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect()
            }
            _ => BTreeSet::new(),
        }
    }

    pub(super) fn parameter(&self, name: &str) -> &str {
        let parameter = self.path_parameters.as_ref().and_then(|all| all.get(name));
        parameter.map_or("", String::as_str)
    }

    /// The body as text.
    pub(super) fn text(&self) -> Result<String, Problem> {
        let body = self.body.as_deref().unwrap_or_default();
        if !self.is_base64_encoded {
            return if body.len() > LONGEST_BODY {
                Err(Problem::TooLarge)
            } else {
                Ok(body.to_owned())
            };
        }
        if body.len() / 4 * 3 > LONGEST_BODY + 2 {
            return Err(Problem::TooLarge);
        }
        let bytes = BASE64
            .decode(body.as_bytes())
            .map_err(|_| Problem::NotText)?;
        if bytes.len() > LONGEST_BODY {
            return Err(Problem::TooLarge);
        }
        String::from_utf8(bytes).map_err(|_| Problem::NotText)
    }
}

/// An answer: a status, a code for programs, a line for people, and what else there is to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// What happened, for programs.
    pub code: &'static str,
    /// What happened, and what to write instead where it was refused.
    pub message: String,
    /// Further fields.
    pub more: Map<String, Value>,
}

impl Answer {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            more: Map::new(),
        }
    }

    pub(super) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.more.insert(field.to_owned(), value.into());
        self
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("code".to_owned(), self.code.into());
        body.insert("message".to_owned(), self.message.as_str().into());
        body.extend(self.more.clone());
        Value::Object(body)
    }
}

impl From<Answer> for ApiGatewayV2httpResponse {
    fn from(answer: Answer) -> Self {
        let value = HeaderValue::from_static;
        let mut headers: HeaderMap = [
            (CONTENT_TYPE, value("application/json")),
            (CACHE_CONTROL, value("no-store")),
            (X_CONTENT_TYPE_OPTIONS, value("nosniff")),
        ]
        .into_iter()
        .collect();
        let more: Option<(HeaderName, HeaderValue)> = match answer.status {
            401 => Some((WWW_AUTHENTICATE, value("Bearer"))),
            429 => Some((RETRY_AFTER, value("60"))),
            503 => Some((RETRY_AFTER, value("5"))),
            _ => None,
        };
        headers.extend(more);
        let mut event = Self::default();
        event.status_code = i64::from(answer.status);
        event.headers = headers;
        event.body = Some(Body::Text(answer.body().to_string()));
        event
    }
}
