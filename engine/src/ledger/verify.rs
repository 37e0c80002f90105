use std::cell::Cell;
use std::path::Path;

use super::checkpoint::{Anchor, CheckSeal, Checkpoint};
use super::entry::Hash;
use super::error::{Damage, ReadError};
use super::reader::Reader;
use super::walk::{Step, VolumeWalk, Walk};

/// Maximum number of reads while the end is torn: a writer may be in the middle of an append.
const VERIFY_ATTEMPTS_MAX: u32 = 4;

/// Frames scanned between two checks for cancellation.
const STEPS_TOGETHER: u32 = 1_024;

/// Parameters of a verification.
#[derive(Clone, Copy)]
pub struct VerifyWith<'a> {
    /// Trusted signing keys.
    pub seals: &'a dyn CheckSeal,
    /// Anchor stored outside the ledger, if any (LED-19). Checked only if the verified range reaches the anchor.
    pub anchor: Option<Anchor>,
    /// Sequence number of the first entry to report on; earlier volumes are not read.
    pub from_seq: u64,
    /// Sequence number of the last entry to report on.
    pub to_seq: u64,
}

impl<'a> VerifyWith<'a> {
    /// Verifies the whole ledger against `seals`, without an anchor.
    pub fn whole(seals: &'a dyn CheckSeal) -> Self {
        Self { seals, anchor: None, from_seq: 1, to_seq: u64::MAX }
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
pub struct Report {
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
    pub fault: Option<Damage>,
}

/// Verifies the ledger in `folder`, which a writer may have open. Damage is part of the report; an error means that the
/// ledger could not be read. Memory use is one frame, whatever the size of the ledger.
pub fn verify(folder: &Path, with: &VerifyWith<'_>) -> Result<Report, ReadError> {
    verify_telling(folder, with, &|_| {})
}

/// Verifies like [`verify`], and passes the number of scanned frames to `tell` from time to time.
pub fn verify_telling(
    folder: &Path,
    with: &VerifyWith<'_>,
    tell: &dyn Fn(u64),
) -> Result<Report, ReadError> {
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
    with: &VerifyWith<'_>,
    tell: &dyn Fn(u64),
) -> Result<Report, ReadError> {
    let walked = Cell::new(0);
    let told_on = || {
        walked.set(walked.get() + u64::from(STEPS_TOGETHER));
        tell(walked.get());
        false
    };
    match Reader::open(folder) {
        Ok(reader) => reader.checked(with, &told_on).map(|(report, _)| report),
        Err(ReadError::Damaged(damage)) => {
            let mut report = Report::empty();
            report.fault(damage);
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

impl Reader {
    /// Verifies the ledger up to the reader's end; see [`verify`].
    pub fn verify(&self, with: &VerifyWith<'_>) -> Result<Report, ReadError> {
        self.checked(with, &|| false).map(|(report, _)| report)
    }

    /// Verifies like [`Reader::verify`]; `None` if `is_over` returned true.
    pub fn verify_until(
        &self,
        with: &VerifyWith<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Report>, ReadError> {
        let (report, is_cut) = self.checked(with, is_over)?;
        Ok((!is_cut).then_some(report))
    }

    /// Returns the report, and true if the verification was cancelled.
    fn checked(
        &self,
        with: &VerifyWith<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(Report, bool), ReadError> {
        let mut check = Check {
            report: Report::empty(),
            with,
            is_over,
            is_cut: false,
            anchor_met: false,
            signed_seq: 0,
            opened: false,
        };
        match self.walk_from(with.from_seq).and_then(|walk| check.run(walk)) {
            Ok(()) => check.ask_anchor(),
            Err(ReadError::Damaged(damage)) => check.report.fault(damage),
            Err(error) => return Err(error),
        }
        let first = with.from_seq.max(1);
        check.report.unsigned =
            check.report.head_seq.saturating_sub(check.signed_seq.max(first - 1));
        Ok((check.report, check.is_cut))
    }
}

struct Check<'a> {
    report: Report,
    with: &'a VerifyWith<'a>,
    is_over: &'a dyn Fn() -> bool,
    is_cut: bool,
    anchor_met: bool,
    /// Sequence number of the last entry covered by a valid checkpoint.
    signed_seq: u64,
    opened: bool,
}

impl Check<'_> {
    fn run(&mut self, mut walk: Walk) -> Result<(), ReadError> {
        if let Some(volume) = walk.volume() {
            self.stand(volume);
        }
        for steps in 1_u32.. {
            if steps.is_multiple_of(STEPS_TOGETHER) && (self.is_over)() {
                self.is_cut = true;
                return Ok(());
            }
            let step = walk.step()?;
            let Some(volume) = walk.volume() else { return Ok(()) };
            match step {
                Step::Entry(entry) if entry.seq > self.with.to_seq => return Ok(()),
                Step::Entry(entry) => {
                    self.report.entries += u64::from(entry.seq >= self.with.from_seq);
                    self.stand(volume);
                }
                Step::Checkpoint(checkpoint) => self.checkpoint(volume, &checkpoint),
                Step::End => return Ok(()),
                Step::Torn { bytes } => {
                    return Err(
                        volume.broken("LED-18", format!("the last {bytes} bytes are a torn tail"))
                    );
                }
            }
        }
        Ok(())
    }

    /// Records the current end of the chain.
    fn stand(&mut self, volume: &VolumeWalk) {
        (self.report.head_seq, self.report.head_hash) = (volume.chain.seq, volume.chain.head);
        self.opened = true;
        self.anchor_met |=
            self.with.anchor == Some(Anchor { seq: volume.chain.seq, head: volume.chain.head });
    }

    fn checkpoint(&mut self, volume: &VolumeWalk, checkpoint: &Checkpoint) {
        if checkpoint.seq < self.with.from_seq {
            return;
        }
        self.report.checkpoints.count += 1;
        if checkpoint.is_sealed(&volume.header.tenant, self.with.seals) {
            self.signed_seq = checkpoint.seq;
            return;
        }
        self.report.checkpoints.ok = false;
        let what =
            format!("the checkpoint of entry {} is not signed by a trusted key", checkpoint.seq);
        if let ReadError::Damaged(mut damage) = volume.broken("LED-16", what) {
            damage.seq = checkpoint.seq;
            self.report.fault(damage);
        }
    }

    fn ask_anchor(&mut self) {
        let Some(anchor) = self.with.anchor else { return };
        let in_range =
            anchor.seq >= self.with.from_seq.saturating_sub(1) && anchor.seq <= self.with.to_seq;
        // An anchor of an empty ledger does not contradict a directory without a volume.
        if !in_range || self.anchor_met || (anchor.seq == 0 && !self.opened) {
            return;
        }
        let seq = anchor.seq.min(self.report.head_seq.saturating_add(1));
        let what = format!(
            "the ledger ends at entry {} and does not hold the checkpoint of entry {} kept elsewhere",
            self.report.head_seq, anchor.seq
        );
        self.report.fault(Damage { rule: "LED-19", seq, at: 0, volume: Default::default(), what });
    }
}

impl Report {
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
    fn fault(&mut self, damage: Damage) {
        self.ok = false;
        if self.fault.is_none() {
            self.first_bad_seq = Some(damage.seq);
            self.fault = Some(damage);
        }
    }
}
