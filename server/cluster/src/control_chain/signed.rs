//! Signatures of messages between nodes (format-spec/nodes.md, Requests between nodes).
//!
//! A signature binds sender, receiver, time and body, and proves that the sender has the cluster secret.

use engine::hex;
use recalld_replication::{Hash, NodeId, Nonce};
use subtle::ConstantTimeEq;

use recalld_auth::ClusterSecret;

/// Header field with the signature of a request, and of its response.
pub(super) const SIGNED: &str = "recalld-signed";

/// Contexts of the key derivations of signatures.
const ASKS: &[u8] = b"recalld nodes ask 2\0";
const ANSWERS: &[u8] = b"recalld nodes answer 2\0";

/// Signed metadata of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Sender.
    pub(super) from: NodeId,
    /// Receiver.
    pub(super) to: NodeId,
    /// Process of the receiver. A process that started later rejects messages to an earlier one.
    pub(super) run: Nonce,
    /// Time of signing, in seconds since 1970.
    pub(super) at: u64,
    /// Unique among all messages.
    pub(super) nonce: Nonce,
}

/// Signature of a request, to which its response is bound.
#[derive(Debug)]
pub(super) struct Asked(Hash);

impl Envelope {
    fn text(&self) -> String {
        let Self { from, to, run, at, nonce } = self;
        format!("{from}.{to}.{run}.{at}.{nonce}")
    }

    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let [from, to, run, at, nonce] = parts[..] else { return None };
        Some(Self {
            from: NodeId::new(from).ok()?,
            to: NodeId::new(to).ok()?,
            run: Nonce::parse(run)?,
            at: at.parse().ok()?,
            nonce: Nonce::parse(nonce)?,
        })
    }

    /// Signs a message. Returns the value of its field, and the signature to which its response must be bound.
    pub(super) fn sign(&self, secret: &ClusterSecret, body: &[u8]) -> (String, Asked) {
        let text = self.text();
        let asked = Asked::of(secret, &text, body);
        (format!("{text}.{}", hex(&asked.0.0)), asked)
    }

    /// Verifies a message's field; `None` if the field is malformed or its sender does not have the secret.
    pub(super) fn of(secret: &ClusterSecret, field: &str, body: &[u8]) -> Option<(Self, Asked)> {
        let (text, shown) = field.rsplit_once('.')?;
        let asked = Asked::of(secret, text, body);
        is_same(&asked.0, shown).then(|| Self::parse(text))?.map(|envelope| (envelope, asked))
    }
}

impl Asked {
    fn of(secret: &ClusterSecret, text: &str, body: &[u8]) -> Self {
        // A header field has no line feed, so the separator is unambiguous.
        let said = [text.as_bytes(), b"\n", body].concat();
        Self(recalld_replication::Hex(*secret.derive(ASKS, &said)))
    }

    fn answer(&self, secret: &ClusterSecret, status: u16, body: &[u8]) -> Hash {
        let said = [&self.0.0[..], &status.to_le_bytes(), body].concat();
        recalld_replication::Hex(*secret.derive(ANSWERS, &said))
    }

    /// Signs the response to this message. Returns the value of its field.
    pub(super) fn sign_answer(&self, secret: &ClusterSecret, status: u16, body: &[u8]) -> String {
        hex(&self.answer(secret, status, body).0)
    }

    /// Returns true if a node with the secret signed this response, and to this very message.
    pub(super) fn is_answered_by(
        &self,
        secret: &ClusterSecret,
        field: &str,
        (status, body): (u16, &[u8]),
    ) -> bool {
        is_same(&self.answer(secret, status, body), field)
    }
}

fn is_same(right: &Hash, shown: &str) -> bool {
    Hash::parse(shown).is_some_and(|shown| right.0.ct_eq(&shown.0).into())
}

#[cfg(test)]
mod tests {
    use recalld_replication::Hex;

    use super::*;

    fn envelope() -> Envelope {
        let node = |name| NodeId::new(name).unwrap();
        Envelope {
            from: node("box-b"),
            to: node("box-a"),
            run: Hex([7; 16]),
            at: 1_000,
            nonce: Hex([9; 16]),
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_signed_and_changed_in_nothing() {
        let (ours, theirs) = (ClusterSecret::of([1; 32]), ClusterSecret::of([2; 32]));
        let (field, _) = envelope().sign(&ours, b"body");
        let read = Envelope::of(&ours, &field, b"body").map(|(envelope, _)| envelope);
        assert_eq!(read, Some(envelope()));
        assert!(Envelope::of(&theirs, &field, b"body").is_none());
        assert!(Envelope::of(&ours, &field, b"bodY").is_none());
        for (one, other) in [("box-b", "box-c"), ("box-a", "box-c"), ("1000", "1001"), ("07", "08")]
        {
            let changed = field.replacen(one, other, 1);
            assert_ne!(changed, field);
            assert!(Envelope::of(&ours, &changed, b"body").is_none(), "{changed}");
        }
        for wrong in ["", ".", "a.b", "box-b.box-a.1.2.3.4", &field[1..], &field.to_uppercase()] {
            assert!(Envelope::of(&ours, wrong, b"body").is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn an_answer_is_that_to_one_message_by_one_who_has_the_secret() {
        let (ours, theirs) = (ClusterSecret::of([1; 32]), ClusterSecret::of([2; 32]));
        let (field, asked) = envelope().sign(&ours, b"body");
        let (_, there) = Envelope::of(&ours, &field, b"body").unwrap();
        let answer = there.sign_answer(&ours, 200, b"{}");
        assert!(asked.is_answered_by(&ours, &answer, (200, b"{}")));
        assert!(!asked.is_answered_by(&ours, &answer, (503, b"{}")));
        assert!(!asked.is_answered_by(&ours, &answer, (200, b"{ }")));
        assert!(!asked.is_answered_by(&theirs, &answer, (200, b"{}")));
        let later = Envelope { nonce: Hex([8; 16]), ..envelope() };
        let (_, other) = later.sign(&ours, b"body");
        assert!(!other.is_answered_by(&ours, &answer, (200, b"{}")), "the answer of before");
        // The signature of a request is not a valid signature of its response.
        let own = field.rsplit('.').next().unwrap();
        for wrong in ["", own, &answer[1..]] {
            assert!(!asked.is_answered_by(&ours, wrong, (200, b"{}")), "{wrong:?}");
        }
    }
}
