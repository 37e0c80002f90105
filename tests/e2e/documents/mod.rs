//! The documents: what they link to is there, and the commands in them are those of the program.
//!
//! That the commands do what the page says is shown by `tests/campaigns/documents.sh`, which runs them.

mod commands;
mod links;
