use std::fmt;

use engine::{DiskError, OpenError};

use crate::core::Lost;
use crate::fault::Damage;
use crate::record::Head;

/// Error of opening a workspace.
#[derive(Debug)]
pub enum NotSeated {
    /// The store does not open; [`OpenError::Locked`] if another process has it.
    Store(OpenError),
    /// The remote has no data of the workspace that could be followed.
    Nothing,
    /// The log has no full record yet, so only the store that the newest record (this header) names can continue it.
    NotCarried(Box<Head>),
    /// The remote did not respond, or other nodes were faster.
    Away(String),
    /// The remote data is invalid.
    Damage(Damage),
    /// Local files prevent the opening; the text names the remedy.
    Here(String),
    /// The opening was cancelled.
    Over,
}

impl fmt::Display for NotSeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Nothing => f.write_str("nothing of it has been carried to the remote yet"),
            Self::NotCarried(newest) => {
                let Head { tenant, node, store, .. } = &**newest;
                write!(
                    f,
                    "not all of it has been carried to the remote yet: only where the store {store} is it can go on, \
                     which node {node} had last; if that is gone for good, t/{tenant}/ is begun anew \
                     (docs/remote.md: The first upload)"
                )
            }
            Self::Away(why) | Self::Here(why) => f.write_str(why),
            Self::Damage(damage) => damage.fmt(f),
            Self::Over => f.write_str("it was called off"),
        }
    }
}

impl std::error::Error for NotSeated {}

impl From<DiskError> for NotSeated {
    fn from(error: DiskError) -> Self {
        Self::Store(error.into())
    }
}

impl From<OpenError> for NotSeated {
    fn from(error: OpenError) -> Self {
        Self::Store(error)
    }
}

impl From<std::io::Error> for NotSeated {
    fn from(error: std::io::Error) -> Self {
        Self::Here(error.to_string())
    }
}

impl From<Lost> for NotSeated {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Away(away) => Self::Away(away.why),
            Lost::Damage(damage) => Self::Damage(damage),
        }
    }
}
