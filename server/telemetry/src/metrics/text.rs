//! The Prometheus exposition format 0.0.4.
//!
//! An own implementation and not `prometheus-client`: its families store labels in a map behind a lock, whereas labels
//! here are constant. This file replaces the rest.

use std::fmt::Write;

use super::{BOUNDS_MICROS, Latencies};

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows; the name ends with `_total`.
    Counter,
    /// A value that may rise and fall.
    Gauge,
    /// A histogram of durations in seconds.
    Histogram,
}

/// Label names and values of a sample.
type Labels<'a> = [(&'a str, &'a str)];

/// A page of samples under construction.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    /// `Content-Type` of the page.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a family, to which all samples up to the next family belong. `help` is one line.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        debug_assert!(!help.contains(['\n', '\\']), "it would need escapes");
        debug_assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self.family = name;
    }

    /// Adds a sample of a counter or gauge.
    pub fn sample(&mut self, labels: &Labels<'_>, value: f64) {
        self.line("", labels, None, value);
    }

    /// Adds an integer sample.
    pub fn count(&mut self, labels: &Labels<'_>, value: u64) {
        #[expect(clippy::cast_precision_loss, reason = "the format's numbers are doubles")]
        self.line("", labels, None, value as f64);
    }

    /// Adds a family with one integer sample without labels.
    pub fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: u64) {
        self.family(name, kind, help);
        self.count(&[], value);
    }

    /// Adds the samples of one histogram.
    pub fn histogram(&mut self, labels: &Labels<'_>, latencies: &Latencies) {
        let (counts, all) = latencies.cumulative();
        for (bound, count) in BOUNDS_MICROS.iter().zip(counts) {
            #[expect(clippy::cast_precision_loss, reason = "some seconds in microseconds")]
            let seconds = (*bound as f64 / 1e6).to_string();
            #[expect(clippy::cast_precision_loss, reason = "the format's numbers are doubles")]
            self.line("_bucket", labels, Some(&seconds), count as f64);
        }
        #[expect(clippy::cast_precision_loss, reason = "the format's numbers are doubles")]
        let all = all as f64;
        self.line("_bucket", labels, Some("+Inf"), all);
        self.line("_sum", labels, None, latencies.sum_seconds());
        self.line("_count", labels, None, all);
    }

    /// Returns the finished page.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, bound: Option<&str>, value: f64) {
        let family = self.family;
        self.put(format_args!("{family}{suffix}"));
        let bound = bound.map(|bound| ("le", bound));
        for (at, (name, value)) in labels.iter().copied().chain(bound).enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.put(format_args!("{name}=\""));
            for c in value.chars() {
                match c {
                    '\\' | '"' => self.put(format_args!("\\{c}")),
                    '\n' => self.text.push_str("\\n"),
                    _ => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() || bound.is_some() {
            self.text.push('}');
        }
        self.put(format_args!(" {value}\n"));
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("a String takes every write");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn samples_stand_under_their_family_and_labels_are_escaped() {
        let mut page = Page::default();
        page.single("a_total", Kind::Counter, "What it is.", 3);
        page.family("b", Kind::Gauge, "Another.");
        page.sample(&[("x", "1"), ("y", "a\\b\"c\nd")], 0.5);
        let text = String::from_utf8(page.into_bytes()).unwrap();
        assert_eq!(
            text,
            "# HELP a_total What it is.\n# TYPE a_total counter\na_total 3\n\
             # HELP b Another.\n# TYPE b gauge\nb{x=\"1\",y=\"a\\\\b\\\"c\\nd\"} 0.5\n"
        );
    }

    #[test]
    fn a_histogram_grows_with_its_bounds() {
        let latencies = Latencies::default();
        latencies.record(Duration::from_micros(100));
        latencies.record(Duration::from_secs(100));
        let mut page = Page::default();
        page.family("t_seconds", Kind::Histogram, "Took.");
        page.histogram(&[("stage", "a")], &latencies);
        let text = String::from_utf8(page.into_bytes()).unwrap();
        for line in [
            "t_seconds_bucket{stage=\"a\",le=\"0.000064\"} 0",
            "t_seconds_bucket{stage=\"a\",le=\"0.000256\"} 1",
            "t_seconds_bucket{stage=\"a\",le=\"67.108864\"} 1",
            "t_seconds_bucket{stage=\"a\",le=\"+Inf\"} 2",
            "t_seconds_sum{stage=\"a\"} 100.0001",
            "t_seconds_count{stage=\"a\"} 2",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
