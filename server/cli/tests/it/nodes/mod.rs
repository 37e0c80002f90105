//! Several nodes of one remote as programs: what is known on one of them is known on all.

mod between;
mod cluster;
mod copies;
mod keys;
mod revoked;
mod sign_in;
mod tenants;
