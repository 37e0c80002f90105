//! Access tokens: nothing but what the key signed passes, each has one spelling, and whoever remembers one
//! says what the check says.

use recalld_auth::token::{Claims, check, mint};
use recalld_auth::{TokenCache, TokenKey, TokenKeys};

const ISSUER: &str = "https://recall.example";
const AUDIENCE: &str = "https://recall.example/mcp";
const NOW: u64 = 1_790_000_000;

/// One input.
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
    // As it came, and as a patch of a good token, which keeps most of it right.
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
