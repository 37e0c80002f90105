//! Handling of a call that belongs to another node.

/// Handling of a call that belongs to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongNode {
    /// Proxies the call to the leader and returns the leader's response.
    Proxy,
    /// Redirects the client to the leader.
    Redirect,
}

impl WrongNode {
    /// Every value, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Proxy, Self::Redirect];

    /// Word in the settings file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Redirect => "redirect",
        }
    }
}
