//! Items at most two edges away from one item.

use std::time::Instant;

use benches::Numbers;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::corpus::{Outcome, edges};
use crate::ours::Ours;
use crate::peer::Reader;
use crate::report::{Sample, Unit};
use crate::setting::Setting;
use crate::sqlite::SqliteReader;
use crate::stores::{Engine, ensure};

/// The graph in memory, without ids, rows or checks: the cost of the traversal alone.
#[derive(Debug)]
struct InMemory {
    graph: DiGraph<(), ()>,
}

impl Reader for InMemory {
    fn text_bytes(&self, _number: u64) -> Outcome<usize> {
        Err("a graph without texts".into())
    }

    fn two_hops(&self, number: u64) -> Outcome<usize> {
        let start = NodeIndex::new(usize::try_from(number)?);
        let near: Vec<_> = self.graph.neighbors_undirected(start).collect();
        let mut all = near.clone();
        near.iter().for_each(|&node| all.extend(self.graph.neighbors_undirected(node)));
        all.sort_unstable();
        all.dedup();
        Ok(all.iter().filter(|&&node| node != start).count())
    }
}

/// Runs over a graph of `items` items and `edge_count` edges.
pub fn run(setting: &mut Setting, items: u64, edge_count: u64) -> Outcome<()> {
    let items = setting.corpus.items(items);
    let ours = Ours::open(&ensure(setting, Engine::Ours, items, edge_count)?)?.reader();
    let sqlite = SqliteReader::open(&ensure(setting, Engine::Sqlite, items, edge_count)?)?;
    let pairs = edges(items, edge_count).map(|edge| (edge.from as u32, edge.to as u32));
    let mut graph = DiGraph::with_capacity(items as usize, edge_count as usize);
    for _ in 0..items {
        graph.add_node(());
    }
    graph.extend_with_edges(pairs);
    let memory = InMemory { graph };
    let readers: [(&'static str, &dyn Reader); 3] =
        [(Engine::Ours.name(), &ours), (Engine::Sqlite.name(), &sqlite), ("petgraph", &memory)];
    let mut numbers = Numbers::new(5);
    let mut times = vec![Sample::default(); readers.len()];
    let mut sizes = Sample::default();
    for _ in 0..setting.pick(500, 20) {
        let start = (u64::from(numbers.bits()) * items) >> 32;
        let mut counts = [0; 3];
        let mut runs = vec![Sample::default(); readers.len()];
        for _ in 0..3 {
            for (at, (_, reader)) in readers.iter().enumerate() {
                let begun = Instant::now();
                counts[at] = reader.two_hops(start)?;
                runs[at].push_time(begun.elapsed());
            }
        }
        if counts != [counts[0]; 3] {
            return Err(format!("item {start}: the engines disagree: {counts:?}").into());
        }
        sizes.push(counts[0] as f64);
        times.iter_mut().zip(&runs).for_each(|(times, runs)| times.push(runs.median()));
    }
    let case = format!("{items} items, {edge_count} edges, two hops");
    let mut add = |what: &str, engine, value, unit| {
        setting.report.add("graph", format!("{case}, {what}"), engine, value, unit, sizes.len());
    };
    add("items reached, median", Engine::Ours.name(), sizes.median(), Unit::Count);
    for (times, (name, _)) in times.iter().zip(&readers) {
        add("median", name, times.median(), Unit::Micros);
        add("p99", name, times.quantile(0.99), Unit::Micros);
    }
    Ok(())
}
