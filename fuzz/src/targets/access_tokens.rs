//! Access tokens: only tokens that the key signed pass, each has one spelling, and the cache returns the result of the
//! check.

use recalld_auth::token::{Claims, check, mint};
use recalld_auth::{TokenCache, TokenKey, TokenKeys};

const ISSUER: &str = "https://recall.example";
const AUDIENCE: &str = "https://recall.example/mcp";
const NOW: u64 = 1_790_000_000;

/// Runs one input.
pub fn run(data: &[u8]) {
    let key = TokenKey::from_seed(&[42; 32]);
    let keys = TokenKeys::new(&[key.public()]).expect("it is a key");
    let good = mint(
        &key,
        &Claims {
            audience: AUDIENCE.into(),
            client: "client".into(),
            expires_at: NOW + 60,
            issued_at: NOW,
            issuer: ISSUER.into(),
            id: "id".into(),
            scope: "tenant:read".into(),
            hangs_on: "grant".into(),
            subject: "user:ann".into(),
            workspace: "acme".into(),
        },
    );
    let cache = TokenCache::default();
    // The input itself, and a patch of a valid token, which leaves most of the token intact.
    let patched = crate::patched(good.as_bytes(), data);
    for token in [data, &patched] {
        let Ok(token) = std::str::from_utf8(token) else { continue };
        let checked = check(token, &keys, ISSUER, AUDIENCE, NOW);
        assert_eq!(checked.is_ok(), token == good, "{token}");
        for _ in 0..2 {
            let remembered = cache.check(token, &keys, ISSUER, AUDIENCE, NOW);
            assert_eq!(remembered.map(|claims| (*claims).clone()), checked, "{token}");
        }
    }
}
