//! `/authorize`: a person sees who asks for what, shows a key and decides, and the client has its code (RFC 6749,
//! section 4.1; OAuth 2.1; RFC 9207).
//!
//! Owns what is checked in which order, and who is told (OAU-40 to OAU-52). Between the page and its form nothing is
//! kept here but which requests are complete. Must not know how a page is written (`pages`) nor what a code is
//! (`control`).

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
