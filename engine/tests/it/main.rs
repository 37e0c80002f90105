//! Tests of the engine through its public API, by subject.

mod damage;
mod failing_disk;
mod golden;
mod model;
mod reader;
mod regressions;
mod simulation;
mod spec;
mod store;
mod verify;
