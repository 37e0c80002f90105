//! The workspace in which the operator acts: `local` or a tenant's.
//!
//! The operator of the machine may act in every workspace, including suspended ones. Each action is audited in that
//! workspace in the operator's name. Independent of the action.

use crate::app_state::{AppState, Held};
use recalld_common::age::STALE_SECONDS;
use recalld_common::cancel::CancellationToken;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::wants::Wants;
use recalld_http_server::Response;
use recalld_policy::Caller;
use recalld_tool_framework::ServiceError;
use recalld_workspace::tenants::Closed;

/// An open workspace, and the operator as its caller.
pub struct Whose {
    /// The workspace, kept open.
    pub workspace: Held,
    /// The operator.
    pub caller: Caller,
    /// Staleness in seconds if another node is the leader.
    stale: Option<u64>,
}

impl Whose {
    /// Opens the named workspace, or `local` without a name.
    ///
    /// # Errors
    /// The workspace does not exist, belongs to another node, or cannot be opened.
    pub fn of(
        parts: &AppState,
        caller: &Caller,
        name: Option<&str>,
        wants: Wants,
        cancel: &CancellationToken,
    ) -> Result<Self, ServiceError> {
        let name = name.unwrap_or(LOCAL_WORKSPACE);
        let caller = match name {
            LOCAL_WORKSPACE => caller.in_turn(caller.turn.clone()),
            name => {
                let own = Caller::local_operator(name);
                Caller { principal: caller.principal.clone(), ..own }
            }
        };
        let (workspace, stale) =
            parts.enter(&caller, wants, cancel).map_err(|error| match error {
                ServiceError::Closed(Closed::Missing) => {
                    ServiceError::argument("workspace", "there is no workspace of that name")
                }
                error => error,
            })?;
        Ok(Self { workspace, caller, stale })
    }

    /// Returns the header fields that state the staleness.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        self.stale.iter().map(|seconds| (STALE_SECONDS, seconds.to_string())).collect()
    }

    /// Adds the staleness to a response.
    pub fn aged(&self, answer: Response) -> Response {
        self.fields().into_iter().fold(answer, |answer, (name, value)| answer.header(name, value))
    }
}
