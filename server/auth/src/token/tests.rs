//! Attacks on access tokens, each rejected with its own reason.

use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use serde_json::json;
use sha2::Sha256;

use super::*;

const ISSUER: &str = "https://recall.example";
const AUDIENCE: &str = "https://recall.example/mcp";
const NOW: u64 = 1_790_000_000;

fn claims() -> Claims {
    Claims {
        audience: AUDIENCE.into(),
        client: "client".into(),
        expires_at: NOW + 3600,
        issued_at: NOW,
        issuer: ISSUER.into(),
        id: "jti".into(),
        scope: "tenant:read brain:proxy".into(),
        hangs_on: "grant".into(),
        subject: "user:ann".into(),
        workspace: "acme".into(),
    }
}

fn key() -> TokenKey {
    TokenKey::from_seed(&[7; 32])
}

fn keys() -> TokenKeys {
    TokenKeys::new(&[key().public()]).unwrap()
}

fn checked(token: &str) -> Result<Claims, TokenRefusal> {
    check(token, &keys(), ISSUER, AUDIENCE, NOW)
}

fn encoded(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// A token with this header and payload, signed by a trusted key.
fn signed(header: &str, payload: &str) -> String {
    let message = format!("{}.{}", encoded(header), encoded(payload));
    let signature = key().sign(message.as_bytes());
    format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

fn header() -> String {
    format!("{HEADER_START}{}{HEADER_END}", key().id())
}

#[test]
fn a_token_has_the_bytes_that_the_page_states() {
    let token = mint(&key(), &claims());
    let parts: Vec<String> = token
        .split('.')
        .take(2)
        .map(|part| String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
        .collect();
    let kid = key().id().to_owned();
    assert_eq!(parts[0], format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"at+jwt"}}"#));
    let wanted = json!({
        "aud": AUDIENCE, "client_id": "client", "exp": NOW + 3600, "iat": NOW, "iss": ISSUER,
        "jti": "jti", "scope": "tenant:read brain:proxy", "sid": "grant", "sub": "user:ann",
        "workspace": "acme",
    });
    assert_eq!(serde_json::from_str::<Value>(&parts[1]).unwrap(), wanted);
    assert_eq!(checked(&token), Ok(claims()));
}

#[test]
fn no_other_header_is_taken_whoever_signed_it() {
    let payload = claims().written();
    let kid = key().id().to_owned();
    let x = BASE64_URL_SAFE_NO_PAD.encode(key().public());
    let others = [
        r#"{"alg":"none","typ":"at+jwt"}"#.to_owned(),
        format!(r#"{{"alg":"none","kid":"{kid}","typ":"at+jwt"}}"#),
        format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"at+jwt"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"JWT"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}"}}"#),
        format!(r#"{{"typ":"at+jwt","alg":"EdDSA","kid":"{kid}"}}"#),
        format!(r#"{{"alg":"EdDSA", "kid":"{kid}","typ":"at+jwt"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"at+jwt","crit":["b64"],"b64":false}}"#),
        format!(r#"{{"alg":"EdDSA","jku":"https://evil.example/k","kid":"{kid}","typ":"at+jwt"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"at+jwt","x5u":"https://evil.example"}}"#),
        format!(
            r#"{{"alg":"EdDSA","jwk":{{"kty":"OKP","crv":"Ed25519","x":"{x}"}},"kid":"{kid}","typ":"at+jwt"}}"#
        ),
        format!(r#"{{"alg":"EdDSA","kid":"{}","typ":"at+jwt"}}"#, "\"".repeat(43)),
        String::new(),
    ];
    for other in others {
        assert_eq!(checked(&signed(&other, &payload)), Err(TokenRefusal::Header), "{other}");
    }
    // An empty signature, as with `alg: none`.
    let unsigned = format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(&payload));
    assert_eq!(checked(&unsigned), Err(TokenRefusal::Header));
    let unsigned = format!("{}.{}.", encoded(&header()), encoded(&payload));
    assert_eq!(checked(&unsigned), Err(TokenRefusal::Forged));
}

#[test]
fn the_public_key_is_no_shared_secret() {
    let payload = claims().written();
    for header in [format!(r#"{{"alg":"HS256","kid":"{}","typ":"at+jwt"}}"#, key().id()), header()]
    {
        let message = format!("{}.{}", encoded(&header), encoded(&payload));
        let mut mac = Hmac::<Sha256>::new_from_slice(&key().public()).unwrap();
        mac.update(message.as_bytes());
        let tag = mac.finalize().into_bytes();
        let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag));
        let refused = checked(&token).unwrap_err();
        let ours = header == self::header();
        assert_eq!(refused, if ours { TokenRefusal::Forged } else { TokenRefusal::Header });
    }
}

#[test]
fn another_key_is_refused_by_its_name_and_by_its_signature() {
    let other = TokenKey::from_seed(&[8; 32]);
    assert_eq!(checked(&mint(&other, &claims())), Err(TokenRefusal::UnknownKey));
    // Another key's signature under the trusted key's id.
    let message = format!("{}.{}", encoded(&header()), encoded(&claims().written()));
    let signature = other.sign(message.as_bytes());
    let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
    assert_eq!(checked(&token), Err(TokenRefusal::Forged));
}

#[test]
fn a_payload_under_another_signature_is_refused() {
    let (ours, theirs) =
        (mint(&key(), &claims()), mint(&key(), &Claims { workspace: "other".into(), ..claims() }));
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        (ours.split('.').collect(), theirs.split('.').collect());
    let swapped = [ours[0], theirs[1], ours[2]].join(".");
    assert_eq!(checked(&swapped), Err(TokenRefusal::Forged));
}

#[test]
fn times_issuer_and_audience_are_held_to_the_second_and_to_the_letter() {
    let cases = [
        (NOW - 30, NOW + 10, Ok(())),
        (NOW + 30, NOW + 90, Ok(())),
        (NOW + 31, NOW + 90, Err(TokenRefusal::NotYet)),
        (NOW - 9, NOW + 1, Ok(())),
        (NOW - 9, NOW, Err(TokenRefusal::Expired)),
        (NOW - 9, NOW - 1, Err(TokenRefusal::Expired)),
        (NOW, NOW, Err(TokenRefusal::Lifetime(0))),
        (NOW, NOW - 1, Err(TokenRefusal::Lifetime(0))),
        (NOW, NOW + TOKEN_SECONDS_MAX, Ok(())),
        (NOW, NOW + TOKEN_SECONDS_MAX + 1, Err(TokenRefusal::Lifetime(TOKEN_SECONDS_MAX + 1))),
        (0, u64::MAX, Err(TokenRefusal::Lifetime(u64::MAX))),
    ];
    for (issued_at, expires_at, wanted) in cases {
        let token = mint(&key(), &Claims { issued_at, expires_at, ..claims() });
        assert_eq!(checked(&token).map(|_| ()), wanted, "{issued_at} to {expires_at}");
    }
    for other in ["https://recall.example/", "https://RECALL.example", "", "http://recall.example"]
    {
        let token = mint(&key(), &Claims { issuer: other.into(), ..claims() });
        assert_eq!(checked(&token), Err(TokenRefusal::OtherIssuer), "{other}");
    }
    for other in ["https://recall.example/mcp/", "https://recall.example", "https://b.example/mcp"]
    {
        let token = mint(&key(), &Claims { audience: other.into(), ..claims() });
        assert_eq!(checked(&token), Err(TokenRefusal::OtherAudience), "{other}");
    }
}

#[test]
fn what_is_cut_or_added_is_refused() {
    let token = mint(&key(), &claims());
    for cut in 0..token.len() {
        assert!(checked(&token[..cut]).is_err(), "the first {cut} bytes");
    }
    let parts: Vec<&str> = token.split('.').collect();
    let (two, four) = (parts[..2].join("."), format!("{token}.{}", parts[2]));
    for (other, wanted) in [
        (two, TokenRefusal::Parts),
        (four, TokenRefusal::Parts),
        (format!("{token}."), TokenRefusal::Parts),
        (format!("{token} "), TokenRefusal::Encoding),
        (format!("{token}="), TokenRefusal::Encoding),
        (format!("{token}A"), TokenRefusal::Forged),
        (format!("{token}AAAA"), TokenRefusal::Forged),
        (format!(" {token}"), TokenRefusal::Header),
        (token.replace('.', "\n."), TokenRefusal::Header),
        ("x".repeat(TOKEN_BYTES_MAX + 1), TokenRefusal::TooLong(TOKEN_BYTES_MAX + 1)),
        (String::new(), TokenRefusal::Parts),
        ("..".into(), TokenRefusal::Header),
    ] {
        assert_eq!(checked(&other), Err(wanted), "{other}");
    }
}

#[test]
fn a_signature_has_one_spelling() {
    let token = mint(&key(), &claims());
    // 64 bytes leave four bits of the last character unused, which must be zero.
    let last = token.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for other in alphabet.chars().filter(|other| *other != last) {
        let changed = format!("{}{other}", &token[..token.len() - 1]);
        assert!(checked(&changed).is_err(), "{changed}");
    }
}

#[test]
fn claims_are_taken_in_the_one_form_they_are_written_in() {
    let good = claims().written();
    let with = |from: &str, to: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        text
    };
    let others = [
        with("{", "{\"aud\":\"https://evil.example\","),
        with("}", ",\"aud\":\"https://recall.example/mcp\"}"),
        with("}", ",\"nbf\":1}"),
        with("}", ",\"cnf\":{}}"),
        with("\"jti\":\"jti\",", ""),
        with(",", ", "),
        with("acme", "\\u0061cme"),
        with(&NOW.to_string(), &format!("{NOW}.0")),
        with(&NOW.to_string(), &format!("\"{NOW}\"")),
        with(&NOW.to_string(), "-1"),
        with(&format!("\"{AUDIENCE}\""), &format!("[\"{AUDIENCE}\"]")),
        format!("[{good}]"),
        format!("{good} "),
        "{}".into(),
        "null".into(),
        "[".repeat(2000),
    ];
    assert_eq!(checked(&signed(&header(), &good)), Ok(claims()));
    for other in others {
        assert_eq!(checked(&signed(&header(), &other)), Err(TokenRefusal::Claims), "{other}");
    }
}

proptest! {
    #[test]
    fn what_is_minted_is_read_back(
        texts in proptest::collection::vec(any::<String>(), 8),
        issued_at in 0..=NOW + ISSUED_LEEWAY_SECONDS,
        life in 1..=TOKEN_SECONDS_MAX,
    ) {
        let [audience, client, issuer, id, scope, hangs_on, subject, workspace] =
            <[String; 8]>::try_from(texts).unwrap();
        let expires_at = issued_at + life;
        let claims = Claims {
            audience, client, expires_at, issued_at, issuer, id, scope, hangs_on, subject, workspace,
        };
        let token = mint(&key(), &claims);
        prop_assume!(token.len() <= TOKEN_BYTES_MAX);
        let read = check(&token, &keys(), &claims.issuer, &claims.audience, expires_at - 1);
        prop_assert_eq!(read, Ok(claims));
    }

    #[test]
    fn no_changed_byte_passes(at in any::<prop::sample::Index>(), byte in 0u8..128) {
        let mut token = mint(&key(), &claims()).into_bytes();
        let at = at.index(token.len());
        prop_assume!(token[at] != byte);
        token[at] = byte;
        prop_assert!(checked(&String::from_utf8(token).unwrap()).is_err());
    }
}
