//! Fills a data directory for `tests/campaigns/sign_in.sh`: a workspace, keys, and registered clients. `cargo run -p
//! recalld-metastore --example sign_in_ground -- DATA` prints the created ids and keys as JSON; no server may have the
//! directory open.

use std::error::Error;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_auth::Prefix;
use recalld_metastore::{Control, Kind, NewClient, NewCredential, NewTenant};
use serde_json::json;

const SLUG: &str = "acme-notes";
/// Number of one-time keys: a few more than the campaign spends.
const ONCE: usize = 24;
const SCOPES: [&str; 3] = ["tenant:read", "brain:proxy", "memory:write"];
/// A client name that the sign-in page truncates.
const LONG: &str =
    "The notebook application with an unreasonably long name that goes on and on, Inc.";

fn main() -> Result<(), Box<dyn Error>> {
    let data = PathBuf::from(std::env::args_os().nth(1).ok_or("say which data directory")?);
    let store = data.join("tenants").join(SLUG).join("store");
    DirBuilder::new().recursive(true).mode(0o700).create(store)?;
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let control = Control::open(&data.join("control.redb"), clock, random)?;
    control.create_tenant(&NewTenant { slug: SLUG, title: "Acme", plan: "team" })?;
    let key = |kind| {
        let scopes = SCOPES.map(str::to_owned);
        let new = NewCredential { kind, name: Some("ada"), scopes: &scopes, expires_at: None };
        let issued = control.issue_credential(SLUG, &new, &Prefix::default());
        issued.map(|issued| issued.secret.expose().to_owned())
    };
    let client = |name, redirects: &[&str]| {
        let redirects: Vec<String> = redirects.iter().map(|one| (*one).to_owned()).collect();
        let new = NewClient { name, redirect_uris: &redirects, auth_method: "none" };
        control.register_client(&new, &Prefix::default()).map(|(client, _)| client.id)
    };
    let once = (0..ONCE).map(|_| key(Kind::Once)).collect::<Result<Vec<_>, _>>()?;
    let local = ["http://127.0.0.1/callback", "http://[::1]/callback"];
    let made = json!({
        "workspace": SLUG, "once": once, "user": key(Kind::User)?,
        "local": client("Notebook", &local)?,
        "web": client(LONG, &["https://notebook.example/callback"])?,
    });
    println!("{made}");
    Ok(())
}
