//! Readers of history: who wants a record below the edge to stay says so before anybody removes it.
//!
//! A reader puts its pin and then looks at the edge; a collector raises the edge and then looks at pins.
//! One of the two sees the other.

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
    /// The record that must stay, and those from its base on.
    pub number: u64,
    /// How long, from when the store wrote the pin.
    pub seconds: u64,
}

/// What came of pinning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pinned {
    /// The record and its base stay while the pin lives. It must be removed at the end.
    Held(Key),
    /// The record may be gone.
    Late,
    /// No answer.
    Away(Away),
}

impl Pin {
    /// Its bytes: one JSON object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are JSON")
    }

    /// The pin that these bytes are.
    ///
    /// # Errors
    /// REM-50.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let wrong = |why: String| Damage::new("REM-50", why);
        let pin: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if pin.number > NUMBER_MAX || pin.seconds > PIN_SECONDS_MAX {
            return Err(wrong(format!("a number is above {NUMBER_MAX}, or more than a day")));
        }
        Ok(pin)
    }
}

/// Pins a record for a reader at `node`; `nonce` is made for this pin alone.
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

/// The numbers that living pins hold. Pins whose time is over are removed.
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
            // Of a damaged one nobody knows what it holds; none lives longer than the longest.
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
