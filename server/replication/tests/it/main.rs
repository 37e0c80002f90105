//! Tests of the crate from outside: the storage clients, the protocol on a simulated storage, real stores on a storage
//! in memory, and the bytes of the format.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod machine;
mod plain;
mod simulation;
mod stores;
mod vectors;
