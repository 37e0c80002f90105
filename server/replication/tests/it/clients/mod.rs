//! Tests of the storage clients: one suite for every store, and small scripted servers for S3 and etcd.

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
