//! Result of routing a request by its head.

use super::authenticate::EarlyAuth;
use super::legacy::HostStatus;
use super::route::Route;
use recalld_http_server::refusal::Refusal;

/// The route of a request and the early authentication, computed once when the head is complete.
pub struct RouteMatch {
    /// Position of the row, for metrics.
    pub(super) position: u16,
    /// True if pages of listed origins may send requests to the path.
    pub(super) is_shared: bool,
    pub(super) host: HostStatus,
    /// `None` for OPTIONS, which every path accepts.
    pub(super) route: Result<Option<&'static Route>, Refusal>,
    /// Set if the event loop needed the comparison, so that each request is compared once.
    pub(super) early: Option<EarlyAuth>,
}
