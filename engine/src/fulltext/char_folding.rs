//! Character folding: unifies different spellings of one letter.
//!
//! Owns compatibility forms (NFKC), accents and typographic marks. Case is preserved, because splitting needs it.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Class of a character in tokenization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CharClass {
    /// Letter, digit, or mark on a letter.
    Letter,
    /// Character of a script without spaces between words.
    Spaceless,
    /// Any other character; ends a word.
    Other,
}

/// Appends `text` to `out` in NFKC form without accents, joiners and variation marks; case is preserved.
///
/// ASCII never changes and never combines with a retained mark, so only the other runs are normalised.
pub(super) fn fold(text: &str, out: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        out.push_str(&rest[..ascii]);
        rest = &rest[ascii..];
        let strange = rest.bytes().position(|byte| byte.is_ascii()).unwrap_or(rest.len());
        for letter in rest[..strange].nfkd().filter(|letter| !is_dropped(*letter)).nfc() {
            match ascii_equivalent(letter) {
                Some(spelling) => out.push_str(spelling),
                None => out.push(letter),
            }
        }
        rest = &rest[strange..];
    }
}

/// Returns true for accents, soft hyphens, joiners, byte order marks and variation selectors.
fn is_dropped(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36F}' | '\u{AD}' | '\u{200B}'..='\u{200D}' | '\u{FEFF}' | '\u{FE00}'..='\u{FE0F}')
}

/// Returns the plain spelling of letters and marks that normalisation does not unify.
fn ascii_equivalent(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{2018}' | '\u{2019}' | '\u{2BC}' => "'",
        '\u{2010}' | '\u{2011}' | '\u{2212}' => "-",
        '\u{DF}' => "ss",
        '\u{1E9E}' => "SS",
        '\u{E6}' => "ae",
        '\u{C6}' => "AE",
        '\u{153}' => "oe",
        '\u{152}' => "OE",
        '\u{F8}' => "o",
        '\u{D8}' => "O",
        '\u{111}' | '\u{F0}' => "d",
        '\u{110}' | '\u{D0}' => "D",
        '\u{FE}' => "th",
        '\u{DE}' => "Th",
        '\u{142}' => "l",
        '\u{141}' => "L",
        '\u{131}' => "i",
        '\u{3C2}' => "\u{3C3}",
        _ => return None,
    })
}

/// Returns the class of a non-ASCII character.
pub(super) fn class(letter: char) -> CharClass {
    if is_spaceless(letter) {
        CharClass::Spaceless
    } else if letter.is_alphanumeric() || is_combining_mark(letter) {
        CharClass::Letter
    } else {
        CharClass::Other
    }
}

/// Returns true for Han, Kana, Bopomofo, Thai, Lao, Myanmar and Khmer, without their punctuation.
fn is_spaceless(letter: char) -> bool {
    matches!(
        letter,
        '\u{E01}'..='\u{E3A}'
            | '\u{E40}'..='\u{E4E}'
            | '\u{E80}'..='\u{EDF}'
            | '\u{1780}'..='\u{17D3}'
            | '\u{1000}'..='\u{1049}'
            | '\u{1050}'..='\u{109F}'
            | '\u{2E80}'..='\u{2FDF}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{309F}'
            | '\u{30A1}'..='\u{30FA}'
            | '\u{30FC}'..='\u{30FF}'
            | '\u{3105}'..='\u{312F}'
            | '\u{31F0}'..='\u{31FF}'
            | '\u{3400}'..='\u{4DBF}'
            | '\u{4E00}'..='\u{9FFF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{3FFFD}'
    )
}

/// Returns true if the character combines with the preceding character.
pub(super) fn is_mark(letter: char) -> bool {
    is_combining_mark(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_unifies_equivalent_spellings() {
        for (text, wanted) in [
            ("plain ASCII", "plain ASCII"),
            ("Caf\u{E9} na\u{EF}ve", "Cafe naive"),
            ("Cafe\u{301}", "Cafe"),
            ("Stra\u{DF}e \u{C6}on \u{141}\u{F3}d\u{17A}", "Strasse AEon Lodz"),
            ("\u{FF37}\u{FF49}\u{FF44}\u{FF45}\u{3000}\u{FB01}n", "Wide fin"),
            ("don\u{2019}t co\u{AD}op e\u{2011}mail", "don't coop e-mail"),
            // Half-width kana and its mark become one letter; Hangul letters become syllables.
            ("\u{FF76}\u{FF9E}", "\u{30AC}"),
            ("\u{1112}\u{1161}\u{11AB}", "\u{D55C}"),
            // Vowel signs of Thai and Devanagari stay.
            ("\u{E01}\u{E34} \u{915}\u{93F}", "\u{E01}\u{E34} \u{915}\u{93F}"),
        ] {
            let mut out = String::new();
            fold(text, &mut out);
            assert_eq!(out, wanted, "{text:?}");
        }
    }
}
