//! Grounding tokens: signed evidence that an item with this content was disclosed.
//!
//! Defines the token's bytes (format-spec/wire.md, "Grounding token"). The verifying caller compares the claims with
//! the store.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use recalld_auth::{Signer, Verifier};

/// Length of a token in characters.
pub(crate) const TOKEN_CHARS: usize = 152;
/// The first 8 bytes of the SHA-256 of a tenant's name.
pub type TenantHash = [u8; 8];

const DOMAIN: &[u8] = b"grounding token v1\0";
const VERSION: u8 = 1;
const TOKEN_BYTES: usize = 114;
const AT_VERSION: usize = 0;
const AT_KEY: usize = 1;
const AT_TENANT: usize = 5;
const AT_ITEM: usize = 13;
const AT_CONTENT: usize = 29;
const AT_ISSUED_AT: usize = 45;
const AT_SIGNATURE: usize = 50;
/// The latest time in the token's five bytes, about 34,000 years after 1970.
const ISSUED_AT_MAX: u64 = (1 << 40) - 1;

// Whole groups of three bytes: base64 has no unused bits, so a token has one encoding.
const _: () = assert!(TOKEN_BYTES.is_multiple_of(3) && TOKEN_BYTES / 3 * 4 == TOKEN_CHARS);
const _: () = assert!(AT_SIGNATURE + 64 == TOKEN_BYTES);

/// Claims of a valid token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grounded {
    /// Id of the item.
    pub item: [u8; 16],
    /// The first 16 bytes of the content's SHA-256 at the time of issue.
    pub content: [u8; 16],
    /// Time of issue in seconds since the Unix epoch.
    pub issued_at: u64,
}

impl Grounded {
    /// Returns true if the item's content is unchanged since the token was issued (TOK-06).
    pub fn is_of(&self, content_sha256: &[u8; 32]) -> bool {
        content_sha256.starts_with(&self.content)
    }
}

/// Reason for rejecting a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFault {
    /// Wrong length; carries the length in bytes (TOK-01).
    Length(usize),
    /// Contains a character outside base64url (TOK-01).
    Alphabet,
    /// Unsupported version (TOK-02).
    Version(u8),
    /// The named key is not trusted (TOK-03).
    UnknownKey([u8; 4]),
    /// The signature does not match the named key (TOK-04).
    Forged,
    /// A valid token of another tenant (TOK-05).
    OtherTenant,
}

impl TokenFault {
    /// Reason in results, in `snake_case`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Length(_) | Self::Alphabet => "malformed_token",
            Self::Version(_) => "unsupported_token_version",
            Self::UnknownKey(_) => "unknown_signing_key",
            Self::Forged => "bad_signature",
            Self::OtherTenant => "other_tenant",
        }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(found) => {
                write!(f, "a grounding token has {TOKEN_CHARS} characters, this text has {found}")
            }
            Self::Alphabet => f.write_str("a grounding token holds only letters, digits, - and _"),
            Self::Version(found) => {
                write!(f, "the token is of version {found}, this build reads version {VERSION}")
            }
            Self::UnknownKey([a, b, c, d]) => {
                write!(
                    f,
                    "the token names the key {a:02x}{b:02x}{c:02x}{d:02x}, which is not trusted here; each node \
                     has keys of its own unless all share one `remote.secret_file`"
                )
            }
            Self::Forged => f.write_str("the token's signature is not that of the key it names"),
            Self::OtherTenant => f.write_str("the token belongs to another workspace"),
        }
    }
}

impl std::error::Error for TokenFault {}

/// The hash of a tenant's name, as contained in tokens.
pub fn tenant_hash(tenant: &str) -> TenantHash {
    let hash: [u8; 32] = Sha256::digest(tenant.as_bytes()).into();
    *hash.first_chunk().expect("a hash has 32 bytes")
}

/// Signs a token for an item. `issued_at` is in seconds since the Unix epoch.
pub fn mint(
    signer: &Signer,
    tenant: &TenantHash,
    item: &[u8; 16],
    content_sha256: &[u8; 32],
    issued_at: u64,
) -> String {
    let mut token = [0; TOKEN_BYTES];
    let mut put = |at: usize, bytes: &[u8]| token[at..at + bytes.len()].copy_from_slice(bytes);
    put(AT_VERSION, &[VERSION]);
    put(AT_KEY, &signer.key_id()[..AT_TENANT - AT_KEY]);
    put(AT_TENANT, tenant);
    put(AT_ITEM, item);
    put(AT_CONTENT, &content_sha256[..AT_ISSUED_AT - AT_CONTENT]);
    put(AT_ISSUED_AT, &issued_at.min(ISSUED_AT_MAX).to_le_bytes()[..AT_SIGNATURE - AT_ISSUED_AT]);
    let signature = signer.sign(&signed(&token));
    token[AT_SIGNATURE..].copy_from_slice(&signature);
    BASE64_URL_SAFE_NO_PAD.encode(token)
}

/// Verifies an untrusted token for `tenant`.
pub fn check(
    token: &str,
    verifier: &Verifier,
    tenant: &TenantHash,
) -> Result<Grounded, TokenFault> {
    if token.len() != TOKEN_CHARS {
        return Err(TokenFault::Length(token.len()));
    }
    let mut bytes = [0; TOKEN_BYTES];
    match BASE64_URL_SAFE_NO_PAD.decode_slice(token, &mut bytes) {
        Ok(TOKEN_BYTES) => {}
        _ => return Err(TokenFault::Alphabet),
    }
    if bytes[AT_VERSION] != VERSION {
        return Err(TokenFault::Version(bytes[AT_VERSION]));
    }
    let key: [u8; 4] = field(&bytes, AT_KEY);
    if !verifier.knows(&key) {
        return Err(TokenFault::UnknownKey(key));
    }
    if !verifier.is_signed(&key, &signed(&bytes), &field(&bytes, AT_SIGNATURE)) {
        return Err(TokenFault::Forged);
    }
    if field::<8>(&bytes, AT_TENANT) != *tenant {
        return Err(TokenFault::OtherTenant);
    }
    let mut issued_at = [0; 8];
    issued_at[..AT_SIGNATURE - AT_ISSUED_AT].copy_from_slice(&bytes[AT_ISSUED_AT..AT_SIGNATURE]);
    Ok(Grounded {
        item: field(&bytes, AT_ITEM),
        content: field(&bytes, AT_CONTENT),
        issued_at: u64::from_le_bytes(issued_at),
    })
}

fn signed(token: &[u8; TOKEN_BYTES]) -> Vec<u8> {
    [DOMAIN, &token[..AT_SIGNATURE]].concat()
}

fn field<const N: usize>(token: &[u8; TOKEN_BYTES], at: usize) -> [u8; N] {
    *token[at..].first_chunk().expect("every field lies in the token")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ITEM: [u8; 16] = [3; 16];
    const CONTENT: [u8; 32] = [4; 32];

    fn signer() -> Signer {
        Signer::from_seed(&[5; 32])
    }

    fn token() -> String {
        mint(&signer(), &tenant_hash("local"), &ITEM, &CONTENT, 1_800_000_000)
    }

    #[test]
    fn a_token_says_what_it_was_made_of() {
        let token = token();
        assert_eq!(token.len(), TOKEN_CHARS);
        let grounded = check(&token, &signer().verifier(), &tenant_hash("local")).unwrap();
        assert_eq!(grounded, Grounded { item: ITEM, content: [4; 16], issued_at: 1_800_000_000 });
        assert!(grounded.is_of(&CONTENT) && !grounded.is_of(&[5; 32]));
        // Outside parties can verify a token with the published key alone.
        let outside = Verifier::new(&[signer().public()]).unwrap();
        assert_eq!(check(&token, &outside, &tenant_hash("local")), Ok(grounded));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (verifier, tenant) = (signer().verifier(), tenant_hash("local"));
        let good = BASE64_URL_SAFE_NO_PAD.decode(token()).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let fault =
                check(&BASE64_URL_SAFE_NO_PAD.encode(&bytes), &verifier, &tenant).unwrap_err();
            let expected = match bit / 8 {
                0 => matches!(fault, TokenFault::Version(_)),
                1..5 => matches!(fault, TokenFault::UnknownKey(_)),
                _ => fault == TokenFault::Forged,
            };
            assert!(expected, "bit {bit}: {fault}");
        }
    }

    #[test]
    fn other_keys_tenants_and_texts_are_told_apart() {
        let (token, tenant) = (token(), tenant_hash("local"));
        let other = Signer::from_seed(&[6; 32]).verifier();
        assert!(matches!(check(&token, &other, &tenant), Err(TokenFault::UnknownKey(_))));
        let verifier = signer().verifier();
        assert_eq!(check(&token, &verifier, &tenant_hash("other")), Err(TokenFault::OtherTenant));
        assert_eq!(check("", &verifier, &tenant), Err(TokenFault::Length(0)));
        assert_eq!(check(&token[1..], &verifier, &tenant), Err(TokenFault::Length(151)));
        for bad in ['=', '+', '/', ' ', '.'] {
            let text: String = token.chars().take(151).chain([bad]).collect();
            assert_eq!(check(&text, &verifier, &tenant), Err(TokenFault::Alphabet), "{bad:?}");
        }
    }

    #[test]
    fn a_checkpoints_signature_is_no_tokens() {
        // Signed with the same key over the same bytes, but without the domain prefix.
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(token()).unwrap();
        let bare = signer().sign(&bytes[..AT_SIGNATURE]);
        bytes[AT_SIGNATURE..].copy_from_slice(&bare);
        let fault = check(
            &BASE64_URL_SAFE_NO_PAD.encode(&bytes),
            &signer().verifier(),
            &tenant_hash("local"),
        );
        assert_eq!(fault, Err(TokenFault::Forged));
    }

    #[test]
    fn the_spec_table_is_the_constants() {
        let spec = include_str!("../../../format-spec/wire.md");
        let fields = [
            ("version", AT_VERSION, 1),
            ("key", AT_KEY, 4),
            ("tenant", AT_TENANT, 8),
            ("item", AT_ITEM, 16),
            ("content", AT_CONTENT, 16),
            ("issued_at", AT_ISSUED_AT, 5),
            ("signature", AT_SIGNATURE, 64),
        ];
        for (name, at, bytes) in fields {
            assert!(spec.contains(&format!("| {at} | {bytes} | token.{name} |")), "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_item_round_trips(
            item: [u8; 16], content: [u8; 32], issued_at in 0..=ISSUED_AT_MAX, tenant: [u8; 8],
        ) {
            let token = mint(&signer(), &tenant, &item, &content, issued_at);
            let grounded = check(&token, &signer().verifier(), &tenant).unwrap();
            prop_assert_eq!((grounded.item, grounded.issued_at), (item, issued_at));
            prop_assert!(grounded.is_of(&content));
        }

        #[test]
        fn foreign_text_is_refused(text in "\\PC{0,200}", plain in "[A-Za-z0-9_-]{152}") {
            prop_assert!(check(&text, &signer().verifier(), &[0; 8]).is_err());
            prop_assert!(check(&plain, &signer().verifier(), &[0; 8]).is_err());
        }
    }
}
