//! govern/mod
