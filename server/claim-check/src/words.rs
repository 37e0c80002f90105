//! Word roles and stemming.
//!
//! Has the closed lists of English words that matter in a comparison; a word in none of the lists is a content word.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Role of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Function word.
    Filler,
    /// Word of little meaning for the subject: `use`, `service`.
    Light,
    /// Content word, also the default.
    Content,
    /// Word that distinguishes things of one kind, such as `staging` and `production`; the number of the set.
    Qualifier(u8),
    /// State out of two opposites: the number of the pair, and the side.
    State(u8, bool),
    /// Negates the following words.
    Denies,
    /// Negates the next phrase only: `except billing`.
    DeniesNext,
    /// Marks an opinion, a plan or a wish.
    Hedge,
    /// Marks a past state that has ended.
    Past,
    /// Marks a condition.
    Condition,
    /// Universal quantifier.
    All,
    /// Existential quantifier.
    Some,
    /// Exclusive quantifier: `only`.
    Only,
    /// Starts another clause.
    Break,
}

const FILLERS: &str = "a an the is are was were be been being am of to in on at by for from with \
    that this these those it its we our us they them their you your i my he she his her as has have \
    had will shall should do does did there also now currently can may must per via into onto out up \
    down here itself ourselves who whom whose themselves every each within under than too very just \
    please well again both about behind inside whatever such between across or o'clock until till upon \
    throughout at-least at-most by-date from-date more-than less-than or-more or-less am pm about \
    roughly approximately around nearly almost";
const LIGHT: &str = "use run set keep make get take need want go put choose pick select decid \
    agree adopt listen expos bind reachabl locat live sit resid servic system component application \
    app tool project valu sett number amount time thing way process standard new team company everyth \
    everybod everyon peopl allow permit serv happen hold cost last limit policy rule note decision \
    need tak give our become mean call nam look provid handl everywher whole";
const DENY: &str = "not no never none cannot neither nor nobody nothing hardly no-longer forbid \
    forbidden prohibit prohibited ban banned disallow disallowed avoid avoids refuse refuses stop- \
    using stopped-using lack lacks dropped abandoned nowhere unable impossible";
const DENY_NEXT: &str = "except without instead-of rather-than apart-from other-than besides \
    excluding but-not";
const HEDGES: &str = "might could maybe perhaps consider considers considering considered propose \
    proposes proposed plan plans planning planned want wants wanted discuss discusses discussed \
    discussing would try tries trying tried hope hopes wish wishes think thinks believe believes \
    claims claimed said says suggests suggested suggest possibly probably intend intends eventually \
    idea may-we asked asks attempted attempts supposed expected expects aims seems likely apparently \
    allegedly rumour rumoured evaluate evaluates evaluated evaluating";
const PAST: &str = "used-to previously formerly originally once-was in-the-past ago";
const CONDITIONS: &str = "if unless when whenever once provided depending depends";
const ALL: &str = "all always any everyone everybody entire entirely everything fully completely";
const SOME: &str = "some most many sometimes usually often partly several mostly few occasionally \
    half partially";
const ONLY: &str = "only solely exclusively merely";
const BREAKS: &str = "because since so which but while whereas and then where though although with \
    whatever including plus";

/// Sets of qualifiers, which distinguish things of one kind.
const QUALIFIERS: &[&str] = &[
    "production prod staging development dev test qa canary preview sandbox demo",
    "read write",
    "primary secondary replica standby leader follower",
    "internal external",
    "inbound outbound incoming outgoing",
    "minimum maximum min max",
    "old new legacy",
    "daily nightly weekly monthly hourly yearly annual quarterly",
    "north south east west northern southern eastern western",
    "before after",
    "upload uploads download downloads",
    "client server",
    "first second third fourth",
    "eu us uk usa emea apac",
    "left right",
    "morning evening afternoon",
    "frontend backend",
    "import imports importer export exports exporter",
    "start starts started starting begin begins end ends ended ending",
    "upper lower",
    "local remote",
    "free pro team enterprise basic",
    "student students teacher teachers employee employees contractor contractors guest guests",
];

/// Pairs of opposites.
const STATES: &[(&str, &str)] = &[
    ("enabled enable enables on", "disabled disable disables off"),
    ("open opened", "closed shut"),
    ("active", "inactive retired"),
    ("accepted approved granted", "rejected denied refused declined"),
    ("passed passing succeeded green", "failed failing red"),
    ("done finished completed complete", "pending unfinished incomplete"),
    ("started running", "stopped halted"),
    ("supported", "unsupported"),
    ("required mandatory compulsory", "optional"),
    ("true yes", "false"),
    ("safe", "unsafe"),
    ("public", "private"),
    ("stable", "unstable"),
    ("resolved", "unresolved"),
    ("available", "unavailable"),
    ("online", "offline"),
    ("valid", "invalid"),
    ("encrypted", "unencrypted"),
    ("automatic automatically automated", "manual manually by-hand"),
    ("synchronous synchronously", "asynchronous asynchronously"),
    ("always", "sometimes"),
    ("healthy", "unhealthy"),
    ("won", "lost"),
    ("increased increases rises rose", "decreased decreases falls fell"),
];

/// Synonyms, with their canonical words.
const ALIKE: &[(&str, &str)] = &[
    ("postgresql", "postgres"),
    ("pg", "postgres"),
    ("k8s", "kubernetes"),
    ("db", "database"),
    ("dbs", "database"),
    ("repo", "repository"),
    ("repos", "repository"),
    ("config", "configuration"),
    ("configs", "configuration"),
    ("license", "licence"),
    ("licensed", "licence"),
    ("licenced", "licence"),
    ("licenses", "licence"),
    ("color", "colour"),
    ("js", "javascript"),
    ("ts", "typescript"),
    ("auth", "authentication"),
    ("kept", "keep"),
    ("retained", "keep"),
    ("retention", "keep"),
    ("ran", "run"),
    ("chose", "choose"),
    ("chosen", "choose"),
    ("written", "write-in"),
    ("sent", "send"),
    ("held", "hold"),
    ("capacity", "hold"),
    ("took", "take"),
    ("taken", "take"),
    ("made", "make"),
    ("built", "build"),
    ("owner", "own"),
    ("owners", "own"),
    ("maintainer", "maintain"),
    ("maintainers", "maintain"),
    ("led", "lead"),
    ("deleted", "remove"),
    ("delete", "remove"),
    ("erased", "remove"),
    ("2fa", "two-factor"),
    ("mfa", "two-factor"),
    ("docs", "documents"),
    ("infra", "infrastructure"),
    ("prod", "production"),
    ("dev", "development"),
    ("min", "minimum"),
    ("max", "maximum"),
    ("expiry", "expire"),
    ("expiration", "expire"),
    ("begins", "start"),
    ("begin", "start"),
    ("on-call", "oncall"),
    ("email", "mail"),
    ("e-mail", "mail"),
    ("emails", "mail"),
    ("met", "meet"),
    ("k8", "kubernetes"),
    ("vm", "machine"),
    ("vms", "machines"),
    ("spent", "spend"),
    ("paid", "pay"),
    ("lost", "lose"),
    ("bought", "buy"),
    ("left", "leave"),
];

static ROLES: LazyLock<HashMap<&str, Role>> = LazyLock::new(|| {
    let mut roles = HashMap::new();
    let lists = [
        (FILLERS, Role::Filler),
        (LIGHT, Role::Light),
        (HEDGES, Role::Hedge),
        (PAST, Role::Past),
        (CONDITIONS, Role::Condition),
        (ALL, Role::All),
        (SOME, Role::Some),
        (ONLY, Role::Only),
        (BREAKS, Role::Break),
        (DENY, Role::Denies),
        (DENY_NEXT, Role::DeniesNext),
    ];
    for (list, role) in lists {
        roles.extend(list.split_ascii_whitespace().map(|word| (word, role)));
    }
    for (set, list) in (0..).zip(QUALIFIERS) {
        let words = list.split_ascii_whitespace();
        roles.extend(words.map(|word| (word, Role::Qualifier(set))));
    }
    for (pair, (one, other)) in (0..).zip(STATES) {
        let of = |list: &'static str, is| {
            list.split_ascii_whitespace().map(move |word| (word, Role::State(pair, is)))
        };
        roles.extend(of(one, true).chain(of(other, false)));
    }
    roles
});

static SAME: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| ALIKE.iter().copied().collect());

/// Returns the role of a word in lower case, regardless of context.
pub(super) fn role_of(word: &str) -> Role {
    if word.ends_with("n't") {
        return Role::Denies;
    }
    match ROLES.get(word) {
        Some(role) => *role,
        None => match ROLES.get(stem(word).as_str()) {
            Some(Role::Light) => Role::Light,
            _ => Role::Content,
        },
    }
}

/// Normalizes a word: replaces synonyms, then strips the commonest endings. Crude, but equal for both texts. Words with
/// digits or signs are unchanged.
pub(super) fn stem(word: &str) -> String {
    let word = SAME.get(word).copied().unwrap_or(word);
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.strip_suffix("'s").map_or_else(|| word.to_owned(), stem);
    }
    const SHORTEST: usize = 3;
    const ENDINGS: [(&str, &str); 15] = [
        ("ations", "at"),
        ("ation", "at"),
        ("ments", ""),
        ("ment", ""),
        ("ings", ""),
        ("ing", ""),
        ("ions", ""),
        ("ion", ""),
        ("ies", "y"),
        ("ied", "y"),
        ("es", ""),
        ("ed", ""),
        ("ly", ""),
        ("s", ""),
        ("e", ""),
    ];
    let fits = |(ending, _): &&(&str, &str)| {
        word.len() >= SHORTEST + ending.len() && word.ends_with(ending) && !word.ends_with("ss")
    };
    let Some((ending, instead)) = ENDINGS.iter().find(fits) else { return word.to_owned() };
    let mut stem = word[..word.len() - ending.len()].to_owned();
    stem.push_str(instead);
    let bytes = stem.as_bytes();
    let is_doubled = bytes.len() > SHORTEST
        && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
        && !matches!(bytes[bytes.len() - 1], b'l' | b's' | b'z')
        && !instead.contains('y')
        && *ending != "s";
    if is_doubled {
        stem.pop();
    }
    if stem.len() > SHORTEST && stem.ends_with('e') {
        stem.pop();
    }
    stem
}
