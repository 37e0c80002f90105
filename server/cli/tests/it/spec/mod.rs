//! The format's pages and the code say the same.

mod limits;
mod pages;
mod tables;
