//! The documents: link targets exist, and commands match the program.
//!
//! `tests/campaigns/documents.sh` executes the commands, which shows that their results match the page.

mod commands;
mod links;
