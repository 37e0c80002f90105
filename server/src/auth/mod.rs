//! auth/mod
