//! Types shared by several crates: names and times as texts, scopes, cancellation, permits.
//!
//! No sockets, stores or settings.
#![forbid(unsafe_code)]

pub mod age;
pub mod cancel;
pub mod counted;
pub mod date;
pub mod each_piece;
pub mod keys;
pub mod limits;
pub mod monitor;
pub mod month;
pub mod names;
pub mod nearest;
pub mod network;
pub mod own_kinds;
pub mod regular_file;
pub mod request_id;
pub mod scope;
pub mod secret;
pub mod site;
pub mod slug;
pub mod target;
pub mod threads;
pub mod turn;
pub mod wants;
pub mod wrong_node;

pub use month::Month;

limit_table::limits! {
    pub const LIMITS = [keys, limits];
}
