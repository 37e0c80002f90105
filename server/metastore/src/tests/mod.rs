//! Tests of the metastore with a manual clock, on files and on failing storage.

mod clock;
mod crossing;
mod faults;
mod slow;
mod tenants;
mod tokens;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use engine::Micros;
use engine::os::clock::{Clock, Random};

use super::*;
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

/// 2026-11-22T22:00:00Z.
pub(super) const START: u64 = 1_795_384_800;
pub(super) const REDIRECT: &str = "https://client.example/done";
pub(super) const RESOURCE: &str = "https://memory.example/mcp";
/// RFC 7636, appendix B.
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(super) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

#[derive(Debug)]
pub(super) struct TestClock(AtomicI64);

impl Default for TestClock {
    fn default() -> Self {
        Self(AtomicI64::new(i64::try_from(START).unwrap() * 1_000_000))
    }
}

impl Clock for TestClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::Relaxed))
    }
}

impl TestClock {
    pub(super) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct TestRandom(AtomicU64);

impl Random for TestRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            // SplitMix64.
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            piece.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes()[..piece.len()]);
        }
    }
}

pub(super) struct Ground {
    pub(super) folder: tempfile::TempDir,
    pub(super) clock: Arc<TestClock>,
    pub(super) random: Arc<TestRandom>,
    pub(super) control: Control,
}

impl Ground {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (clock, random) = (Arc::new(TestClock::default()), Arc::new(TestRandom::default()));
        let path = folder.path().join("control.redb");
        let control = Control::open(&path, clock.clone(), random.clone()).unwrap();
        Self { folder, clock, random, control }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("control.redb")
    }

    /// Reopens the file lazily; `by` is the first use.
    pub(super) fn reopened_by(self, by: impl FnOnce(&Control)) -> Self {
        let Self { folder, clock, random, control } = self;
        drop(control);
        let control =
            Control::at(&folder.path().join("control.redb"), clock.clone(), random.clone());
        by(&control);
        Self { folder, clock, random, control }
    }

    /// Reopens the file.
    pub(super) fn reopened(self) -> Self {
        let Self { folder, clock, random, control } = self;
        drop(control);
        let path = folder.path().join("control.redb");
        let control = Control::open(&path, clock.clone(), random.clone()).unwrap();
        Self { folder, clock, random, control }
    }
}

pub(super) fn scopes(list: &[&str]) -> Vec<String> {
    list.iter().map(|scope| (*scope).to_owned()).collect()
}

pub(super) fn make_tenant(control: &Control, slug: &str) {
    let new = NewTenant { slug, title: "A workspace", plan: "team" };
    control.create_tenant(&new).unwrap();
}

pub(super) fn issue(control: &Control, slug: &str, kind: Kind) -> Issued {
    let scopes = scopes(&["tenant:read", "brain:proxy"]);
    let new = NewCredential { kind, name: None, scopes: &scopes, expires_at: None };
    control.issue_credential(slug, &new, &Prefix::default()).unwrap()
}

pub(super) fn register(control: &Control) -> String {
    let uris = vec![REDIRECT.to_owned()];
    let new = NewClient { name: "A client", redirect_uris: &uris, auth_method: "none" };
    control.register_client(&new, &Prefix::default()).unwrap().0.id
}

/// A code for a new one-time key of `slug`.
pub(super) fn code(control: &Control, slug: &str, client: &str) -> Secret {
    let key = issue(control, slug, Kind::Once).secret;
    code_for(control, slug, client, &key).unwrap()
}

pub(super) fn code_for(
    control: &Control,
    slug: &str,
    client: &str,
    key: &Secret,
) -> Result<Secret, SignInError> {
    let request = CodeRequest {
        tenant: slug,
        key: key.expose().as_bytes(),
        client,
        redirect_uri: REDIRECT,
        challenge: CHALLENGE,
        scopes: &scopes(&["tenant:read"]),
        resource: RESOURCE,
    };
    control.put_code(&request, &Prefix::default())
}

pub(super) fn shown<'a>(code: &'a Secret, client: &'a str) -> Redemption<'a> {
    let code = code.expose().as_bytes();
    Redemption { code, client, redirect_uri: REDIRECT, verifier: VERIFIER, resource: None }
}

pub(super) fn redeem(
    control: &Control,
    code: &Secret,
    client: &str,
) -> Result<Redeemed, RedeemError> {
    control.redeem_code(&shown(code, client), &Prefix::default())
}

/// A complete sign-in.
pub(super) fn sign_in(control: &Control, slug: &str, client: &str) -> Redeemed {
    redeem(control, &code(control, slug, client), client).unwrap()
}
