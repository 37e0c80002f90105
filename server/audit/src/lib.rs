//! Audit log of calls, hashes of calls, and signed grounding tokens.
#![forbid(unsafe_code)]

pub mod audit;
pub mod audit_sync;
pub mod call_hash;
pub mod grounding;

pub use audit::Anchoring;
pub use audit::Audit;
pub use audit::BY_SCOPE;
pub use audit::Elsewhere;
pub use audit::Events;
pub use audit::Receipt;
pub use audit::Trace;
pub use audit::Unrecorded;
pub use audit_sync::AuditSync;
pub use call_hash::hash_call;
pub use call_hash::hash_json;
pub use grounding::Grounded;
pub use grounding::TenantHash;
pub use grounding::TokenFault;
pub use grounding::check;
pub use grounding::mint;
pub use grounding::tenant_hash;
