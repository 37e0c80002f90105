//! The format's pages and the code say the same.

mod bounds;
mod golden;
mod pages;
mod tables;
