//! Measures the verification of an access token, with its signature check and from the cache.

use std::hint::black_box;
use std::time::Instant;

use recalld_auth::token::{Claims, check, mint};
use recalld_auth::{TOKENS_REMEMBERED_MAX, TokenCache, TokenKey, TokenKeys};

const ISSUER: &str = "https://recall.example";
const AUDIENCE: &str = "https://recall.example/mcp";
const NOW: u64 = 1_790_000_000;
/// Number of distinct tokens in rotation: one per credential in use.
const TOKENS: usize = 10_000;
const ROUNDS: usize = 10;

fn main() {
    let key = TokenKey::from_seed(&[1; 32]);
    let Ok(keys) = TokenKeys::new(&[key.public()]) else { return eprintln!("no key") };
    let token = |number: usize| {
        let claims = Claims {
            audience: AUDIENCE.into(),
            client: "c_0123456789abcdef0123".into(),
            expires_at: NOW + 3600,
            issued_at: NOW,
            issuer: ISSUER.into(),
            id: format!("{number:032x}"),
            scope: "tenant:read brain:proxy memory:write ingest:write agent:state".into(),
            hangs_on: format!("g_{number:032x}"),
            subject: "user:someone@somewhere.example".into(),
            workspace: format!("workspace-{}", number % 1000),
        };
        mint(&key, &claims)
    };
    let began = Instant::now();
    let tokens: Vec<String> = (0..TOKENS).map(token).collect();
    tell("mint", TOKENS, began);
    println!("a token has {} bytes; {TOKENS_REMEMBERED_MAX} are remembered", tokens[0].len());

    let began = Instant::now();
    for token in &tokens {
        black_box(check(token, &keys, ISSUER, AUDIENCE, NOW).is_ok());
    }
    tell("check", TOKENS, began);

    let cache = TokenCache::default();
    let began = Instant::now();
    for token in &tokens {
        black_box(cache.check(token, &keys, ISSUER, AUDIENCE, NOW).is_ok());
    }
    tell("check, and remember", TOKENS, began);
    let began = Instant::now();
    for token in tokens.iter().cycle().take(TOKENS * ROUNDS) {
        black_box(cache.check(token, &keys, ISSUER, AUDIENCE, NOW).is_ok());
    }
    tell("check, remembered", TOKENS * ROUNDS, began);
    println!("{} of {TOKENS} are remembered", cache.len());
}

fn tell(what: &str, times: usize, began: Instant) {
    let micros = began.elapsed().as_secs_f64() * 1e6 / times as f64;
    println!("{what}: {micros:.2} us");
}
