//! Routes for documents, files and artifacts: read, list, search, ingest, tombstone, export.

use serde_json::{Value, json};

use super::route::{Route, route};
use crate::parts::{Taking, whole};
use crate::said::Sort;

pub(super) const ROUTES: &[Route] = &[
    route(
        "docstore_manifest_tool",
        &[
            ("^%list document|file|doc", 72),
            ("^%list +document|file|doc ingested|indexed|stored|have|know|exist|there|known", 76),
            ("^%list all|every +document|file|doc", 76),
            ("^%list document|file|doc under|in|below|beneath|of @path", 79),
            ("^%list +tombstoned|hidden|removed|active|ingested|indexed|stored document|file|doc", 78),
            ("document|file +list|manifest|inventory|overview", 80),
            ("document|file|doc under|in|below|beneath @path ~search ~find ~grep", 70),
            ("manifest", 75),
            ("^%list +pdf|image|picture|markdown do|have|are|all|there|ingested", 76),
        ],
        |taking| {
            let prefix = taking.path();
            taking.set_some("path_prefix", prefix);
            if taking.has("tombstoned hidden removed") {
                taking.set("status", "tombstoned");
            }
        },
    ),
    route(
        "docstore_search_tool",
        &[
            ("^%find|grep +document|file|doc|documentation|docstore", 84),
            ("^%find|grep in|within|through|across document|file|doc|documentation|docstore|page", 85),
            ("^%find|grep document|file about|with|containing|for|mentioning|that", 82),
            ("^grep", 80),
            ("^in +which document|file|doc", 82),
            ("^%find|grep @path for", 84),
            ("document|file|doc mention|contain|containing|mentioning|talk|speak|discuss", 82),
            ("where in|within +document|file|doc", 80),
        ],
        search,
    ),
    route(
        "docstore_get_document_tool",
        &[
            ("^%show @path ~under ~below ~beneath", 76),
            ("^%show +document|file|page @file ~under ~below ~beneath", 82),
            ("^%show +@doc", 82),
            ("whole|full|content|text|complete @file", 81),
            ("^cat|type @path", 85),
            ("^@path", 60),
            ("@file contain|say", 72),
            ("document @doc", 74),
        ],
        document,
    ),
    route(
        "docstore_get_chunk_tool",
        &[("@chk", 70), ("^%show @chk", 85), ("chunk|piece|passage @chk", 88)],
        |taking| taking.id("chunk_id", Sort::Chunk),
    ),
    route(
        "docstore_get_lines_tool",
        &[
            ("line @num @path", 88),
            ("@path line @num", 88),
            ("@path @num line", 88),
            ("first|top +@num line @path", 90),
            ("@num line @path", 86),
            ("@path +@num", 86),
            ("line @path", 80),
        ],
        lines,
    ),
    route(
        "docstore_get_outline_tool",
        &[
            ("outline|heading|toc|section|chapter|structure|headline @file", 86),
            ("@file outline|heading|toc|section|chapter|structure|headline", 86),
            ("table +of +content", 88),
            ("^outline|toc", 70),
        ],
        document,
    ),
    route(
        "docstore_get_history_tool",
        &[
            ("history|version|revision|change|changed|evolved|evolve @path", 84),
            ("@path history|version|revision|changed|change|evolved|evolve|older", 84),
        ],
        |taking| {
            let path = taking.path();
            taking.set_needed("path", path);
        },
    ),
    route(
        "ingest_paths_tool",
        &[
            ("^ingest|index|import|reindex|absorb|learn|load|add @path", 92),
            ("^read|take|scan|pull|bring|put|load @path in|into|to memory|store|brain|index", 95),
            ("^ingest|index|reindex +folder|directory|file|repository|repo|document", 78),
            ("^re ingest|index @path", 92),
            ("^ingest", 64),
            ("@path read|take|pull|put +it|them +in|into", 92),
            ("^process|crawl|scan|feed|upload|push @path", 88),
            ("^update|refresh|rebuild index @path", 92),
            ("@path ingest|index|load|import +it|them|this|those", 92),
        ],
        paths,
    ),
    route(
        "ingest_text_tool",
        &[
            ("^ingest|%keep|import +text|page|transcript|article|document titled|title|called|named", 94),
            ("^ingest|%keep|import following|this +text|page|transcript|article", 94),
            ("^ingest|%keep|import following|this as +document", 94),
            ("^ingest|%keep|import as +document title|titled|called", 94),
            ("^ingest|import @quote", 84),
        ],
        text,
    )
    .payload(),
    route(
        "ingest_status_tool",
        &[
            ("@job", 80),
            ("ingest|import|ingestion|indexing +job", 86),
            ("^%list|how|status|is|has|did|what|when ingest|import|ingestion|indexing|ingesting going|\
              status|progress|finished|done|running|complete|ran|run|job", 84),
            ("ingest +error|failure|history|log|rate|report|problem", 86),
            ("^are|is done|finished|ready +with ingest|ingesting|import|importing|indexing", 86),
            ("status|progress of ingest|import|ingestion|indexing", 84),
            ("^%list|what +recent|last|running|latest job", 82),
        ],
        |taking| {
            let job = taking.first(|sort| sort == Sort::Job);
            taking.set_some("job_id", job);
        },
    )
    .closed(),
    route(
        "tombstone_paths_tool",
        &[
            ("^%remove @path ~line", 92),
            ("^%remove document|file of|under|in|at @given", 93),
            ("^take @path out|away|off", 93),
            ("@path must|should|can|has +be|to %gone|go", 90),
            ("@path must|should|can +go", 90),
        ],
        tombstone,
    ),
    route(
        "tombstone_reconcile_sweep_tool",
        &[
            ("^sweep", 90),
            ("^find|%check document|file deleted|gone|missing|removed|exist disk", 93),
            ("^clean|tidy up|away|out document|file", 86),
            ("^%remove|clean|tombstone document|file gone|missing|vanished|deleted|disappeared ~@any", 93),
            ("^compare|reconcile|sync|synchronize|%check document|file|store|@path disk", 90),
            ("^compare|reconcile|sync|synchronize disk", 88),
        ],
        |taking| {
            let prefix = taking.path();
            taking.set_some("path_prefix", prefix);
            if taking.is_for_real() {
                taking.set("dry_run", false);
            }
        },
    ),
    route(
        "export_memory_tool",
        &[
            ("^export|download|dump ~@any", 84),
            ("^%show +export", 84),
            ("^%show +full|complete|whole|memory|json +export|dump|backup", 86),
            ("^%show export|dump of everything|memory|all", 86),
            ("^dump|back|backup memory|everything|all|item", 80),
        ],
        export,
    ),
    route(
        "issue_artifact_id_tool",
        &[
            ("^issue|register|assign|mint|create|make|add|record artifact", 90),
            ("^%show|assign artifact +id ~all ~list", 86),
            ("^give +@quote|report|build|dataset|file artifact", 90),
            ("^give artifact +id it|for|@path", 90),
            ("^artifact +id", 88),
            ("^new +artifact", 90),
        ],
        artifact,
    ),
    route(
        "issue_artifact_id_bundle_tool",
        &[
            ("^issue|register|assign|mint|create|make|give|add artifact @quote @quote", 94),
            ("^issue|register|assign|mint|create|make|give|add @quote @quote artifact", 94),
            ("^issue|register|assign|mint|create bundle artifact", 92),
        ],
        bundle,
    ),
    route(
        "reconcile_artifact_id_tool",
        &[("^reconcile|compare|match|%check|recheck @art", 92), ("^reconcile|compare artifact", 78)],
        |taking| {
            taking.id("artifact_id", Sort::Artifact);
            let hash = taking.first(|sort| sort == Sort::Hash);
            let path = taking.path();
            match (hash, path) {
                (Some(hash), _) => taking.set("content_sha256", hash),
                (None, path) => taking.set_needed("path", path),
            }
        },
    ),
    route(
        "list_artifact_ids_tool",
        &[
            ("^%list artifact", 84),
            ("^%list all|every|known +artifact", 87),
            ("^artifact +list", 84),
            ("^artifact that|which|missing|changed|issued", 89),
        ],
        |taking| {
            let states = ["issued", "changed", "missing"];
            let state = states.into_iter().find(|state| taking.has(state));
            taking.set_some("status", state);
            let kind = taking.behind("kind", "that which with and");
            taking.set_some("kind", kind);
        },
    ),
];

/// Sets the document by its id, or else by a path.
fn document(taking: &mut Taking<'_>) {
    let id = taking.first(|sort| sort == Sort::Document);
    let path = taking.path();
    match (id, path) {
        (Some(id), _) => taking.set("document_id", id),
        (None, path) => taking.set_needed("path", path),
    }
}

/// Sets the search text: the quoted text, or else the text after `for`, or else the rest.
fn search(taking: &mut Taking<'_>) {
    let prefix = taking.path();
    taking.set_some("path_prefix", prefix);
    let stops = "in within under through across below";
    let behind =
        taking.behind("for about mention mentioning contain containing word phrase term", stops);
    let nouns = "document file doc documentation docstore page";
    let whole = || {
        let at = taking.place_of(stops, taking.head + 1)?;
        let from = taking.past_leads(taking.head + 1);
        if from < at { taking.text(from, at) } else { None }
    };
    let rest = || {
        let at = taking.place_of(nouns, taking.head).map_or(taking.end(), |at| at + 1);
        taking.rest(at)
    };
    let query = taking.quote().or(behind).or_else(whole).or_else(rest);
    let query = query.map(|query| {
        let bare = query.strip_prefix("the word ").or(query.strip_prefix("the phrase "));
        bare.unwrap_or(&query).to_owned()
    });
    taking.set_needed("query", query);
}

fn lines(taking: &mut Taking<'_>) {
    let path = taking.path();
    taking.set_needed("path", path);
    let first = taking.place_of("first top", taking.head);
    let count = first.and_then(|at| taking.number(at + 1));
    let span = match count.and_then(whole) {
        Some(count) => Some((1, count)),
        None => taking.span().or_else(|| {
            let numbers =
                (taking.head..taking.len()).filter(|&at| taking.is_sort(at, Sort::Number));
            let line = numbers.filter_map(|at| taking.number(at)).next();
            line.and_then(whole).map(|line| (line, line))
        }),
    };
    taking.set_needed("line_start", span.map(|(first, _)| first));
    taking.set_needed("line_end", span.map(|(_, last)| last));
}

fn paths(taking: &mut Taking<'_>) {
    let places = 0..taking.len();
    let (mut paths, mut include, mut exclude) = (Vec::new(), Vec::new(), Vec::new());
    let mut leaves_out = false;
    for at in places {
        leaves_out |= matches!(
            taking.word(at),
            "except" | "without" | "excluding" | "exclude" | "skip" | "not" | "ignore" | "ignoring"
        );
        let Some(piece) = taking.piece(at) else { continue };
        match piece.sort {
            Sort::Path if leaves_out => exclude.push(piece.text.clone()),
            Sort::Path => paths.push(piece.text.clone()),
            Sort::Glob if leaves_out => exclude.push(piece.text.clone()),
            Sort::Glob => include.push(piece.text.clone()),
            _ => {}
        }
    }
    taking.set_needed("paths", Some(paths).filter(|paths| !paths.is_empty()));
    for (name, list) in [("include", include), ("exclude", exclude)] {
        taking.set_some(name, Some(list).filter(|list| !list.is_empty()));
    }
    sensitivity(taking);
    if taking.has("recursion nonrecursive") || taking.said.text.contains("not recursive") {
        taking.set("recursive", false);
    }
    if taking.is_trial() {
        taking.set("dry_run", true);
    }
}

/// Sets the sensitivity, if named.
pub(super) fn sensitivity(taking: &mut Taking<'_>) {
    let names = ["public", "confidential", "restricted", "internal"];
    let is_named = |name: &&str| {
        let at = taking.place_of(name, taking.head);
        at.is_some_and(|at| at > 0 && matches!(taking.word(at - 1), "as" | "sensitivity"))
    };
    let name = names.into_iter().find(is_named);
    taking.set_some("sensitivity", name);
}

fn text(taking: &mut Taking<'_>) {
    let quotes = taking.all(|sort| sort == Sort::Quote);
    let (title, text) = match quotes.as_slice() {
        [title, text, ..] => (Some(title.clone()), Some(text.clone())),
        [one] => {
            let titled = taking.place_of("title titled called named", taking.head);
            let is_title =
                titled.is_some_and(|at| taking.is_sort(taking.past_leads(at + 1), Sort::Quote));
            let colon = taking.said.text.split_once(": ").map(|(_, rest)| rest.trim().to_owned());
            let behind = colon.filter(|text| !text.is_empty() && !text.contains(one.as_str()));
            if is_title { (Some(one.clone()), behind) } else { (None, Some(one.clone())) }
        }
        [] => (None, None),
    };
    taking.set_needed("title", title);
    taking.set_needed("text", text);
    let uri = taking.first(|sort| sort == Sort::Address);
    taking.set_some("uri", uri);
    sensitivity(taking);
}

/// First path, and the paths joined to it. A later path, as in a reason, does not count.
fn joined_paths(taking: &Taking<'_>) -> Vec<String> {
    let path = |at: usize| {
        taking.piece(at).filter(|piece| matches!(piece.sort, Sort::Path | Sort::Address))
    };
    let joins = |at: usize| {
        let sign = taking.piece(at).filter(|piece| piece.sort == Sort::Mark);
        sign.is_some_and(|sign| matches!(sign.text.as_str(), "," | "&"))
            || matches!(taking.word(at), "and" | "plus")
    };
    let from = (taking.head..taking.len()).find(|&at| path(at).is_some());
    let places = from.into_iter().flat_map(|from| from..taking.len());
    let joined = places.take_while(|&at| path(at).is_some() || joins(at));
    joined.filter_map(path).map(|piece| piece.text.clone()).collect()
}

fn tombstone(taking: &mut Taking<'_>) {
    let paths = joined_paths(taking);
    taking.set_needed("paths", Some(paths).filter(|paths| !paths.is_empty()));
    let reason = taking.reason(taking.end());
    taking.set_needed("reason", reason);
    // Tombstoning is a dry run unless the command explicitly excludes one.
    taking.set("dry_run", !taking.is_for_real());
}

fn export(taking: &mut Taking<'_>) {
    if taking.has("current") {
        taking.set("current_only", true);
    }
    let kinds =
        ["decision", "note", "preference", "fact", "correction", "outcome", "intent", "document"];
    let kinds: Vec<&str> = kinds.into_iter().filter(|kind| taking.has(kind)).collect();
    taking.set_some("kinds", Some(kinds).filter(|kinds| !kinds.is_empty()));
}

/// Kinds of artifacts, whose name follows.
const THINGS: [&str; 10] = [
    "report", "build", "dataset", "image", "file", "release", "model", "drawing", "package",
    "binary",
];

fn kind_of(taking: &Taking<'_>) -> Option<String> {
    let named = taking.behind("kind", "named called name");
    named.or_else(|| THINGS.into_iter().find(|thing| taking.has(thing)).map(str::to_owned))
}

fn artifact(taking: &mut Taking<'_>) {
    let kind = kind_of(taking);
    let name = taking.quote().or_else(|| {
        let named = taking.behind("named called", "artifact at as with");
        named.or_else(|| taking.behind(kind.as_deref()?, "artifact an at as id with in"))
    });
    taking.set_needed("kind", kind);
    taking.set_needed("name", name);
    let path = taking.path();
    taking.set_some("path", path);
    let hash = taking.first(|sort| sort == Sort::Hash);
    taking.set_some("content_sha256", hash);
}

fn bundle(taking: &mut Taking<'_>) {
    let kind = kind_of(taking);
    let names = taking.all(|sort| sort == Sort::Quote);
    let artifacts: Option<Vec<Value>> =
        kind.map(|kind| names.iter().map(|name| json!({"kind": kind, "name": name})).collect());
    taking.set_needed("artifacts", artifacts.filter(|list| !list.is_empty()));
}
