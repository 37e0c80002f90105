//! Real stores on a storage: uploaded, followed, taken over and restored.

mod alive;
mod carry;
mod emptying;
mod erasing;
mod filling;
mod keeping;
mod ledgers;
mod memory;
mod seats;
