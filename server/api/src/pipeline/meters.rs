//! `GET /metrics`: metrics for the operator of this machine.
//!
//! Counts answered calls and renders the page. Labels are constants: routes of the table, methods, status classes,
//! stages. Nothing on the page originates from a request, a tenant or a stored text.

mod far;

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::route;
use crate::app_state::AppState;
use far::far;
use recalld_http_server::{Answered, Counter, Counters, Response};
use recalld_mcp_protocol::Figures;
use recalld_store_admin::Standing;
use recalld_telemetry::metrics::{Kind, Latencies, Page, Stage};

/// Status classes; `gone` counts calls whose client left before the response.
const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "gone"];

/// Counters of one route.
#[derive(Default)]
struct Row {
    classes: [Counter; CLASSES.len()],
    took: Latencies,
}

/// Counters of calls, and the counters of the HTTP server.
pub(super) struct Meters {
    /// A row per route, and one for requests without a route.
    rows: Box<[Row]>,
    net: Option<Arc<Counters>>,
}

impl Default for Meters {
    fn default() -> Self {
        Self { rows: (0..=route::count()).map(|_| Row::default()).collect(), net: None }
    }
}

impl Meters {
    /// Adds the counters of the HTTP server to the page.
    pub(super) fn with(self, net: Arc<Counters>) -> Self {
        Self { net: Some(net), ..self }
    }

    /// Counts an answered call.
    pub(super) fn count(&self, answered: &Answered) {
        let row = &self.rows[usize::from(answered.route).min(route::count())];
        let class = match answered.status {
            None => 4,
            Some(status) => usize::from((status / 100).clamp(2, 5) - 2),
        };
        row.classes[class].add(1);
        row.took.record(answered.took);
    }

    /// Renders the page.
    pub(super) fn page(&self, parts: &AppState, figures: Figures) -> Response {
        let mut page = Page::default();
        self.calls(&mut page);
        if let Some(net) = &self.net {
            front_end(&mut page, net);
        }
        mcp(&mut page, figures);
        stages(&mut page, parts);
        store(&mut page, parts);
        backups(&mut page, parts);
        far(&mut page, parts);
        encoder(&mut page, parts);
        ledger(&mut page, parts);
        process(&mut page, parts);
        let mut response = Response::empty(200).header("content-type", Page::CONTENT_TYPE);
        response.body = page.into_bytes();
        response
    }

    /// Renders the counters of calls. Routes without calls are omitted, so that the page stays short.
    fn calls(&self, page: &mut Page) {
        let used = || {
            let rows = self.rows.iter().enumerate().map(|(at, row)| {
                let position = u16::try_from(at).expect("some dozens of routes");
                (route::name(position), row)
            });
            rows.filter(|(_, row)| row.classes.iter().any(|class| class.get() > 0))
        };
        let help = "Answered calls, by route, method and class of status.";
        page.family("recalld_http_requests_total", Kind::Counter, help);
        for ((method, path), row) in used() {
            for (class, count) in CLASSES.iter().zip(&row.classes) {
                if count.get() > 0 {
                    let labels = [("route", path), ("method", method), ("code", class)];
                    page.count(&labels, count.get());
                }
            }
        }
        let help = "From the last byte of a request to its answer, or to the head of its stream.";
        page.family("recalld_http_request_duration_seconds", Kind::Histogram, help);
        for ((method, path), row) in used() {
            page.histogram(&[("route", path), ("method", method)], &row.took);
        }
    }
}

fn front_end(page: &mut Page, net: &Counters) {
    use Kind::{Counter, Gauge};
    let help = "Requests that were refused before they were calls: malformed, too large, too slow.";
    page.family("recalld_http_refused_total", Counter, help);
    for (status, count) in net.refused.by_status() {
        page.count(&[("code", &status.to_string())], count);
    }
    for (name, kind, help, value) in [
        ("recalld_connections", Gauge, "Open connections.", net.open.get()),
        ("recalld_connections_accepted_total", Counter, "Connections.", net.accepted.get()),
        ("recalld_streams", Gauge, "Open streams.", net.streams.get()),
        ("recalld_bodies_bytes", Gauge, "Bodies in memory.", net.bodies_bytes.get()),
        (
            "recalld_waiting_bytes",
            Gauge,
            "Bytes of connections that are not read, or not sent.",
            net.waiting_bytes.get(),
        ),
        ("recalld_received_bytes_total", Counter, "Bytes from sockets.", net.bytes_in.get()),
        ("recalld_sent_bytes_total", Counter, "Bytes to sockets.", net.bytes_out.get()),
        (
            "recalld_overloaded_total",
            Counter,
            "Calls that found their queue full, all streams taken, or no room for their answer.",
            net.overloaded.get(),
        ),
        ("recalld_tls_handshakes_total", Counter, "Done.", net.handshakes.get()),
        (
            "recalld_tls_failures_total",
            Counter,
            "Handshakes and connections that broke the protocol or were too slow.",
            net.handshakes_failed.get(),
        ),
    ] {
        page.single(name, kind, help, value);
    }
    let help = "Connections beyond the most that may be open, of all peers or of one.";
    page.family("recalld_connections_turned_away_total", Counter, help);
    page.count(&[("why", "full")], net.turned_away.get());
    page.count(&[("why", "peer")], net.turned_away_of_peer.get());
    page.family("recalld_queue_length", Gauge, "Calls that wait for a thread.");
    page.count(&[("queue", "calls")], net.queue.get());
    page.count(&[("queue", "jobs")], net.jobs.get());
    let help = "How long calls waited for a thread.";
    page.family("recalld_queue_wait_seconds", Kind::Histogram, help);
    page.histogram(&[], &net.queue_wait);
}

fn mcp(page: &mut Page, figures: Figures) {
    for (name, help, value) in [
        ("recalld_mcp_sessions", "Sessions of MCP clients.", figures.sessions),
        ("recalld_mcp_listens", "Open subscriptions/listen streams.", figures.listens),
        ("recalld_mcp_subscriptions", "Followed resources, by client.", figures.subscriptions),
    ] {
        page.single(name, Kind::Gauge, help, value as u64);
    }
}

fn stages(page: &mut Page, parts: &AppState) {
    let help = "How long each step of answering took.";
    page.family("recalld_stage_duration_seconds", Kind::Histogram, help);
    for stage in Stage::ALL {
        page.histogram(&[("stage", stage.name())], parts.stages.of(stage));
    }
}

fn store(page: &mut Page, parts: &AppState) {
    use Kind::{Counter, Gauge};
    let store = &parts.local.get().store;
    let figures = store.metrics();
    let takes_writes = u64::from(store.stop_reason().is_none());
    page.single("recalld_store_takes_writes", Gauge, "1 while it does.", takes_writes);
    // A damaged store is reported by `verify`; here its counts are only omitted.
    if let Ok(counts) = store.snapshot().row_counts() {
        page.family("recalld_store_records", Gauge, "What is stored, by kind of record.");
        page.count(&[("record", "items")], counts.items);
        page.count(&[("record", "superseded")], counts.superseded);
        page.count(&[("record", "tombstoned")], counts.tombstoned);
        page.count(&[("record", "edges")], counts.edges);
        page.count(&[("record", "sources")], counts.sources);
        page.count(&[("record", "embeddings")], counts.vectors);
    }
    for (name, kind, help, value) in [
        ("recalld_store_segments", Gauge, "Sealed segments.", figures.segments),
        ("recalld_store_tail_bytes", Gauge, "Heap of rows not yet sealed.", figures.tail_bytes),
        ("recalld_store_log_bytes", Gauge, "Bytes of all logs.", figures.log_bytes),
        ("recalld_store_disk_bytes", Gauge, "Bytes of all files.", figures.bytes_on_disk),
        ("recalld_store_syncs_total", Counter, "Syncs of the log.", figures.syncs),
        ("recalld_store_seals_total", Counter, "Tails that became a segment.", figures.seals),
        (
            "recalld_store_merges_total",
            Counter,
            "Segments that compaction and erasure made of others.",
            figures.merges,
        ),
    ] {
        page.single(name, kind, help, value);
    }
}

/// Renders the metrics of scheduled backups, if configured.
fn backups(page: &mut Page, parts: &AppState) {
    use Kind::{Counter, Gauge};
    let Some(told) = parts.scheduled.told(parts.clock.now()) else { return };
    page.family("recalld_backups_total", Counter, "Backups on schedule, by what became of them.");
    page.count(&[("outcome", "made")], told.made);
    page.count(&[("outcome", "failed")], told.failures);
    let is = |standing| u64::from(told.standing == standing);
    let help = "1 while the last attempt has failed.";
    page.single("recalld_backup_failing", Gauge, help, is(Standing::Failing));
    let help = "1 where none was made long after it was due.";
    page.single("recalld_backup_overdue", Gauge, help, is(Standing::Overdue));
    if let Some(newest) = told.newest {
        let seconds = u64::try_from(newest.0.div_euclid(1_000_000)).unwrap_or(0);
        let help = "When the newest backup on schedule was begun, since 1970.";
        page.single("recalld_backup_newest_timestamp_seconds", Gauge, help, seconds);
    }
}

fn encoder(page: &mut Page, parts: &AppState) {
    let embedder = parts.local.get().encoders.view().embedder;
    page.family("recalld_encoder_info", Kind::Gauge, "The encoder in use.");
    let labels = [
        ("model", embedder.name()),
        ("kernel", embedder.kernel()),
        ("precision", embedder.precision()),
    ];
    page.count(&labels, 1);
    let (texts, took) = embedder.worked();
    let help = "Texts that were embedded.";
    page.single("recalld_encoder_texts_total", Kind::Counter, help, texts);
    let help = "Time that threads spent on embedding.";
    page.family("recalld_encoder_seconds_total", Kind::Counter, help);
    page.sample(&[], took.as_secs_f64());
}

fn ledger(page: &mut Page, parts: &AppState) {
    let audit = &parts.local.get().audit;
    let (entries, waits) = audit.progress();
    let has_failed = u64::from(audit.failure().is_some());
    page.single("recalld_ledger_entries", Kind::Gauge, "Entries so far.", entries);
    page.single("recalld_ledger_failed", Kind::Gauge, "1 once it takes no entries.", has_failed);
    let help = "How long the oldest entry that is not on disk has waited; 0 if all are.";
    page.family("recalld_ledger_unsynced_seconds", Kind::Gauge, help);
    page.sample(&[], waits.unwrap_or_default().as_secs_f64());
}

fn process(page: &mut Page, parts: &AppState) {
    page.family("recalld_build_info", Kind::Gauge, "The program.");
    page.count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("recalld_uptime_seconds", Kind::Gauge, "Since the start.");
    page.sample(&[], parts.started.elapsed().as_secs_f64());
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
    page.family("process_cpu_seconds_total", Kind::Counter, "Processor time.");
    page.sample(&[], cpu.as_secs_f64());
    // Without /proc, these two metrics are omitted.
    if let Some(bytes) = resident_bytes() {
        page.single("process_resident_memory_bytes", Kind::Gauge, "Memory in use.", bytes);
    }
    if let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") {
        // Excludes the descriptor of this directory listing.
        let open = descriptors.count().saturating_sub(1) as u64;
        page.single("process_open_fds", Kind::Gauge, "Open files and sockets.", open);
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
