//! Routes for items and edges: remember, show, supersede, forget, link, traverse.

use super::documents::sensitivity;
use super::route::{Route, nothing, route};
use crate::parts::Taking;
use crate::said::Sort;
use recalld_common::names;
use recalld_recall::{When, named};

pub(super) const ROUTES: &[Route] = &[
    route(
        "graphrag_status_tool",
        &[
            ("graph +statistic|stat|figure|status|metric|size|health", 86),
            ("statistic|stat|figure|number|metric|size|status|component|community|degree of|does|do|has|\
              have|in +graph", 86),
            ("component|community|degree graph", 89),
            ("^how +big|large|dense|connected graph", 89),
            ("graph component|community|degree|connected", 84),
            ("connected graph", 84),
            ("^graphrag", 85),
        ],
        nothing,
    )
    .closed(),
    route(
        "brain_institutional_graph_tool",
        &[
            ("^draw|picture|visualize|visualise|sketch|plot|render|map", 78),
            ("mermaid|graphviz|dot|diagram", 84),
            ("graph +around|about|for|on|near|of", 80),
            ("graph around|near @any", 88),
            ("network +about|around|of|on", 80),
            ("^%show graph around|about|for|near", 80),
            ("institutional", 85),
        ],
        picture,
    ),
    route(
        "graph_neighbors_tool",
        &[
            ("neighbor|neighbour|neighborhood|neighbourhood @any", 88),
            ("@any neighbor|neighbour", 88),
            ("^what|which|%show link|linked|links|related|connected|connection|edge|relation|\
              point @any", 82),
            ("@any linked|related|connected|relate|link|point +to|with", 84),
            ("^what|which hang|hung|belong|go|stand|around|near @any", 84),
            ("connected|linked|related|connection +to|with @any", 81),
            ("incoming|outgoing|inbound|outbound @any", 89),
            ("^what|which linked|related|connected|point to|with @any", 84),
        ],
        |taking| {
            taking.item("item_id");
            if taking.has("incoming inbound") {
                taking.set("direction", "in");
            } else if taking.has("outgoing outbound") {
                taking.set("direction", "out");
            }
        },
    ),
    route(
        "graph_path_tool",
        &[
            ("path|route|way|chain|hop @any @any", 92),
            ("@any @any path|route|way|hop", 92),
            ("^how|is|are|do|does|what @any @any", 88),
            ("^how|is|are|do @any @any connected|linked|related|connect|relate", 92),
            ("connection|link|relation|relationship between @any @any", 92),
            ("from @any to @any ~link ~edge ~add", 80),
        ],
        path,
    ),
    route(
        "link_items_tool",
        &[
            ("^link|connect|relate|attach|tie|join @any @any", 93),
            ("^add|create|make|draw|put|set|record|note edge|link|relation|connection @any @any", 94),
            ("^note|record|remember|say|state|mark|memorize @any @any", 97),
            ("^link|connect @any", 74),
            ("@any @any link|connect +them|both", 93),
            ("@any @any add|create|make +edge|link|relation", 93),
        ],
        link,
    ),
    route(
        "unlink_items_tool",
        &[
            ("^unlink|disconnect|detach|untie|cut @edg", 94),
            ("^%remove +link|edge|connection|relation @edg", 95),
            ("^%remove @edg", 93),
            ("^unlink|disconnect", 78),
        ],
        |taking| {
            taking.id("edge_id", Sort::Edge);
            let reason = taking.reason(taking.end());
            taking.set_needed("reason", reason);
        },
    ),
    route(
        "brain_remember",
        &[
            ("^remember|memorize|memorise", 95),
            ("^note", 90),
            ("^make|take|write|add|leave +note", 92),
            ("^keep|bear +in +mind", 94),
            ("^%keep that|down", 88),
            ("^%keep +fact|preference|decision|lesson|rule|info|information|memory|finding", 91),
            ("^%keep as|a +decision|fact|preference|lesson|rule|note|memory", 92),
            ("^%keep following|this ~document ~text ~page", 80),
            ("^jot", 88),
            ("write|note|put|jot|record +that|this|it +down", 86),
            ("^dont|do forget +that", 96),
            ("^fyi|memo", 86),
            ("^for +record", 90),
            ("@comma remember|note|save|store +that|this|it", 84),
            ("^%keep +@colon", 82),
            ("^dont|do forget +@colon", 95),
            ("^commit +to +memory", 92),
            ("^learn +that", 86),
            ("^%keep on|in|to +record|memory", 88),
            ("^new +decision|fact|preference|lesson|rule|note|finding", 90),
            ("^note|decision|fact|preference|lesson|rule|finding +@colon", 90),
        ],
        remember,
    )
    .payload(),
    route(
        "get_item_tool",
        &[
            ("^@itm ~@edg", 60),
            ("^%show @itm", 80),
            ("^%show +item|memory|note|entry|record|decision @itm", 84),
            ("^what do|does|is|say @itm", 74),
            ("content|text|detail|provenance @itm", 82),
            ("^@itm say|content|mean", 74),
        ],
        |taking| {
            taking.item("item_id");
            if let Some(When::AsOf(at)) = named(taking.said.text, Some(taking.now)) {
                taking.set("as_of", names::time(at));
            }
        },
    ),
    route(
        "supersede_item_tool",
        &[
            ("^supersede|overwrite @any", 94),
            ("@itm should|must|ought say|read|state", 88),
            ("@itm replace|update|change|overwrite|supersede|rewrite +it|that|this", 92),
            ("^replace @itm by|with", 93),
            ("^update|change|rewrite|edit|revise|amend|reword @itm", 90),
            ("^update|change|rewrite|edit|revise|amend|replace +text|wording|content of @itm", 94),
        ],
        supersede,
    ),
    route(
        "supersession_chain_tool",
        &[
            ("version|chain|supersession|successor|predecessor|newer|superseded|supersede|\
              replaced @itm", 85),
            ("@itm superseded|supersede|replaced|replace|version|chain|successor", 86),
            ("^what|who replaced|superseded|superseed @any", 88),
        ],
        |taking| taking.item("item_id"),
    ),
    route(
        "item_timeline_tool",
        &[
            ("timeline", 88),
            ("happened|happen +to|with @any", 88),
            ("^did|who %removed|changed|change|write|link|edit|add|touch|modify @any", 87),
            ("^who|has|have|when|was|were|is %gone|changed|created|wrote|written|linked|edited|added|\
              recorded|touched|modified|made @any", 87),
            ("^when|was|were|has|is @any %gone|changed|created|written|linked|edited|added|recorded|\
              touched|modified", 87),
            ("history|story|event|biography|lifecycle @itm", 86),
        ],
        timeline,
    ),
    route(
        "forget_item_tool",
        &[
            ("^%remove @any", 93),
            ("^get +rid +of @any", 93),
            ("^throw|take away|out @any", 88),
            ("^throw|take @any away|out|off|from", 90),
            ("@any %remove +it|this|that|them", 88),
            ("@any +%remove", 88),
            ("^get|have|want @any %gone", 92),
            ("@any should|must|can|needs|need|has +be|to|go %removed|go", 84),
            ("^delete|erase|forget|purge|wipe +item|memory|note|decision|everything", 62),
        ],
        |taking| {
            going(taking);
            let at = taking.place_of("go", taking.end().saturating_sub(1)).unwrap_or(0);
            let reason = taking.reason(taking.end().max(at)).or_else(|| said_of(taking));
            taking.set_needed("reason", reason);
            // A word in the reason must not cause an erasure: only the command's verb does.
            if taking.places.iter().any(|&at| ERASES.contains(&taking.word(at))) {
                taking.set("mode", "erase");
            }
        },
    ),
    route(
        "list_sources_tool",
        &[
            ("^%list source", 84),
            ("^%list all|every +source", 86),
            ("source begin|start|starting|beginning|with|under|from @given", 86),
            ("^where memory|knowledge|item|fact come|came|from", 84),
            ("^source", 70),
            ("from +which|what +source", 84),
            ("^from +which|what +source learned|learnt|come|taken|read|got", 84),
        ],
        |taking| {
            let prefix = taking.first(|sort| matches!(sort, Sort::Address | Sort::Path));
            taking.set_some("uri_prefix", prefix);
        },
    )
    .closed(),
    route("source_provenance_tool", &[("@src", 88)], |taking| taking.id("source_id", Sort::Source)),
    route(
        "duplicate_scan_tool",
        &[
            ("duplicate|duplicated|dup|dupe|redundant", 80),
            ("^%find|%check|%list|any duplicate|duplicated|dup|dupe|redundant", 86),
            ("near +identical|equal|same", 86),
            ("say +same", 80),
            ("say|said|store|stored|record|recorded|have twice", 80),
        ],
        |taking| {
            let threshold = taking.number_by("threshold similarity");
            taking.set_some("threshold", threshold);
        },
    ),
    route(
        "contradiction_scan_tool",
        &[
            ("contradict|contradiction|contradictory|contradicting|inconsistency|inconsistent|\
              disagree", 82),
            ("^%find|%check|%list|any contradict|contradiction|contradictory|conflicting|conflict|\
              inconsistency|inconsistent", 87),
            ("conflicting|conflict +statement|item|note|memory|fact", 84),
        ],
        |taking| {
            let topic = taking.behind("about on regarding concerning", "please");
            taking.set_some("topic", topic);
        },
    ),
];

/// Verbs that request an erasure.
const ERASES: [&str; 6] = ["erase", "erased", "wipe", "purge", "purged", "destroy"];

/// Sets the item to forget. If the command names two, neither is chosen.
fn going(taking: &mut Taking<'_>) {
    let end = taking.end();
    let joins = |at: usize| {
        taking.is_sort(at, Sort::Mark) || matches!(taking.word(at), "and" | "or" | "plus")
    };
    let behind = (end..taking.len()).find(|&at| !joins(at));
    let places = (taking.head..end).chain(behind);
    let pieces = places.filter_map(|at| taking.piece(at)).filter(|piece| piece.sort.is_item());
    let mut ids: Vec<String> = pieces.map(|piece| piece.text.clone()).collect();
    ids.dedup();
    let id = match ids.len() {
        0 => taking.first(Sort::is_item),
        1 => ids.pop(),
        _ => None,
    };
    taking.set_needed("item_id", id);
}

/// Statement about an item before the command: `itm_1 is nonsense, delete it`.
fn said_of(taking: &Taking<'_>) -> Option<String> {
    let [id, order, _] = *taking.places else { return None };
    let to = (id + 1..order).find(|&at| taking.is_sort(at, Sort::Mark))?;
    (id + 1 < to).then(|| taking.text(id, to)).flatten()
}

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Tokens after a command within which a colon introduces its text.
    const COLON_MAX: usize = 8;
}

/// Kinds of a memory that a command can name.
const KINDS: [&str; 6] = ["decision", "preference", "fact", "lesson", "rule", "finding"];

/// Sets the text after the command, and the kind that the command names.
fn remember(taking: &mut Taking<'_>) {
    let head = taking.head;
    let last = taking.end();
    let kind = KINDS.into_iter().find(|kind| {
        taking
            .place_of(kind, head)
            .is_some_and(|at| at < last.max(head + 8) && at < colon(taking, head))
    });
    if let Some(kind) = kind {
        taking.set("kind", kind);
    }
    let text = match said_before(taking) {
        Some(text) => Some(text),
        None => {
            let colon = colon(taking, head);
            let is_led = colon < taking.len().min(head + COLON_MAX);
            let from = if is_led { colon + 1 } else { last };
            let that = taking.place_of("that", last).filter(|&at| at <= last + 2 && !is_led);
            taking.rest(that.map_or(from, |at| at + 1))
        }
    };
    taking.set_needed("text", text);
    sensitivity(taking);
}

/// Index of the first colon from a token on, or the number of tokens.
fn colon(taking: &Taking<'_>, from: usize) -> usize {
    let is = |at: &usize| {
        taking.piece(*at).is_some_and(|sign| sign.sort == Sort::Mark && sign.text == ":")
    };
    (from..taking.len()).find(is).unwrap_or(taking.len())
}

/// Text before `please write that down`.
fn said_before(taking: &Taking<'_>) -> Option<String> {
    let order = taking.places.first().copied().filter(|&at| at > taking.head + 1)?;
    let mut to = order;
    while to > taking.head
        && (taking.is_sort(to - 1, Sort::Mark)
            || matches!(taking.word(to - 1), "please" | "and" | "pls" | "so"))
    {
        to -= 1;
    }
    taking.text(0, to)
}

fn picture(taking: &mut Taking<'_>) {
    let id = taking.first(Sort::is_item);
    let topic = taking.quote().or_else(|| {
        let behind = "around about near to of for on";
        let at = taking.place_of(behind, taking.end().saturating_sub(1))?;
        let last = (at..taking.len())
            .take_while(|&next| taking.place_of(behind, next) == Some(next))
            .last()?;
        taking.rest_until(last + 1, stop(taking, last + 1))
    });
    match (id, topic) {
        (Some(id), _) => taking.set("item_id", id),
        (None, topic) => taking.set_needed("topic", topic),
    }
    let depth = taking.whole_by("depth deep hop link level");
    taking.set_some("depth", depth.filter(|depth| (1..=3).contains(depth)));
    if taking.has("mermaid") {
        taking.set("format", "mermaid");
    } else if taking.has("dot graphviz") {
        taking.set("format", "dot");
    }
}

/// Index of the token at which a topic ends.
fn stop(taking: &Taking<'_>, from: usize) -> usize {
    let format = taking.place_of("as in with at", from);
    let is_end = |at: &usize| {
        matches!(taking.word(*at + 1), "mermaid" | "dot" | "json" | "a" | "depth" | "graphviz")
    };
    format.filter(is_end).unwrap_or(taking.len())
}

fn path(taking: &mut Taking<'_>) {
    let ids = taking.all(Sort::is_item);
    let mut ids = ids.into_iter();
    let (from, to) = (ids.next(), ids.next());
    taking.set_needed("from_id", from);
    taking.set_needed("to_id", to);
    let hops = taking.whole_by("hop step link edge");
    taking.set_some("max_hops", hops.filter(|hops| (1..=6).contains(hops)));
}

/// Sets both items and the relation: after `as`, quoted, or between the two.
fn link(taking: &mut Taking<'_>) {
    let ids: Vec<usize> = (0..taking.len())
        .filter(|&at| taking.piece(at).is_some_and(|piece| piece.sort.is_item()))
        .collect();
    let id =
        |at: usize| ids.get(at).and_then(|&at| taking.piece(at)).map(|piece| piece.text.clone());
    let (from, to) = (id(0), id(1));
    let between = match ids.as_slice() {
        [from, to, ..] => {
            let between =
                (from + 1..*to).map(|at| taking.piece(at).map_or("", |piece| piece.text.as_str()));
            let words: Vec<String> = between.map(str::to_lowercase).collect();
            let is_plain = words.iter().all(|word| {
                matches!(word.as_str(), "to" | "with" | "and" | "," | "->" | "-" | ">")
            });
            let words: Vec<String> =
                words.into_iter().filter(|word| !matches!(word.as_str(), "is" | ",")).collect();
            (!is_plain && !words.is_empty()).then(|| words.join("_"))
        }
        _ => None,
    };
    let named = taking.behind(
        "as relation called named type labelled labeled",
        "because since note with weight and",
    );
    let relation = taking.quote().or(named).or(between).map(|name| name.trim().replace(' ', "_"));
    let relation = relation.filter(|name| !name.is_empty());
    taking.set_needed("from_id", from);
    taking.set_needed("to_id", to);
    taking.set_needed("relation", relation);
    let weight = taking.number_by("weight strength");
    taking.set_some("weight", weight);
    let note = taking.place_of("because since", taking.head).and_then(|at| taking.rest(at + 1));
    taking.set_some("note", note);
}

/// Sets the item, its new text and the reason.
fn supersede(taking: &mut Taking<'_>) {
    taking.item("item_id");
    let after_id = (0..taking.len())
        .find(|&at| taking.piece(at).is_some_and(|piece| piece.sort.is_item()))
        .map_or(taking.end(), |at| at + 1);
    let quoted = (after_id..taking.len()).find(|&at| taking.is_sort(at, Sort::Quote));
    let text = match quoted {
        Some(at) => {
            taking.piece(at).map(|quote| quote.text.clone()).filter(|text| !text.is_empty())
        }
        None => {
            let lead = taking.place_of("with by to say", after_id).unwrap_or(after_id);
            let until = taking.because(after_id).map_or(taking.len(), |(at, _)| at);
            if lead + 1 < until { taking.rest_until(lead, until) } else { None }
        }
    };
    let reason = match quoted {
        Some(at) => taking.reason(at + 1),
        None => taking.because(after_id).and_then(|(_, at)| taking.text(at, taking.len())),
    };
    taking.set_needed("text", text);
    taking.set_needed("reason", reason);
}

fn timeline(taking: &mut Taking<'_>) {
    taking.period();
    match taking.first(Sort::is_item) {
        Some(id) => taking.set("item_id", id),
        None => {
            let at = taking.place_of("timeline", taking.head).map_or(taking.end(), |at| at + 1);
            let words = taking.quote().or_else(|| taking.rest(at));
            taking.set_needed("query", words);
        }
    }
}
