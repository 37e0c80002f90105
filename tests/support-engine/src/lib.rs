//! What tests of the engine share: a still ground, disks in memory that fail on demand, small stores and what they show,
//! a simulated disk, and a load that is killed.

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
