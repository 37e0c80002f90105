//! Flipped, truncated, forged, zeroed and missing bytes: always an error or a report, never a panic, never `ok`.

use super::*;

fn files_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let volumes = scan::volumes(folder).unwrap();
    volumes
        .into_iter()
        .map(|volume| (volume.path.clone(), std::fs::read(&volume.path).unwrap()))
        .collect()
}

#[test]
fn ledger_byte_flips_are_detected() {
    let folder = Folder::new();
    written(&folder.0, 16);
    let files = files_of(&folder.0);
    assert!(files.len() >= 2);
    let (last_path, _) = files.last().unwrap().clone();
    for (path, bytes) in &files {
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(path, &flipped).unwrap();
            let report = verify(&folder.0, &VerifyOptions::all(&public()));
            assert!(
                !matches!(&report, Ok(report) if report.ok),
                "byte {at} of {path:?} was not missed: {report:?}"
            );
            if *path == last_path {
                open_error(&folder.0, with(None));
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
    assert!(whole(&folder.0).ok);
}

#[test]
fn truncated_ledger_is_exposed_by_its_anchor() {
    let folder = Folder::new();
    let anchor = written(&folder.0, 16);
    let (path, bytes) = files_of(&folder.0).pop().unwrap();
    let public = public();
    let (mut opened, mut refused) = (0, 0);
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let report = verify(
            &folder.0,
            &VerifyOptions { anchor: Some(anchor), ..VerifyOptions::all(&public) },
        )
        .unwrap();
        // If only the last checkpoint is truncated, the entry that it signs may remain: such a report is correct.
        assert!(!report.ok || report.head_seq == anchor.seq, "{length}: {report:?}");
        if report.head_seq < anchor.seq {
            open_error(&folder.0, with(Some(anchor)));
        }
        match Ledger::open(&folder.0, with(None)) {
            Ok(ledger) => {
                opened += 1;
                assert!(ledger.head().0 <= anchor.seq);
                drop(ledger);
                assert!(whole(&folder.0).ok, "a torn tail is cut by opening");
            }
            Err(error) => {
                refused += 1;
                assert!(length < HEADER_BYTES, "{length}: {error}");
            }
        }
    }
    assert!(opened > 0 && refused > 0);
}

#[test]
fn missing_volume_is_detected() {
    let folder = Folder::new();
    let anchor = written(&folder.0, 60);
    let files = files_of(&folder.0);
    for (place, (path, bytes)) in files.iter().enumerate() {
        std::fs::remove_file(path).unwrap();
        let public = public();
        let report = verify(
            &folder.0,
            &VerifyOptions { anchor: Some(anchor), ..VerifyOptions::all(&public) },
        )
        .unwrap();
        assert!(!report.ok, "volume {place}");
        open_error(&folder.0, with(Some(anchor)));
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::remove_dir_all(&folder.0).unwrap();
    let error = open_error(&folder.0, with(Some(anchor)));
    assert!(matches!(error, LedgerOpenError::AnchorBroken { head_seq: 0, .. }), "{error}");
}

#[test]
fn forged_entry_with_valid_checksum_breaks_the_chain() {
    let folder = Folder::new();
    written(&folder.0, 3);
    let (path, bytes) = files_of(&folder.0).remove(0);
    let mut at = HEADER_BYTES;
    let mut rules = Vec::new();
    while at < bytes.len() {
        let length = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let end = at + FRAME_HEAD_BYTES + length;
        let mut body = bytes[at + FRAME_HEAD_BYTES..end].to_vec();
        // A changed time is detectable only through the chain and the signature.
        let time = if body[0] == KIND_ENTRY { ENTRY_AT_MICROS } else { CHECKPOINT_AT_MICROS };
        body[time] ^= 1;
        let mut forged = bytes[..at].to_vec();
        frame::push(&mut forged, &body);
        forged.extend_from_slice(&bytes[end..]);
        std::fs::write(&path, &forged).unwrap();
        let report = whole(&folder.0);
        assert!(!report.ok);
        rules.push(report.fault.unwrap().rule);
        at = end;
    }
    assert_eq!(rules, ["LED-13", "LED-13", "LED-15", "LED-16"]);
}

#[test]
fn checkpoint_signed_by_an_untrusted_key_is_reported() {
    let folder = Folder::new();
    written(&folder.0, 3);
    let other = Public(SigningKey::from_bytes(&[43; 32]).verifying_key());
    let report = verify(&folder.0, &VerifyOptions::all(&other)).unwrap();
    assert!(!report.ok && !report.checkpoints.ok);
    assert_eq!((report.entries, report.unsigned, report.first_bad_seq), (3, 3, Some(3)));
}

#[test]
fn trailing_zeros_are_a_torn_tail_and_inner_zeros_are_corruption() {
    let folder = Folder::new();
    let mut ledger = Ledger::open(&folder.0, with(None)).unwrap();
    for n in 1..=4 {
        ledger.append(&draft(n, &items(60))).unwrap();
    }
    drop(ledger);
    let (path, bytes) = files_of(&folder.0).remove(0);
    let frame_bytes = (bytes.len() - HEADER_BYTES) / 4;
    let last = bytes.len() - frame_bytes;

    // The file had grown, but none of the new bytes were written.
    let grown: Vec<u8> = bytes.iter().copied().chain([0; 5_000]).collect();
    std::fs::write(&path, &grown).unwrap();
    assert_eq!(whole(&folder.0).fault.unwrap().rule, "LED-18");
    let ledger = Ledger::open(&folder.0, with(None)).unwrap();
    assert_eq!(ledger.torn_tail(), Some(TornTail { after_seq: 4, bytes: 5_000 }));
    drop(ledger);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);

    // The last frame lost its bytes from a sector boundary on.
    let mut lost = bytes.clone();
    let sector = (last + 100).next_multiple_of(512);
    lost[sector..].fill(0);
    std::fs::write(&path, &lost).unwrap();
    assert_eq!(Ledger::open(&folder.0, with(None)).unwrap().head().0, 3);

    // A crash cannot cause this loss: a complete frame follows, or the loss does not begin at a sector boundary.
    let mut middle = bytes.clone();
    middle[last - frame_bytes + 200..last].fill(0);
    std::fs::write(&path, &middle).unwrap();
    assert!(open_error(&folder.0, with(None)).to_string().contains("LED-09"));
    let mut short = bytes.clone();
    let end = short.len();
    short[end - 3..].fill(0xff);
    std::fs::write(&path, &short).unwrap();
    assert!(open_error(&folder.0, with(None)).to_string().contains("LED-09"));
}

#[test]
fn newer_ledger_version_is_rejected_as_too_new() {
    let folder = Folder::new();
    written(&folder.0, 1);
    let (path, bytes) = files_of(&folder.0).remove(0);
    for (at, verify_refuses) in [(HEADER_READ_VERSION, true), (HEADER_WRITE_VERSION, false)] {
        let mut newer = bytes.clone();
        newer[at] = 2;
        let check = crc32c::crc32c(&newer[..HEADER_CHECK]);
        newer[HEADER_CHECK..HEADER_BYTES].copy_from_slice(&check.to_le_bytes());
        std::fs::write(&path, &newer).unwrap();
        let error = open_error(&folder.0, with(None));
        assert!(
            matches!(error, LedgerOpenError::Read(ReadError::TooNew(2)))
                && error.remedy() == Remedy::Upgrade
        );
        assert_eq!(verify(&folder.0, &VerifyOptions::all(&public())).is_err(), verify_refuses);
    }
}

#[test]
fn stray_volume_is_rejected_and_unfinished_volume_removed() {
    let folder = Folder::new();
    written(&folder.0, 1);
    std::fs::write(folder.0.join("volume.new"), b"half").unwrap();
    drop(Ledger::open(&folder.0, with(None)).unwrap());
    assert!(!folder.0.join("volume.new").exists());
    std::fs::write(folder.0.join("ledger-2.log"), b"").unwrap();
    assert!(open_error(&folder.0, with(None)).to_string().contains("LED-01"));
    assert_eq!(whole(&folder.0).fault.unwrap().rule, "LED-01");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_corruption_never_panics_or_verifies(
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 1u8..), 1..8),
        cut in any::<Option<proptest::sample::Index>>(),
    ) {
        let folder = Folder::new();
        let anchor = written(&folder.0, 7);
        let (path, bytes) = files_of(&folder.0).pop().unwrap();
        let mut damaged = bytes.clone();
        for (at, bits) in edits {
            damaged[at.index(bytes.len())] ^= bits;
        }
        damaged.truncate(cut.map_or(bytes.len(), |at| at.index(bytes.len())));
        prop_assume!(damaged != bytes);
        std::fs::write(&path, &damaged).unwrap();
        let public = public();
        let report = verify(&folder.0, &VerifyOptions { anchor: Some(anchor), ..VerifyOptions::all(&public) });
        prop_assert!(!matches!(&report, Ok(report) if report.ok && report.unsigned == 0), "{:?}", report);
        let _ = Ledger::open(&folder.0, with(None)).map(|ledger| ledger.head());
    }

    #[test]
    fn arbitrary_bytes_after_a_header_never_panic(tail in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let folder = Folder::new();
        drop(Ledger::open(&folder.0, with(None)).unwrap());
        let (path, mut bytes) = files_of(&folder.0).remove(0);
        bytes.extend_from_slice(&tail);
        std::fs::write(&path, &bytes).unwrap();
        let report = whole(&folder.0);
        prop_assert_eq!(report.entries, 0);
        let _ = Ledger::open(&folder.0, with(None)).map(|ledger| ledger.head());
    }
}
