//! recalld: the service around the engine and the encoder.
//!
//! A request's way: [`net`] turns bytes into a call, [`pipeline`] finds out who calls and what for,
//! [`rest`], [`mcp`] (over [`mcp_host`]) or [`operator`] speak
//! their dialect, [`tools`] do the work, [`recall`] finds
//! things, [`judge`] compares texts, [`govern`] decides and records. `app` builds all of it; `cli` is the program.
#![forbid(unsafe_code)]

pub mod app;
pub mod app_state;
pub mod auth;
pub mod authority;
pub mod cancel;
pub mod cli;
pub mod cluster;
mod company;
pub mod config;
pub mod console;
pub mod control;
pub mod control_chain;
mod counted;
mod data_dir;
mod each_piece;
pub mod embed;
pub mod encoders;
pub mod encoding;
pub mod eval;
pub mod foreign;
mod gather;
pub mod govern;
mod graph_shape;
pub mod housekeeping;
pub mod inflow;
pub mod ingest;
pub mod judge;
mod keep_seats;
pub mod limits;
pub mod lines;
pub mod local;
pub mod log;
pub mod mail;
pub mod mcp;
pub mod mcp_host;
pub mod metrics;
pub mod model;
mod model_file;
pub mod names;
pub mod net;
pub mod oauth;
pub mod opening;
pub mod operator;
pub mod origin;
mod own_kinds;
mod own_page;
pub mod scope;
mod site;
mod start_error;
pub mod wants;
pub mod wrong_node;

pub mod pipeline;
pub mod recall;
mod regular_file;
pub mod rest;
mod roots;
pub mod seats;
pub mod secrets;
pub mod tenants;
mod threads;
mod ticker;
pub mod tools;
pub mod turn;
pub mod validate;
pub mod vault;
pub mod workspace;
