//! In which workspace the operator acts: their own, or a tenant's.
//!
//! Whoever has the machine may act in any of them, suspended ones too. It is audited where it is done, in the
//! operator's name. Must not know what is done.

use crate::auth::LOCAL_WORKSPACE;
use crate::cluster::{STALE_SECONDS, Wants};
use crate::net::Response;
use crate::parts::{Caller, Held, Parts};
use crate::tenants::Closed;
use crate::tools::ToolError;

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
        parts: &Parts,
        caller: &Caller,
        name: Option<&str>,
        wants: Wants,
    ) -> Result<Self, ToolError> {
        let stale = parts.reach(name.unwrap_or(LOCAL_WORKSPACE), wants)?;
        let Some(name) = name.filter(|name| *name != LOCAL_WORKSPACE) else {
            return Ok(Self {
                workspace: Held::Local(parts.local.get()),
                caller: caller.clone(),
                stale,
            });
        };
        let lease = parts.tenants.open(name).map_err(|closed| match closed {
            Closed::Missing => {
                ToolError::argument("workspace", "there is no workspace of that name")
            }
            closed => closed.into(),
        })?;
        let own = Caller::local_operator(name);
        let caller = Caller { principal: caller.principal.clone(), ..own };
        Ok(Self { workspace: Held::Tenant(lease), caller, stale })
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
