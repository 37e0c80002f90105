//! `recalld stats`: the store's contents and its response times.

use clap::Args;
use serde_json::{Value, json};

use super::call::call;
use super::common::Common;
use super::failure::Failure;
use super::paint::plain;
use super::tell::{tell, tell_line};

/// Kinds and modalities printed for people.
const NAMES_SHOWN: usize = 12;

#[derive(Debug, Args)]
pub(super) struct StatsArgs {
    #[command(flatten)]
    common: Common,
    /// Report this tenant's store, as the operator; the call is recorded in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

pub(super) fn run(args: &StatsArgs) -> Result<(), Failure> {
    args.common.check_reading()?;
    let told = call(&args.common, args.workspace.as_deref(), "recall_stats", json!({}))?;
    if args.common.json { tell_line(&told.structured) } else { tell(&table(&told.structured)) }
}

/// The statistics as rows of name and value.
fn table(stats: &Value) -> String {
    let number = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), grouped);
    let millis = |name: &str| {
        let value = stats["recall_latency_ms"][name].as_f64();
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} ms"))
    };
    let mut rows = vec![
        ("items".to_owned(), number(&stats["memory_items"])),
        ("superseded".to_owned(), number(&stats["superseded"])),
        ("tombstoned".to_owned(), number(&stats["tombstoned"])),
        ("edges".to_owned(), number(&stats["edges"])),
        ("sources".to_owned(), number(&stats["sources"])),
        ("embeddings".to_owned(), number(&stats["embedding_rows"])),
        ("segments".to_owned(), number(&stats["segments"])),
        ("on disk".to_owned(), stats["bytes_on_disk"].as_u64().map_or_else(String::new, bytes)),
        ("recall p50".to_owned(), millis("p50")),
        ("recall p95".to_owned(), millis("p95")),
        ("recall p99".to_owned(), millis("p99")),
    ];
    rows.extend(named("kind", &stats["by_kind"]));
    rows.extend(named("modality", &stats["by_modality"]));
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let width = rows.iter().map(|(_, value)| value.len()).max().unwrap_or_default();
    rows.iter().map(|(name, value)| format!("{name:<widest$}  {value:>width$}\n")).collect()
}

/// The most frequent names, one row each, and a row for the rest.
fn named(what: &str, counts: &Value) -> Vec<(String, String)> {
    let mut all: Vec<(&String, u64)> = counts
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, count)| (name, count.as_u64().unwrap_or_default()))
        .collect();
    all.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(right.0)));
    let rest: u64 = all.iter().skip(NAMES_SHOWN).map(|(_, count)| count).sum();
    let shown = all.iter().take(NAMES_SHOWN);
    let mut rows: Vec<_> =
        shown.map(|(name, count)| (format!("{what} {}", plain(name)), grouped(*count))).collect();
    if rest > 0 {
        rows.push((format!("{what}, others"), grouped(rest)));
    }
    rows
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats bytes in the largest binary unit that is not above them.
#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
pub(super) fn bytes(count: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.into_iter().find(|(shift, _)| count >> shift > 0);
    fits.map_or_else(
        || format!("{count} B"),
        |(shift, unit)| format!("{:.1} {unit}", count as f64 / (1_u64 << shift) as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_so_that_they_can_be_read() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1_234_567].map(grouped).each_ref().map(String::as_str)
        );
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }

    #[test]
    fn the_most_frequent_names_come_first_and_the_rest_is_one_row() {
        let counts: serde_json::Map<String, Value> =
            (0..15).map(|n| (format!("k{n:02}"), json!(n + 1))).collect();
        let rows = named("kind", &Value::Object(counts));
        assert_eq!(rows.len(), NAMES_SHOWN + 1);
        assert_eq!(rows[0], ("kind k14".to_owned(), "15".to_owned()));
        assert_eq!(rows[NAMES_SHOWN], ("kind, others".to_owned(), "6".to_owned()));
    }
}
