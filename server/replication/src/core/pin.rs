//! Pins: a reader of history retains a record below the watermark before a collector removes it.
//!
//! A reader publishes its pin and then reads the watermark. A collector raises the watermark and then reads the pins.
//! So at least one of the two sees the other.

use serde::{Deserialize, Serialize};

use super::create::Patience;
use super::port::Port;
use crate::fault::Damage;
use crate::hex::Nonce;
use crate::limits::{CREATE_WAIT_MAX, NUMBER_MAX, PIN_BYTES_MAX, PIN_SECONDS_MAX, PINS_MAX};
use crate::names::{Key, NodeId};
use crate::objects::Away;

/// A pin (`format-spec/remote.md`, Pins).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Number of the record that must stay, together with the records back to its base.
    pub number: u64,
    /// Lifetime in seconds, counted from when the storage wrote the pin.
    pub seconds: u64,
}

/// Outcome of pinning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pinned {
    /// The record and its base stay while the pin lives. The reader must remove the pin at the end.
    Held(Key),
    /// The record may be gone.
    Late,
    /// The storage did not respond.
    Away(Away),
}

impl Pin {
    /// Encodes the pin as one JSON object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are JSON")
    }

    /// Decodes a pin.
    ///
    /// # Errors
    /// The bytes break rule REM-50.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let wrong = |why: String| Damage::new("REM-50", why);
        let pin: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if pin.number > NUMBER_MAX || pin.seconds > PIN_SECONDS_MAX {
            return Err(wrong(format!("a number is above {NUMBER_MAX}, or more than a day")));
        }
        Ok(pin)
    }
}

/// Pins a record for a reader at `node`. `nonce` must be unique to this pin.
pub async fn pin(port: &Port, node: NodeId, nonce: Nonce, wanted: &Pin) -> Pinned {
    let key = Key::Pin(port.tenant().clone(), node, nonce);
    let mut patience = Patience::of(port, CREATE_WAIT_MAX);
    while let Err(away) = port.put(key.clone(), wanted.encode().into()).await {
        if !away.may_pass || !patience.lasts(port).await {
            return Pinned::Away(away);
        }
    }
    loop {
        match port.edge().await {
            Ok(edge) if edge.is_below(wanted.number) => return Pinned::Late,
            Ok(_) => return Pinned::Held(key),
            Err(away) if !away.may_pass => return Pinned::Away(away),
            Err(away) => {
                if !patience.lasts(port).await {
                    return Pinned::Away(away);
                }
            }
        }
    }
}

/// Record numbers of all live pins. Expired pins are removed.
pub(super) async fn pins(port: &Port) -> Result<Vec<u64>, Away> {
    let found = port.list(&format!("t/{}/pin/", port.tenant()), None, PINS_MAX + 1).await?;
    if found.len() > PINS_MAX {
        let why = format!("more than {PINS_MAX} pins hold records of {}", port.tenant());
        return Err(Away { why, may_pass: false });
    }
    let (mut held, mut over) = (Vec::new(), Vec::new());
    for about in found {
        let Some(bytes) = port.get(about.key.clone(), None, PIN_BYTES_MAX).await? else { continue };
        match Pin::decode(&bytes) {
            Ok(pin) if about.age_s <= pin.seconds => held.push(pin.number),
            // The record of a damaged pin is unknown, so the read fails until the longest lifetime of a pin has passed.
            Err(damage) if about.age_s <= PIN_SECONDS_MAX => return Err(damage.into()),
            Ok(_) | Err(_) => over.push(about.key),
        }
    }
    if !over.is_empty() {
        port.remove(over).await?;
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        let pin = Pin { number: 7, seconds: 600 };
        assert_eq!(Pin::decode(&pin.encode()), Ok(pin.clone()));
        let long = Pin { seconds: PIN_SECONDS_MAX + 1, ..pin };
        for wrong in [&b""[..], b"{}", &long.encode()] {
            assert_eq!(Pin::decode(wrong).unwrap_err().rule, "REM-50");
        }
    }
}
