//! Test support of the engine: a deterministic env, disks in memory with fault injection, small stores and their
//! listings, a simulated disk, and a load for kills.

pub mod courier;
pub mod failing_disk;
pub mod golden;
pub mod ground;
pub mod listing;
pub mod load;
pub mod memory_disk;
pub mod other_model;
pub mod pages;
pub mod patience;
pub mod random_store;
pub mod remake;
pub mod reseal;
pub mod sample;
pub mod scripted_far;
pub mod sim;
pub mod small_store;
