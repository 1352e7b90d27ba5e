//! A response, apart from the shape that API Gateway expects of it.

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use aws_lambda_events::encodings::Body;
use aws_lambda_events::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use aws_lambda_events::http::{HeaderMap, HeaderValue};

/// A response: kept by no cache, and taken by no browser for another type than its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    /// The cookies that are set.
    pub cookies: Vec<String>,
    pub body: String,
}

impl Response {
    /// A response with what its status asks for: how to authenticate, or when to try again.
    #[must_use]
    pub fn new(status: u16, content_type: &'static str, body: String) -> Self {
        Self {
            body,
            ..Self::empty(status)
        }
        .with(CONTENT_TYPE, content_type)
    }

    /// One to be fetched by GET: a reload of what comes then sends no form again (RFC 9110 section 15.4.4).
    #[must_use]
    pub fn see_other(location: &str) -> Self {
        Self::empty(303).with(LOCATION, location)
    }

    fn empty(status: u16) -> Self {
        let response = Self {
            status,
            headers: HeaderMap::new(),
            cookies: Vec::new(),
            body: String::new(),
        }
        .with(CACHE_CONTROL, "no-store")
        .with(X_CONTENT_TYPE_OPTIONS, "nosniff");
        match status {
            401 => response.with(WWW_AUTHENTICATE, "Bearer"),
            429 => response.with(RETRY_AFTER, "60"),
            503 => response.with(RETRY_AFTER, "5"),
            _ => response,
        }
    }

    /// The same response with a header. A value that no header can have is left out, not sent broken.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    #[must_use]
    pub fn with_cookie(mut self, cookie: String) -> Self {
        self.cookies.push(cookie);
        self
    }

    /// The answer to HEAD.
    #[must_use]
    pub fn without_body(mut self) -> Self {
        self.body.clear();
        self
    }
}

impl From<Response> for ApiGatewayV2httpResponse {
    fn from(response: Response) -> Self {
        let mut event = Self::default();
        event.status_code = i64::from(response.status);
        event.headers = response.headers;
        event.cookies = response.cookies;
        event.body = Some(Body::Text(response.body));
        event
    }
}
