//! Requests and responses, apart from the shape that API Gateway gives them.

use std::sync::LazyLock;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE,
    HeaderName, LOCATION, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use aws_lambda_events::http::{HeaderMap, HeaderValue, Method};
use data_encoding::BASE64;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use super::view::CSS;

/// A request to the page.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// What stands after `/approvals/` in the path.
    pub id: String,
    /// The query, as it was sent.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; `None` where it was not what its encoding said.
    pub body: Option<Vec<u8>>,
}

impl From<ApiGatewayV2httpRequest> for Request {
    fn from(event: ApiGatewayV2httpRequest) -> Self {
        let path = event.raw_path.unwrap_or_default();
        let body = event.body.unwrap_or_default();
        let mut headers = event.headers;
        // API Gateway moves cookies out of the headers; the local AWS leaves them there.
        for cookie in event.cookies.unwrap_or_default() {
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                headers.append(COOKIE, cookie);
            }
        }
        Self {
            method: event.request_context.http.method,
            // Behind a stage or a mapped domain the path has more in front; the id is what the link ends with.
            id: path
                .rsplit_once("/approvals/")
                .map_or(String::new(), |(_, id)| id.to_owned()),
            query: event.raw_query_string.unwrap_or_default(),
            headers,
            body: if event.is_base64_encoded {
                BASE64.decode(body.as_bytes()).ok()
            } else {
                Some(body.into_bytes())
            },
        }
    }
}

impl Request {
    /// Reads an event of the HTTP API. Anybody may send headers and cookies that cannot be kept: this page has no use for
    /// them, so they are left out, and the rest is read.
    pub(super) fn of_event(mut event: Value) -> Result<Self, Problem> {
        if let Some(Value::Object(headers)) = event.get_mut("headers") {
            keep_readable(headers);
        }
        if let Some(Value::Array(cookies)) = event.get_mut("cookies") {
            cookies.retain(is_readable);
        }
        serde_json::from_value::<ApiGatewayV2httpRequest>(event)
            .map(Self::from)
            // The error's own text may repeat what was sent.
            .map_err(|_| Problem::Event)
    }

    /// The header's value, if it was sent exactly once and is text.
    pub(super) fn header(&self, name: impl Into<HeaderName>) -> Option<&str> {
        let mut values = self.headers.get_all(name.into()).into_iter();
        let value = values.next()?;
        values.next().is_none().then(|| value.to_str().ok())?
    }

    /// The value of a cookie. A browser sends one of a name that starts with `__Host-`; of several, none is believed.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers.get_all(COOKIE).into_iter();
        let mut values = cookies
            .filter_map(|header| header.to_str().ok())
            .flat_map(|header| header.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value);
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// The first value of a field of the query.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }
}

fn keep_readable(headers: &mut Map<String, Value>) {
    headers.retain(|name, value| {
        if let Value::Array(values) = value {
            values.retain(is_readable);
        }
        HeaderName::from_bytes(name.as_bytes()).is_ok() && (value.is_array() || is_readable(value))
    });
}

fn is_readable(value: &Value) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| HeaderValue::from_str(text).is_ok())
}

/// A response of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, without the ones that every response has.
    headers: Vec<(HeaderName, String)>,
    /// The cookies that are set.
    pub cookies: Vec<String>,
    /// The body.
    pub body: String,
}

/// No script, no picture, no frame, nothing from elsewhere: this page's one style sheet and its own form.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = BASE64.encode(&Sha256::digest(CSS));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'"
    )
});

impl Response {
    pub(super) fn html(status: u16, body: String) -> Self {
        Self {
            status,
            headers: vec![(CONTENT_TYPE, "text/html; charset=utf-8".to_owned())],
            cookies: Vec::new(),
            body,
        }
    }

    pub(super) fn csv(name: &str, body: String) -> Self {
        Self {
            status: 200,
            headers: vec![
                (CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
                (
                    CONTENT_DISPOSITION,
                    format!("attachment; filename=\"{name}\""),
                ),
            ],
            cookies: Vec::new(),
            body,
        }
    }

    /// To be fetched by GET: a reload of what comes then sends no form again (RFC 9110 section 15.4.4).
    pub(super) fn see_other(location: &str) -> Self {
        Self {
            status: 303,
            headers: vec![(LOCATION, location.to_owned())],
            cookies: Vec::new(),
            body: String::new(),
        }
    }

    pub(super) fn cookie(mut self, cookie: String) -> Self {
        self.cookies.push(cookie);
        self
    }

    pub(super) fn allow(mut self, methods: &str) -> Self {
        self.headers.push((ALLOW, methods.to_owned()));
        self
    }

    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        self.headers.push((RETRY_AFTER, seconds.to_string()));
        self
    }

    pub(super) fn without_body(mut self) -> Self {
        self.body.clear();
        self
    }

    /// All headers.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let always = [
            (CACHE_CONTROL, "no-store"),
            // Under `no-referrer` a browser sends `Origin: null` with the page's own form.
            (REFERRER_POLICY, "same-origin"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (HeaderName::from_static("x-robots-tag"), "noindex"),
            (CONTENT_SECURITY_POLICY, POLICY.as_str()),
        ];
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str()));
        always
            .into_iter()
            .chain(own)
            // Every value is made here, of ASCII; one that were none would be left out, not sent broken.
            .filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)))
            .collect()
    }
}

impl From<Response> for ApiGatewayV2httpResponse {
    fn from(response: Response) -> Self {
        let mut event = Self::default();
        event.status_code = i64::from(response.status);
        event.headers = response.headers();
        event.cookies = response.cookies;
        event.body = Some(Body::Text(response.body));
        event
    }
}
