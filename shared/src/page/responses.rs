//! The page's responses, with the headers that every one of them has.

use aws_lambda_events::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY,
};

use super::style::POLICY;
use crate::http::Response;

/// A page.
pub(super) fn html(status: u16, body: String) -> Response {
    protect(Response::new(status, "text/html; charset=utf-8", body))
}

/// A file to be saved under this name.
pub(super) fn csv_file(name: &str, body: String) -> Response {
    protect(Response::new(200, "text/csv; charset=utf-8", body)).with(
        CONTENT_DISPOSITION,
        &format!("attachment; filename=\"{name}\""),
    )
}

/// To another page.
pub(super) fn redirect(location: &str) -> Response {
    protect(Response::see_other(location))
}

fn protect(response: Response) -> Response {
    response
        // Under `no-referrer` a browser sends `Origin: null` with the page's own form.
        .with(REFERRER_POLICY, "same-origin")
        .with(HeaderName::from_static("x-robots-tag"), "noindex")
        .with(CONTENT_SECURITY_POLICY, &POLICY)
}
