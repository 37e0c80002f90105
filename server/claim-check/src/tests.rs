use super::*;

fn relation(claim: &str, text: &str) -> Relation {
    judge(&Prose::of("", claim), &Prose::of("", text), None).relation
}

#[track_caller]
fn supports(claim: &str, text: &str) {
    assert_eq!(relation(claim, text), Relation::Supports, "{claim} / {text}");
}

#[track_caller]
fn silent(claim: &str, text: &str) {
    assert_eq!(relation(claim, text), Relation::Silent, "{claim} / {text}");
}

#[track_caller]
fn differs(kind: Kind, claim: &str, text: &str) {
    match relation(claim, text) {
        Relation::Differs(found) => assert_eq!(found.kind, kind, "{claim} / {text}"),
        other => panic!("{claim} / {text}: {other:?}"),
    }
}

#[test]
fn amounts_are_compared_in_one_unit_and_as_intervals() {
    supports("The lock is held for 90 s.", "The lock is held for 1.5 minutes.");
    supports("The lock is held for twenty-five hours.", "The lock is held for 25 h.");
    supports("The job takes less than 10 minutes.", "The job takes 9 minutes.");
    differs(Kind::Number, "The job takes less than 10 minutes.", "The job takes 10 minutes.");
    silent("The job takes 9 minutes.", "The job takes less than 10 minutes.");
    supports("The heap has 64 MB.", "The heap has 64 MiB.");
    differs(Kind::Number, "The heap has 64 MB.", "The heap has 80 MB.");
}

#[test]
fn a_version_holds_for_what_is_beneath_it() {
    supports("The broker runs Erlang 26.", "The broker runs Erlang 26.2.");
    silent("The broker runs Erlang 26.2.", "The broker runs Erlang 26.");
    differs(Kind::Number, "The broker runs Erlang 3.1.", "The broker runs Erlang 3.10.");
}

#[test]
fn a_negation_covers_what_it_stands_before() {
    differs(Kind::Negation, "The relay keeps mail.", "The relay does not keep mail.");
    supports("The relay does not keep mail.", "The relay never keeps mail.");
    silent("The relay keeps mail.", "The relay does not drop mail.");
    differs(
        Kind::Negation,
        "The pier uses paraffin.",
        "All services but not the pier use paraffin.",
    );
}

#[test]
fn what_is_asked_planned_or_was_so_tells_nothing() {
    for text in [
        "Does the relay keep mail?",
        "The relay might keep mail.",
        "We plan that the relay keeps mail.",
        "The relay used to keep mail.",
        "If the disk is large the relay keeps mail.",
    ] {
        silent("The relay keeps mail.", text);
    }
}

#[test]
fn another_qualifier_is_another_subject() {
    silent("The staging relay listens on port 25.", "The production relay listens on port 26.");
    silent("The relay listens on port 25.", "In staging the relay listens on port 26.");
    silent("The read timeout is 5 s.", "The write timeout is 9 s.");
}

#[test]
fn who_changes_places_says_something_else() {
    supports("Ada is trained by Bob.", "Bob trains Ada.");
    silent("Ada trains Bob.", "Bob trains Ada.");
    silent("Bob likes the plan more than Ada.", "Ada likes the plan more than Bob.");
    silent("Ada replaced the pump.", "Ada replaced the valve; the pump was cleaned.");
}

#[test]
fn a_claim_of_several_sentences_is_as_good_as_its_worst() {
    let text = "The relay listens on port 25. The relay needs 64 MB of memory.";
    supports("The relay listens on port 25. The relay needs 64 MB of memory.", text);
    silent("The relay listens on port 25. The relay was written by monks.", text);
    differs(Kind::Number, "The relay listens on port 25. The relay needs 80 MB of memory.", text);
}

#[test]
fn hostile_and_long_texts_are_read_within_bounds() {
    let claim = Prose::of("", "The relay listens on port 25.");
    for text in [
        "not ".repeat(100_000),
        "The relay listens on port 26. ".repeat(100_000),
        "\u{202e}\u{0}=: 9,9.9/ %".repeat(50_000),
        "9".repeat(1 << 20),
        "\u{20ac}".repeat(1 << 16),
        "a=b=".repeat(1 << 16),
    ] {
        let long = Prose::of(&text, &text);
        assert!(long.sentences.len() <= tokens::SENTENCES_MAX);
        assert!(long.sentences.iter().all(|one| one.words.len() <= 2 * tokens::TOKENS_MAX));
        let _ = judge(&claim, &long, None);
        let _ = judge(&long, &claim, Some(1.0));
        let _ = difference(&long, &long, None);
    }
    let said = format!("The default branch is {}.", "x".repeat(5_000));
    let found = relation("The default branch is main.", &said);
    let Relation::Differs(found) = found else { panic!("{found:?}") };
    assert_eq!(found.known.chars().count(), TOLD_CHARS_MAX);
}
