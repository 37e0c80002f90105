//! Real stores and what becomes of them on a storage: carried, followed, taken over, brought back.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod carry;
mod memory;
mod seats;
