//! The authorization server: who may sign in, what they see, and what they are given.

pub mod pages;
