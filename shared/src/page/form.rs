//! What a POST has to be before anything of it is believed.

use url::Url;

use crate::domain::approval::Decision;
use crate::http::{BodyFault, Request};

/// The largest body that is read, in bytes: a group's name, a reason and a token are far smaller.
const LARGEST_BODY: usize = 8 * 1024;

/// A decision as the form sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    /// What is to happen; `None` for a word that no form of this page holds.
    pub(super) decision: Option<Decision>,
    /// The form token.
    pub(super) token: String,
    /// The group's id, typed.
    pub(super) group: String,
    /// Why, in the decider's words.
    pub(super) reason: String,
}

/// Why a POST is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAForm {
    /// Its body is not what its encoding says.
    Garbled,
    /// It is too large.
    TooLarge,
    /// It is not `application/x-www-form-urlencoded`.
    WrongType,
    /// It does not come from this page.
    ForeignOrigin,
}

impl Form {
    /// Reads the form that this page shows under `public_url`.
    pub(super) fn read(request: &Request, public_url: &Url) -> Result<Self, NotAForm> {
        let body = request.body(LARGEST_BODY).map_err(|fault| match fault {
            BodyFault::TooLarge => NotAForm::TooLarge,
            BodyFault::Garbled => NotAForm::Garbled,
        })?;
        let media_type = request.header("content-type").unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(NotAForm::WrongType);
        }
        if !same_origin(request, public_url) {
            return Err(NotAForm::ForeignOrigin);
        }
        let field = |name: &str| {
            url::form_urlencoded::parse(&body)
                .find(|(key, _)| key == name)
                .map_or(String::new(), |(_, value)| value.into_owned())
        };
        Ok(Self {
            decision: [Decision::Approve, Decision::Reject]
                .into_iter()
                .find(|decision| decision.as_str() == field("decision")),
            token: field("token"),
            group: field("group"),
            // Browsers send a line break of a text field as CR LF (WHATWG HTML, form submission).
            reason: field("reason").replace("\r\n", "\n").trim().to_owned(),
        })
    }
}

/// Whether a browser sent this from a page of `public_url`.
///
/// Browsers send `Origin` with every POST, or hide it as `null`; then the header that no page can set says the same
/// (Fetch Metadata, `Sec-Fetch-Site`).
fn same_origin(request: &Request, public_url: &Url) -> bool {
    match request.header("origin") {
        Some(origin) if origin != "null" => origin == public_url.origin().ascii_serialization(),
        Some(_) | None => request.header("sec-fetch-site") == Some("same-origin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(headers: &[(&'static str, &'static str)], body: &[u8]) -> Request {
        let request = headers
            .iter()
            .fold(Request::default(), |request, (name, value)| {
                request.with_header(name, value)
            });
        request.with_body(String::from_utf8(body.to_vec()).unwrap(), false)
    }

    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

    fn read(headers: &[(&'static str, &'static str)], base: &str) -> Result<Form, NotAForm> {
        let headers = [&[FORM], headers].concat();
        Form::read(&post(&headers, b""), &Url::parse(base).unwrap())
    }

    #[test]
    fn only_this_pages_origin_is_believed() {
        let base = "https://guard.example:8443/ops";
        let foreign = Err(NotAForm::ForeignOrigin);
        let site = |value| ("sec-fetch-site", value);
        let origin = |value| ("origin", value);
        let own = origin("https://guard.example:8443");

        assert!(read(&[own], base).is_ok());
        assert!(read(&[own, site("same-origin")], base).is_ok());
        assert!(read(&[site("same-origin")], base).is_ok());
        assert!(read(&[origin("null"), site("same-origin")], base).is_ok());

        assert_eq!(read(&[], base), foreign);
        assert_eq!(read(&[site("none")], base), foreign);
        assert_eq!(read(&[site("same-site")], base), foreign);
        assert_eq!(read(&[site("cross-site")], base), foreign);
        assert_eq!(read(&[origin("null")], base), foreign);
        assert_eq!(read(&[origin("null"), site("cross-site")], base), foreign);
        for other in [
            "https://evil.example",
            "http://guard.example:8443",
            "https://guard.example",
            "https://guard.example:8443/",
            "https://guard.example:8443.evil.example",
            "",
        ] {
            // A foreign origin stays foreign, whatever else the request says of itself.
            assert_eq!(read(&[origin(other)], base), foreign, "{other}");
            assert_eq!(read(&[origin(other), site("same-origin")], base), foreign);
        }
        assert_eq!(read(&[own, origin("https://evil.example")], base), foreign);
        assert_eq!(read(&[own, own, site("same-origin")], base), foreign);
    }

    #[test]
    fn a_hidden_origin_never_equals_one_that_has_none() {
        assert_eq!(
            read(&[("origin", "null")], "data:,x"),
            Err(NotAForm::ForeignOrigin)
        );
    }

    #[test]
    fn the_default_port_is_left_out_of_an_origin() {
        assert!(
            read(
                &[("origin", "https://guard.example")],
                "https://guard.example:443/"
            )
            .is_ok()
        );
    }

    #[test]
    fn the_form_comes_through_as_it_was_typed() {
        let body =
            b"decision=reject&token=1.x&group=a%26b+c&reason=not%20now%0D%0Alater%20&group=z";
        let request = post(&[FORM, ("origin", "https://a.example")], body);
        assert_eq!(
            Form::read(&request, &Url::parse("https://a.example").unwrap()),
            Ok(Form {
                decision: Some(Decision::Reject),
                token: "1.x".to_owned(),
                group: "a&b c".to_owned(),
                reason: "not now\nlater".to_owned(),
            })
        );
    }

    #[test]
    fn other_bodies_are_not_read() {
        let base = Url::parse("https://a.example").unwrap();
        let own = ("origin", "https://a.example");
        let read = |content_type, body: &[u8]| {
            Form::read(&post(&[("content-type", content_type), own], body), &base)
        };
        let kind = "Application/X-WWW-Form-URLencoded; charset=UTF-8";
        assert!(read(kind, b"decision=approve").is_ok());
        assert!(read(kind, &[b'x'; LARGEST_BODY]).is_ok());
        assert_eq!(
            read(kind, &[b'x'; LARGEST_BODY + 1]),
            Err(NotAForm::TooLarge)
        );
        assert_eq!(read("text/plain", b""), Err(NotAForm::WrongType));
        assert_eq!(read("", b""), Err(NotAForm::WrongType));
        let garbled = post(&[FORM, own], b"").with_body("%%%".to_owned(), true);
        assert_eq!(Form::read(&garbled, &base), Err(NotAForm::Garbled));
        // Bytes that are no UTF-8 and an unknown word are no decision, and no error either.
        let odd = read(kind, b"decision=%FF%FE&token=%00").unwrap();
        assert_eq!(odd.decision, None);
    }
}
