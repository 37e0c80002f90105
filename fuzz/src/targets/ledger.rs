//! A damaged ledger: opening, reading and verifying end with errors, and only the original is valid.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use engine::ledger::{
    CheckpointSigner, CheckpointVerifier, Decision, Effect, EntryDraft, KeyId, Ledger,
    LedgerOptions, Outcome, Signature, TouchedItem, VerifyOptions, verify,
};

/// A signer without a key: the target is the ledger, not Ed25519.
struct Plain;

impl CheckpointSigner for Plain {
    fn key_id(&self) -> KeyId {
        [7; 8]
    }
    fn sign(&self, message: &[u8]) -> Signature {
        let mut signature = [0; 64];
        signature[..4].copy_from_slice(&crc32c::crc32c(message).to_le_bytes());
        signature
    }
}

impl CheckpointVerifier for Plain {
    fn is_valid(&self, key: KeyId, message: &[u8], signature: &Signature) -> bool {
        key == self.key_id() && *signature == self.sign(message)
    }
}

fn with() -> LedgerOptions {
    LedgerOptions { tenant: [3; 32], signer: Box::new(Plain), anchor: None }
}

/// Returns a folder of this process, the name of the volume in it, and the volume.
fn good() -> &'static (PathBuf, PathBuf, Vec<u8>) {
    static GOOD: OnceLock<(PathBuf, PathBuf, Vec<u8>)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("fuzz-ledger-{}", std::process::id()));
        let _fresh = fs::remove_dir_all(&folder);
        let mut ledger = Ledger::open(&folder, with()).expect("a new ledger");
        for n in 1..=4u8 {
            let touched = [TouchedItem { effect: Effect::Read, item: [n; 16] }];
            let draft = EntryDraft {
                at_micros: 1_000_000 + u64::from(n),
                receipt: [n; 16],
                tool: "retrieval_arbitrate_tool",
                principal: "operator",
                decision: Decision::Allow,
                rule: "default/read",
                arguments: [n; 32],
                touched: &touched,
                outcome: Outcome::Done,
            };
            ledger.append(&draft).expect("it takes entries");
        }
        ledger.close(2_000_000).expect("it closes");
        let mut volumes = fs::read_dir(&folder).expect("the folder");
        let volume = volumes.next().expect("a volume").expect("it is listed").path();
        let bytes = fs::read(&volume).expect("it is there");
        (folder, volume, bytes)
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&how, bytes)) = data.split_first() else { return };
    let (folder, volume, whole) = good();
    let changed = if how & 1 == 0 { crate::patched(whole, bytes) } else { bytes.to_vec() };
    fs::write(volume, &changed).expect("the folder is ours");
    let _damaged = verify(folder, &VerifyOptions::all(&Plain));
    if let Ok(ledger) = Ledger::open(folder, with())
        && let Ok(reader) = ledger.reader()
        && let Ok(entries) = reader.entries(1)
    {
        // Damage ends the iteration.
        for entry in entries.take(16) {
            if entry.is_err() {
                break;
            }
        }
    }
}
