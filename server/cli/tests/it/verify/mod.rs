//! `recalld verify` and `recalld salvage`, the real program, and erasures that are killed.

mod killed;
mod places;
mod program;
