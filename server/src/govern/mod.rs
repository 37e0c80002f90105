//! What a caller may do, and what the service vouches for.
//!
//! Rules in, decisions out: no files, no clock, no sockets. Must not know how a caller was
//! recognised (that is `auth`) or what a tool does with an answer.

mod grounding;
mod policy;
mod rules;

pub use grounding::{Grounded, TOKEN_CHARS, TenantHash, TokenFault, check, mint, tenant_hash};
pub use policy::{
    Action, Decision, LEGAL_HOLD, Sensitivity, Tried, Verdict, What, Who, decide, explain,
};
pub use rules::{RULES_MAX, Rule, RuleFault, Rules, WhatMatch, WhoMatch};
