//! The failure of a command, with its exit code.

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(super) enum Failure {
    /// The answer is no: exit code 1.
    No(String),
    /// Wrong use: exit code 2.
    Usage(String),
    /// It could not: exit code 3. The message ends with what to do.
    Could(String),
}

impl Failure {
    pub(super) fn could(why: impl ToString) -> Self {
        Self::Could(why.to_string())
    }

    /// What it says.
    pub(super) fn why(self) -> String {
        match self {
            Self::No(why) | Self::Usage(why) | Self::Could(why) => why,
        }
    }
}
