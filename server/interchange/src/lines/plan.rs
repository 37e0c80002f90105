//! Import plan: the content of a file, and an order in which each line follows the lines that it references.
//!
//! Stores a few words per line, never the lines themselves. Must not know the store.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Read};

use super::limits::LINE_BYTES_MAX;
use super::read::{self, Line, Name, SourceName};
use super::report::BadLines;
use super::said::{self, Mark as SaidMark};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Lines of one file. `format-spec/limits.md` states the memory use.
    pub const LINES_MAX: u32 = 1 << 22;
}

/// Position of a valid line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Byte offset in the file.
    pub(super) at: u64,
    /// Length in bytes, including the line feed.
    pub(super) bytes: u32,
    /// Line number, from 1.
    pub(super) number: u32,
}

/// Index into `Plan::entries`.
pub(super) type At = u32;

/// Import plan of a file.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) entries: Vec<Entry>,
    /// Entries in an order in which they can be written.
    pub(super) order: Vec<At>,
    /// First entry of each item id; `sources` and `edges` likewise.
    pub(super) items: HashMap<u128, At>,
    pub(super) sources: HashMap<u128, At>,
    pub(super) edges: HashMap<u128, At>,
    /// First tombstone of each item that is marked as gone.
    pub(super) gone: HashMap<u128, At>,
    /// Entries with each ref, in order of line.
    refs: HashMap<String, Vec<At>>,
    /// First entry of each source name.
    source_names: HashMap<SaidMark, At>,
    /// Content keys of items with neither id nor ref.
    pub(super) bare: HashSet<SaidMark>,
    /// Targets of tombstone lines.
    pub(super) targets: HashSet<u128>,
    /// Lines that cannot be imported, with the reason.
    pub(super) bad: BadLines,
    /// Pairs of an entry and an entry that must precede it because it is referenced.
    after: Vec<(At, At)>,
    /// True if any of these references points to a later line.
    forwards: bool,
    /// References to rows that no earlier line has.
    open: Vec<(At, Link)>,
    /// References to source names that no earlier line has.
    unnamed: Vec<(At, SaidMark)>,
}

#[derive(Debug)]
enum Link {
    Item(Name),
    Hidden(u128),
    Source(u128),
    Edge(u128),
}

impl Plan {
    /// Reads the file and builds the plan.
    pub(super) fn of(file: &mut impl BufRead) -> io::Result<Self> {
        let mut plan = Self::default();
        let (mut at, mut number, mut bytes) = (0u64, 0u32, Vec::new());
        loop {
            bytes.clear();
            let most = LINE_BYTES_MAX as u64;
            let read = file.by_ref().take(most).read_until(b'\n', &mut bytes)? as u64;
            if read == 0 {
                break;
            }
            number += 1;
            if number > LINES_MAX {
                let why = format!(
                    "more than {LINES_MAX} lines; import it in parts, in their order: \
                     split -l {LINES_MAX} FILE part."
                );
                return Err(io::Error::other(why));
            }
            if read == most && bytes.last() != Some(&b'\n') {
                let rest = skip_line(file)?;
                plan.bad.add(number, format!("longer than {LINE_BYTES_MAX} bytes"));
                at += read + rest;
                continue;
            }
            let text = str::from_utf8(&bytes).map(str::trim);
            match text.map_err(|error| error.to_string()) {
                Ok("") => {}
                Ok(text) => match read::line(text) {
                    Ok(line) => {
                        let bytes = u32::try_from(read).expect("LINE_BYTES_MAX is less");
                        plan.take(&line, Entry { at, bytes, number });
                    }
                    Err(why) => plan.bad.add(number, why),
                },
                Err(why) => plan.bad.add(number, why),
            }
            at += read;
        }
        plan.close_links();
        plan.sort();
        Ok(plan)
    }

    /// Returns the item that a ref means on the line of `entry`: the last one above, else the first one below.
    pub(super) fn of_ref(&self, reference: &str, entry: At) -> Option<At> {
        let of = self.refs.get(reference)?;
        let above = of.partition_point(|&other| other < entry);
        above
            .checked_sub(1)
            .map(|at| of[at])
            .or_else(|| of[above..].iter().copied().find(|&at| at != entry))
    }

    /// Returns the item with an id, or else the tombstone that marks the item as gone.
    pub(super) fn of_id(&self, id: u128) -> Option<At> {
        self.items.get(&id).or_else(|| self.gone.get(&id)).copied()
    }

    /// Adds a line. The references are added before the line's own id, so that a line which references itself is a
    /// cycle.
    fn take(&mut self, line: &Line, entry: Entry) {
        let at = At::try_from(self.entries.len()).expect("LINES_MAX is less");
        self.entries.push(entry);
        match line {
            Line::Source(draft) => {
                draft.id.map(|id| self.sources.entry(id.0).or_insert(at));
                let name = said::name_of_source(&draft.kind, &draft.uri, &draft.title);
                self.source_names.entry(name).or_insert(at);
            }
            Line::Item { draft, supersedes, source, tombstoned } => {
                self.bare.extend(said::of_line(draft, *tombstoned).map(|[mark, _]| mark));
                supersedes.iter().for_each(|name| self.link_item(at, name));
                self.link_source(at, source.as_ref());
                draft.id.map(|id| self.items.entry(id.0).or_insert(at));
                if let Some(reference) = &draft.reference {
                    self.refs.entry(reference.clone()).or_default().push(at);
                }
            }
            Line::Edge { draft, from, to, source, .. } => {
                draft.id.map(|id| self.edges.entry(id.0).or_insert(at));
                self.link_item(at, from);
                self.link_item(at, to);
                self.link_source(at, source.as_ref());
            }
            Line::Tombstone { draft, supersedes, is_edge } => {
                self.targets.insert(draft.target);
                supersedes.iter().for_each(|name| self.link_item(at, name));
                if draft.target_erased && draft.erase {
                    self.gone.entry(draft.target).or_insert(at);
                }
                let known = if *is_edge { &self.edges } else { &self.items };
                let target = draft.target;
                let link = if *is_edge { Link::Edge(target) } else { Link::Hidden(target) };
                self.link(at, known.get(&target).copied(), || link);
            }
        }
    }

    /// Adds a reference to an earlier line, or an open reference that a later line may resolve.
    fn link(&mut self, at: At, above: Option<At>, link: impl FnOnce() -> Link) {
        match above {
            Some(above) => self.after.push((at, above)),
            None => self.open.push((at, link())),
        }
    }

    fn link_item(&mut self, at: At, name: &Name) {
        let above = match name {
            Name::Id(id) => self.of_id(id.0),
            Name::Ref(reference) => self.refs.get(reference).and_then(|of| of.last().copied()),
        };
        self.link(at, above, || Link::Item(name.clone()));
    }

    fn link_source(&mut self, at: At, source: Option<&SourceName>) {
        let Some(source) = source else { return };
        if let Some(id) = source.id {
            return self.link(at, self.sources.get(&id.0).copied(), || Link::Source(id.0));
        }
        let name = said::name_of_source(&source.kind, &source.uri, &source.title);
        match self.source_names.get(&name) {
            Some(&above) => self.after.push((at, above)),
            None => self.unnamed.push((at, name)),
        }
    }

    /// Resolves open references to later lines; the remaining ones may be in the store.
    fn close_links(&mut self) {
        for (at, link) in std::mem::take(&mut self.open) {
            let target = match link {
                Link::Item(Name::Id(id)) => self.of_id(id.0),
                Link::Item(Name::Ref(reference)) => self.of_ref(&reference, at),
                Link::Hidden(id) => self.items.get(&id).copied(),
                Link::Source(id) => self.sources.get(&id).copied(),
                Link::Edge(id) => self.edges.get(&id).copied(),
            };
            if let Some(target) = target {
                self.after.push((at, target));
                self.forwards = true;
            }
        }
        for (at, name) in std::mem::take(&mut self.unnamed) {
            if let Some(&source) = self.source_names.get(&name) {
                self.after.push((at, source));
                self.forwards = true;
            }
        }
    }

    /// Sorts the lines topologically, otherwise in file order. Cycles are possible only along `supersedes`; their items
    /// are bad lines.
    fn sort(&mut self) {
        let lines = At::try_from(self.entries.len()).expect("LINES_MAX is less");
        if !self.forwards {
            self.order = (0..lines).collect();
            return;
        }
        self.after.sort_unstable();
        let mut marks = vec![Mark::Ahead; self.entries.len()];
        let mut way: Vec<(At, usize)> = Vec::new();
        for first in 0..lines {
            if marks[first as usize] == Mark::Ahead {
                self.enter(first, &mut marks, &mut way);
            }
            while let Some((at, next)) = way.last_mut() {
                let at = *at;
                let link = self.after.get(*next).filter(|(from, _)| *from == at).map(|link| link.1);
                *next += 1;
                match link {
                    None => {
                        way.pop();
                        if marks[at as usize] == Mark::OnTheWay {
                            marks[at as usize] = Mark::Done;
                            self.order.push(at);
                        }
                    }
                    Some(link) => match marks[link as usize] {
                        Mark::Ahead => self.enter(link, &mut marks, &mut way),
                        Mark::OnTheWay => self.break_circle(link, &mut marks, &way),
                        Mark::Done | Mark::Bad => {}
                    },
                }
            }
        }
    }

    fn enter(&self, at: At, marks: &mut [Mark], way: &mut Vec<(At, usize)>) {
        marks[at as usize] = Mark::OnTheWay;
        way.push((at, self.after.partition_point(|&(from, _)| from < at)));
    }

    fn break_circle(&mut self, from: At, marks: &mut [Mark], way: &[(At, usize)]) {
        let start = way.iter().position(|&(at, _)| at == from).expect("it is on the way");
        let circle: Vec<At> = way[start..].iter().map(|&(at, _)| at).collect();
        let numbers: Vec<String> = circle.iter().map(|&at| self.number(at).to_string()).collect();
        let why = format!("supersedes runs in a circle: lines {}", numbers.join(", "));
        for at in circle {
            if std::mem::replace(&mut marks[at as usize], Mark::Bad) != Mark::Bad {
                self.bad.add(self.number(at), why.clone());
            }
        }
    }

    pub(super) fn number(&self, at: At) -> u32 {
        self.entries[at as usize].number
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Ahead,
    OnTheWay,
    Done,
    Bad,
}

/// Skips the rest of a line; returns its length.
fn skip_line(file: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = file.fill_buf()?;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(buffer.len(), |at| at + 1);
        file.consume(length);
        skipped += length as u64;
        if end.is_some() || length == 0 {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lines: &[&str]) -> Plan {
        Plan::of(&mut lines.join("\n").as_bytes()).unwrap()
    }

    fn order(plan: &Plan) -> Vec<u32> {
        plan.order.iter().map(|&at| plan.number(at)).collect()
    }

    #[test]
    fn lines_come_after_what_they_name() {
        let plan = plan(&[
            r#"{"type":"edge","from":"a","to":"c","relation":"links_to"}"#,
            "",
            r#"{"type":"item","ref":"a","text":"one","supersedes":["b"]}"#,
            r#"{"type":"item","ref":"b","text":"two"}"#,
            r#"{"type":"item","ref":"c","text":"three"}"#,
        ]);
        assert_eq!((order(&plan), plan.bad.count), (vec![4, 3, 5, 1], 0));
    }

    /// Returns `itm_` and 26 digits of base 32.
    fn id(last: char) -> String {
        format!("itm_{}{last}", "0".repeat(25))
    }

    #[test]
    fn what_names_an_erased_item_comes_after_its_tombstone() {
        let (a, b) = (id('a'), id('b'));
        let newer = format!(r#"{{"type":"item","text":"three","supersedes":["{b}"]}}"#);
        let gone = |list: &str| {
            let rest = r#""erase":true,"gone":true"#;
            format!(r#"{{"type":"tombstone","target":"{b}",{rest},"supersedes":["{list}"]}}"#)
        };
        let older = format!(r#"{{"type":"item","id":"{a}","text":"one"}}"#);
        let right = plan(&[&newer, &gone(&a), &gone(&a), &older]);
        assert_eq!((order(&right), right.bad.count), (vec![4, 2, 1, 3], 0));
        let circle = plan(&[&gone(&b), &older]);
        assert_eq!((order(&circle), circle.bad.count), (vec![2], 1), "{:?}", circle.bad);
    }

    #[test]
    fn a_file_in_order_keeps_it() {
        let plan = plan(&[
            r#"{"type":"item","ref":"a","text":"one"}"#,
            r#"{"type":"item","ref":"a","text":"two","supersedes":["a"]}"#,
            r#"{"type":"edge","from":"a","to":"a","relation":"links_to"}"#,
        ]);
        assert_eq!((order(&plan), plan.forwards), (vec![1, 2, 3], false));
        assert_eq!(plan.of_ref("a", 1), Some(0));
        assert_eq!(plan.of_ref("a", 2), Some(1));
    }

    #[test]
    fn circles_are_told_with_their_lines() {
        let circle = plan(&[
            r#"{"type":"item","ref":"a","text":"one","supersedes":["b"]}"#,
            r#"{"type":"item","ref":"b","text":"two","supersedes":["c"]}"#,
            r#"{"type":"item","ref":"c","text":"three","supersedes":["a"]}"#,
            r#"{"type":"item","ref":"d","text":"four"}"#,
        ]);
        assert_eq!(order(&circle), [4]);
        assert_eq!(circle.bad.count, 3);
        let id = id('a');
        let own = format!(r#"{{"type":"item","id":"{id}","text":"one","supersedes":["{id}"]}}"#);
        assert_eq!(plan(&[&own]).bad.count, 1, "a circle of one");
        assert!(
            circle.bad.named.iter().all(|(_, why)| why.contains("lines 1, 2, 3")),
            "{:?}",
            circle.bad
        );
    }

    #[test]
    fn bad_lines_are_told_and_the_rest_is_taken() {
        let long = format!("{{\"type\":\"item\",\"text\":\"{}\"}}", "x".repeat(LINE_BYTES_MAX));
        let plan = plan(&["nonsense", &long, r#"{"type":"item","text":"good"}"#]);
        assert_eq!(order(&plan), [3]);
        let told: Vec<u32> = plan.bad.named.iter().map(|(number, _)| *number).collect();
        assert_eq!(told, [1, 2]);
    }
}
