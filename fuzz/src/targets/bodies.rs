//! Bodies of the HTTP API: any bytes give a request within its limits, or an error body.

/// Runs one input.
pub fn run(data: &[u8]) {
    for kind in [Some("application/json"), Some("text/plain"), None] {
        match recalld_pydantic_compat::recall(kind, data) {
            Ok(wanted) => assert!((1..=50).contains(&wanted.limit)),
            Err(invalid) => check(&invalid),
        }
        if let Err(invalid) = recalld_pydantic_compat::semantic_recall(kind, data) {
            check(&invalid);
        }
    }
}

fn check(invalid: &recalld_pydantic_compat::Invalid) {
    assert!((400..500).contains(&invalid.status()), "{}", invalid.status());
    // Lone surrogates may be echoed, which serde_json does not parse; everything else must be JSON.
    let body = invalid.body();
    assert!(body.starts_with(b"{\"detail\":"), "{}", String::from_utf8_lossy(&body));
}
