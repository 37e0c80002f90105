//! Client credentials grant (RFC 6749, section 4.4): a workspace's slug and key. No refresh token is issued.

use super::asked::Asked;
use super::issue::{Given, Making};
use crate::asker::{NoAnswer, workspace_of_key};
use crate::client_auth::ShownClient;
use crate::scopes::Scopes;
use recalld_http_server::Response;

pub(super) fn answer(asked: &Asked<'_>) -> Result<Response, NoAnswer> {
    let authorization = asked.call.request.headers.get_all("authorization");
    let client = ShownClient::read(authorization, asked.form)?;
    asked.resource()?;
    let wanted = asked.scopes()?.unwrap_or_else(Scopes::everyday);
    let (credential, tenant) = workspace_of_key(asked.context, &client)?;
    asked.slow(&tenant, &credential.id)?;
    let names = credential.scopes.iter().map(String::as_str);
    let granted = wanted.granted(&asked.under_plan(names, &tenant)?)?;
    let workspace = asked.open(&tenant)?;
    let making = Making {
        grant_type: "client_credentials",
        workspace: &workspace,
        client: &tenant.slug,
        principal: &credential.principal(),
        granted,
    };
    asked.announce(&making)?;
    let given = Given { hangs_on: &credential.id, refresh: None, ends_at: credential.expires_at };
    Ok(asked.give(&making, &given)?)
}
