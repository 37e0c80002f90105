//! Answers questions about the state of the service: recognizes their topics, and composes the answer from facts.
//!
//! All functions are pure: the caller reads the counters, and supplies the outputs of the tools.
#![forbid(unsafe_code)]

mod answer;
mod facts;
mod phrases;
mod routing;
pub mod sources;
mod topics;
mod words;

pub use answer::{Unanswered, from, sentence};
pub use facts::{Fact, Facts};
pub use phrases::{ATTEMPT_STATES, Backups, CheckResult, Followups, Jobs, LastJob};
pub use routing::{OtherPart, ParsedQuestion, TopicMatch, topics_of, understand};
pub use topics::Topic;
pub use words::{is_everyday, is_misspelt, is_of_service, stem};

limit_table::limits! {
    pub const LIMITS = [phrases, routing];
}
