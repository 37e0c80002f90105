//! Tests of the ledger: recorded entries, rejected input, and constants equal to those of the specification.

mod damage;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use proptest::prelude::*;

use super::layout::*;
use super::scan::volume_path;
use super::*;

/// Temporary directory of one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("ledger-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.join("ledger"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

struct Key(SigningKey);

impl CheckpointSigner for Key {
    fn key_id(&self) -> KeyId {
        [7; 8]
    }
    fn sign(&self, message: &[u8]) -> Signature {
        self.0.sign(message).to_bytes()
    }
}

struct Public(VerifyingKey);

impl CheckpointVerifier for Public {
    fn is_valid(&self, key: KeyId, message: &[u8], signature: &Signature) -> bool {
        key == [7; 8]
            && self
                .0
                .verify_strict(message, &ed25519_dalek::Signature::from_bytes(signature))
                .is_ok()
    }
}

const TENANT: Hash = [0x11; 32];
const SECOND: u64 = 1_000_000;
/// Volume size with room for a handful of entries.
const SMALL: u64 = APPEND_ROOM_BYTES + 1_500;

fn key() -> SigningKey {
    SigningKey::from_bytes(&[42; 32])
}

fn public() -> Public {
    Public(key().verifying_key())
}

fn with(anchor: Option<Anchor>) -> LedgerOptions {
    LedgerOptions { tenant: TENANT, signer: Box::new(Key(key())), anchor }
}

fn draft(n: u8, touched: &[TouchedItem]) -> EntryDraft<'_> {
    EntryDraft {
        at_micros: SECOND + u64::from(n),
        receipt: [n; 16],
        tool: "keyword_recall_tool",
        principal: "user:ada",
        decision: Decision::Redact,
        rule: "default/read",
        arguments: [n; 32],
        touched,
        outcome: Outcome::Done,
    }
}

fn items(count: u8) -> Vec<TouchedItem> {
    (0..count)
        .map(|n| TouchedItem {
            effect: Effect::ALL[usize::from(n) % Effect::ALL.len()],
            item: [n; 16],
        })
        .collect()
}

/// Writes a ledger of `count` entries in small volumes, closes the ledger and returns its anchor.
fn written(folder: &Path, count: u8) -> Anchor {
    let mut ledger = Ledger::open_sized(folder, with(None), SMALL).unwrap();
    for n in 1..=count {
        ledger.append(&draft(n, &items(n % 5))).unwrap();
    }
    ledger.close(2 * SECOND).unwrap().unwrap()
}

fn open_error(folder: &Path, with: LedgerOptions) -> LedgerOpenError {
    match Ledger::open(folder, with) {
        Err(error) => error,
        Ok(_) => panic!("the ledger opened"),
    }
}

fn whole(folder: &Path) -> LedgerReport {
    verify(folder, &VerifyOptions::all(&public())).unwrap()
}

#[test]
fn appended_entries_survive_reopening() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    let first = ledger.append(&draft(1, &items(70))).unwrap();
    let second = ledger.append(&draft(2, &[])).unwrap();
    assert_eq!((first.seq, second.seq), (1, 2));
    drop(ledger);

    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    assert_eq!(ledger.head(), (2, second.hash));
    let third = ledger.append(&draft(3, &[])).unwrap();
    let entries: Vec<Entry> =
        ledger.reader().unwrap().entries(1).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(entries[0].touched, items(64));
    assert_eq!((entries[0].touched_total, entries[0].hash), (70, first.hash));
    assert_ne!(entries[0].touched_rest, [0; 32]);
    assert_eq!((entries[1].previous, entries[2].previous), (first.hash, second.hash));
    assert_eq!(entries[2].principal, "user:ada");
    ledger.close(SECOND).unwrap();

    let report = whole(&folder.0);
    assert_eq!(report.fault, None);
    assert!(report.ok && report.checkpoints.ok);
    assert_eq!(
        (report.entries, report.head_seq, report.head_hash, report.unsigned),
        (3, 3, third.hash, 0)
    );
}

#[test]
fn empty_ledger_verifies_and_reports_its_origin_hash() {
    let folder = Folder::new();
    assert_eq!(Ledger::open(&folder.0, with(None)).unwrap().close(1).unwrap(), None);
    let report = whole(&folder.0);
    assert!(report.ok);
    assert_eq!((report.entries, report.head_hash), (0, header::chain_origin(&TENANT)));
}

#[test]
fn volumes_are_chained_and_readable_from_any_entry() {
    let folder = Folder::new();
    let anchor = written(&folder.0, 60);
    assert!(scan::volumes(&folder.0).unwrap().len() >= 4);
    let reader = LedgerReader::open(&folder.0).unwrap();
    let seqs: Vec<u64> = reader.entries(31).unwrap().map(|entry| entry.unwrap().seq).collect();
    assert_eq!(seqs, (31..=60).collect::<Vec<_>>());
    assert_eq!(reader.find(&[44; 16]).unwrap().unwrap().seq, 44);
    assert_eq!(reader.find(&[200; 16]).unwrap(), None);

    let public = public();
    let part = VerifyOptions { anchor: Some(anchor), from_seq: 20, to_seq: 39, verifier: &public };
    let report = reader.verify(&part).unwrap();
    assert_eq!((report.ok, report.entries, report.head_seq), (true, 20, 39));
    // The ledger continues after its last entry.
    let mut ledger = Ledger::open_sized(&folder.0, with(Some(anchor)), SMALL).unwrap();
    assert_eq!(ledger.append(&draft(61, &[])).unwrap().seq, 61);
    drop(ledger);
    let report =
        verify(&folder.0, &VerifyOptions { anchor: Some(anchor), ..VerifyOptions::all(&public) })
            .unwrap();
    assert_eq!((report.ok, report.entries, report.unsigned), (true, 61, 1));
}

#[test]
fn second_writer_is_rejected_until_the_first_closes() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.0, with(None)).unwrap();
    assert!(matches!(open_error(&folder.0, with(None)), LedgerOpenError::Locked(_)));
    drop(ledger);
    Ledger::open(&folder.0, with(None)).unwrap();
}

#[test]
fn ledger_of_another_tenant_is_rejected() {
    let folder = Folder::new();
    written(&folder.0, 3);
    let error = open_error(&folder.0, LedgerOptions { tenant: [0x22; 32], ..with(None) });
    assert!(error.to_string().contains("LED-07"), "{error}");
    assert_eq!(error.remedy(), Remedy::Restore);
}

#[test]
fn failed_write_closes_the_ledger() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    ledger.append(&draft(1, &[])).unwrap();
    // A file opened read-only rejects the write.
    let file = ledger.file.clone();
    ledger.file = std::sync::Arc::new(std::fs::File::open(volume_path(&folder.0, 1)).unwrap());
    assert!(matches!(ledger.append(&draft(2, &[])), Err(AppendError::Failed(_))));
    ledger.file = file;
    assert!(matches!(ledger.append(&draft(3, &[])), Err(AppendError::Closed(_))));
    assert!(matches!(ledger.sync(), Err(AppendError::Closed(_))));
    assert!(matches!(ledger.tick(100 * SECOND), Err(AppendError::Closed(_))));
    assert!(ledger.failure().is_some() && ledger.due().is_none());
    drop(ledger);
    assert_eq!(Ledger::open(&folder.0, with(None)).unwrap().head().0, 1);
}

#[test]
fn failed_sync_closes_the_ledger() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    ledger.append(&draft(1, &[])).unwrap();
    // A device without storage cannot be synced.
    ledger.file = std::sync::Arc::new(std::fs::File::open("/dev/null").unwrap());
    assert!(matches!(ledger.sync(), Err(AppendError::Failed(_))));
    assert!(matches!(ledger.append(&draft(2, &[])), Err(AppendError::Closed(_))));
    assert_eq!(ledger.synced_anchor(), None);
}

#[test]
fn checkpoint_is_written_every_thousand_entries() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    for _ in 0..2_500 {
        ledger.append(&draft(1, &[])).unwrap();
    }
    ledger.sync().unwrap();
    assert_eq!(ledger.synced_anchor().unwrap().seq, 2_000);
    drop(ledger);
    let report = whole(&folder.0);
    assert_eq!(
        (report.ok, report.entries, report.checkpoints.count, report.unsigned),
        (true, 2_500, 2, 500)
    );
    let (seals, reader) = (public(), LedgerReader::open(&folder.0).unwrap());
    let until =
        |over: bool| reader.verify_cancellable(&VerifyOptions::all(&seals), &|| over).unwrap();
    assert_eq!((until(true), until(false)), (None, Some(report)), "it ends when nobody waits");
}

#[test]
fn unsigned_entries_after_a_crash_are_signed_before_the_next_append() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    for _ in 0..1_000 {
        ledger.append(&draft(1, &[])).unwrap();
    }
    drop(ledger);
    let path = volume_path(&folder.0, 1);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();

    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    assert_eq!(ledger.torn_tail().unwrap(), TornTail { after_seq: 1_000, bytes: 135 });
    assert!(ledger.append(&EntryDraft { tool: "", ..draft(1, &[]) }).is_err());
    ledger.append(&draft(1, &[])).unwrap();
    drop(ledger);
    let report = whole(&folder.0);
    assert_eq!((report.ok, report.entries, report.checkpoints.count), (true, 1_001, 1));
}

#[test]
fn deadlines_follow_the_injected_time() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    assert_eq!(ledger.due(), None);
    ledger.append(&EntryDraft { at_micros: 5 * SECOND, ..draft(1, &[]) }).unwrap();
    assert_eq!(ledger.due(), Some(5 * SECOND + SYNC_AFTER_MICROS));
    assert!(ledger.tick(5 * SECOND + SYNC_AFTER_MICROS - 1).unwrap().is_none());
    let ticket = ledger.tick(5 * SECOND + SYNC_AFTER_MICROS).unwrap().unwrap();
    // An entry appended during the sync is not covered by the sync.
    ledger.append(&EntryDraft { at_micros: 6 * SECOND, ..draft(2, &[]) }).unwrap();
    ledger.end_sync(ticket.run()).unwrap();
    assert!(!ledger.is_synced());
    ledger.sync().unwrap();
    assert!(ledger.is_synced());
    assert_eq!(ledger.due(), Some(5 * SECOND + CHECKPOINT_AFTER_MICROS));
    assert_eq!(ledger.synced_anchor(), None);
    assert!(ledger.tick(65 * SECOND).unwrap().is_none(), "the checkpoint's own sync is due later");
    // The clock was set back: all pending work is due at once.
    let ticket = ledger.tick(SECOND).unwrap().unwrap();
    ledger.end_sync(ticket.run()).unwrap();
    assert_eq!(ledger.synced_anchor().unwrap().seq, 2);
    assert_eq!(ledger.due(), None);
}

#[test]
fn oversized_entry_is_rejected_and_appends_continue() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    let long = "p".repeat(PRINCIPAL_BYTES_MAX + 1);
    for bad in [
        EntryDraft { tool: "", ..draft(1, &[]) },
        EntryDraft { principal: &long, ..draft(1, &[]) },
        EntryDraft { rule: "a\nb", ..draft(1, &[]) },
    ] {
        let error = ledger.append(&bad).unwrap_err();
        assert!(
            matches!(error, AppendError::Draft(_)) && error.remedy() == Remedy::FixRequest,
            "{error}"
        );
    }
    assert_eq!(ledger.append(&draft(1, &items(200))).unwrap().seq, 1);
}

#[test]
fn ledger_constants_match_the_specification() {
    let spec = include_str!("../../../format-spec/ledger.md");
    let mut places = Vec::new();
    for line in spec.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, offset, size, name, ..] = cells[..]
            && let (Ok(offset), Ok(size)) = (offset.parse::<usize>(), size.parse::<usize>())
        {
            places.push((name, offset, size));
        }
    }
    let wanted = [
        ("header.magic", HEADER_MAGIC, 8),
        ("header.read_version", HEADER_READ_VERSION, 4),
        ("header.write_version", HEADER_WRITE_VERSION, 4),
        ("header.first_seq", HEADER_FIRST_SEQ, 8),
        ("header.previous", HEADER_PREVIOUS, 32),
        ("header.tenant", HEADER_TENANT, 32),
        ("header.reserved", HEADER_RESERVED, 36),
        ("header.check", HEADER_CHECK, 4),
        ("frame.length", FRAME_LENGTH, 2),
        ("frame.length_check", FRAME_LENGTH_CHECK, 2),
        ("frame.check", FRAME_CHECK, 4),
        ("entry.kind", ENTRY_KIND, 1),
        ("entry.decision", ENTRY_DECISION, 1),
        ("entry.outcome", ENTRY_OUTCOME, 1),
        ("entry.touched_count", ENTRY_TOUCHED_COUNT, 1),
        ("entry.touched_total", ENTRY_TOUCHED_TOTAL, 4),
        ("entry.seq", ENTRY_SEQ, 8),
        ("entry.at_micros", ENTRY_AT_MICROS, 8),
        ("entry.previous", ENTRY_PREVIOUS, 32),
        ("entry.receipt", ENTRY_RECEIPT, 16),
        ("entry.arguments", ENTRY_ARGUMENTS, 32),
        ("entry.touched_rest", ENTRY_TOUCHED_REST, 32),
        ("entry.tool_length", ENTRY_TOOL_LENGTH, 1),
        ("entry.principal_length", ENTRY_PRINCIPAL_LENGTH, 1),
        ("entry.rule_length", ENTRY_RULE_LENGTH, 1),
        ("entry.reserved", ENTRY_RESERVED, 5),
        ("checkpoint.kind", CHECKPOINT_KIND, 1),
        ("checkpoint.reserved", CHECKPOINT_RESERVED, 7),
        ("checkpoint.seq", CHECKPOINT_SEQ, 8),
        ("checkpoint.head", CHECKPOINT_HEAD, 32),
        ("checkpoint.at_micros", CHECKPOINT_AT_MICROS, 8),
        ("checkpoint.key", CHECKPOINT_KEY, 8),
        ("checkpoint.signature", CHECKPOINT_SIGNATURE, 64),
    ];
    assert_eq!(places, wanted);
    // Every rule that the code cites is in the specification.
    for rule in 1..=19 {
        assert!(spec.contains(&format!("**LED-{rule:02}**")), "LED-{rule:02}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_entries_roundtrip(
        tool in "[a-z_]{1,64}", principal in "[^\\p{Cc}]{1,40}", rule in "[a-z/-]{1,96}",
        arguments: [u8; 32], receipt: [u8; 16], count in 0u8..100, decision in 0usize..3, outcome in 0usize..4,
        seq: u64, at_micros: u64, previous: [u8; 32],
    ) {
        let touched = items(count);
        let (decision, outcome) = (Decision::ALL[decision], Outcome::ALL[outcome]);
        let draft = EntryDraft { at_micros, receipt, tool: &tool, principal: &principal, decision, rule: &rule,
            arguments, touched: &touched, outcome };
        let body = draft.encode(seq, &previous).unwrap();
        prop_assert!(body.len() <= BODY_BYTES_MAX);
        let entry = Entry::decode(&body).unwrap();
        prop_assert_eq!((&entry.tool, &entry.principal, &entry.rule), (&tool, &principal, &rule));
        prop_assert_eq!((entry.seq, entry.at_micros, entry.previous), (seq, at_micros, previous));
        prop_assert_eq!((entry.receipt, entry.arguments), (receipt, arguments));
        prop_assert_eq!((entry.decision, entry.outcome), (decision, outcome));
        prop_assert_eq!(&entry.touched[..], &touched[..touched.len().min(TOUCHED_LISTED_MAX)]);
        prop_assert_eq!(entry.touched_total, u32::from(count));
    }

    #[test]
    fn arbitrary_bytes_do_not_decode_or_panic(body in proptest::collection::vec(any::<u8>(), 0..1_700)) {
        prop_assert!(Entry::decode(&body).is_err());
        let _ = Checkpoint::decode(&body);
    }
}

proptest! {
    // Few cases, because each opens and syncs many times.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Appends, syncs, ticks and crashes that lose the end of the file: the remaining ledger is always a true prefix.
    #[test]
    fn repeated_crashes_leave_a_true_prefix(
        steps in proptest::collection::vec((0u8..8, 0u16..900), 1..60),
    ) {
        let folder = Folder::new();
        let mut ledger = Ledger::open_sized(&folder.0, with(None), SMALL).unwrap();
        let mut model: Vec<(ReceiptId, Hash)> = Vec::new();
        let mut now = SECOND;
        for (n, (step, amount)) in steps.into_iter().enumerate() {
            now += u64::from(amount) * SECOND / 10;
            match step {
                0 => ledger.sync().unwrap(),
                1 => {
                    if let Some(ticket) = ledger.tick(now).unwrap() {
                        ledger.end_sync(ticket.run()).unwrap();
                    }
                }
                2 => {
                    drop(ledger);
                    let volume = scan::volumes(&folder.0).unwrap().pop().unwrap();
                    let bytes = std::fs::read(&volume.path).unwrap();
                    let kept = bytes.len().saturating_sub(usize::from(amount)).max(HEADER_BYTES);
                    std::fs::write(&volume.path, &bytes[..kept]).unwrap();
                    ledger = Ledger::open_sized(&folder.0, with(None), SMALL).unwrap();
                    model.truncate(usize::try_from(ledger.head().0).unwrap());
                }
                _ => {
                    let receipt = [u8::try_from(n).unwrap(); 16];
                    let touched = items(u8::try_from(amount % 80).unwrap());
                    let draft = EntryDraft { at_micros: now, receipt, ..draft(0, &touched) };
                    model.push((receipt, ledger.append(&draft).unwrap().hash));
                }
            }
            prop_assert_eq!(ledger.head().0, model.len() as u64);
        }
        ledger.close(now).unwrap();
        let reader = LedgerReader::open(&folder.0).unwrap();
        let found: Vec<_> =
            reader.entries(1).unwrap().map(|entry| entry.map(|entry| (entry.receipt, entry.hash)).unwrap()).collect();
        prop_assert_eq!(found, model);
        let report = whole(&folder.0);
        prop_assert!(report.ok && report.unsigned == 0, "{:?}", report);
    }
}
