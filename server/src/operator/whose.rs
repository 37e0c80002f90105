//! In which workspace the operator acts: their own, or a tenant's.
//!
//! Whoever has the machine may act in any of them, suspended ones too. It is audited where it is done, in the
//! operator's name. Must not know what is done.

use crate::auth::LOCAL_WORKSPACE;
use crate::parts::{Caller, Held, Parts};
use crate::tenants::Closed;
use crate::tools::ToolError;

/// The workspace, open as long as this is there, and the operator as a caller of it.
pub struct Whose {
    /// The workspace.
    pub workspace: Held,
    /// The operator.
    pub caller: Caller,
}

impl Whose {
    /// That of this name; the operator's own without one.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be opened.
    pub fn of(parts: &Parts, caller: &Caller, name: Option<&str>) -> Result<Self, ToolError> {
        let Some(name) = name.filter(|name| *name != LOCAL_WORKSPACE) else {
            return Ok(Self { workspace: Held::Local(parts.local.get()), caller: caller.clone() });
        };
        let lease = parts.tenants.open(name).map_err(|closed| match closed {
            Closed::Missing => {
                ToolError::argument("workspace", "there is no workspace of that name")
            }
            closed => closed.into(),
        })?;
        let own = Caller::local_operator(name);
        let caller = Caller { principal: caller.principal.clone(), ..own };
        Ok(Self { workspace: Held::Tenant(lease), caller })
    }
}
