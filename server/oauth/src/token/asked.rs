//! A request for a token.

use crate::authority::Authority;
use crate::context::OAuthContext;
use crate::error::OAuthError;
use crate::form::Form;
use crate::scopes::Scopes;
use recalld_http_server::Call;

/// A request for a token.
pub(super) struct Asked<'a> {
    pub(super) context: &'a OAuthContext<'a>,
    pub(super) authority: &'a Authority,
    pub(super) call: &'a Call,
    pub(super) form: &'a Form,
}

impl Asked<'_> {
    /// The scopes that are named, if any are.
    pub(super) fn scopes(&self) -> Result<Option<Scopes>, OAuthError> {
        self.form.get("scope").map(Scopes::parse).transpose()
    }

    /// The resource that is named, if one is; there is none but ours.
    pub(super) fn resource(&self) -> Result<Option<&str>, OAuthError> {
        let named = self.form.get("resource");
        self.authority.places.asked(named).map(|_| named)
    }
}
