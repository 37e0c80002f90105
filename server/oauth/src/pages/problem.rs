//! Error pages of a sign-in: the problem, and advice.
//!
//! The pages contain no link: an address from a faulty request must not be followed.

use super::frame::{Forms, Page};
use super::markup::Html;
use recalld_http_server::Response;

/// Reason for ending a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The client id is unknown.
    UnknownClient,
    /// The client did not register this redirect URI.
    UnknownRedirect,
    /// The request cannot be parsed, so no client can be informed.
    BadRequest,
    /// The client's metadata document is unavailable or invalid.
    ClientUnreadable,
    /// The form was not issued by this server, or was changed.
    Forged,
    /// The form was shown in another browser, or this browser stores no cookies.
    OtherBrowser,
    /// The browser sent the sign-in cookie more than once.
    CookieTwice,
    /// The form has expired.
    Expired,
    /// The sign-in is already complete.
    AlreadyComplete,
    /// Too many sign-ins or failed credentials.
    TooMany {
        /// Seconds until a retry.
        wait_seconds: u32,
    },
    /// A dependency is unavailable at the moment.
    Unavailable {
        /// Seconds until a retry.
        wait_seconds: u32,
    },
}

/// A longer wait is shown in minutes.
const SECONDS_SHOWN_MAX: u32 = 119;

/// Texts of an error page.
struct Words {
    status: u16,
    heading: &'static str,
    about: &'static str,
    advice: &'static str,
}

/// Renders the error page of `problem`.
pub fn problem(problem: Problem) -> Response {
    let words = words(problem);
    let mut content = Html::new();
    content.put("<h1>{}</h1>\n<p>{}</p>\n", &[words.heading, words.about]);
    let wait_seconds = match problem {
        Problem::TooMany { wait_seconds } | Problem::Unavailable { wait_seconds } => {
            Some(wait_seconds)
        }
        _ => None,
    };
    match wait_seconds.map(|seconds| (seconds, seconds.to_string())) {
        Some((1, _)) => content.raw("<p>Wait a second, then try again.</p>\n"),
        Some((0..=SECONDS_SHOWN_MAX, seconds)) => {
            content.put("<p>Wait {} seconds, then try again.</p>\n", &[&seconds])
        }
        Some((seconds, _)) => {
            let minutes = seconds.div_ceil(60).to_string();
            content.put("<p>Wait {} minutes, then try again.</p>\n", &[&minutes])
        }
        None => content.put("<p>{}</p>\n", &[words.advice]),
    };
    let page = Page { status: words.status, title: words.heading, content, forms: Forms::None };
    let answer = page.answer();
    match wait_seconds {
        Some(seconds) => answer.header("retry-after", seconds.to_string()),
        None => answer,
    }
}

const AGAIN: &str = "Begin again in the application that you came from.";
const TELL: &str =
    "If it happens again, tell whoever made the application. Nothing was allowed or changed.";

fn words(problem: Problem) -> Words {
    let (status, heading, about, advice) = match problem {
        Problem::UnknownClient => (
            400,
            "This application is not known here",
            "The application that sent you never registered with this service, or its registration is gone.",
            "Disconnect it and connect it again. If that does not help, tell whoever made it.",
        ),
        Problem::UnknownRedirect => (
            400,
            "This application asks for its answer at a place it never named",
            "A sign-in is answered only at an address that the application registered. This one is another: so this \
             may be an attempt to catch somebody else's answer.",
            TELL,
        ),
        Problem::BadRequest => (
            400,
            "This sign-in cannot be read",
            "The address that brought you here is not complete, or says something twice.",
            TELL,
        ),
        Problem::ClientUnreadable => (
            400,
            "This application's description cannot be read",
            "The application is known by an address at which it describes itself, and what is there cannot be had or \
             does not fit it.",
            "Try again later. If it happens again, tell whoever made the application.",
        ),
        Problem::Forged => (
            400,
            "This form is not one of ours",
            "It was changed on its way, did not come from this service, or is from before the service was started \
             again.",
            AGAIN,
        ),
        Problem::OtherBrowser => (
            400,
            "This sign-in belongs to another browser",
            "The form was not shown to this browser, or the browser keeps no cookies for this service. One cookie is \
             needed, for the time of the sign-in.",
            AGAIN,
        ),
        Problem::CookieTwice => (
            400,
            "The cookie for this sign-in is there twice",
            "One of the two is not ours, so neither is used.",
            "Remove the cookies of this site from the browser, then begin again in the application.",
        ),
        Problem::Expired => (
            400,
            "This sign-in took too long",
            "For safety, a sign-in has to be finished within ten minutes.",
            AGAIN,
        ),
        Problem::AlreadyComplete => (
            409,
            "This sign-in is already complete",
            "The application has its answer. You can close this page and go back to it.",
            "If the application still waits, begin again there.",
        ),
        Problem::TooMany { .. } => (
            429,
            "Too many attempts",
            "There were too many attempts to sign in from your network, to this workspace, or with this key.",
            "",
        ),
        Problem::Unavailable { .. } => (
            503,
            "Not available now",
            "Nobody can be signed in at the moment. Nothing was allowed, and the same key can be tried again.",
            "",
        ),
    };
    Words { status, heading, about, advice }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::{check, header, text};
    use super::*;

    #[test]
    fn each_problem_has_a_page_without_a_way_out() {
        for (which, status) in [
            (Problem::UnknownClient, 400),
            (Problem::UnknownRedirect, 400),
            (Problem::BadRequest, 400),
            (Problem::ClientUnreadable, 400),
            (Problem::Forged, 400),
            (Problem::OtherBrowser, 400),
            (Problem::CookieTwice, 400),
            (Problem::Expired, 400),
            (Problem::AlreadyComplete, 409),
            (Problem::TooMany { wait_seconds: 7 }, 429),
            (Problem::Unavailable { wait_seconds: 1 }, 503),
        ] {
            let answer = problem(which);
            check(&answer, status, "'none'");
            let text = text(&answer);
            assert!(!text.contains("<a ") && !text.contains("<form"), "{which:?}");
            assert!(!text.contains("<p></p>"), "{which:?}");
            let waits = answer.head.headers.iter().any(|(name, _)| name == "retry-after");
            assert_eq!(waits, status == 429 || status == 503, "{which:?}");
        }
    }

    #[test]
    fn who_has_to_wait_is_told_how_long() {
        let answer = problem(Problem::TooMany { wait_seconds: 42 });
        assert_eq!(header(&answer, "retry-after"), "42");
        assert!(text(&answer).contains("Wait 42 seconds"));
        let wait = |wait_seconds| text(&problem(Problem::TooMany { wait_seconds }));
        assert!(wait(119).contains("Wait 119 seconds") && wait(120).contains("Wait 2 minutes"));
        assert!(wait(541).contains("Wait 10 minutes"));
        assert!(text(&problem(Problem::Unavailable { wait_seconds: 1 })).contains("Wait a second"));
    }
}
