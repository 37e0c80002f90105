use crate::authority::Authority;
use crate::context::OAuthContext;
use crate::error::OAuthError;
use crate::form::Form;
use crate::scopes::Scopes;
use recalld_http_server::Call;

/// A parsed token request.
pub(super) struct Asked<'a> {
    pub(super) context: &'a OAuthContext<'a>,
    pub(super) authority: &'a Authority,
    pub(super) call: &'a Call,
    pub(super) form: &'a Form,
}

impl Asked<'_> {
    /// The requested scopes, if named.
    pub(super) fn scopes(&self) -> Result<Option<Scopes>, OAuthError> {
        self.form.get("scope").map(Scopes::parse).transpose()
    }

    /// The requested resource, if named; must be this service's resource.
    pub(super) fn resource(&self) -> Result<Option<&str>, OAuthError> {
        let named = self.form.get("resource");
        self.authority.places.asked(named).map(|_| named)
    }
}
