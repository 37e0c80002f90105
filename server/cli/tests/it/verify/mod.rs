//! `recalld verify` and `recalld salvage` as a program, and interrupted erasures.

mod killed;
mod places;
mod program;
