//! The sign-in and consent page: client, requested scopes and redirect target.

use super::destination::Destination;
use super::frame::{Forms, Page};
use super::markup::Html;
use crate::scopes::in_plain_words;
use recalld_common::scope::Scope;
use recalld_http_server::Response;

/// Path of the page, and target of its form.
pub const AUTHORIZE_PATH: &str = "/authorize";

/// Maximum number of characters of a client name shown.
const NAME_CHARS_MAX: usize = 80;

/// Maximum length of the workspace field in characters: the longest slug.
const WORKSPACE_CHARS_MAX: &str = "40";
/// Maximum length of the key field in characters: three times the length of an issued key.
const KEY_CHARS_MAX: &str = "200";

/// Names of the form fields.
pub mod fields {
    /// The sealed request.
    pub const REQUEST: &str = "request";
    /// The CSRF token.
    pub const CSRF: &str = "csrf";
    /// The workspace's slug.
    pub const WORKSPACE: &str = "workspace";
    /// The access key.
    pub const KEY: &str = "key";
    /// The decision: [`ALLOW`] or [`REFUSE`].
    pub const DECISION: &str = "decision";
    /// Value of [`DECISION`]: the person approves.
    pub const ALLOW: &str = "allow";
    /// Value of [`DECISION`]: the person denies.
    pub const REFUSE: &str = "refuse";
}

/// The requesting client, as shown to the person.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Display name, as claimed by the client.
    pub name: &'a str,
    /// Host of the client id, if the id is a URL.
    pub host: Option<&'a str>,
    /// True if every redirect URI leads to the person's own machine, where any program may pose as the client.
    pub is_local_only: bool,
}

/// Reason for showing the form again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The workspace field is empty.
    NoWorkspace,
    /// The key field is empty.
    NoKey,
    /// Both fields are empty.
    Neither,
    /// Workspace and key do not match; the page does not reveal which is wrong.
    Refused,
}

/// Content of the sign-in page.
#[derive(Clone, Copy, Debug)]
pub struct SignIn<'a> {
    /// The requesting client.
    pub client: Client<'a>,
    /// Summary of the redirect target.
    pub destination: &'a Destination,
    /// The requested scopes.
    pub scopes: &'a [Scope],
    /// Prefix of keys, before `_once_` and `_user_`.
    pub key_prefix: &'a str,
    /// The sealed authorization request.
    pub request: &'a str,
    /// The CSRF token of the form.
    pub csrf: &'a str,
    /// The workspace typed before, or empty.
    pub workspace: &'a str,
    /// The error of the previous submission.
    pub fault: Option<Fault>,
}

/// Renders the sign-in page: 200 at first, 400 if a field was empty, 403 if workspace and key were wrong.
pub fn sign_in(data: &SignIn<'_>) -> Response {
    let name = cut(data.client.name, NAME_CHARS_MAX);
    let mut content = Html::new();
    if let Some(fault) = data.fault {
        put_fault(&mut content, fault);
    }
    content.put("<h1>Let <bdi>{}</bdi> use your workspace?</h1>\n", &[&name]);
    put_facts(&mut content, data, &name);
    put_scopes(&mut content, data.scopes);
    if data.client.is_local_only {
        content.raw(
            "<p class=\"notice\" role=\"note\"><strong>Did you start this?</strong> The answer stays on this computer, \
             where any program can go by any name. Allow it only if you have just begun to sign in yourself.</p>\n",
        );
    }
    put_form(&mut content, data);
    let status = match data.fault {
        None => 200,
        Some(Fault::Refused) => 403,
        Some(Fault::NoWorkspace | Fault::NoKey | Fault::Neither) => 400,
    };
    let title = match data.fault {
        None => format!("Sign in for {name}"),
        Some(_) => format!("Not signed in: sign in for {name}"),
    };
    Page { status, title: &title, content, forms: Forms::OwnAndOn }.answer()
}

impl Fault {
    fn of_workspace(self) -> bool {
        self != Fault::NoKey
    }

    fn of_key(self) -> bool {
        self != Fault::NoWorkspace
    }
}

/// Puts the error first on the page, focused, so that screen readers read the error first.
fn put_fault(content: &mut Html, fault: Fault) {
    content.raw(
        "<div class=\"fault\" id=\"fault\" role=\"alert\" tabindex=\"-1\" autofocus>\n<h2>Not signed in</h2>\n",
    );
    let text = match fault {
        Fault::Refused => {
            "<a href=\"#workspace\">Workspace</a> or <a href=\"#key\">access key</a> is wrong, expired or already used."
        }
        Fault::NoWorkspace => "Enter the <a href=\"#workspace\">workspace</a>.",
        Fault::NoKey => "Enter the <a href=\"#key\">access key</a>.",
        Fault::Neither => {
            "Enter the <a href=\"#workspace\">workspace</a> and the <a href=\"#key\">access key</a>."
        }
    };
    content.raw("<p>").raw(text).raw("</p>\n</div>\n");
}

fn put_facts(content: &mut Html, data: &SignIn<'_>, name: &str) {
    content.put("<dl class=\"facts\">\n<div><dt>Application</dt><dd><bdi>{}</bdi>", &[name]);
    match data.client.host {
        Some(host) => content.put("<span class=\"hint\">known by its address, {}</span>", &[host]),
        None => content.raw("<span class=\"hint\">a name it gave itself</span>"),
    };
    let to = data.destination;
    content.put(
        "</dd></div>\n<div><dt>The answer goes to</dt><dd>{}<span class=\"hint\">{}</span></dd></div>\n</dl>\n",
        &[to.shown(), to.remark()],
    );
}

fn put_scopes(content: &mut Html, scopes: &[Scope]) {
    content.raw("<h2 id=\"asked\">It asks to</h2>\n<ul aria-labelledby=\"asked\">\n");
    for scope in scopes {
        content.put(
            "<li>{} <code class=\"scope\">{}</code></li>\n",
            &[in_plain_words(*scope), scope.name()],
        );
    }
    content.raw("</ul>\n");
}

fn put_form(content: &mut Html, data: &SignIn<'_>) {
    let faulty = |is: bool| if is { "true" } else { "false" };
    let described = |hint: &'static str, both: &'static str, is| if is { both } else { hint };
    let of_workspace = data.fault.is_some_and(Fault::of_workspace);
    let of_key = data.fault.is_some_and(Fault::of_key);
    content
        .put(
            "<form method=\"post\" action=\"{}\" autocomplete=\"off\" aria-labelledby=\"sign-in\">\n\
             <h2 id=\"sign-in\">Sign in to decide</h2>\n",
            &[AUTHORIZE_PATH],
        )
        .put("<input type=\"hidden\" name=\"{}\" value=\"{}\">\n", &[fields::REQUEST, data.request])
        .put("<input type=\"hidden\" name=\"{}\" value=\"{}\">\n", &[fields::CSRF, data.csrf])
        .put(
            "<div class=\"field\"><label for=\"workspace\">Workspace</label>\n\
             <span class=\"hint\" id=\"workspace-hint\">its short name, in small letters</span>\n\
             <input id=\"workspace\" name=\"{}\" value=\"{}\" maxlength=\"{}\" required autocapitalize=\"none\" \
             autocomplete=\"off\" spellcheck=\"false\" aria-invalid=\"{}\" aria-describedby=\"{}\"></div>\n",
            &[
                fields::WORKSPACE,
                data.workspace,
                WORKSPACE_CHARS_MAX,
                faulty(of_workspace),
                described("workspace-hint", "workspace-hint fault", of_workspace),
            ],
        )
        .put(
            "<div class=\"field\"><label for=\"key\">Access key</label>\n\
             <span class=\"hint\" id=\"key-hint\">begins with <code>{}_once_</code>, and is then good for one sign-in, \
             or with <code>{}_user_</code></span>\n",
            &[data.key_prefix, data.key_prefix],
        )
        .put(
            "<input id=\"key\" name=\"{}\" type=\"password\" maxlength=\"{}\" required autocapitalize=\"none\" \
             autocomplete=\"off\" spellcheck=\"false\" aria-invalid=\"{}\" aria-describedby=\"{}\"></div>\n",
            &[
                fields::KEY,
                KEY_CHARS_MAX,
                faulty(of_key),
                described("key-hint", "key-hint fault", of_key),
            ],
        );
    put_buttons(content);
}

/// The Enter key presses the first button, Allow. Refuse needs neither key nor workspace.
fn put_buttons(content: &mut Html) {
    content
        .put(
            "<div class=\"buttons\">\n<button class=\"main\" name=\"{}\" value=\"{}\">Allow</button>\n",
            &[fields::DECISION, fields::ALLOW],
        )
        .put(
            "<button name=\"{}\" value=\"{}\" formnovalidate>Refuse</button>\n</div>\n</form>\n",
            &[fields::DECISION, fields::REFUSE],
        );
}

/// At most `chars_max` characters of the trimmed `text`, with an ellipsis if shortened.
fn cut(text: &str, chars_max: usize) -> String {
    let name = text.trim();
    if name.chars().count() <= chars_max {
        return name.to_owned();
    }
    let mut cut: String = name.chars().take(chars_max).collect();
    cut.push('\u{2026}');
    cut
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::{check, header, text};
    use super::*;
    use proptest::prelude::*;

    const CLIENT: Client<'_> = Client { name: "Editor", host: None, is_local_only: false };

    fn data(destination: &Destination) -> SignIn<'_> {
        SignIn {
            client: CLIENT,
            destination,
            scopes: &[Scope::TenantRead, Scope::BrainProxy],
            key_prefix: "recalld",
            request: "REQUEST",
            csrf: "CSRF",
            workspace: "",
            fault: None,
        }
    }

    fn to(address: &str) -> Destination {
        Destination::of(address).unwrap()
    }

    #[test]
    fn it_says_who_asks_for_what_and_where_the_answer_goes() {
        let destination = to("https://editor.example:8443/callback?x");
        let answer = sign_in(&data(&destination));
        check(&answer, 200, "");
        let text = text(&answer);
        for part in [
            "Let <bdi>Editor</bdi> use your workspace?",
            "<dd>editor.example:8443<",
            "a name it gave itself",
            "read your memories",
            "<code class=\"scope\">brain:proxy</code>",
            "name=\"request\" value=\"REQUEST\"",
            "name=\"csrf\" value=\"CSRF\"",
            "action=\"/authorize\"",
            "recalld_once_",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("Did you start this?") && !text.contains("role=\"alert\""));
        let known = Client { host: Some("editor.example"), is_local_only: true, ..CLIENT };
        let answer = sign_in(&SignIn { client: known, ..data(&destination) });
        let text = super::super::frame::tests::text(&answer);
        assert!(text.contains("known by its address, editor.example"));
        assert!(text.contains("Did you start this?") && !text.contains("a name it gave itself"));
    }

    #[test]
    fn allow_comes_first_and_refusing_needs_nothing() {
        let destination = to("http://127.0.0.1:7/");
        let text = text(&sign_in(&data(&destination)));
        let allow = text.find("name=\"decision\" value=\"allow\">").unwrap();
        let refuse = text.find("name=\"decision\" value=\"refuse\" formnovalidate>").unwrap();
        assert!(allow < refuse);
        assert!(text.contains("type=\"password\"") && text.matches(" required ").count() == 2);
    }

    #[test]
    fn a_fault_is_told_at_the_top_and_beside_its_field_and_the_key_is_not_shown_again() {
        let destination = to("http://127.0.0.1:7/");
        let invalid = |fault, workspace| {
            let answer = sign_in(&SignIn { fault: Some(fault), workspace, ..data(&destination) });
            let text = text(&answer);
            assert!(text.find("role=\"alert\"").unwrap() < text.find("<h1>").unwrap());
            assert!(text.contains("<title>Not signed in"));
            assert!(text.contains("tabindex=\"-1\" autofocus"));
            let key = text.split("<input id=\"key\"").nth(1).unwrap().split('>').next().unwrap();
            assert!(!key.contains("value="), "{key}");
            let at = text.split("<input id=\"workspace\"").nth(1).unwrap();
            let at = at.split('>').next().unwrap();
            assert!(at.contains(&format!("value=\"{workspace}\"")), "{at}");
            let is = |input: &str, hint: &str| {
                let one = input.contains("aria-invalid=\"true\"");
                assert_eq!(one, input.contains(&format!("\"{hint} fault\"")), "{input}");
                one
            };
            (answer.head.status, is(at, "workspace-hint"), is(key, "key-hint"))
        };
        assert_eq!(invalid(Fault::Refused, "acme"), (403, true, true));
        assert_eq!(invalid(Fault::NoWorkspace, ""), (400, true, false));
        assert_eq!(invalid(Fault::NoKey, "acme"), (400, false, true));
        assert_eq!(invalid(Fault::Neither, ""), (400, true, true));
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(cut(" a ", 3), "a");
        assert_eq!(cut("\u{e9}\u{e9}\u{e9}", 3), "\u{e9}\u{e9}\u{e9}");
        assert_eq!(cut("abcd", 3), "abc\u{2026}");
    }

    proptest! {
        #[test]
        fn whatever_comes_in_the_page_has_the_same_tags(texts in prop::array::uniform6(".{0,60}")) {
            let [name, host, prefix, request, csrf, workspace] = &texts;
            let destination = to("https://a.example/");
            let filled = |texts: [&str; 6]| {
                let [name, host, prefix, request, csrf, workspace] = texts;
                let client = Client { name, host: Some(host), is_local_only: true };
                let answer = sign_in(&SignIn {
                    client, key_prefix: prefix, request, csrf, workspace,
                    fault: Some(Fault::Refused), ..data(&destination)
                });
                let first = sign_in(&data(&destination));
                let policy = |answer| header(answer, "content-security-policy").to_owned();
                assert_eq!(policy(&answer), policy(&first));
                let text = text(&answer);
                ['<', '>', '"'].map(|one| text.matches(one).count())
            };
            let plain = filled(["a", "a", "a", "a", "a", "a"]);
            prop_assert_eq!(filled([name, host, prefix, request, csrf, workspace]), plain);
        }
    }
}
