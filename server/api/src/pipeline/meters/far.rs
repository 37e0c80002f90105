//! Metrics of the remote: requests sent to it, and the replication state of `local`.

use crate::app_state::AppState;
use recalld_cluster::seats::{Seats, Stands};
use recalld_telemetry::metrics::{Kind, Page};

/// Writes nothing if no remote is configured.
pub(super) fn far(page: &mut Page, parts: &AppState) {
    let Some(seats) = &parts.seats else { return };
    requests(page, seats);
    cache(page, seats);
    let help =
        "From the making of a record to when it was shown here, by the dates of both machines.";
    page.family("recalld_remote_lag_seconds", Kind::Histogram, help);
    page.histogram(&[], seats.lag());
    match seats.stands(parts.local.name()) {
        Some(Stands::Leads(standing)) => {
            leads(page, 1);
            let help = "The epoch that this node writes the workspace local in.";
            page.single("recalld_remote_epoch", Kind::Gauge, help, standing.epoch);
            let help = "Bytes of logs that are on this disk alone.";
            page.single("recalld_remote_unsent_bytes", Kind::Gauge, help, standing.unsent_bytes);
            let help = "How long the oldest of what is on this disk alone has waited.";
            page.family("recalld_remote_unsent_seconds", Kind::Gauge, help);
            page.sample(&[], standing.unsent_for.as_secs_f64());
        }
        Some(Stands::Follows(age)) => {
            leads(page, 0);
            if let Some(age) = age {
                let help = "All that was acknowledged longer ago is shown here.";
                page.family("recalld_remote_stale_seconds", Kind::Gauge, help);
                page.sample(&[], age.as_secs_f64());
            }
        }
        Some(Stands::Changing) | None => leads(page, 0),
    }
}

fn leads(page: &mut Page, leads: u64) {
    let help = "1 while this node writes the workspace local.";
    page.single("recalld_remote_leads", Kind::Gauge, help, leads);
}

fn cache(page: &mut Page, seats: &Seats) {
    let stands = seats.cache().stands();
    let help = "Bytes of segments of followed workspaces that are on this disk.";
    page.single("recalld_remote_cache_bytes", Kind::Gauge, help, stands.bytes);
    let help = "What remote.cache_bytes allows, or what was free.";
    page.single("recalld_remote_cache_bound_bytes", Kind::Gauge, help, stands.bound);
    let help = "Pieces of segments that were asked of the remote.";
    page.single("recalld_remote_fetches_total", Kind::Counter, help, stands.fetches);
    let help = "Bytes of segments that came.";
    page.single("recalld_remote_filled_bytes_total", Kind::Counter, help, stands.filled);
}

fn requests(page: &mut Page, seats: &Seats) {
    let reached = seats.reached();
    let of = [("objects", &reached.counts), ("coordinator", &reached.coordinator_counts)];
    page.family("recalld_remote_requests_total", Kind::Counter, "Requests to the remote.");
    for (to, counts) in of {
        for (op, outcome, count) in counts.requests() {
            page.count(&[("to", to), ("op", op), ("outcome", outcome)], count);
        }
    }
    page.family("recalld_remote_bytes_total", Kind::Counter, "Bytes of objects and records.");
    for (to, counts) in of {
        let (sent, received) = counts.bytes();
        page.count(&[("to", to), ("way", "sent")], sent);
        page.count(&[("to", to), ("way", "received")], received);
    }
}
