//! A request, resolved by its head.

use super::authenticate::EarlyAuth;
use super::legacy::HostStatus;
use super::route::Route;
use recalld_http_server::refusal::Refusal;

/// The route of a request and what its head says of its caller. Made once, when the head is complete.
pub struct RouteMatch {
    /// The position of the row, for counting.
    pub(super) position: u16,
    /// Returns true if pages of listed origins may ask the path.
    pub(super) is_shared: bool,
    pub(super) host: HostStatus,
    /// `None` for OPTIONS, which every path has.
    pub(super) route: Result<Option<&'static Route>, Refusal>,
    /// Compared where the event loop needed it, and with the same request never again.
    pub(super) early: Option<EarlyAuth>,
}
