//! Routes for actions: intents, corrections, outcomes, follow-ups, task attempts.

use super::route::{Route, route};
use crate::parts::{Taking, clean};
use crate::said::Sort;
use crate::times;
use recalld_common::names;

pub(super) const ROUTES: &[Route] = &[
    route(
        "capture_operator_intent_tool",
        &[
            ("^capture|%keep|set|add|remember intent|intention|goal|aim|objective", 97),
            ("^intent|intention|goal|aim|objective", 84),
            ("^my|our goal|aim|objective|intention|intent|priority", 90),
            ("^i|we +want|intend|plan|aim|hope|mean to", 66),
            ("record|note|capture|save|keep +it|that|this +as +intent|intention|goal", 97),
        ],
        intent,
    )
    .payload(),
    route(
        "record_operator_correction_tool",
        &[
            ("^correction", 95),
            ("^correct", 90),
            ("^%keep|make|file +correction", 97),
            ("^that|this|it +is|was +wrong|incorrect|false", 86),
            ("^that|this|it +wrong|incorrect|false", 86),
            ("^wrong", 70),
            ("^that|this|it +is +not +right|correct|true|so", 88),
            ("^that|this|it +isnt +right|correct|true", 88),
            ("^fix +@colon", 84),
            ("^i|we +was|were|am mistaken|wrong", 88),
            ("^you|we|i got|had wrong", 88),
            ("^actually", 66),
        ],
        correction,
    )
    .payload(),
    route(
        "record_outcome_valence_tool",
        &[
            ("^outcome", 90),
            ("^%keep|add outcome", 97),
            ("^%keep|remember turned|worked|went +out|well|badly|wrong|great|fine|bad|good", 98),
            ("turned|worked +out", 76),
            ("^rate|score|judge @any", 88),
            ("^result @any good|bad|great|poor|mixed|success|failure", 88),
            ("@any +was|is|were|went +success|failure|disaster|good|bad|great|well|badly|mistake|useful|\
              useless", 84),
            ("outcome of|was|is good|bad|great|poor|mixed|terrible|excellent", 88),
            ("valence", 92),
            ("went +well|badly|wrong|great|fine|poorly|smoothly", 82),
        ],
        outcome,
    )
    .payload(),
    route(
        "schedule_followup_tool",
        &[
            ("^remind|ping|nudge|alert|notify +me|us", 95),
            ("remind|ping|nudge +me|us", 92),
            ("^schedule|set|add|create|make|put|plan +reminder|followup", 95),
            ("^schedule|set|add|create|make|put|plan follow +up|ups", 95),
            ("^schedule|set|add|create|make|put reminder", 94),
            ("^follow +up|ups", 92),
            ("^wake +me|us", 95),
            ("ask +me|us +about|to|whether", 84),
            ("^schedule", 76),
            ("^revisit", 84),
            ("^check|circle +back", 90),
            ("^dont|do forget +to", 94),
            ("^remember +to", 97),
            ("^come|get +back +to", 84),
            ("^reminder", 84),
        ],
        followup,
    )
    .payload(),
    route(
        "complete_followup_tool",
        &[
            ("^complete|finish|close|tick|resolve|done @fup", 94),
            ("^mark|set|check|tick @fup done|complete|completed|finished|closed|off", 95),
            ("@fup done|complete|completed|finished|closed", 91),
            ("done|completed|finished|closed|did @fup", 90),
            ("^complete|close +follow|followup|reminder", 84),
        ],
        complete,
    )
    .payload(),
    route(
        "due_followups_tool",
        &[
            ("due", 80),
            ("overdue", 85),
            ("^my +reminder|followup|todo|follow", 86),
            ("on +plate|agenda", 84),
            ("^reminder|followup +for|until|before|by", 82),
            ("^what have|need|must|should +to|i|we do|todo today|tomorrow|week|month|next", 84),
            ("^what +is +next", 70),
            ("^%list +follow|followup|reminder", 84),
            ("follow +up|ups due|waiting|pending|open|left|outstanding|overdue", 86),
            ("follow|followup|reminder due|waiting|pending|open|left|outstanding|overdue|are", 85),
            ("^%list +due|open|pending|overdue|outstanding +follow|followup|reminder", 88),
        ],
        due,
    )
    .closed(),
    route(
        "generate_daily_brain_brief_tool",
        &[
            ("brief|briefing", 86),
            ("^brief +me|us", 90),
            ("^today|yesterday +summary|digest|report|overview", 86),
            ("^what +changed|happened +today|yesterday", 84),
            ("standup|stand +summary|update|report|up", 88),
            ("daily|morning|evening +brief|briefing|summary|digest|report|overview", 90),
            ("^what +happened +today|yesterday", 84),
            ("summary|digest|overview of +today|yesterday|day", 84),
        ],
        brief,
    )
    .closed(),
    route(
        "record_task_attempt_tool",
        &[
            ("^start|begin|%keep|plan|open|create|new|try attempt ~@tsk", 94),
            ("^plan|start|begin|new|create|add +task ~@tsk", 88),
            ("record|log|note +attempt", 97),
            ("record|log|note|save|track +it|this|that as attempt", 97),
            ("^attempt", 72),
        ],
        attempt,
    )
    .payload(),
    route(
        "update_task_attempt_status_tool",
        &[
            ("^mark|set|move|update|change|put|flag @tsk", 95),
            ("@tsk succeeded|failed|blocked|abandoned|running|succeed|done|finished|stuck|worked|resumed|\
              unblocked|over", 88),
            ("gave|give|giving +up @tsk", 92),
            ("^abandon|block|fail|finish|resume|start|begin|unblock|succeed|complete|close|stop @tsk", 92),
        ],
        status,
    )
    .payload(),
    route(
        "list_task_attempts_tool",
        &[
            ("^%list attempt|task ~@tsk", 83),
            ("^what|which|have tried|attempted @quote", 84),
            ("^what|have +we|i|you tried|attempted", 84),
            ("^what|have have +we|i|you tried|attempted", 84),
            ("attempt|task failed|running|blocked|planned|open|succeeded|abandoned ~@tsk", 82),
            ("failed|running|blocked|planned|open|succeeded|abandoned +attempt|task ~@tsk", 82),
            ("^what +is|are blocked|abandoned|planned", 76),
        ],
        attempts,
    ),
    route(
        "get_task_attempt_tool",
        &[("@tsk", 70), ("^%show @tsk", 84), ("^how|what|is|has|did|status|state @tsk", 86)],
        |taking| taking.id("attempt_id", Sort::Attempt),
    ),
];

/// Text of a command, after a colon or lead-in words such as `to`.
fn body(taking: &Taking<'_>, from: usize) -> Option<String> {
    let is_colon = |at: &usize| {
        taking.piece(*at).is_some_and(|sign| sign.sort == Sort::Mark && sign.text == ":")
    };
    let colon = (from..taking.len().min(from + 6)).find(is_colon);
    taking.rest(colon.map_or(from, |at| at + 1))
}

fn intent(taking: &mut Taking<'_>) {
    let horizon = match () {
        () if taking.has("today") => Some("today"),
        () if taking.has("week") => Some("week"),
        () if taking.has("month") => Some("month"),
        () => None,
    };
    taking.set_some("horizon", horizon);
    let is_behind =
        taking.places.len() > 2 && taking.places.first().is_some_and(|&at| at > taking.head + 1);
    let text = if is_behind {
        let at = taking.places.first().copied().unwrap_or(taking.len());
        taking.text(0, at)
    } else if matches!(taking.word(taking.head), "i" | "we") {
        taking.text(taking.head, taking.len())
    } else {
        let lead = taking.place_of("is", taking.end()).filter(|&at| at <= taking.end() + 4);
        body(taking, lead.unwrap_or(taking.end()))
    };
    taking.set_needed("intent", text);
}

/// Sets the wrong and the right statement: named, quoted, or on either side of `not`.
fn correction(taking: &mut Taking<'_>) {
    let id = taking.first(Sort::is_item);
    taking.set_some("item_id", id);
    let (wrong, right) = wrong_and_right(taking);
    taking.set_needed("wrong", wrong);
    taking.set_needed("right", right);
    let reason = taking.place_of("because since", taking.end()).and_then(|at| taking.rest(at + 1));
    taking.set_some("reason", reason);
}

fn wrong_and_right(taking: &Taking<'_>) -> (Option<String>, Option<String>) {
    let quoted_by = |word: &str| {
        let at = taking.place_of(word, taking.head)?;
        let quote = (at..taking.len()).find(|&at| taking.is_sort(at, Sort::Quote))?;
        taking.piece(quote).map(|piece| piece.text.clone())
    };
    let quotes = taking.all(|sort| sort == Sort::Quote);
    if let [first, second, ..] = quotes.as_slice() {
        let named = (quoted_by("wrong"), quoted_by("right"));
        if let (Some(wrong), Some(right)) = named
            && wrong != right
        {
            return (Some(wrong), Some(right));
        }
        let is_turned = taking.has("not") && !taking.has("but instead should");
        return if is_turned {
            (Some(second.clone()), Some(first.clone()))
        } else {
            (Some(first.clone()), Some(second.clone()))
        };
    }
    let is_colon = |at: &usize| {
        taking.piece(*at).is_some_and(|sign| {
            sign.sort == Sort::Mark && matches!(sign.text.as_str(), ":" | "," | "-" | ".")
        })
    };
    let from = (taking.head..taking.len()).find(is_colon).map_or(taking.end(), |at| at + 1);
    let Some(not) = taking.place_of("not", from) else {
        let should = taking.place_of("should", from);
        let instead = taking.place_of("instead", from);
        return match (should, instead) {
            (Some(at), Some(of)) if of < at => (taking.rest_until(of + 1, at), taking.rest(at + 1)),
            (Some(at), _) => (taking.text(from, at), taking.rest(at + 1)),
            _ => (None, None),
        };
    };
    if let Some(but) = taking.place_of("but", not) {
        return (taking.text(not + 1, but), taking.rest(but + 1));
    }
    (taking.rest(not + 1), taking.text(from, not))
}

/// Words that evaluate an outcome, with their valence.
const VALUES: [(&str, f64); 3] = [
    (
        "well good great excellent perfect perfectly fine success succeeded successful positive wonderful better",
        1.0,
    ),
    ("bad badly poor poorly terrible failed failure wrong awful negative disaster worse", -1.0),
    ("mixed neutral okay ok", 0.0),
];

fn outcome(taking: &mut Taking<'_>) {
    let id = taking.first(Sort::is_item);
    let number = taking.number_by("valence score").filter(|value| (-1.0..=1.0).contains(value));
    let valued = VALUES.into_iter().find_map(|(words, value)| {
        let at = taking.place_of(words, taking.head)?;
        let is_denied = at > 0 && taking.word(at - 1) == "not";
        Some(if is_denied { -value } else { value })
    });
    let subject = || {
        let verb = taking.place_of("turned worked went was is has valence", taking.head)?;
        let from = taking.place_of("of for that", taking.head).filter(|&at| at < verb);
        taking.rest_until(from.map_or(taking.head, |at| at + 1), verb)
    };
    match id {
        Some(id) => taking.set("item_id", id),
        None => {
            let subject = subject();
            taking.set_needed("subject", subject);
        }
    }
    taking.set_needed("valence", number.or(valued));
    let note =
        taking.reason(taking.end().max(taking.head + 2)).filter(|note| !note.contains("valence"));
    let note = note.or_else(|| {
        let at = taking.place_of("valence", taking.head)?;
        taking.reason(at + 1)
    });
    taking.set_some("note", note);
}

/// Sets the text and the due time of a follow-up; the words of the time are not part of the text.
fn followup(taking: &mut Taking<'_>) {
    let moment = taking.moment();
    let id = taking.first(Sort::is_item);
    let mut text = match &moment {
        Some(moment) => without(taking, taking.end(), &moment.used),
        None => body(taking, taking.end()),
    };
    if text.is_none()
        && let Some(id) = &id
    {
        text = Some(format!("follow up on {id}"));
    }
    taking.set_needed("text", text);
    taking.set_needed("due_at", moment.as_ref().map(|moment| names::time(moment.at)));
    taking.set_some("item_id", id);
    if let Some(moment) = moment {
        taking.set_some("repeat", moment.repeat);
        taking.set_some("timezone", moment.zone);
    }
}

/// Text from a token on, without the tokens in `used`.
fn without(taking: &Taking<'_>, from: usize, used: &[bool]) -> Option<String> {
    let is_used = |at: usize| used.get(at).copied().unwrap_or(false);
    let mut parts: Vec<String> = Vec::new();
    let mut at = from;
    while at < taking.len() {
        if is_used(at) {
            at += 1;
            continue;
        }
        let end = (at..taking.len()).find(|&next| is_used(next)).unwrap_or(taking.len());
        // Only the first part has lead-in words.
        let part = if parts.is_empty() { taking.rest_until(at, end) } else { taking.text(at, end) };
        parts.extend(part);
        at = end;
    }
    let text = clean(&parts.join(" "));
    (!text.is_empty()).then_some(text)
}

fn complete(taking: &mut Taking<'_>) {
    taking.id("followup_id", Sort::Followup);
    let note = taking.reason(taking.end());
    taking.set_some("note", note);
}

fn due(taking: &mut Taking<'_>) {
    let by = taking.has("before by until today tomorrow week month in next");
    if let Some(day) = times::day(taking.said, taking.now).filter(|_| by) {
        let is_before = taking.has("before");
        let end = if is_before { Some(day) } else { day.tomorrow().ok() };
        taking.set_some("before", end.map(|end| format!("{end}T00:00:00Z")));
    } else if let Some(moment) = taking.moment().filter(|_| by) {
        taking.set("before", names::time(moment.at));
    }
}

fn brief(taking: &mut Taking<'_>) {
    let day = times::day(taking.said, taking.now).filter(|_| !taking.has("today"));
    taking.set_some("date", day.map(|day| day.to_string()));
    let zone =
        times::zone_of(taking.said).and_then(|(zone, _)| zone.iana_name().map(str::to_owned));
    taking.set_some("timezone", zone);
    if taking.has("json row") {
        taking.set("format", "json");
    }
}

fn attempt(taking: &mut Taking<'_>) {
    let is_behind = matches!(
        taking.words.get(taking.end().saturating_sub(1)).map(String::as_str),
        Some("attempt")
    ) && taking.places.first().is_some_and(|&at| at > taking.head + 1);
    let text = taking.quote().or_else(|| {
        if is_behind {
            let order = taking.places.first().copied().unwrap_or(taking.len());
            return taking.text(past_going(taking), order);
        }
        body(taking, taking.end())
    });
    let (task, approach) = match text {
        Some(text) => {
            let split =
                [" by ", " using ", " with "].into_iter().find_map(|by| text.split_once(by));
            match split {
                Some((task, how)) => (Some(clean(task)), Some(clean(how))),
                None => (Some(text), None),
            }
        }
        None => (None, None),
    };
    let using = taking.behind("using", "").filter(|_| approach.is_none());
    taking.set_needed("task", task);
    taking.set_some("approach", approach.or(using));
    if taking.word(taking.head) == "plan" || taking.has("planned") {
        taking.set("status", "planned");
    }
}

/// Skips words of intention: `I am going to try to`.
fn past_going(taking: &Taking<'_>) -> usize {
    let goes = |at: &usize| {
        matches!(
            taking.word(*at),
            "i" | "we" | "am" | "are" | "going" | "to" | "try" | "trying" | "will" | "about"
        )
    };
    (taking.head..taking.len()).find(|at| !goes(at)).unwrap_or(taking.head)
}

/// Words that denote the status of an attempt.
const STATES: [(&str, &str); 6] = [
    ("failed fail", "failed"),
    ("blocked block stuck", "blocked"),
    ("abandoned abandon gave give giving", "abandoned"),
    (
        "succeeded succeed done finished finish worked complete completed success successful",
        "succeeded",
    ),
    ("running resume resumed start started begin unblock unblocked progress", "running"),
    ("planned", "planned"),
];

fn status(taking: &mut Taking<'_>) {
    taking.id("attempt_id", Sort::Attempt);
    let id = (0..taking.len()).find(|&at| taking.is_sort(at, Sort::Attempt)).unwrap_or(0);
    let behind_id = STATES
        .into_iter()
        .filter_map(|(words, state)| Some((taking.place_of(words, taking.head)?, state)));
    let first = behind_id.min_by_key(|(at, _)| *at);
    taking.set_needed("status", first.map(|(_, state)| state));
    let from = first.map_or(id, |(at, _)| at.max(id));
    let note = taking.reason(from + 1);
    taking.set_some("note", note);
}

fn attempts(taking: &mut Taking<'_>) {
    let state = STATES.into_iter().find(|(words, _)| taking.has(words)).map(|(_, state)| state);
    taking.set_some("status", state.or_else(|| taking.has("open").then_some("running")));
    let task =
        taking.quote().or_else(|| taking.behind("at about on for", "were are was that which"));
    taking.set_some("task", task);
}
