//! Reads what a request asks the page for.

use aws_lambda_events::http::Method;
use url::Url;

use super::fault::PageFault;
use super::form::Form;
use crate::app::link::LinkId;
use crate::http::Request;

/// What stands for the link in a path. Behind a stage or a mapped domain the path has more in front; the link's id is what
/// it ends with.
pub(super) fn link_text(request: &Request) -> &str {
    let path = request.path.rsplit_once("/approvals/");
    path.map_or("", |(_, id)| id)
}

/// What a request asks for, before anything is looked up.
#[derive(Debug)]
pub(super) enum Ask {
    Show,
    /// A part of the CSV, from 1.
    Table(usize),
    Decide(Form),
}

/// Reads what a request asks for.
pub(super) fn read_ask(request: &Request, public_url: &Url) -> Result<(LinkId, Ask), PageFault> {
    let method = request.method.as_ref().ok_or(PageFault::Event)?;
    if ![Method::GET, Method::HEAD, Method::POST].contains(method) {
        return Err(PageFault::Method);
    }
    let link = LinkId::parse(link_text(request)).ok_or(PageFault::Unknown)?;
    if *method == Method::POST {
        return match Form::read(request, public_url) {
            Ok(form) => Ok((link, Ask::Decide(form))),
            Err(fault) => Err(PageFault::Form(fault)),
        };
    }
    let ask = match request.query_field("format").as_deref() {
        Some("csv") => Ask::Table(read_number(request, "part")),
        _ => Ask::Show,
    };
    Ok((link, ask))
}

/// The number of a page or a part. Text that is no number asks for the first; a number beyond the last, for the last.
pub(super) fn read_number(request: &Request, name: &str) -> usize {
    request
        .query_field(name)
        .and_then(|number| number.parse().ok())
        .unwrap_or(1)
}
