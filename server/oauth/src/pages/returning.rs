//! The page for a request that its client got wrong, before anybody decided: the client is told by whoever follows
//! the link, and by nobody else.
//!
//! A redirect without a person would lead from an address that people trust to one that any stranger may register
//! (RFC 9700, section 4.11.2).

use super::destination::Destination;
use super::frame::{Forms, Page};
use super::markup::Html;
use crate::error::ErrorCode;
use recalld_http_server::Response;

/// What the page shows.
#[derive(Clone, Copy, Debug)]
pub struct Returning<'a> {
    /// Where the link leads.
    pub destination: &'a Destination,
    /// The same as an address, with the error in it.
    pub address: &'a str,
    /// What is wrong. Nothing else is said of it: words about it may be the client's own.
    pub error: ErrorCode,
}

/// The page: 400.
pub fn returning(data: &Returning<'_>) -> Response {
    const HEADING: &str = "This application asked in a way that is not taken";
    let to = data.destination;
    let mut content = Html::new();
    content
        .put("<h1>{}</h1>\n", &[HEADING])
        .raw(
            "<p>So nobody can sign in for it now. Nothing was allowed or changed. If you did not begin this in an \
             application of yours, close this page.</p>\n",
        )
        .put(
            "<dl class=\"facts\">\n<div><dt>What is wrong</dt><dd><code>{}</code></dd></div>\n\
             <div><dt>The application is told at</dt><dd>{}<span class=\"hint\">{}</span></dd></div>\n</dl>\n",
            &[data.error.name(), to.shown(), to.remark()],
        )
        .put(
            "<p class=\"way-back\"><a href=\"{}\" rel=\"noreferrer\">Return to {}</a></p>\n",
            &[data.address, to.shown()],
        );
    Page { status: 400, title: HEADING, content, forms: Forms::None }.answer()
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::{check, text};
    use super::*;

    #[test]
    fn the_way_back_is_one_link_that_says_where_it_leads() {
        let address =
            "https://notebook.example/cb?a=%22%3E&error=invalid_scope&iss=https%3A%2F%2Fi";
        let destination = Destination::of(address).unwrap();
        let error = ErrorCode::InvalidScope;
        let answer = returning(&Returning { destination: &destination, address, error });
        check(&answer, 400, "'none'");
        let text = text(&answer);
        let href = address.replace('&', "&amp;");
        assert_eq!(text.matches("<a ").count(), 1);
        assert!(text.contains(&format!(
            "<a href=\"{href}\" rel=\"noreferrer\">Return to notebook.example</a>"
        )));
        assert!(text.contains("<code>invalid_scope</code>") && !text.contains("<form"));
    }
}
