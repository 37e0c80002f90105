//! Measures metastore queries: creates a file with 1,000 workspaces and 10,000 credentials, then repeatedly looks up a
//! credential by its secret and introspects an access token. Prints the median and the 99th percentile.
//!
//! `cargo run --profile release -p recalld-metastore --example control_cost [FOLDER]`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_auth::Prefix;
use recalld_metastore::{Control, Kind, NewCredential, NewTenant};

const TENANTS: usize = 1_000;
const EACH: usize = 10;
const QUESTIONS: usize = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("control-cost-{}.redb", std::process::id()));
    let measured = measure(&path);
    std::fs::remove_file(&path)?;
    measured
}

fn measure(path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let control = Control::open(path, Arc::new(SystemClock), Arc::new(SystemRandom))?;
    let scopes = ["tenant:read".to_owned(), "brain:proxy".to_owned()];
    let new = NewCredential { kind: Kind::Bearer, name: None, scopes: &scopes, expires_at: None };
    let mut known = Vec::new();
    let begun = Instant::now();
    for number in 0..TENANTS {
        let slug = format!("tenant-{number}");
        control.create_tenant(&NewTenant { slug: &slug, title: "A workspace", plan: "team" })?;
        for _ in 0..EACH {
            let issued = control.issue_credential(&slug, &new, &Prefix::default())?;
            known.push((slug.clone(), issued.credential.id, issued.secret));
        }
    }
    let changes = TENANTS * (EACH + 1);
    println!("one change: {:.2} ms", begun.elapsed().as_secs_f64() * 1e3 / changes as f64);
    println!("the file: {} KiB", std::fs::metadata(path)?.len() / 1024);
    let asked = |number: usize| &known[number * 7_919 % known.len()];
    tell("find_credential", |number| {
        control.find_credential(asked(number).2.expose().as_bytes(), &[Kind::Bearer]).is_ok()
    });
    tell("standing", |number| {
        let (slug, id, _) = asked(number);
        control.standing(slug, id, "a-token-of-this-workspace", u64::MAX).is_ok()
    });
    drop(control);
    let begun = Instant::now();
    drop(Control::open(path, Arc::new(SystemClock), Arc::new(SystemRandom))?);
    println!(
        "opening, with every page checked, and closing: {:.0} ms",
        begun.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}

fn tell(name: &str, ask: impl Fn(usize) -> bool) {
    let mut nanos: Vec<u128> = (0..QUESTIONS)
        .map(|number| {
            let begun = Instant::now();
            assert!(ask(number), "{name} {number}");
            begun.elapsed().as_nanos()
        })
        .collect();
    nanos.sort_unstable();
    let at = |share: usize| nanos[nanos.len() * share / 100] as f64 / 1e3;
    println!("{name}: {:.1} us, 99th percentile {:.1} us", at(50), at(99));
}
