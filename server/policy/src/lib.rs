//! Access policy, plans, rate limits and quotas.
//!
//! Rules in, decisions out: no files, no clock, no sockets. Authentication is in `auth`; tools apply the decisions.
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
