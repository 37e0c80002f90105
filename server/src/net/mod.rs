//! net/mod
