//! Sign-in at `/authorize` over HTTP, as by a browser without scripts: page, form and redirect, and attacks on another
//! person's code.

mod asking;
mod deciding;
mod documents;
mod house;
mod strangers;
mod whole;
