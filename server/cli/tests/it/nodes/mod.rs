//! Several nodes of one remote as programs: changes on one node are known on all.

mod between;
mod cluster;
mod copies;
mod keys;
mod revoked;
mod sign_in;
mod tenants;
