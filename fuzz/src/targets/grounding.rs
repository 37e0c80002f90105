//! Grounding tokens: only tokens that the key signed pass, and each has one spelling.

use recalld_audit::{check, mint, tenant_hash};
use recalld_auth::Signer;

/// Runs one input.
pub fn run(data: &[u8]) {
    let signer = Signer::from_seed(&[42; 32]);
    let tenant = tenant_hash("local");
    let good = mint(&signer, &tenant, &[1; 16], &[2; 32], 1_770_000_000);
    // The input itself, and a patch of a valid token, which leaves most of the token intact.
    let patched = crate::patched(good.as_bytes(), data);
    for token in [data, &patched] {
        let Ok(token) = std::str::from_utf8(token) else { continue };
        let checked = check(token, &signer.verifier(), &tenant);
        assert_eq!(checked.is_ok(), token == good, "{token}");
    }
}
