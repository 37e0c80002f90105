//! `/authorize`: a person reviews the client's request, presents a key and decides; the client receives an
//! authorization code (RFC 6749, section 4.1; OAuth 2.1; RFC 9207).
//!
//! Fixes the order of checks and the recipient of each error (OAU-40 to OAU-52). Between page and form, the server
//! retains only the set of completed requests. Page markup is in `pages`, storage of codes in `control`.

mod answer;
mod asked;
mod attempts;
pub mod begin;
mod complete;
pub mod decide;

pub use attempts::Attempts;
pub use begin::begin;
pub use complete::{COMPLETE_MAX, Complete, NotBegun};
pub use decide::decide;
