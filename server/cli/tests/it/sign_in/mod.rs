//! Signing in at `/authorize` over real HTTP, as a browser without scripts does it: the page, its form, the redirect;
//! and what those try who want somebody else's code.

mod asking;
mod deciding;
mod documents;
mod house;
mod strangers;
mod whole;
