//! Encryption of the metastore on a remote: only nodes with the cluster secret can read it (format-spec/remote.md,
//! Metastore).

use std::sync::Arc;

use engine::os::clock::Random;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use recalld_auth::ClusterSecret;

/// Context of the key derivation of a frame; the frame's salt follows it.
const SEAL_KEY: &[u8] = b"recalld control seal 1\0";
const LENGTH_BYTES: usize = 4;
const SALT_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
/// Maximum bytes of a frame: all operations of a transaction, and the frame's overhead.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 20;

/// Place of a frame, as associated data: in another place the frame does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// Commit with this number.
    Commit(u64),
    /// Part of the tables: number of the commit, and of the part.
    Tables(u64, u64),
}

impl Stands {
    fn words(self) -> [u8; 17] {
        let (kind, seq, part) = match self {
            Self::Commit(seq) => (1, seq, 0),
            Self::Tables(seq, part) => (2, seq, part),
        };
        let mut words = [kind; 17];
        words[1..9].copy_from_slice(&seq.to_le_bytes());
        words[9..].copy_from_slice(&part.to_le_bytes());
        words
    }
}

/// Seals and opens frames. Has no `Debug`, as it owns the secret.
#[derive(Clone)]
pub(super) struct Seals(pub(super) Arc<ClusterSecret>);

impl Seals {
    /// Seals bytes as a frame: its length, its salt, and the ciphertext under the frame's own key.
    pub(super) fn seal(
        &self,
        stands: Stands,
        bytes: &[u8],
        random: &dyn Random,
    ) -> Result<Vec<u8>, String> {
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt);
        let length = SALT_BYTES + bytes.len() + TAG_BYTES;
        if LENGTH_BYTES + length > FRAME_BYTES_MAX {
            return Err(format!("{length} bytes are more than a frame may have"));
        }
        let mut sealed = bytes.to_vec();
        let tag = self
            .key(&salt)
            .seal_in_place_separate_tag(first_nonce(), Aad::from(stands.words()), &mut sealed)
            .map_err(|_| "it cannot be sealed".to_owned())?;
        let length = u32::try_from(length).map_err(|_| "a frame is too long".to_owned())?;
        let mut frame = Vec::with_capacity(LENGTH_BYTES + SALT_BYTES + sealed.len() + TAG_BYTES);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&salt);
        frame.append(&mut sealed);
        frame.extend_from_slice(tag.as_ref());
        Ok(frame)
    }

    /// Opens the first frame of `bytes` and advances `bytes` behind the frame.
    ///
    /// # Errors
    /// The frame is truncated, belongs to another place, or was sealed with another secret.
    pub(super) fn open(
        &self,
        stands: Stands,
        bytes: &mut &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, String> {
        let (frame, rest) = first(bytes).ok_or("a frame is cut off")?;
        let (salt, sealed) =
            frame.split_first_chunk::<SALT_BYTES>().ok_or("a frame is too short")?;
        let mut opened = Zeroizing::new(sealed.to_vec());
        let length = self
            .key(salt)
            .open_in_place(first_nonce(), Aad::from(stands.words()), &mut opened)
            .map_err(|_| {
                "it was sealed with another secret than that of `remote.secret_file`, or changed since"
            })?
            .len();
        opened.truncate(length);
        *bytes = rest;
        Ok(opened)
    }

    fn key(&self, salt: &[u8; SALT_BYTES]) -> LessSafeKey {
        let key = self.0.derive(SEAL_KEY, salt);
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("the key has its length"))
    }
}

/// Fixed nonce: each key seals one frame only, so no nonce is used twice.
fn first_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// Splits off the first frame, without its length.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use engine::os::clock::SystemRandom;

    use super::*;

    fn seals(byte: u8) -> Seals {
        Seals(Arc::new(ClusterSecret::of([byte; 32])))
    }

    #[test]
    fn a_frame_opens_for_what_it_stands_for_by_the_same_secret_and_for_nothing_else() {
        let stands = Stands::Commit(7);
        let frame = seals(1).seal(stands, b"acme", &SystemRandom).unwrap();
        assert!(!frame.windows(4).any(|part| part == b"acme"));
        let open = |seals: Seals, stands, mut bytes: &[u8]| seals.open(stands, &mut bytes);
        assert_eq!(**open(seals(1), stands, &frame).unwrap(), *b"acme");
        assert!(open(seals(2), stands, &frame).unwrap_err().contains("another secret"));
        for other in [Stands::Commit(8), Stands::Tables(7, 0)] {
            assert!(open(seals(1), other, &frame).is_err());
        }
        for end in 0..frame.len() {
            assert!(open(seals(1), stands, &frame[..end]).is_err(), "cut at {end}");
        }
        for at in LENGTH_BYTES..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 1;
            assert!(open(seals(1), stands, &changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn frames_follow_one_another() {
        let seals = seals(1);
        let frame =
            |seq, text: &[u8]| seals.seal(Stands::Commit(seq), text, &SystemRandom).unwrap();
        let bytes = [frame(1, b"one"), frame(2, b"")].concat();
        let mut rest = &bytes[..];
        assert_eq!(**seals.open(Stands::Commit(1), &mut rest).unwrap(), *b"one");
        assert_eq!(**seals.open(Stands::Commit(2), &mut rest).unwrap(), *b"");
        assert!(rest.is_empty());
        assert_ne!(frame(1, b"one"), frame(1, b"one"), "each has a key of its own");
    }
}
