//! What clients are opened with beside their addresses, and why one of these settings does not do.

use std::fmt;

/// What the usual variables of the environment say; nothing below reads them itself.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A setting is wrong or absent; what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable(String);

impl Unusable {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}
