//! Node inventory (`format-spec/remote.md`, Erasure): names the nodes that an erasure must wait for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::limits::{HOLDS_BYTES_MAX, NUMBER_MAX, TENANTS_MAX};
use crate::names::{NodeId, Tenant};

/// Inventory of the workspaces of which a node has bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Node name.
    pub node: NodeId,
    /// Local copies, by workspace.
    pub workspaces: BTreeMap<Tenant, Holding>,
}

/// A node's local copy of a workspace.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Record that the store is at or ahead of; 0 if unknown.
    pub record: u64,
    /// Number of stores that were set aside and follow nothing.
    pub left: u32,
}

impl Holding {
    /// Returns true if no data that was removed with this record is left on the node.
    #[must_use]
    pub fn is_past(&self, record: u64) -> bool {
        self.record >= record && self.left == 0
    }
}

impl Holds {
    /// Encodes the inventory as one JSON object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are JSON")
    }

    /// Decodes an inventory.
    ///
    /// # Errors
    /// REM-70.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let wrong = |why: String| Damage::new("REM-70", why);
        if bytes.len() > HOLDS_BYTES_MAX {
            return Err(wrong(format!("{} bytes; {HOLDS_BYTES_MAX} are allowed", bytes.len())));
        }
        let holds: Self =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if holds.workspaces.len() > TENANTS_MAX {
            return Err(wrong(format!("more than {TENANTS_MAX} workspaces")));
        }
        if holds.workspaces.values().any(|holding| holding.record > NUMBER_MAX) {
            return Err(wrong(format!("a number is above {NUMBER_MAX}")));
        }
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_holds_is_read_as_it_is_written() {
        let workspaces = [("local", 7, 0), ("acme", 0, 2)]
            .map(|(name, record, left)| (Tenant::new(name).unwrap(), Holding { record, left }));
        let holds = Holds { node: NodeId::new("box-1").unwrap(), workspaces: workspaces.into() };
        assert_eq!(Holds::decode(&holds.encode()), Ok(holds.clone()));
        let text = String::from_utf8(holds.encode()).unwrap();
        let high = text.replace("\"record\":7", "\"record\":9223372036854775808");
        for wrong in ["", "{}", &high, &text.replace("acme", "A")] {
            assert_eq!(Holds::decode(wrong.as_bytes()).unwrap_err().rule, "REM-70");
        }
        let holding = |record, left| Holding { record, left };
        assert!(holding(7, 0).is_past(7) && !holding(6, 0).is_past(7) && !holding(9, 1).is_past(7));
    }
}
