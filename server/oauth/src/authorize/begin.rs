//! `GET /authorize`: shows the sign-in page.

use super::answer::Refused;
use super::asked::{Asked, Moment};
use crate::authority::Authority;
use crate::context::OAuthContext;
use crate::pages::{Browser, Client, Fault, NoBrowser, Problem, Sealed, SignIn, problem, sign_in};
use recalld_common::scope::Scope;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};

/// Handles `GET /authorize`. May fetch a client metadata document: runs on a worker thread.
pub fn begin(context: &OAuthContext<'_>, call: &Call) -> Response {
    let Some(authority) = context.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let shown = show_first(context, authority, call);
    shown.unwrap_or_else(Refused::response)
}

fn show_first(
    context: &OAuthContext<'_>,
    authority: &Authority,
    call: &Call,
) -> Result<Response, Refused> {
    let query = call.request.query();
    let asked =
        Asked::read(context, authority, (query, context.client_address), Moment::BeforePerson)?;
    let has_tls = authority.places.has_tls();
    let browser = match Browser::of(&call.request.headers, has_tls) {
        Ok(browser) => browser,
        Err(NoBrowser::Twice) => return Ok(problem(Problem::CookieTwice)),
        Err(NoBrowser::Missing | NoBrowser::Malformed) => Browser::new(context.random),
    };
    let (query, now) = (query.unwrap_or_default(), context.clock.now());
    let sealed = authority.sealer.seal(&browser, query, now, context.random);
    let sealed = sealed.map_err(|_| Problem::BadRequest)?;
    // Set again even if the browser has the cookie: its lifetime must cover this whole sign-in.
    Ok(page(context, &asked, &sealed, "", None).header("set-cookie", browser.set_cookie(has_tls)))
}

/// Renders the sign-in page, with the error of a previous submission if there was one.
pub(super) fn page(
    context: &OAuthContext<'_>,
    asked: &Asked,
    sealed: &Sealed,
    workspace: &str,
    fault: Option<Fault>,
) -> Response {
    let scopes: Vec<Scope> = asked.wanted.scopes.iter().collect();
    sign_in(&SignIn {
        client: Client {
            name: &asked.name(),
            host: asked.client.host.as_deref(),
            is_local_only: asked.client.is_local_only(),
        },
        destination: &asked.destination,
        scopes: &scopes,
        key_prefix: context.config.oauth.key_prefix.as_str(),
        request: &sealed.request,
        csrf: &sealed.csrf,
        workspace,
        fault,
    })
}
