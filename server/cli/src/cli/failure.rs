//! The error of a command, with its exit code.

#[derive(Debug)]
pub(super) enum Failure {
    /// Negative result: exit code 1.
    No(String),
    /// Usage error: exit code 2.
    Usage(String),
    /// Unavailable: exit code 3. The message ends with a remedy.
    Could(String),
}

impl Failure {
    pub(super) fn could(why: impl ToString) -> Self {
        Self::Could(why.to_string())
    }

    pub(super) fn why(self) -> String {
        match self {
            Self::No(why) | Self::Usage(why) | Self::Could(why) => why,
        }
    }
}
