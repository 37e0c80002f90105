//! The clients against what they are to hold: one suite for every store, and an S3 of a few lines that answers
//! as it is told.

#[cfg(feature = "etcd")]
mod coordinated;
#[cfg(feature = "etcd")]
mod etcd;
mod fake;
mod folder;
mod s3;
mod signing_in;
mod suite;
mod tiny;
#[cfg(feature = "etcd")]
mod tiny_etcd;
mod tried;
mod wire;
