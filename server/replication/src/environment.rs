use std::fmt;

/// Lookup of an environment variable. The clients read no variable themselves.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A wrong or missing setting, with a remedy.
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
