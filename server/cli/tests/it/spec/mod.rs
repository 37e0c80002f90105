//! The format's pages and the code say the same.

mod bounds;
mod pages;
mod tables;
