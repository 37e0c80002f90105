use super::shared::{ControlStands, Shared};
use crate::whereabouts::Peer;
use recalld_metastore::ControlError;

/// First words of the status of a shared metastore.
pub const SHARED: &str = "shared with other nodes";

impl Shared {
    pub(super) fn told(&self) -> Result<String, String> {
        let (number, trouble) = {
            let known = self.known();
            (known.at.as_ref().map_or(0, |at| at.number), known.trouble.clone())
        };
        let (age, writer) = match self.stands() {
            ControlStands::Leads => {
                return Ok(format!("{SHARED}; this node writes it, record {number}"));
            }
            ControlStands::Follows { age, writer, .. } => (age, writer),
        };
        let who = writer.map_or_else(
            || "no node writes it now".to_owned(),
            |Peer { node, .. }| format!("node {node} writes it"),
        );
        let why = trouble.map(|why| format!("; {why}")).unwrap_or_default();
        match age {
            Some(age) if age <= self.with.stale_max => Ok(format!(
                "{SHARED}; {who}; all of {} s ago is here, up to record {number}{why}",
                age.as_secs()
            )),
            Some(age) => Err(format!(
                "{SHARED}; {who}; no word of it for {} s, record {number} is here{why}",
                age.as_secs()
            )),
            None => Err(format!("{SHARED}; {who}; no word of it since the start{why}")),
        }
    }

    /// Error of a write on a node that is not the leader.
    pub(super) fn elsewhere(&self) -> ControlError {
        let trouble = self.known().trouble.clone();
        let why = match self.stands() {
            ControlStands::Follows { writer: Some(Peer { node, url }), .. } => {
                let at = url.map(|url| format!(", at {url}")).unwrap_or_default();
                format!("tenants, their keys and quotas are changed by node {node}{at}; ask there")
            }
            _ => {
                let why = trouble.map(|why| format!(" ({why})")).unwrap_or_default();
                format!(
                    "no node changes tenants and their keys now; one is about to: try again{why}"
                )
            }
        };
        ControlError::far(why)
    }

    pub(super) fn may_read(&self) -> Result<(), ControlError> {
        let most = self.with.stale_max;
        match self.stands() {
            ControlStands::Leads => Ok(()),
            ControlStands::Follows { age: Some(age), .. } if age <= most => Ok(()),
            ControlStands::Follows { age, .. } => {
                let trouble = self.known().trouble.clone().unwrap_or_default();
                let most = most.as_secs();
                Err(ControlError::far(match age {
                    Some(age) => format!(
                        "what is known here of tenants and keys is {} s old; at most {most} s are allowed ({trouble})",
                        age.as_secs()
                    ),
                    None => {
                        format!(
                            "how old what is known here of tenants and keys is, nobody can tell ({trouble})"
                        )
                    }
                }))
            }
        }
    }
}
