//! The two listeners of the service.

use recalld_http_server::ListenerId;

/// Listener for the operator of this machine.
pub const LOCAL: ListenerId = ListenerId(0);
/// Listener for tenants.
pub const HOSTED: ListenerId = ListenerId(1);
