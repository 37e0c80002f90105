//! Protocol of a record log: who may write, how records are created, how followers read, and which data may be removed
//! (`format-spec/remote.md`).
//!
//! Every state machine here is an `async fn` that awaits nothing but a [`Port`]: each `await` is one [`Ask`] to the
//! storage, or a wait. There is no executor, thread, clock or input. The owner of the [`Machine`] removes the next
//! request, performs it, and passes the [`Answer`] and the time back in. A thread does so in a loop ([`Driver`]). The
//! simulation (`server/replication/tests/it/simulation/`) does so in any order, late, twice or never. A machine may be
//! dropped at any request; the object that it worked on knows what is still in flight.
//!
//! The meaning of the bytes of logs, manifests and files is unknown here.
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
