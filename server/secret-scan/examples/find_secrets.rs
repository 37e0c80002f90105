//! Searches files for secrets and prints count, kind, position and speed, but never the secrets.
//!
//! `cargo run -p recalld-secret-scan --example find_secrets -- FILE...`

#![expect(clippy::print_stdout, reason = "it is run by hand")]

use std::collections::BTreeMap;
use std::time::Instant;

use recalld_secret_scan::{Kind, each};

fn main() {
    let (mut counts, mut bytes, mut seconds) = (BTreeMap::<Kind, u64>::new(), 0, 0.0);
    for path in std::env::args().skip(1) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let began = Instant::now();
        let mut found = Vec::new();
        each(&text, |secret| found.push((secret.line, secret.kind)));
        seconds += began.elapsed().as_secs_f64();
        bytes += text.len();
        for (line, kind) in found {
            println!("{path}:{line}: {}", kind.name());
            *counts.entry(kind).or_default() += 1;
        }
    }
    let megabytes = bytes as f64 / 1e6;
    for (kind, count) in counts {
        println!("{}: {count}", kind.name());
    }
    println!("{megabytes:.1} MB in {seconds:.2} s: {:.0} MB/s", megabytes / seconds);
}
