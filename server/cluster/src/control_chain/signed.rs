//! Who says something to whom, when, and that only a holder of the secret can have said it.
//!
//! Owns the field that a message between nodes and its answer are signed by (format-spec/nodes.md, Between nodes). Must
//! not know what is said.

use engine::hex;
use recalld_replication::{Hash, NodeId, Nonce};
use subtle::ConstantTimeEq;

use recalld_auth::ClusterSecret;

/// The field of a message, and of its answer, by which it is signed.
pub(super) const SIGNED: &str = "recalld-signed";

/// What the keys of signatures are derived under.
const ASKS: &[u8] = b"recalld nodes ask 2\0";
const ANSWERS: &[u8] = b"recalld nodes answer 2\0";

/// What stands on a message beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Who says it.
    pub(super) from: NodeId,
    /// To whom.
    pub(super) to: NodeId,
    /// The process of that node: one that started later takes nothing that was said to this one.
    pub(super) run: Nonce,
    /// When, in seconds since 1970.
    pub(super) at: u64,
    /// Like that of no other message.
    pub(super) nonce: Nonce,
}

/// The signature of a message, which its answer is bound to.
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

    /// Signs a message: the value of its field, and what its answer must be bound to.
    pub(super) fn sign(&self, secret: &ClusterSecret, body: &[u8]) -> (String, Asked) {
        let text = self.text();
        let asked = Asked::of(secret, &text, body);
        (format!("{text}.{}", hex(&asked.0.0)), asked)
    }

    /// What a message's field says, if one who has the secret signed it.
    pub(super) fn of(secret: &ClusterSecret, field: &str, body: &[u8]) -> Option<(Self, Asked)> {
        let (text, shown) = field.rsplit_once('.')?;
        let asked = Asked::of(secret, text, body);
        is_same(&asked.0, shown).then(|| Self::parse(text))?.map(|envelope| (envelope, asked))
    }
}

impl Asked {
    fn of(secret: &ClusterSecret, text: &str, body: &[u8]) -> Self {
        // No field of a head has a line's end.
        let said = [text.as_bytes(), b"\n", body].concat();
        Self(recalld_replication::Hex(*secret.derive(ASKS, &said)))
    }

    fn answer(&self, secret: &ClusterSecret, status: u16, body: &[u8]) -> Hash {
        let said = [&self.0.0[..], &status.to_le_bytes(), body].concat();
        recalld_replication::Hex(*secret.derive(ANSWERS, &said))
    }

    /// The value of the field of the answer to this message.
    pub(super) fn sign_answer(&self, secret: &ClusterSecret, status: u16, body: &[u8]) -> String {
        hex(&self.answer(secret, status, body).0)
    }

    /// Whether this is the answer of one who has the secret, to this message and no other.
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
        // A message is no answer, even to itself.
        let own = field.rsplit('.').next().unwrap();
        for wrong in ["", own, &answer[1..]] {
            assert!(!asked.is_answered_by(&ours, wrong, (200, b"{}")), "{wrong:?}");
        }
    }
}
