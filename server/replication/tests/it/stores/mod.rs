//! Real stores and what becomes of them on a storage: carried, followed, taken over, brought back.

mod alive;
mod carry;
mod emptying;
mod erasing;
mod filling;
mod keeping;
mod ledgers;
mod memory;
mod seats;
