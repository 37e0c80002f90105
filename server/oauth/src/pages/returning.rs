//! Interactive redirect: the page for an invalid client request before any decision. The client receives the error only
//! if the person follows the link.
//!
//! An automatic redirect would lead from a trusted origin to an address that any stranger can register (RFC 9700,
//! section 4.11.2).

use super::destination::Destination;
use super::frame::{Forms, Page};
use super::markup::Html;
use crate::error::ErrorCode;
use recalld_http_server::Response;

/// Content of the page.
#[derive(Clone, Copy, Debug)]
pub struct Returning<'a> {
    /// Summary of the link's target.
    pub destination: &'a Destination,
    /// URL of the link, including the error parameters.
    pub address: &'a str,
    /// The error code. No description is shown, as its text may come from the client.
    pub error: ErrorCode,
}

/// Renders the page with status 400.
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
