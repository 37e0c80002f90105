//! Real stores and what becomes of them on a storage: carried, followed, taken over, brought back.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod alive;
mod carry;
mod emptying;
mod erasing;
mod filling;
mod keeping;
mod ledgers;
#[path = "../both/machine.rs"]
mod machine;
mod memory;
#[path = "../both/plain.rs"]
mod plain;
mod seats;

use machine::{PATIENCE, until};
