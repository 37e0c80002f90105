//! Source code: split at functions, classes and their members; doc comments stay with their symbol.
//!
//! Walks the lines; `items` recognises the line that starts a symbol. The structure is derived from indentation, so no
//! grammar is needed and incomplete code is read as well as complete code.

use super::document::{
    Document, HEADING_DEPTH_MAX, Heading, Links, Source, line_starts, lines, tile,
};
use super::format::Format;
use super::items::{Item, item};
use super::language::Language;
use super::mentions::mentions;

/// Lines of an unclosed attribute or decorator after which tracking ends.
const ATTRIBUTE_LINES_MAX: usize = 40;

/// Reads source code. The title stays empty: the caller uses the file's name.
pub(super) fn read(language: Language, text: String) -> Document {
    let starts = line_starts(&text);
    let mut links = Links::default();
    mentions(&text, 0, &starts, &mut links);
    let mut walk = Walk::new(language);
    for range in lines(&text) {
        walk.line(text[range.clone()].trim_end(), range.start, range.end);
    }
    let mut notes = Vec::new();
    let sections = tile(text.len(), walk.headings, &mut notes);
    Document {
        title: String::new(),
        format: Format::Code(language),
        modality: Format::Code(language).modality(),
        sections,
        keep: Vec::new(),
        links: links.finish(),
        fields: Vec::new(),
        notes,
        lost: None,
        source: Source::Verbatim,
        text,
    }
}

/// A symbol that contains the current line.
struct Open {
    indent: usize,
    container: bool,
    /// Full name of the symbol; empty for loose statements.
    symbol: String,
}

/// State of the walk over the lines.
struct Walk {
    language: Language,
    headings: Vec<Heading>,
    open: Vec<Open>,
    /// Start and indent of the comments and attributes directly above the next line.
    pending: Option<(usize, usize)>,
    /// Brackets left open by an attribute or decorator, and the number of its lines so far.
    attribute: Option<(i64, usize)>,
    /// Delimiter that ends the string or comment around the current line.
    inside: Option<&'static str>,
}

impl Walk {
    fn new(language: Language) -> Self {
        Self {
            language,
            headings: Vec::new(),
            open: Vec::new(),
            pending: None,
            attribute: None,
            inside: None,
        }
    }

    fn line(&mut self, line: &str, at: usize, end: usize) {
        if let Some(mark) = self.inside {
            if line.matches(mark).count() % 2 == 1 || (mark == "*/" && line.contains(mark)) {
                self.inside = None;
            }
            return;
        }
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if bare.is_empty() {
            self.pending = None;
            self.attribute = None;
            return;
        }
        if self.continues_attribute(bare) {
            return;
        }
        self.inside = opens(self.language, bare);
        if self.is_preface(bare) {
            if self.pending.is_none_or(|(_, above)| above != indent) {
                self.pending = Some((at, indent));
            }
            return;
        }
        let start = self
            .pending
            .take()
            .filter(|(_, above)| *above == indent)
            .map_or(at, |(start, _)| start);
        if let Some(found) = item(self.language, bare, indent == 0) {
            self.start_item(found, indent, start, end);
        } else if indent == 0 && starts_statement(bare) {
            self.start_loose(start, at);
        }
    }

    /// Starts a symbol at the top level or inside a container; a function within a function is a detail of the outer
    /// one.
    fn start_item(&mut self, found: Item, indent: usize, start: usize, end: usize) {
        while self.open.last().is_some_and(|above| above.indent >= indent) {
            self.open.pop();
        }
        let inside = self.open.last().map_or(indent == 0, |above| above.container);
        if !inside || self.open.len() >= usize::from(HEADING_DEPTH_MAX) {
            return;
        }
        let holder =
            self.open.last().map(|above| above.symbol.as_str()).filter(|symbol| !symbol.is_empty());
        let symbol = holder.map_or_else(
            || found.name.clone(),
            |h| format!("{h}{}{}", self.language.joint(), found.name),
        );
        self.open.push(Open { indent, container: found.container, symbol: symbol.clone() });
        self.headings.push(Heading {
            at: start,
            body_start: end,
            level: u8::try_from(self.open.len()).unwrap_or(HEADING_DEPTH_MAX),
            title: found.title,
            symbol: Some(symbol),
        });
    }

    /// Starts one unnamed section for all statements up to the next symbol. Statements before the first symbol belong
    /// to the file's head.
    fn start_loose(&mut self, start: usize, body_start: usize) {
        let loose = self.open.first().is_none_or(|top| top.symbol.is_empty());
        if loose {
            return;
        }
        self.open.clear();
        self.open.push(Open { indent: 0, container: false, symbol: String::new() });
        self.headings.push(Heading {
            at: start,
            body_start,
            level: 1,
            title: String::new(),
            symbol: None,
        });
    }

    /// Returns true for a comment, attribute or decorator, which belongs to the symbol after it.
    fn is_preface(&mut self, bare: &str) -> bool {
        let attribute = match self.language {
            Language::Rust => bare.starts_with("#["),
            Language::CSharp => bare.starts_with('['),
            Language::Cpp => bare.starts_with("[[") || bare.starts_with("template"),
            _ => bare.starts_with('@') && !bare.starts_with("@interface"),
        };
        if attribute {
            let depth = bracket_balance(bare);
            self.attribute = (depth > 0).then_some((depth, 1));
            // `#[test] fn a() {}` on one line is a symbol with its attribute.
            return depth > 0 || bare.ends_with([']', ')', '>']) || !bare.contains(' ');
        }
        let hash = self.language.hash_comments() && bare.starts_with('#');
        let slash =
            !self.language.hash_comments() && (bare.starts_with("//") || bare.starts_with("/*"));
        let dash = self.language == Language::Lua && bare.starts_with("--");
        // C sometimes has the return type on a line of its own: `static int` above `main(void)`.
        let typed = self.language == Language::C
            && !bare.starts_with('#')
            && bare.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ' ' | '*'))
            && !matches!(bare, "else" | "do");
        hash || slash || dash || typed
    }

    fn continues_attribute(&mut self, bare: &str) -> bool {
        let Some((depth, count)) = self.attribute else { return false };
        let depth = depth + bracket_balance(bare);
        self.attribute = (depth > 0 && count < ATTRIBUTE_LINES_MAX).then_some((depth, count + 1));
        true
    }
}

fn bracket_balance(line: &str) -> i64 {
    line.bytes().fold(0, |depth, byte| match byte {
        b'(' | b'[' | b'{' => depth + 1,
        b')' | b']' | b'}' => depth - 1,
        _ => depth,
    })
}

/// Returns the delimiter that ends the string or comment left open by this line, if any.
fn opens(language: Language, bare: &str) -> Option<&'static str> {
    let odd = |mark: &str| bare.matches(mark).count() % 2 == 1;
    match language {
        Language::Python if odd("\"\"\"") => Some("\"\"\""),
        Language::Python if odd("'''") => Some("'''"),
        Language::Python | Language::Ruby | Language::Shell | Language::Lua => None,
        _ if bare.starts_with("/*") && !bare.contains("*/") => Some("*/"),
        Language::Rust
            if bare.rsplit_once("r#\"").is_some_and(|(_, rest)| !rest.contains("\"#")) =>
        {
            Some("\"#")
        }
        Language::Go | Language::JavaScript | Language::TypeScript if odd("`") => Some("`"),
        _ => None,
    }
}

/// Returns true if an unindented line starts a statement instead of closing or continuing the one above.
fn starts_statement(bare: &str) -> bool {
    const CONTINUING: &[&str] = &[
        "where", "else", "elif", "except", "finally", "end", "then", "do", "fi", "done", "esac",
        "rescue", "ensure", "catch",
    ];
    let word = bare.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    !bare.starts_with(['}', ')', ']', '{', ':', '|', '&', '+', '.', ','])
        && !CONTINUING.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(language: Language, text: &str) -> Vec<(String, String)> {
        let doc = read(language, text.to_owned());
        let first = |s: &crate::document::Section| {
            doc.text[s.span.clone()].lines().next().unwrap_or("").to_owned()
        };
        doc.sections.iter().map(|s| (s.symbol.clone().unwrap_or_default(), first(s))).collect()
    }

    fn owned(want: &[(&str, &str)]) -> Vec<(String, String)> {
        want.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn rust_members_carry_their_holder_and_their_docs() {
        let text = "//! Module.\nuse a;\n\n/// Doc.\n#[derive(\n    Debug,\n)]\npub struct S {\n    a: u8,\n}\n\n\
            impl S {\n    /// New.\n    fn new() -> S {\n        fn inner() {}\n    }\n}\nconst T: &str = r#\"\nfn no() {}\n\"#;\n";
        let want = [
            ("", "//! Module."),
            ("S", "/// Doc."),
            ("S", "impl S {"),
            ("S::new", "    /// New."),
            ("T", "const T: &str = r#\""),
        ];
        assert_eq!(outline(Language::Rust, text), owned(&want));
    }

    #[test]
    fn python_docstrings_and_nested_functions_stay_inside() {
        let text = "\"\"\"Doc\ndef no(): pass\n\"\"\"\nimport a\n\n@wraps(\n    x)\nclass A:\n    # about b\n    def b(self):\n        \
            def c(): pass\n\nX = 1\nif X:\n    def d(): pass\n";
        let want = [("", "\"\"\"Doc"), ("A", "@wraps("), ("A.b", "    # about b"), ("", "X = 1")];
        assert_eq!(outline(Language::Python, text), owned(&want));
    }

    #[test]
    fn c_functions_keep_the_type_line_above() {
        let text = "#include <a.h>\n\n/* Doc\n * more */\nstatic int\nmain(void)\n{\n    return f(x);\n}\n\nint g(int a)\n{\n}\n";
        let want = [("", "#include <a.h>"), ("main", "/* Doc"), ("g", "int g(int a)")];
        assert_eq!(outline(Language::C, text), owned(&want));
    }
}
