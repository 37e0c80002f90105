//! HTML pages: sign-in and consent, e-mail confirmation, and errors.
//!
//! Pure functions from data to a [`Response`](recalld_http_server::Response), without access to the control store or
//! the request. Each page is self-contained: no scripts, no external resources. Rules PAG-01 to PAG-31 are in
//! `format-spec/pages.md`.

mod browser;
pub mod confirm;
mod destination;
mod frame;
mod markup;
pub mod problem;
pub mod returning;
mod sealed;
pub mod sign_in;

pub use browser::{Browser, NoBrowser};
pub use confirm::{
    CONFIRM_PATH, CONFIRM_TOKEN_FIELD, Confirm, confirm, confirmation_over, confirmed,
};
pub use destination::Destination;
pub use problem::{Problem, problem};
pub use returning::{Returning, returning};
pub use sealed::{OpenError, Opened, Sealed, Sealer, TooLong};
pub use sign_in::{AUTHORIZE_PATH, Client, Fault, SignIn, fields, sign_in};
