//! Opens workspaces, the default workspace and those of tenants, with store, ledger and encoder.
#![forbid(unsafe_code)]

pub mod limits;
pub mod local;
pub mod opening;
pub mod roots;
pub mod tenants;
pub mod workspace;

limit_table::limits! {
    pub const LIMITS = [limits];
}
