//! Pages of the e-mail confirmation.
//!
//! The link in a mail leads to a page with one button. Only the button changes anything, since mail scanners follow
//! links, too.

use super::frame::{Forms, Page};
use super::markup::Html;
use recalld_http_server::Response;

/// Path of the link in a mail, and target of the page's form.
pub const CONFIRM_PATH: &str = "/confirm";

/// Name of the link's secret in the query and the form.
pub const CONFIRM_TOKEN_FIELD: &str = "token";

/// Content of the confirmation page.
#[derive(Clone, Copy, Debug)]
pub struct Confirm<'a> {
    /// The address to confirm.
    pub address: &'a str,
    /// The workspace with this address.
    pub workspace: &'a str,
    /// The secret of the link.
    pub token: &'a str,
}

/// The page with the confirmation button.
pub fn confirm(data: &Confirm<'_>) -> Response {
    let mut content = Html::new();
    content
        .put(
            "<h1>Confirm your e-mail address</h1>\n<p><strong><bdi>{}</bdi></strong> was given as the address of the \
             workspace <strong><bdi>{}</bdi></strong>.</p>\n",
            &[data.address, data.workspace],
        )
        .raw("<p>Once it is confirmed, the workspace can store memories. If you know nothing of it, close this page: \
              nothing happens then.</p>\n")
        .put("<form class=\"alone\" method=\"post\" action=\"{}\">\n", &[CONFIRM_PATH])
        .put("<input type=\"hidden\" name=\"{}\" value=\"{}\">\n", &[CONFIRM_TOKEN_FIELD, data.token])
        .raw("<div class=\"buttons\"><button class=\"main\">Confirm the address</button></div>\n</form>\n");
    page(200, "Confirm your e-mail address", content, Forms::Own)
}

/// The page after a successful confirmation.
pub fn confirmed() -> Response {
    let mut content = Html::new();
    content.raw(
        "<h1>The address is confirmed</h1>\n<p>The workspace can store memories from now on.</p>\n\
         <p>You can close this page.</p>\n",
    );
    page(200, "The address is confirmed", content, Forms::None)
}

/// The page for an expired, used or unknown link; does not reveal which.
pub fn confirmation_over() -> Response {
    let mut content = Html::new();
    content.raw(
        "<h1>This link is no longer good</h1>\n<p>It was used before, is too old, or is not complete. Nothing was \
         changed.</p>\n<p>If the address is still not confirmed, ask for another mail.</p>\n",
    );
    page(410, "This link is no longer good", content, Forms::None)
}

fn page(status: u16, title: &'static str, content: Html, forms: Forms) -> Response {
    Page { status, title, content, forms }.answer()
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::{check, text};
    use super::*;

    #[test]
    fn only_the_button_leads_on() {
        let data = Confirm { address: "a<b@c.example", workspace: "acme", token: "T\"1" };
        let answer = confirm(&data);
        check(&answer, 200, "'self'");
        let text = text(&answer);
        assert!(text.contains("<bdi>a&lt;b@c.example</bdi>"), "{text}");
        assert!(text.contains("name=\"token\" value=\"T&quot;1\""), "{text}");
        assert_eq!(text.matches("<button").count(), 1);
        assert!(!text.contains("<a "));
    }

    #[test]
    fn the_other_two_have_nothing_to_press() {
        for (answer, status) in [(confirmed(), 200), (confirmation_over(), 410)] {
            check(&answer, status, "'none'");
            assert!(!text(&answer).contains("<form") && !text(&answer).contains("<a "));
        }
    }
}
