//! What a caller may do, and what the service vouches for.
//!
//! Rules in, decisions out: no files, no clock, no sockets, but for `audit`, which owns the ledger
//! and the thread that syncs it. Must not know how a caller was
//! recognised (that is `auth`) or what a tool does with an answer.
#![forbid(unsafe_code)]

mod caller;
pub mod identity;
mod judged;
pub mod limits;
pub mod meter;
pub mod plans;
mod policy;
pub mod rate;
mod rules;
pub mod rules_file;

pub use caller::{Caller, Credential, Metered, Token};
pub use judged::Judged;
pub use policy::{Action, Decision, Tried, Verdict, What, Who, decide, explain};
pub use rules::{Rule, RuleFault, Rules, WhatMatch, WhoMatch};

limit_table::limits! {
    pub const LIMITS = [identity, judged, limits, meter, plans, rate, rules, rules_file];
}
