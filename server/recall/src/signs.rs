//! Significant punctuation: signs that change the meaning while all words stay equal, such as the minus of `-5`, `$`,
//! `%`, `<`.
//!
//! Distinguishes these signs from layout marks: list bullets, quote marks, emphasis.

use super::wording::BYTES_MAX;

/// Signs that are significant everywhere.
const ALWAYS: [char; 18] = [
    '$', '%', '<', '\u{a3}', '\u{a5}', '\u{b0}', '\u{b1}', '\u{d7}', '\u{f7}', '\u{2030}',
    '\u{20ac}', '\u{2212}', '\u{2227}', '\u{2228}', '\u{2248}', '\u{2260}', '\u{2264}', '\u{2265}',
];
/// Signs that are significant between digits.
const BETWEEN_DIGITS: [char; 4] = ['+', '*', '/', '^'];
/// Signs that are significant before a digit, unless a word ends before the sign.
const BEFORE_DIGITS: [char; 3] = ['-', '~', '.'];

/// Returns true if both texts have equal significant signs in equal order, within the compared bytes.
pub(super) fn has_signs_of(one: &str, other: &str) -> bool {
    signs(one).eq(signs(other))
}

fn signs(text: &str) -> impl Iterator<Item = char> {
    let text = &text[..text.floor_char_boundary(BYTES_MAX)];
    let (mut before, mut is_line_begin) = (' ', true);
    text.char_indices().filter_map(move |(at, sign)| {
        let behind = text[at + sign.len_utf8()..].chars().next().unwrap_or(' ');
        let tells = match sign {
            _ if ALWAYS.contains(&sign) => true,
            // At the beginning of a line, the sign is a quote mark.
            '>' => !is_line_begin,
            '!' => behind == '=' || !before.is_alphanumeric() && behind.is_alphanumeric(),
            '&' | '|' => before == sign,
            _ if BEFORE_DIGITS.contains(&sign) && behind.is_ascii_digit() => {
                !before.is_alphanumeric() && before != sign
            }
            _ if BETWEEN_DIGITS.contains(&sign) => {
                before.is_ascii_digit() && behind.is_ascii_digit()
            }
            _ => false,
        };
        is_line_begin = sign == '\n' || is_line_begin && (sign.is_whitespace() || sign == '>');
        before = sign;
        tells.then_some(sign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_the_said_tells_and_what_lays_it_out_does_not() {
        for (one, other) in [
            ("It is -5 outside.", "It is 5 outside."),
            ("It costs $5.", "It costs 5."),
            ("5 %", "5"),
            ("if a < b", "if a > b"),
            ("if a != b", "if a = b"),
            ("a && b", "a || b"),
            ("!ready", "ready"),
            ("about .5", "about 5"),
            ("~5 s", "5 s"),
            ("2^3", "2*3"),
        ] {
            assert!(!has_signs_of(one, other), "{one} / {other}");
        }
        for (one, other) in [
            ("Done!", "Done."),
            ("- one\n- two", "* one\n* two"),
            ("> quoted\n> twice", "quoted twice"),
            ("**bold** ~~gone~~", "bold gone"),
            ("| a | b |", "a, b"),
            ("5%", "5 %"),
            ("2024-03-05", "2024-03-05."),
        ] {
            assert!(has_signs_of(one, other), "{one} / {other}");
        }
        assert!(!has_signs_of("\u{20ac}5\u{0}", ""));
    }
}
