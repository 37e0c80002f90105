//! Quantity facts: the parts of a sentence that are comparable as amounts, versions, dates or times.
//!
//! Extracts facts from tokens, and compares two facts: agreement, difference or unknown. Every fact is an interval, so
//! `8 minutes` is compatible with `at most 10 minutes`.

use super::dates::{self, Date};
use super::tokens::Token;
use super::units::{Family, Unit, leading_number, multiple, unit, word_number};
use super::words::{Role, role_of, stem};

/// Bound of an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Exact,
    /// At least, more than, from, after.
    Least,
    /// At most, less than, by, before.
    Most,
    /// About.
    About,
}

/// Comparable part of a sentence.
#[derive(Debug, Clone)]
pub(super) struct Fact {
    /// Comparison key: `time`, `bytes`, `eur/t`, `n:port`, `v:postgr`, `day`, `weekday`, `clock`, `period`.
    pub(super) key: String,
    low: f64,
    high: f64,
    bound: Bound,
    /// True if the interval excludes the bound: `before July`, `less than 10`.
    is_strict: bool,
    family: Family,
    date: Option<Date>,
    /// Text of the fact, as written.
    pub(super) said: String,
    /// True if the counted noun is inferred from the preceding words.
    pub(super) is_loose: bool,
    /// Range of the fact's tokens: start and end.
    pub(super) from: usize,
    to: usize,
}

/// Result of a comparison of two facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    Agree,
    Differ,
    Unknown,
}

/// Facts of a sentence's tokens.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) facts: Vec<Fact>,
    /// Numbers that are part of a name instead of a quantity: index of the token, and the name.
    pub(super) names: Vec<(usize, String)>,
    /// Per token: true if a fact includes the token.
    pub(super) taken: Vec<bool>,
}

/// Relative tolerance if one of two amounts is approximate.
const ABOUT: f64 = 0.15;
/// Relative tolerance between unit families: months and years vary in length, and a megabyte has two definitions.
const FAMILY_SLACK: f64 = 0.08;
const SLACK: f64 = 1e-9;
/// Relative distance of a strict interval from its excluded bound.
const STRICT_STEP: f64 = 1e-6;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Tokens before a number that are searched for the counted noun.
    const LABEL_TOKENS_MAX: usize = 6;
}

/// Nouns whose number is always an ordinal, not a quantity.
const NAMING: [&str; 27] = [
    "page",
    "step",
    "ticket",
    "issue",
    "rfc",
    "pr",
    "chapter",
    "section",
    "shard",
    "node",
    "phase",
    "room",
    "day",
    "week",
    "decision",
    "item",
    "sprint",
    "cabinet",
    "case",
    "build",
    "line",
    "gate",
    "release",
    "iteration",
    "unit",
    "incident",
    "note",
];
/// Nouns that precede their number.
const LABELS: [&str; 9] =
    ["port", "version", "level", "tier", "stage", "priority", "class", "grade", "rank"];
/// Words before a year.
const BEFORE_YEARS: [&str; 10] =
    ["in", "since", "by", "until", "of", "before", "after", "from", "by-date", "till"];

/// Extracts the facts of a sentence.
pub(super) fn read(tokens: &[Token]) -> Found {
    let mut found = Found { taken: vec![false; tokens.len()], ..Found::default() };
    let mut at = 0;
    while at < tokens.len() {
        let (bound, begin) = bound_at(tokens, at);
        let Some((mut fact, to)) = fact_at(tokens, begin) else {
            at += 1;
            continue;
        };
        let (bound, to) = bound_behind(tokens, to, bound);
        if let Some(name) = named(tokens, &fact, begin) {
            found.names.push((begin, name));
            found.taken[begin..to].fill(true);
            at = to;
            continue;
        }
        fact.bound = bound;
        fact.is_strict = matches!(
            tokens[at].text.as_str(),
            "more-than" | "less-than" | "before" | "after" | "<" | ">"
        );
        fact.from = if bound == Bound::Exact { begin } else { at };
        fact.to = to;
        fact.said = said(&tokens[fact.from..to]);
        found.taken[fact.from..to].fill(true);
        if let Some((per, from, to)) = rate_at(tokens, to) {
            fact.key.push_str("/t");
            fact.low /= per.factor;
            fact.high /= per.factor;
            if per.family != Family::Plain {
                fact.family = per.family;
            }
            fact.said = said(&tokens[fact.from..to]);
            found.taken[from..to].fill(true);
        }
        found.facts.push(fact);
        at = to.max(at + 1);
    }
    found
}

fn said(tokens: &[Token]) -> String {
    let words: Vec<&str> = tokens.iter().map(|token| token.written.as_str()).collect();
    words.join(" ")
}

/// Parses a word that bounds the following fact. Returns the bound, and the start of the fact.
fn bound_at(tokens: &[Token], at: usize) -> (Bound, usize) {
    let bound = match tokens[at].text.as_str() {
        "at-least" | "more-than" | "from-date" | "since" | "after" | "minimum" | ">" | ">=" => {
            Bound::Least
        }
        "at-most" | "less-than" | "by-date" | "by" | "before" | "within" | "<" | "<=" => {
            Bound::Most
        }
        "about" | "roughly" | "approximately" | "around" | "nearly" | "almost" | "~" | "circa" => {
            Bound::About
        }
        _ => return (Bound::Exact, at),
    };
    let mut begin = at + 1;
    while tokens.get(begin).is_some_and(|token| token.text == "the") {
        begin += 1;
    }
    if begin < tokens.len() && fact_at(tokens, begin).is_some() {
        (bound, begin)
    } else {
        (Bound::Exact, at)
    }
}

/// Parses a bound after the fact: `12 or more`.
fn bound_behind(tokens: &[Token], at: usize, bound: Bound) -> (Bound, usize) {
    match tokens.get(at).map(|token| token.text.as_str()) {
        Some("or-more") => (Bound::Least, at + 1),
        Some("or-less") => (Bound::Most, at + 1),
        _ => (bound, at),
    }
}

/// Parses the fact that starts at a token. Returns the fact, and its end.
fn fact_at(tokens: &[Token], at: usize) -> Option<(Fact, usize)> {
    period_at(tokens, at)
        .or_else(|| date_at(tokens, at))
        .or_else(|| clock_at(tokens, at))
        .or_else(|| version_at(tokens, at))
        .or_else(|| quantity_at(tokens, at))
}

fn fact(key: &str, value: f64, family: Family) -> Fact {
    Fact {
        key: key.to_owned(),
        low: value,
        high: value,
        bound: Bound::Exact,
        is_strict: false,
        family,
        date: None,
        said: String::new(),
        is_loose: false,
        from: 0,
        to: 0,
    }
}

fn text(tokens: &[Token], at: usize) -> Option<&str> {
    tokens.get(at).map(|token| token.text.as_str())
}

/// Parses `every 6 hours` or `every night`, or `daily` unless the word modifies a following noun.
fn period_at(tokens: &[Token], at: usize) -> Option<(Fact, usize)> {
    let word = text(tokens, at)?;
    let named = match word {
        "hourly" => "hour",
        "daily" | "nightly" => "day",
        "weekly" => "week",
        "monthly" => "month",
        "quarterly" => "quarter",
        "yearly" | "annually" => "year",
        "every" | "each" => {
            if let Some(unit) =
                text(tokens, at + 1).and_then(unit).filter(|unit| unit.key == "time")
            {
                return Some((fact("period", unit.factor, unit.family), at + 2));
            }
            let (amount, to) = quantity_at(tokens, at + 1)?;
            return (amount.key == "time")
                .then(|| (Fact { key: "period".to_owned(), ..amount }, to));
        }
        _ => return None,
    };
    let belongs = tokens.get(at + 1).is_some_and(|next| {
        let is_plain =
            matches!(role_of(&next.text), Role::Content | Role::Light | Role::Qualifier(_));
        is_plain && !next.breaks && next.sign.is_none() && leading_number(&next.text).is_none()
    });
    let unit = unit(named)?;
    (!belongs).then(|| (fact("period", unit.factor, unit.family), at + 1))
}

/// Parses dates and weekdays.
fn date_at(tokens: &[Token], at: usize) -> Option<(Fact, usize)> {
    let word = text(tokens, at)?;
    let of = |date: Date, to: usize| {
        let dated = fact("day", 0.0, Family::Plain);
        Some((Fact { date: Some(date), ..dated }, to))
    };
    if let Some(day) = dates::weekday(word) {
        return Some((fact("weekday", f64::from(day), Family::Plain), at + 1));
    }
    if let Some(date) = dates::iso(word) {
        return of(date, at + 1);
    }
    let month_at = |at: usize| text(tokens, at).and_then(dates::month);
    let year_at = |at: usize| text(tokens, at).and_then(dates::year);
    let skip_of = |at: usize| if text(tokens, at) == Some("of") { at + 1 } else { at };
    if let Some(day) = dates::day_of_month(word)
        && let Some(month) = month_at(skip_of(at + 1))
    {
        let behind = skip_of(at + 1) + 1;
        let year = year_at(behind);
        return of(
            Date { year, month: Some(month), day: Some(day) },
            behind + usize::from(year.is_some()),
        );
    }
    if let Some(month) = dates::month(word) {
        let day = text(tokens, at + 1).and_then(dates::day_of_month);
        let behind = at + 1 + usize::from(day.is_some());
        let year = year_at(behind);
        let before = at.checked_sub(1).and_then(|before| text(tokens, before)).unwrap_or_default();
        let is_sure = day.is_some() || year.is_some() || BEFORE_YEARS.contains(&before);
        let is_sure = is_sure
            || word.len() > 3 && word != "march"
            || word == "march" && tokens[at].is_capital;
        return is_sure.then(|| {
            of(Date { year, month: Some(month), day }, behind + usize::from(year.is_some()))
        })?;
    }
    let before = at.checked_sub(1).and_then(|before| text(tokens, before))?;
    let year = dates::year(word).filter(|_| BEFORE_YEARS.contains(&before))?;
    let follows = text(tokens, at + 1)
        .is_none_or(|next| role_of(next) != Role::Content && unit(next).is_none());
    if follows { of(Date { year: Some(year), month: None, day: None }, at + 1) } else { None }
}

fn clock_at(tokens: &[Token], at: usize) -> Option<(Fact, usize)> {
    let (minutes, read_next) = dates::clock(text(tokens, at)?, text(tokens, at + 1))?;
    Some((fact("clock", minutes, Family::Plain), at + 1 + usize::from(read_next)))
}

/// Parses `v1.2`, `1.2.3` or `Postgres 15`. The word before a version is the versioned product.
fn version_at(tokens: &[Token], at: usize) -> Option<(Fact, usize)> {
    let word = text(tokens, at)?;
    let bare = word.strip_prefix('v').unwrap_or(word);
    let is_plain =
        !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let dots = bare.matches('.').count();
    if !is_plain || dots > 2 || bare.starts_with('.') || bare.ends_with('.') {
        return None;
    }
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let has_sign = tokens[at].sign.is_some() || tokens[at].breaks;
    let is_marked = bare.len() < word.len() || dots == 2;
    let name = before.filter(|_| !has_sign).filter(|before| {
        let is_content = matches!(role_of(&before.text), Role::Content);
        let next = text(tokens, at + 1);
        let counts = next.is_some_and(|next| {
            unit(next).is_some()
                || multiple(next).is_some()
                || matches!(role_of(next), Role::Content) && !tokens[at + 1].breaks && dots == 0
        });
        is_content
            && before.text != "version"
            && !counts
            && (is_marked
                || before.is_capital && before.text.len() > 1
                || before.text.contains(|c: char| c.is_ascii_digit()))
    });
    let label = match name {
        Some(name)
            if !NAMING.contains(&stem(&name.text).as_str())
                && !LABELS.contains(&name.text.as_str()) =>
        {
            stem(&name.text)
        }
        _ if is_marked => label_before(tokens, at).unwrap_or_else(|| "version".to_owned()),
        _ => {
            let label = label_before(tokens, at)?;
            if label != "version" {
                return None;
            }
            label
        }
    };
    let key = format!("v:{label}");
    let mut version = fact(&key, 0.0, Family::Version);
    version.is_loose = name.is_none();
    Some((version, at + 1))
}

/// Parses amounts, prices, percentages and counts.
fn quantity_at(tokens: &[Token], at: usize) -> Option<(Fact, usize)> {
    let word = text(tokens, at)?;
    let (currency, bare) = match word.chars().next()? {
        sign @ ('$' | '\u{20ac}' | '\u{a3}') => (unit(&sign.to_string()), &word[sign.len_utf8()..]),
        '~' => (None, &word[1..]),
        _ => (None, word),
    };
    let (mut value, glued, is_word) = match leading_number(bare) {
        Some((value, glued)) => (value, glued, false),
        None => (word_number(bare)?, "", true),
    };
    let mut to = at + 1;
    if is_word
        && value >= 20.0
        && let Some(ones) = text(tokens, to).and_then(word_number).filter(|ones| *ones < 10.0)
    {
        value += ones;
        to += 1;
    }
    while let Some(by) = text(tokens, to).and_then(multiple) {
        value *= by;
        to += 1;
    }
    let (glued, per) = glued.split_once('/').unwrap_or((glued, ""));
    let mut of = currency;
    match glued {
        "" => {}
        "k" => value *= 1e3,
        glued => of = Some(unit(glued)?),
    }
    let is_plain = |token: &Token| token.sign.is_none() && !token.breaks;
    if of.is_none()
        && let Some(next) = tokens.get(to).filter(|next| is_plain(next))
    {
        of = unit(&next.text);
        to += usize::from(of.is_some());
    }
    // `CHF 100`
    if of.is_none()
        && let Some(before) = at.checked_sub(1).and_then(|before| unit(&tokens[before].text))
    {
        of = Some(before).filter(|unit| ["usd", "eur", "gbp", "chf"].contains(&unit.key));
    }
    if is_word
        && of.is_none()
        && word == "one"
        && !tokens.get(to).is_some_and(|next| role_of(&next.text) == Role::Content)
    {
        return None;
    }
    let mut amount = match of {
        Some(unit) => fact(unit.key, value * unit.factor, unit.family),
        None => count(tokens, (at, to), value)?,
    };
    if let Some(per) = unit(per).filter(|unit| unit.key == "time") {
        amount.key.push_str("/t");
        amount.low /= per.factor;
        amount.high /= per.factor;
        amount.family = if per.family == Family::Plain { amount.family } else { per.family };
    }
    Some((amount, to))
}

/// Builds the fact of a number without a unit: a count of the noun after the number, or else a number of the noun
/// before.
fn count(tokens: &[Token], (at, to): (usize, usize), value: f64) -> Option<Fact> {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    let has_sign = tokens[at].sign.is_some();
    let of = |label: &str, is_loose| {
        let amount = fact(&format!("n:{label}"), value, Family::Plain);
        Some(Fact { is_loose, ..amount })
    };
    if let Some(before) = before.filter(|_| !has_sign) {
        let label = stem(&before.text);
        if NAMING.contains(&label.as_str()) || LABELS.contains(&label.as_str()) {
            return of(&label, false);
        }
    }
    let next = tokens.get(to).filter(|next| next.sign.is_none() && !next.breaks);
    if let Some(next) =
        next.filter(|next| matches!(role_of(&next.text), Role::Content | Role::Qualifier(_)))
    {
        // `12 read replicas`, `100 requests`
        let noun = tokens.get(to + 1).filter(|_| matches!(role_of(&next.text), Role::Qualifier(_)));
        return of(&stem(&noun.unwrap_or(next).text), false);
    }
    of(&label_before(tokens, at).unwrap_or_default(), true)
}

/// Returns the noun before a number; function words between are skipped.
fn label_before(tokens: &[Token], at: usize) -> Option<String> {
    let before = tokens[..at].iter().rev().take(LABEL_TOKENS_MAX);
    let mut nouns =
        before.filter(|token| matches!(role_of(&token.text), Role::Content | Role::Light));
    nouns
        .find(|token| !token.text.starts_with(|c: char| c.is_ascii_digit()))
        .map(|token| stem(&token.text))
}

/// Parses a rate after an amount: `per second`, `a month`, `requests per minute`. Returns the unit and the range of its
/// tokens.
fn rate_at(tokens: &[Token], to: usize) -> Option<(Unit, usize, usize)> {
    for from in to..(to + 2).min(tokens.len()) {
        if tokens[from].breaks || tokens[from].sign.is_some() {
            return None;
        }
        let is_per = matches!(tokens[from].text.as_str(), "per" | "a" | "an" | "each" | "every");
        let per = text(tokens, from + 1).filter(|_| is_per).and_then(unit);
        if let Some(per) = per.filter(|per| per.key == "time") {
            return Some((per, from, from + 2));
        }
    }
    None
}

/// Returns the numbered name that the number belongs to: `page 3`, or `Python 3.11` at the start of a sentence.
fn named(tokens: &[Token], fact: &Fact, at: usize) -> Option<String> {
    let (kind, label) = fact.key.split_once(':')?;
    if fact.is_loose || tokens[at].sign.is_some() || !matches!(kind, "n" | "v") {
        return None;
    }
    let before = &tokens[at.checked_sub(1)?];
    if stem(&before.text) != label {
        return None;
    }
    let opens = tokens[..at - 1].iter().all(|token| role_of(&token.text) == Role::Filler);
    let is_named =
        NAMING.contains(&label) || opens && at + 1 < tokens.len() && !tokens[at + 1].breaks;
    is_named.then(|| format!("{label}#{}", tokens[at].text))
}

impl Fact {
    /// Returns true if the facts are comparable.
    pub(super) fn meets(&self, other: &Self) -> bool {
        if self.key == other.key {
            return true;
        }
        let kind = |fact: &Self| fact.key.split_once(':').map(|(kind, _)| kind.to_owned());
        let (one, two) = (kind(self), kind(other));
        let is_loose = self.is_loose || other.is_loose;
        let rates = |fact: &Self| fact.key.ends_with("/t");
        one.is_some() && one == two && is_loose && rates(self) == rates(other)
    }

    /// Returns true if the facts have the same key.
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        self.key == other.key
    }

    /// Returns true for a fact of time.
    pub(super) fn is_date(&self) -> bool {
        matches!(self.key.as_str(), "day" | "weekday" | "clock" | "period")
    }

    /// Compares `self`, the claimed fact, with `other`, the known fact.
    pub(super) fn against(&self, other: &Self) -> Compared {
        if self.family == Family::Version || other.family == Family::Version {
            return versions(&self.said, &other.said);
        }
        let (claimed, known) = (self.interval(other), other.interval(self));
        let mixed = self.family != other.family;
        let about = self.bound == Bound::About || other.bound == Bound::About;
        let slack = if about {
            ABOUT
        } else if mixed {
            FAMILY_SLACK
        } else {
            SLACK
        };
        let is_near = |a: f64, b: f64| (a - b).abs() <= slack * a.abs().max(b.abs()).max(1e-12);
        let same_bound =
            self.bound == other.bound && matches!(self.bound, Bound::Least | Bound::Most);
        if same_bound {
            let (a, b) = match self.bound {
                Bound::Least => (claimed.0, known.0),
                _ => (claimed.1, known.1),
            };
            let open = if self.date.is_some() { Compared::Unknown } else { Compared::Differ };
            return if is_near(a, b) { Compared::Agree } else { open };
        }
        let begins_behind = |a: f64, b: f64| a > b && !is_near(a, b);
        if begins_behind(claimed.0, known.1) || begins_behind(known.0, claimed.1) {
            return Compared::Differ;
        }
        let holds = !begins_behind(claimed.0, known.0) && !begins_behind(known.1, claimed.1);
        if holds { Compared::Agree } else { Compared::Unknown }
    }

    /// Interval of the fact, with the year of `other` if this date has none.
    fn interval(&self, other: &Self) -> (f64, f64) {
        let (low, high) = match self.date {
            None => (self.low, self.high),
            Some(date) => {
                let lends = other.date.and_then(|date| date.year);
                date.days(lends)
            }
        };
        let step = if self.date.is_some() { 1.0 } else { low.abs() * STRICT_STEP };
        match (self.bound, self.is_strict) {
            (Bound::Least, false) => (low, f64::INFINITY),
            (Bound::Least, true) => (high + step, f64::INFINITY),
            (Bound::Most, false) => (f64::NEG_INFINITY, high),
            (Bound::Most, true) => (f64::NEG_INFINITY, low - step),
            _ => (low, high),
        }
    }
}

/// Compares versions part by part: a known `15.2` supports a claimed `15`, but a known `15` leaves `15.2` unknown.
fn versions(claimed: &str, known: &str) -> Compared {
    let parts = |said: &str| -> Vec<u64> {
        let last = said.rsplit(' ').next().unwrap_or_default().to_lowercase();
        let bare = last.trim_start_matches('v').to_owned();
        bare.split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let (claimed, known) = (parts(claimed), parts(known));
    if known.starts_with(&claimed) {
        return Compared::Agree;
    }
    if claimed.starts_with(&known) { Compared::Unknown } else { Compared::Differ }
}
