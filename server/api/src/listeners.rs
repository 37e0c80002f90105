//! The two listeners of the service.

use recalld_http_server::ListenerId;

/// The listener for the operator of this machine.
pub const LOCAL: ListenerId = ListenerId(0);
/// The listener for tenants.
pub const HOSTED: ListenerId = ListenerId(1);
