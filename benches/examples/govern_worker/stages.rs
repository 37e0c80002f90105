//! Each stage measured separately, without a server.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use engine::Sensitivity;
use engine::ledger::{Decision, Effect, Outcome, TouchedItem};
use engine::os::clock::{Clock, SystemClock, SystemRandom};
use recalld_audit::{Audit, Trace};
use recalld_auth::Signer;
use recalld_auth::token::Claims;
use recalld_metastore::Kind;
use recalld_oauth::Places;
use recalld_oauth::authority::{Authority, seconds};
use recalld_policy::meter::Meter;
use recalld_policy::rate::{Buckets, Rate, key_of};
use recalld_policy::{Action, Rules, Verdict, What, Who, decide};

use crate::made::{Made, SCOPES};
use crate::{Failure, Times};

const ISSUER: &str = "https://recall.example";
const AUDIENCE: &str = "https://recall.example/mcp";

/// State that the stages of one size work with.
pub(crate) struct Stages<'a> {
    made: &'a Made,
    authority: Authority,
    /// Tokens that the stages have seen before, one per caller.
    tokens: Vec<String>,
    meter: Meter,
    rates: Buckets,
    rules: Rules,
    audit: Audit,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(made: &'a Made) -> Result<Self, Failure> {
        let places = Places::new(ISSUER, AUDIENCE)?;
        let authority = Authority::new(places, &SystemRandom);
        let mut tokens = Vec::new();
        for caller in 0..made.callers.len() {
            tokens.push(token(made, &authority, caller, "seen before")?);
        }
        let folder = made.place.beside("ledger");
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let audit = Audit::open(&folder, "tenant-0", Signer::from_seed(&[7; 32]), clock, random)?;
        Ok(Self {
            made,
            authority,
            tokens,
            meter: Meter::new(Arc::clone(&made.control) as _, Arc::new(SystemRandom)),
            rates: Buckets::new(Instant::now()),
            rules: Rules::initial(),
            audit,
        })
    }

    pub(crate) fn measure(&self, calls: u32, round: u32) -> Result<(), Failure> {
        let (made, size) = (self.made, &*self.made.size);
        let at = |number: u32| number as usize % made.callers.len();
        let check = |token: &str, caller: usize| -> Result<(), Failure> {
            let now = SystemClock.now();
            let claims = self.authority.claims(&made.control, token, now);
            let claims = claims.map_err(|_| "a token was refused")?;
            let slug = &made.callers[caller].slug;
            let stands =
                made.control.standing(slug, &claims.hangs_on, &claims.id, claims.issued_at);
            black_box(stands.map_err(|_| "a token does not stand")?);
            Ok(())
        };
        let seen = Times::of(calls, |number| check(&self.tokens[at(number)], at(number)))?;
        seen.tell("authenticate: an access token", size);
        let fresh: Result<Vec<String>, Failure> = (0..calls)
            .map(|number| token(made, &self.authority, at(number), &format!("{round}-{number}")))
            .collect();
        let fresh = fresh?;
        Times::of(calls, |number| check(&fresh[number as usize], at(number)))?
            .tell("authenticate: an access token, seen first", size);
        Times::of(calls, |number| {
            let bearer = made.callers[at(number)].bearer.as_bytes();
            black_box(made.control.find_credential(bearer, &[Kind::Bearer, Kind::User]))
                .map(drop)
                .map_err(|_| "a bearer was refused".into())
        })?
        .tell("authenticate: a bearer", size);
        let rate = Rate::new(10_000, std::time::Duration::from_secs(1), 1_000_000);
        let rate = rate.ok_or("no rate")?;
        Times::of(calls, |number| {
            let caller = &made.callers[at(number)];
            let key = key_of(format!("{}/{}", caller.slug, caller.id).as_bytes());
            self.rates.take(&key, rate, Instant::now()).map_err(|_| "too often".into())
        })?
        .tell("admit: rate", size);
        Times::of(calls, |number| {
            let reserved =
                self.meter.reserve(&made.callers[at(number)].slug, None, SystemClock.now());
            reserved.map_err(|_| "no reservation")?.commit();
            Ok(())
        })?
        .tell("admit: reserve and commit", size);
        Times::of(calls, |number| self.decide(&made.callers[at(number)].slug))?
            .tell("policy: one item", size);
        for (case, at_once) in
            [("audit: a read, to the system", false), ("audit: a write, on disk", true)]
        {
            Times::of(calls.min(if at_once { 50 } else { calls }), |_| {
                let recorded = self.audit.record(&trace(), at_once);
                recorded.map(drop).map_err(|error| error.to_string().into())
            })?
            .tell(case, size);
        }
        self.meter.flush(SystemClock.now()).map_err(|_| "what was used is not written".into())
    }

    fn decide(&self, workspace: &str) -> Result<(), Failure> {
        let who = Who {
            workspace,
            principal: "user:ada",
            plan: "measured",
            scopes: &SCOPES,
            purpose: None,
        };
        let what = What { workspace, kind: "note", sensitivity: Sensitivity::Internal, gates: &[] };
        let decision = decide(black_box(&self.rules), &who, &what, Action::Read);
        if decision.verdict == Verdict::Allow {
            Ok(())
        } else {
            Err("an item was kept back".into())
        }
    }
}

fn trace() -> Trace {
    Trace {
        tool: "retrieval_arbitrate_tool",
        principal: "user:ada".to_owned(),
        arguments: [3; 32],
        decision: Decision::Allow,
        rule: "default/read".to_owned(),
        touched: vec![TouchedItem { effect: Effect::Read, item: [7; 16] }; 10],
        outcome: Outcome::Done,
    }
}

/// Issues a token for `caller` whose id is unique by `name`.
fn token(made: &Made, authority: &Authority, caller: usize, name: &str) -> Result<String, Failure> {
    let caller = &made.callers[caller];
    let now = seconds(SystemClock.now());
    let claims = Claims {
        audience: AUDIENCE.to_owned(),
        client: caller.slug.clone(),
        expires_at: now + 3_600,
        issued_at: now,
        issuer: ISSUER.to_owned(),
        id: format!("{name} of {}", caller.slug),
        scope: SCOPES.join(" "),
        hangs_on: caller.id.clone(),
        subject: "user:ada".to_owned(),
        workspace: caller.slug.clone(),
    };
    authority.mint(&made.control, &claims).map_err(|error| error.to_string().into())
}
