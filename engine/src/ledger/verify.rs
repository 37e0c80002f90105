use std::cell::Cell;
use std::path::Path;

use super::checkpoint::{Anchor, Checkpoint, CheckpointVerifier};
use super::entry::Hash;
use super::error::{LedgerCorruption, ReadError};
use super::reader::LedgerReader;
use super::scan::{LedgerScan, ScanStep, VolumeScan};

/// Maximum number of reads while the end is torn: a writer may be in the middle of an append.
const VERIFY_ATTEMPTS_MAX: u32 = 4;

/// Frames scanned between two checks for cancellation.
const FRAMES_PER_CANCEL_CHECK: u32 = 1_024;

/// Parameters of a verification.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// Trusted signing keys.
    pub verifier: &'a dyn CheckpointVerifier,
    /// Anchor stored outside the ledger, if any (LED-19). Checked only if the verified range reaches the anchor.
    pub anchor: Option<Anchor>,
    /// Sequence number of the first entry to report on; earlier volumes are not read.
    pub from_seq: u64,
    /// Sequence number of the last entry to report on.
    pub to_seq: u64,
}

impl<'a> VerifyOptions<'a> {
    /// Verifies the whole ledger against `seals`, without an anchor.
    pub fn all(seals: &'a dyn CheckpointVerifier) -> Self {
        Self { verifier: seals, anchor: None, from_seq: 1, to_seq: u64::MAX }
    }
}

/// Checkpoints found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointCount {
    /// Number of checkpoints.
    pub count: u64,
    /// True if every checkpoint has a valid signature.
    pub ok: bool,
}

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerReport {
    /// Number of valid entries.
    pub entries: u64,
    /// True if no rule is broken.
    pub ok: bool,
    /// Sequence number of the first damaged or missing entry.
    pub first_bad_seq: Option<u64>,
    /// Sequence number of the last valid entry; 0 in an empty ledger.
    pub head_seq: u64,
    /// Hash of the last valid entry; the tenant's origin in an empty ledger, zero without a volume.
    pub head_hash: Hash,
    /// Checkpoints found.
    pub checkpoints: CheckpointCount,
    /// Valid entries of the range that no valid checkpoint within the range covers.
    pub unsigned: u64,
    /// First broken rule.
    pub fault: Option<LedgerCorruption>,
}

/// Verifies the ledger in `folder`, which a writer may have open. Damage is part of the report; an error means that the
/// ledger could not be read. Memory use is one frame, whatever the size of the ledger.
pub fn verify(folder: &Path, with: &VerifyOptions<'_>) -> Result<LedgerReport, ReadError> {
    verify_with_progress(folder, with, &|_| {})
}

/// Verifies like [`verify`], and passes the number of scanned frames to `tell` from time to time.
pub fn verify_with_progress(
    folder: &Path,
    with: &VerifyOptions<'_>,
    tell: &dyn Fn(u64),
) -> Result<LedgerReport, ReadError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let report = verify_once(folder, with, tell)?;
        if attempts == VERIFY_ATTEMPTS_MAX || !report.is_torn() {
            return Ok(report);
        }
        std::thread::yield_now();
    }
}

fn verify_once(
    folder: &Path,
    with: &VerifyOptions<'_>,
    tell: &dyn Fn(u64),
) -> Result<LedgerReport, ReadError> {
    let walked = Cell::new(0);
    let told_on = || {
        walked.set(walked.get() + u64::from(FRAMES_PER_CANCEL_CHECK));
        tell(walked.get());
        false
    };
    match LedgerReader::open(folder) {
        Ok(reader) => reader.run_verification(with, &told_on).map(|(report, _)| report),
        Err(ReadError::Damaged(damage)) => {
            let mut report = LedgerReport::empty();
            report.record_damage(damage);
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

impl LedgerReader {
    /// Verifies the ledger up to the reader's end; see [`verify`].
    pub fn verify(&self, with: &VerifyOptions<'_>) -> Result<LedgerReport, ReadError> {
        self.run_verification(with, &|| false).map(|(report, _)| report)
    }

    /// Verifies like [`LedgerReader::verify`]; `None` if `is_over` returned true.
    pub fn verify_cancellable(
        &self,
        with: &VerifyOptions<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<LedgerReport>, ReadError> {
        let (report, is_cut) = self.run_verification(with, is_over)?;
        Ok((!is_cut).then_some(report))
    }

    /// Returns the report, and true if the verification was cancelled.
    fn run_verification(
        &self,
        with: &VerifyOptions<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(LedgerReport, bool), ReadError> {
        let mut check = Verification {
            report: LedgerReport::empty(),
            options: with,
            is_cancelled: is_over,
            was_cancelled: false,
            has_met_anchor: false,
            signed_seq: 0,
            opened: false,
        };
        match self.walk_from(with.from_seq).and_then(|walk| check.run(walk)) {
            Ok(()) => check.check_anchor(),
            Err(ReadError::Damaged(damage)) => check.report.record_damage(damage),
            Err(error) => return Err(error),
        }
        let first = with.from_seq.max(1);
        check.report.unsigned =
            check.report.head_seq.saturating_sub(check.signed_seq.max(first - 1));
        Ok((check.report, check.was_cancelled))
    }
}

struct Verification<'a> {
    report: LedgerReport,
    options: &'a VerifyOptions<'a>,
    is_cancelled: &'a dyn Fn() -> bool,
    was_cancelled: bool,
    has_met_anchor: bool,
    /// Sequence number of the last entry covered by a valid checkpoint.
    signed_seq: u64,
    opened: bool,
}

impl Verification<'_> {
    fn run(&mut self, mut walk: LedgerScan) -> Result<(), ReadError> {
        if let Some(volume) = walk.volume() {
            self.record_head(volume);
        }
        for steps in 1_u32.. {
            if steps.is_multiple_of(FRAMES_PER_CANCEL_CHECK) && (self.is_cancelled)() {
                self.was_cancelled = true;
                return Ok(());
            }
            let step = walk.step()?;
            let Some(volume) = walk.volume() else { return Ok(()) };
            match step {
                ScanStep::Entry(entry) if entry.seq > self.options.to_seq => return Ok(()),
                ScanStep::Entry(entry) => {
                    self.report.entries += u64::from(entry.seq >= self.options.from_seq);
                    self.record_head(volume);
                }
                ScanStep::Checkpoint(checkpoint) => self.checkpoint(volume, &checkpoint),
                ScanStep::End => return Ok(()),
                ScanStep::Torn { bytes } => {
                    return Err(
                        volume.broken("LED-18", format!("the last {bytes} bytes are a torn tail"))
                    );
                }
            }
        }
        Ok(())
    }

    /// Records the current end of the chain.
    fn record_head(&mut self, volume: &VolumeScan) {
        (self.report.head_seq, self.report.head_hash) = (volume.chain.seq, volume.chain.head);
        self.opened = true;
        self.has_met_anchor |=
            self.options.anchor == Some(Anchor { seq: volume.chain.seq, head: volume.chain.head });
    }

    fn checkpoint(&mut self, volume: &VolumeScan, checkpoint: &Checkpoint) {
        if checkpoint.seq < self.options.from_seq {
            return;
        }
        self.report.checkpoints.count += 1;
        if checkpoint.is_signed(&volume.header.tenant, self.options.verifier) {
            self.signed_seq = checkpoint.seq;
            return;
        }
        self.report.checkpoints.ok = false;
        let what =
            format!("the checkpoint of entry {} is not signed by a trusted key", checkpoint.seq);
        if let ReadError::Damaged(mut damage) = volume.broken("LED-16", what) {
            damage.seq = checkpoint.seq;
            self.report.record_damage(damage);
        }
    }

    fn check_anchor(&mut self) {
        let Some(anchor) = self.options.anchor else { return };
        let in_range = anchor.seq >= self.options.from_seq.saturating_sub(1)
            && anchor.seq <= self.options.to_seq;
        // An anchor of an empty ledger does not contradict a directory without a volume.
        if !in_range || self.has_met_anchor || (anchor.seq == 0 && !self.opened) {
            return;
        }
        let seq = anchor.seq.min(self.report.head_seq.saturating_add(1));
        let what = format!(
            "the ledger ends at entry {} and does not hold the checkpoint of entry {} kept elsewhere",
            self.report.head_seq, anchor.seq
        );
        self.report.record_damage(LedgerCorruption {
            rule: "LED-19",
            seq,
            at: 0,
            volume: Default::default(),
            detail: what,
        });
    }
}

impl LedgerReport {
    /// Returns true if the only fault is a torn tail after a crash (LED-18), which the next writer removes.
    pub fn is_torn(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.rule == "LED-18" && self.checkpoints.ok)
    }

    fn empty() -> Self {
        Self {
            entries: 0,
            ok: true,
            first_bad_seq: None,
            head_seq: 0,
            head_hash: [0; 32],
            checkpoints: CheckpointCount { count: 0, ok: true },
            unsigned: 0,
            fault: None,
        }
    }

    /// Records damage; only the first is reported.
    fn record_damage(&mut self, damage: LedgerCorruption) {
        self.ok = false;
        if self.fault.is_none() {
            self.first_bad_seq = Some(damage.seq);
            self.fault = Some(damage);
        }
    }
}
