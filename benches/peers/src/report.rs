//! Figures, collected while a benchmark runs, printed as Markdown tables and CSV lines.
//!
//! This module defines the units and how two figures are compared; it MUST NOT depend on how they were measured.

use std::fmt::Write as _;
use std::time::Duration;

use crate::machine::Machine;

/// Unit of a value, and which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Operations per second: more is better.
    PerSecond,
    /// Microseconds: less is better.
    Micros,
    /// Seconds of processor time: less is better.
    Seconds,
    /// Bytes: less is better.
    Bytes,
    /// Mebibytes: less is better.
    Mebibytes,
    /// A plain number without a better direction.
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::Micros => "us",
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::Mebibytes => "MiB",
            Self::Count => "",
        }
    }

    /// Returns how many times better `ours` is than `peer`; below 1 the peer is ahead.
    fn lead(self, ours: f64, peer: f64) -> Option<f64> {
        match self {
            Self::Count => None,
            Self::PerSecond => Some(ours / peer),
            _ => Some(peer / ours),
        }
    }
}

#[derive(Debug, Clone)]
struct Figure {
    bench: &'static str,
    case: String,
    engine: &'static str,
    value: f64,
    unit: Unit,
    runs: usize,
}

/// Name of the column that the others are compared with.
pub const OURS: &str = "ours";

/// All figures of one run.
#[derive(Debug)]
pub struct Report {
    machine: Machine,
    figures: Vec<Figure>,
}

impl Report {
    /// Makes an empty report.
    pub fn new(machine: Machine) -> Self {
        Self { machine, figures: Vec::new() }
    }

    /// Adds a figure that summarizes `runs` measurements.
    pub fn add(
        &mut self,
        bench: &'static str,
        case: impl Into<String>,
        engine: &'static str,
        value: f64,
        unit: Unit,
        runs: usize,
    ) {
        let case = case.into();
        eprintln!("{bench}: {case}: {engine}: {} {}", shown(value), unit.name());
        self.figures.push(Figure { bench, case, engine, value, unit, runs });
    }

    /// Prints the tables, then the machine, then one CSV line per figure.
    pub fn print(&self) {
        let mut benches: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !benches.contains(&figure.bench) {
                benches.push(figure.bench);
            }
        }
        for bench in benches {
            println!("{}", self.table(bench));
        }
        println!("{}", self.machine.lines());
        println!("bench,case,engine,value,unit,runs,{}", Machine::CSV_HEAD);
        for figure in &self.figures {
            println!(
                "{},\"{}\",{},{},{},{},{}",
                figure.bench,
                figure.case,
                figure.engine,
                shown(figure.value),
                figure.unit.name(),
                figure.runs,
                self.machine.csv()
            );
        }
    }

    /// Formats a table with a row per case and a column per engine; the factor by which ours is better is in brackets.
    fn table(&self, bench: &str) -> String {
        let rows: Vec<&Figure> = self.figures.iter().filter(|it| it.bench == bench).collect();
        let mut engines: Vec<&str> = Vec::new();
        let mut cases: Vec<(&str, Unit)> = Vec::new();
        for row in &rows {
            if !engines.contains(&row.engine) {
                engines.push(row.engine);
            }
            if !cases.contains(&(row.case.as_str(), row.unit)) {
                cases.push((&row.case, row.unit));
            }
        }
        let mut table = format!("### {bench}\n\n| case | unit |");
        engines.iter().for_each(|engine| push(&mut table, format_args!(" {engine} |")));
        table.push_str("\n|---|---|");
        engines.iter().for_each(|_| table.push_str("---:|"));
        for (case, unit) in cases {
            push(&mut table, format_args!("\n| {case} | {} |", unit.name()));
            let value = |engine: &str| {
                let of = |row: &&&Figure| row.case == case && row.unit == unit;
                rows.iter().filter(of).find(|row| row.engine == engine).map(|row| row.value)
            };
            for engine in &engines {
                let lead = value(OURS).zip(value(engine));
                let lead = lead.and_then(|(ours, peer)| unit.lead(ours, peer));
                match (value(engine), lead) {
                    (None, _) => table.push_str(" |"),
                    (Some(found), Some(lead)) if *engine != OURS => {
                        push(&mut table, format_args!(" {} ({lead:.2}x) |", shown(found)));
                    }
                    (Some(found), _) => push(&mut table, format_args!(" {} |", shown(found))),
                }
            }
        }
        table.push('\n');
        table
    }
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a String takes all that is written");
}

/// Formats a value with three significant digits, without an exponent.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Measurements of one quantity.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// Adds a measurement.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Adds a duration, in microseconds.
    pub fn push_time(&mut self, time: Duration) {
        self.push(time.as_secs_f64() * 1e6);
    }

    /// Number of measurements.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Quantile `share` (nearest rank).
    ///
    /// # Panics
    /// The sample is empty.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    }

    /// Median (nearest rank).
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut sample = Sample::default();
        (1..=100).rev().for_each(|value| sample.push(f64::from(value)));
        assert_eq!((sample.median(), sample.quantile(0.99)), (50.0, 99.0));
        assert_eq!((sample.quantile(0.0), sample.quantile(1.0)), (1.0, 100.0));
    }

    #[test]
    fn a_lead_above_one_is_ours() {
        assert_eq!(Unit::PerSecond.lead(30.0, 10.0), Some(3.0));
        assert_eq!(Unit::Micros.lead(10.0, 30.0), Some(3.0));
        assert_eq!(Unit::Count.lead(1.0, 1.0), None);
    }
}
