//! What becomes of a call that belongs to another node.

/// What becomes of a call that belongs to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongNode {
    /// It is passed on, and the answer comes back this way.
    Proxy,
    /// Its client is told where to ask.
    Redirect,
}

impl WrongNode {
    /// Every value, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Proxy, Self::Redirect];

    /// The value as the settings file spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Redirect => "redirect",
        }
    }
}
