//! The format's pages and the code say the same.

mod golden;
mod pages;
mod tables;
