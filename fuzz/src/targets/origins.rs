//! Configured origins and percent-escapes in request targets: accepted input is in canonical form.

use recalld_common::target::percent_decode;
use recalld_http_server::origin::Origin;

/// Runs one input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.parse::<Origin>().is_ok() {
        let (scheme, authority) = text.split_once("://").expect("an origin has a scheme");
        assert!(!scheme.is_empty() && !authority.is_empty(), "{text:?}");
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        assert!(text.bytes().all(is_plain), "{text:?}");
        assert!(!authority.contains(['/', '?', '#', '@', '*', ',', '\\', '%']), "{text:?}");
    }
    if let Ok(decoded) = percent_decode(text) {
        assert!(!decoded.chars().any(char::is_control), "{text:?}");
        let escapes = text.matches('%').count();
        assert_eq!(decoded.len() + 2 * escapes, text.len(), "{text:?}");
    }
}
