//! Pages that say one thing.

use askama::Template;

use super::style::CSS;

/// A page that says one thing; with `link`, an address and what it is called.
pub(super) fn render_message(
    title: &str,
    text: &str,
    link: Option<(&str, &str)>,
) -> Result<String, askama::Error> {
    Message {
        css: CSS,
        title,
        text,
        link,
    }
    .render()
}

#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    css: &'static str,
    title: &'a str,
    text: &'a str,
    link: Option<(&'a str, &'a str)>,
}
