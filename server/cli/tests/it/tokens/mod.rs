//! The authorization server without its pages, over HTTP: registration, codes, refresh tokens, access tokens and
//! revocation, with the error codes of the RFCs.

mod desk;
mod ending;
mod faults;
mod forged;
mod redeeming;
mod refreshing;
mod registering;
mod rotating;
