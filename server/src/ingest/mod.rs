//! ingest/mod
