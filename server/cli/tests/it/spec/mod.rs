//! Consistency of the specification's pages with the code.

mod limits;
mod pages;
mod tables;
