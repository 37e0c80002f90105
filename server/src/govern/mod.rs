//! What a caller may do, and what the service vouches for.
//!
//! Rules in, decisions out: no files, no clock, no sockets, but for `audit`, which owns the ledger
//! and the thread that syncs it. Must not know how a caller was
//! recognised (that is `auth`) or what a tool does with an answer.

mod audit;
mod audit_sync;
mod call_hash;
mod caller;
mod grounding;
pub mod identity;
mod judged;
pub mod meter;
mod month;
pub mod plans;
mod policy;
pub mod rate;
mod rules;
pub mod rules_file;

pub use audit::BY_SCOPE;
pub use audit::{Anchoring, Audit, Elsewhere, Events, Receipt, Trace, Unrecorded};
pub use audit_sync::AuditSync;
pub use call_hash::{hash_call, hash_json};
pub use caller::{Caller, Credential, Metered, Token};
pub use grounding::{Grounded, TOKEN_CHARS, TenantHash, TokenFault, check, mint, tenant_hash};
pub use judged::{CLASSES_JUDGED_MAX, Judged};
pub use month::Month;
pub use policy::{Action, Decision, LEGAL_HOLD, Tried, Verdict, What, Who, decide, explain};
pub use rules::{RULES_MAX, Rule, RuleFault, Rules, WhatMatch, WhoMatch};
