//! End-to-end tests of the real program over sockets and on the command line. They link none of our crates.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod carried;
mod cli;
mod documents;
mod eval;
mod far_ledgers;
mod foreign;
mod hostile;
mod http;
mod ingest;
mod kill;
mod serving;
mod tidy;
