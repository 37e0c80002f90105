//! In which workspace the operator acts: their own, or a tenant's.
//!
//! Whoever has the machine may act in any of them, suspended ones too. It is audited where it is done, in the
//! operator's name. Must not know what is done.

use crate::app_state::{AppState, Held};
use recalld_common::age::STALE_SECONDS;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::wants::Wants;
use recalld_http_server::Response;
use recalld_policy::Caller;
use recalld_tool_framework::ServiceError;
use recalld_workspace::tenants::Closed;

/// The workspace, open as long as this is there, and the operator as a caller of it.
pub struct Whose {
    /// The workspace.
    pub workspace: Held,
    /// The operator.
    pub caller: Caller,
    /// How many seconds old what is here may be, where another node writes it.
    stale: Option<u64>,
}

impl Whose {
    /// That of this name; the operator's own without one.
    ///
    /// # Errors
    /// There is none of that name, it belongs to another node, or it cannot be opened.
    pub fn of(
        parts: &AppState,
        caller: &Caller,
        name: Option<&str>,
        wants: Wants,
    ) -> Result<Self, ServiceError> {
        let name = name.unwrap_or(LOCAL_WORKSPACE);
        let caller = match name {
            LOCAL_WORKSPACE => caller.in_turn(caller.turn.clone()),
            name => {
                let own = Caller::local_operator(name);
                Caller { principal: caller.principal.clone(), ..own }
            }
        };
        let (workspace, stale) = parts.enter(&caller, wants).map_err(|error| match error {
            ServiceError::Closed(Closed::Missing) => {
                ServiceError::argument("workspace", "there is no workspace of that name")
            }
            error => error,
        })?;
        Ok(Self { workspace, caller, stale })
    }

    /// What an answer says of its age, as header fields.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        self.stale.iter().map(|seconds| (STALE_SECONDS, seconds.to_string())).collect()
    }

    /// An answer that says it.
    pub fn aged(&self, answer: Response) -> Response {
        self.fields().into_iter().fold(answer, |answer, (name, value)| answer.header(name, value))
    }
}
