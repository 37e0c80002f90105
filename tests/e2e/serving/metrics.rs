//! The metrics page, by the rules of its format and our own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use support_wire::service::scratch;
use support_wire::wire::{self, Ask};

use super::launched::Launched;

/// A page as a strict parser sees it: families with their type, and the value of each sample by its name and labels as
/// written.
struct Read {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

fn read(page: &str) -> Read {
    let (mut kinds, mut samples) = (BTreeMap::new(), BTreeMap::new());
    let mut helped = BTreeSet::new();
    let mut family = String::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name.to_owned()) && !help.is_empty(), "{line}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            family = name.to_owned();
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(&*family).unwrap_or_else(|| panic!("{line} in {family}"));
        let is_histogram = kinds[&family] == "histogram";
        assert_eq!(["_bucket", "_sum", "_count"].contains(&suffix), is_histogram, "{line}");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.chars().all(plain), "{line}");
        let value: f64 = value.parse().unwrap();
        assert!(value >= 0.0 && value.is_finite(), "{line}");
        assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
    }
    Read { kinds, samples }
}

/// Asserts that each histogram's buckets are cumulative, and that the last one counts all samples.
fn check_histograms(page: &Read) {
    let mut last: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut buckets: Vec<(String, f64, f64)> = Vec::new();
    for (sample, value) in &page.samples {
        let Some((series, bound)) = sample.split_once("le=\"") else { continue };
        let bound = bound.split('"').next().unwrap();
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
        buckets.push((series.to_owned(), bound, *value));
    }
    assert!(!buckets.is_empty());
    buckets.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    for (series, bound, value) in buckets {
        let before = last.insert(series.clone(), (bound, value));
        assert!(before.is_none_or(|(_, count)| count <= value), "{series} {bound}");
    }
    for (series, (bound, value)) in last {
        assert!(bound.is_infinite(), "{series}");
        let whole = series.replace("_bucket", "_count");
        let whole = whole.trim_end_matches(['{', ',']);
        let whole = if whole.contains('{') { format!("{whole}}}") } else { whole.to_owned() };
        assert_eq!(page.samples.get(&whole), Some(&value), "{whole}");
    }
}

#[test]
fn the_page_keeps_the_format_and_counts_what_happened() {
    let folder = scratch();
    let data = folder.path().join("data");
    let service = Launched::start(&data, &["--hosted", "127.0.0.1:0"], []);
    let hosted = service.ready["hosted"].as_str().unwrap().strip_prefix("http://").unwrap();
    let call = |name: &str, arguments| {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = wire::ask(service.local(), &Ask::post("/mcp", &body));
        assert_eq!(answer.json()["result"]["isError"], false, "{}", answer.text());
    };
    call("brain_remember", json!({"text": "The zither is in the attic.", "kind": "fact"}));
    call("retrieval_arbitrate_tool", json!({"query": "where is the zither?"}));
    let ask = |method: &str, params| {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        Ask::post("/mcp", &body)
    };
    let begin = json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let begun = wire::ask(service.local(), &ask("initialize", begin));
    let session = begun.header("mcp-session-id").unwrap();
    let follow = ask("resources/subscribe", json!({"uri": "memory://brief/today"}));
    let followed = wire::ask(service.local(), &follow.header("Mcp-Session-Id", session));
    assert_eq!(followed.json()["result"], json!({}), "{}", followed.text());
    assert_eq!(wire::ask(hosted, &Ask::get("/health")).status, 200);
    assert_eq!(wire::ask(hosted, &Ask::get("/metrics")).status, 404);
    assert_eq!(wire::ask(hosted, &Ask::get("/zither")).status, 404);
    assert_eq!(wire::ask(service.local(), &Ask::new("PUT", "/mcp")).status, 405);
    let bad = Ask::get("/health").header("Transfer-Encoding", "odd");
    assert_eq!(wire::ask(service.local(), &bad).status, 501);

    let answer = wire::ask(service.local(), &Ask::get("/metrics"));
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    let page = read(&text);
    check_histograms(&page);
    let wanted = |sample: &str, value: f64| {
        assert_eq!(page.samples.get(sample), Some(&value), "{sample}\n{text}");
    };
    let total = |route, method, code| {
        format!(
            "recalld_http_requests_total{{route=\"{route}\",method=\"{method}\",code=\"{code}\"}}"
        )
    };
    wanted(&total("/mcp", "POST", "2xx"), 4.0);
    wanted(&total("/health", "GET", "2xx"), 1.0);
    // A request for an unknown path, and one with a wrong method.
    wanted(&total("other", "other", "4xx"), 2.0);
    wanted("recalld_http_refused_total{code=\"501\"}", 1.0);
    for stage in ["encode", "words", "meaning", "graph", "fuse", "evidence", "render"] {
        wanted(&format!("recalld_stage_duration_seconds_count{{stage=\"{stage}\"}}"), 1.0);
    }
    wanted("recalld_stage_duration_seconds_count{stage=\"ledger\"}", 3.0);
    for (name, value) in [("sessions", 1.0), ("listens", 0.0), ("subscriptions", 1.0)] {
        wanted(&format!("recalld_mcp_{name}"), value);
    }
    wanted("recalld_store_records{record=\"items\"}", 1.0);
    wanted("recalld_store_records{record=\"embeddings\"}", 1.0);
    wanted("recalld_ledger_entries", 3.0);
    wanted("recalld_store_takes_writes", 1.0);
    for some in [
        "recalld_store_syncs_total",
        "recalld_store_log_bytes",
        "recalld_encoder_texts_total",
        "recalld_encoder_seconds_total",
        "recalld_received_bytes_total",
        "recalld_sent_bytes_total",
        "recalld_uptime_seconds",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
    ] {
        assert!(page.samples[some] > 0.0, "{some}");
    }
    // Earlier clients have disconnected, and only the metrics client is connected.
    service.until(|page| page.contains("recalld_connections 1\n"));
    assert!(page.kinds.contains_key("recalld_encoder_info"));
    for secret in ["zither", "attic", data.to_str().unwrap(), "operator@", "Bearer"] {
        assert!(!text.contains(secret), "{secret}\n{text}");
    }
}
