//! A store's copy on object storage, from outside: the clients, the protocol on a simulated storage, real stores on one in
//! memory, and the bytes that lie there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod machine;
mod plain;
mod simulation;
mod stores;
mod vectors;
