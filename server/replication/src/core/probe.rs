//! Probe of conditional puts: if many creators put the same object at once, exactly one must succeed.
//!
//! Some stores accept `If-None-Match: *` and ignore it, or check first and write later. Both would let two nodes write
//! one workspace, so a node that may write probes the store at its start.

use std::fmt;
use std::sync::Arc;

use super::create::{Created, Place, attempt};
use super::port::Port;
use crate::hex::{Hash, Nonce};
use crate::limits::{PROBE_RACERS, PROBE_ROUNDS};
use crate::names::Key;
use crate::objects::{About, Away, Tried};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of an object that is made for a probe.
    const BYTES_MAX: u64 = 1 << 10;
}

/// Target of a round.
#[derive(Debug, Clone)]
pub enum Racing {
    /// This object.
    Object(Key),
    /// This number of a record log that has no other use.
    Record(u64),
}

/// Result of one racer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raced {
    /// The store reported success, or the racer read its own bytes back.
    Won(Hash),
    /// Another racer's bytes are there.
    Lost,
    /// The store refuses the bytes.
    Refused(String),
    /// The outcome is unknown.
    Unsure(String),
}

/// Verdict on a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The store conforms.
    Honest,
    /// The store lets several creators win, has bytes that no winner wrote, or does not retain its objects.
    Dishonest(String),
    /// The store could not be probed: wrong credentials or a wrong bucket.
    Refused(String),
    /// The store did not respond.
    Unsure(String),
}

impl Racing {
    fn place(&self) -> Place {
        match self {
            Self::Object(key) => Place::Object(key.clone()),
            Self::Record(number) => Place::Record(*number),
        }
    }
}

/// Runs one racer of a round; all racers of a round run at once. `mark` must be unique to the racer.
pub async fn race(port: &Port, racing: &Racing, mark: Nonce) -> Raced {
    let bytes = bytes_of(mark);
    match attempt(port, &racing.place(), &bytes, false).await {
        Created::Mine => Raced::Won(Hash::of(&bytes)),
        Created::Taken(_) => Raced::Lost,
        Created::Below => Raced::Unsure("the number is below an edge".into()),
        Created::Refused(why) => Raced::Refused(why),
        Created::Unsure(why) => Raced::Unsure(why),
    }
}

/// Judges a round: compares the results of its racers with the bytes that are there. Called once all racers are done.
pub async fn judge(port: &Port, racing: &Racing, racers: &[Raced]) -> Verdict {
    for raced in racers {
        match raced {
            Raced::Refused(why) => return Verdict::Refused(why.clone()),
            Raced::Unsure(why) => return Verdict::Unsure(why.clone()),
            Raced::Won(_) | Raced::Lost => {}
        }
    }
    let winners: Vec<&Raced> = racers.iter().filter(|raced| **raced != Raced::Lost).collect();
    let [Raced::Won(won)] = winners[..] else {
        let (won, all) = (winners.len(), racers.len());
        return Verdict::Dishonest(format!(
            "it let {won} of {all} creators win the same new object: \
             it accepts `If-None-Match: *` and does not honour it"
        ));
    };
    match racing.place().read(port).await {
        Ok(Some(bytes)) if Hash::of(&bytes) == *won => Verdict::Honest,
        Ok(_) => Verdict::Dishonest("what it told one creator that it keeps is not there".into()),
        Err(away) => Verdict::from(away),
    }
}

/// Checks one request after the other that an object is retained, read, listed and removed. `probe` names the object;
/// its round number [`PROBE_ROUNDS`] is used by no round. If record logs are elsewhere (`has_chains` is false), the
/// store need not refuse to create an existing object.
pub async fn manners(port: &Port, probe: Nonce, has_chains: bool) -> Verdict {
    match try_manners(port, probe, has_chains).await {
        Ok(()) => Verdict::Honest,
        Err(verdict) => verdict,
    }
}

async fn try_manners(port: &Port, probe: Nonce, has_chains: bool) -> Result<(), Verdict> {
    let key = Key::Probe(probe, PROBE_ROUNDS);
    let bytes = bytes_of(probe);
    let dishonest = |why: &str| Err(Verdict::Dishonest(why.into()));
    port.put(key.clone(), Arc::clone(&bytes)).await?;
    if has_chains {
        match port.put_new(key.clone(), bytes_of(Nonce::NONE)).await {
            Tried::Made => return dishonest("it creates an object where one is"),
            Tried::Refused(why) => return Err(Verdict::Refused(why)),
            Tried::Unsure(_) => {}
        }
    }
    if port.get(key.clone(), None, BYTES_MAX).await?.as_deref() != Some(&*bytes) {
        return dishonest("an object that was just put there is not what is read");
    }
    if port.get(key.clone(), Some(1..5), BYTES_MAX).await?.as_deref() != Some(&bytes[1..5]) {
        return dishonest("a range of an object is not what is read");
    }
    let prefix = format!("probe/{probe}/");
    let is_listed = |listed: &[About]| listed.iter().any(|about| about.key == key);
    if !is_listed(&port.list(&prefix, None, PROBE_RACERS).await?) {
        return dishonest("an object that was just put there is not in the list");
    }
    port.remove(vec![key.clone()]).await?;
    if port.get(key.clone(), None, BYTES_MAX).await?.is_some() {
        return dishonest("an object that was just removed is still read");
    }
    if is_listed(&port.list(&prefix, None, PROBE_RACERS).await?) {
        return dishonest("an object that was just removed is still in the list");
    }
    Ok(())
}

fn bytes_of(mark: Nonce) -> Arc<[u8]> {
    format!("recalld probe {mark}\n").into_bytes().into()
}

impl From<Away> for Verdict {
    fn from(away: Away) -> Self {
        if away.may_pass { Self::Unsure(away.why) } else { Self::Refused(away.why) }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Honest => f.write_str("it keeps its word"),
            Self::Dishonest(why) | Self::Refused(why) | Self::Unsure(why) => f.write_str(why),
        }
    }
}
