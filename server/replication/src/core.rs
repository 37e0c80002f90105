//! The protocol of a chain: who may write it, how a record comes to be, how it is followed and what of
//! it may go (`format-spec/remote.md`).
//!
//! Every machine here is an `async fn` that awaits nothing but a [`Port`]: each `await` is one [`Ask`] to
//! the storage, or a wait. There is no executor, thread, clock or input: whoever holds the [`Machine`]
//! takes the next ask out, does it, and puts the [`Answer`] and the time back in. A thread does so in a
//! loop ([`Driver`]); the simulation (`server/replication/tests/it/simulation/`) does so in any order,
//! late, twice or never. A machine may be dropped at any ask. What it worked on knows what is still open.
//!
//! Does not know what the bytes of logs, manifests and files mean.
//!
//! [`Driver`]: crate::Driver

mod ask;
mod collector;
mod create;
mod follower;
mod holder;
mod lapse;
mod newest;
mod noted;
mod pin;
mod port;
mod probe;
mod reached;
mod resume;
mod retain;
mod take;

pub use ask::{Answer, Ask};
pub use collector::{Collected, Collector, Live};
pub use follower::{Follower, Polled};
pub use holder::{Committed, Fenced, Holder, Stamp, Writer};
pub use lapse::{Beating, Held, Observer};
pub use newest::{Behind, Found, Given, Lost, Mark, find, reach};
pub use noted::Noted;
pub use pin::{Pin, Pinned, pin};
pub use port::{Machine, Port, Step};
pub use probe::{Raced, Racing, Verdict, judge, manners, race};
pub use reached::{Reached, reached, said};
pub use resume::may_resume;
pub use retain::Retention;
pub use take::{Claim, Took};

limit_table::limits! {
    pub(crate) const LIMITS = [probe];
}
