//! Recognises the line of source code that starts a symbol, and the symbol's name.
//!
//! Rules are keyword lists per language and see one line at a time. Conventionally formatted code is split where a
//! person would split it; other code merely stays together.

use super::language::Language;

/// Longest line that is inspected; longer lines are data or minified code.
const LINE_BYTES_MAX: usize = 400;

/// A symbol as its first line declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Keyword and name, such as `fn resolve`; the name alone if there is no keyword.
    pub(super) title: String,
    /// The name alone; for an `impl`, the type's name.
    pub(super) name: String,
    /// True if items inside the symbol are its members.
    pub(super) container: bool,
}

/// Modifiers that may precede the keyword.
const MODIFIERS: &[&str] = &[
    "pub",
    "async",
    "unsafe",
    "default",
    "export",
    "declare",
    "abstract",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "final",
    "override",
    "virtual",
    "inline",
    "extern",
    "sealed",
    "partial",
    "open",
    "data",
    "suspend",
    "case",
    "implicit",
    "lazy",
    "mutating",
    "fileprivate",
    "readonly",
    "constexpr",
    "local",
    "companion",
];

/// Keywords, each with true if its symbol may have members.
type Keywords = &'static [(&'static str, bool)];

const RUST: Keywords = &[
    ("fn", false),
    ("struct", false),
    ("enum", false),
    ("union", false),
    ("trait", true),
    ("impl", true),
    ("mod", true),
    ("macro_rules!", false),
    ("type", false),
    ("const", false),
    ("static", false),
];
const PYTHON: Keywords = &[("def", false), ("class", true)];
const SCRIPT: Keywords = &[
    ("function", false),
    ("function*", false),
    ("class", true),
    ("interface", false),
    ("enum", false),
    ("namespace", true),
    ("type", false),
    ("const", false),
    ("let", false),
    ("var", false),
];
const GO: Keywords = &[("func", false), ("type", false), ("const", false), ("var", false)];
const CURLY: Keywords = &[
    ("class", true),
    ("interface", true),
    ("enum", true),
    ("record", true),
    ("struct", true),
    ("union", false),
    ("namespace", true),
    ("trait", true),
    ("object", true),
    ("protocol", true),
    ("extension", true),
    ("actor", true),
    ("fun", false),
    ("func", false),
    ("def", false),
    ("function", false),
    ("typealias", false),
    ("#define", false),
];
const RUBY: Keywords = &[("def", false), ("class", true), ("module", true)];
const LUA: Keywords = &[("function", false)];
const SHELL: Keywords = &[("function", false)];

/// Words before `(` that call or branch instead of declaring.
const NOT_A_NAME: &[&str] = &[
    "if",
    "for",
    "while",
    "switch",
    "return",
    "catch",
    "else",
    "do",
    "sizeof",
    "throw",
    "new",
    "delete",
    "using",
    "assert",
    "await",
    "yield",
    "super",
    "this",
    "when",
    "match",
    "until",
    "foreach",
    "lock",
    "synchronized",
    "case",
];

/// Returns the symbol that `line` starts, if any. `top` is true if the line is not indented.
pub(super) fn item(language: Language, line: &str, top: bool) -> Option<Item> {
    let line = line.trim();
    if line.len() > LINE_BYTES_MAX || line.is_empty() {
        return None;
    }
    let bare = after_modifiers(line);
    match language {
        Language::Rust => rust(bare),
        Language::Python => keyword(PYTHON, bare),
        Language::JavaScript | Language::TypeScript => script(bare, top),
        Language::Go => go(bare, top),
        Language::Ruby => keyword(RUBY, bare),
        Language::Lua => keyword(LUA, bare),
        Language::Shell => keyword(SHELL, bare).or_else(|| shell(line)),
        Language::C
        | Language::Cpp
        | Language::CSharp
        | Language::Java
        | Language::Kotlin
        | Language::Scala
        | Language::Swift
        | Language::Php => {
            keyword(CURLY, bare).filter(|_| !forward(line)).or_else(|| call_shape(line))
        }
    }
}

/// Returns true for a declaration without a body, such as `struct list;`.
fn forward(line: &str) -> bool {
    line.ends_with(';') && !line.contains('{')
}

/// Returns the line without leading modifiers, including `pub(crate)`, `extern "C"` and `const fn`.
fn after_modifiers(mut line: &str) -> &str {
    loop {
        let word = first_word(line);
        let rest = line[word.len()..].trim_start();
        if MODIFIERS.contains(&word) {
            line = match rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
                Some((_, after)) if word == "pub" => after.trim_start(),
                _ => rest,
            };
            if let Some((_, after)) = line.strip_prefix('"').and_then(|r| r.split_once('"')) {
                line = after.trim_start();
            }
        } else if word == "const" && ["fn", "unsafe", "async", "extern"].contains(&first_word(rest))
        {
            line = rest;
        } else {
            return line;
        }
    }
}

fn first_word(line: &str) -> &str {
    let end = line
        .find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '!' | '#' | '*'))
        .unwrap_or(line.len());
    &line[..end]
}

/// Returns the name at the start of `text`: letters, digits, `_`, and path separators.
fn leading_name(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| {
        !c.is_alphanumeric() && !matches!(c, '_' | '$' | '.' | ':' | '?' | '!' | '\'')
    });
    text[..end.unwrap_or(text.len())].trim_end_matches([':', '.', '?'])
}

fn keyword(words: Keywords, line: &str) -> Option<Item> {
    let word = first_word(line);
    let (_, container) = words.iter().find(|(known, _)| *known == word)?;
    let name = leading_name(&line[word.len()..]);
    let spaced = line[word.len()..].starts_with([' ', '\t']);
    (spaced && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then(|| Item {
        title: format!("{word} {name}"),
        name: name.to_owned(),
        container: *container,
    })
}

fn rust(line: &str) -> Option<Item> {
    if first_word(line) != "impl" {
        return keyword(RUST, line).filter(|found| !(found.container && line.ends_with(';')));
    }
    let head =
        line.split(['{', ';']).next().unwrap_or(line).split(" where").next().unwrap_or(line).trim();
    let rest = skip_angle(head["impl".len()..].trim_start());
    let target =
        rest.rsplit_once(" for ").map_or(rest, |(_, target)| target).trim_start_matches(['&', ' ']);
    let name =
        leading_name(target.trim_start_matches("mut ")).rsplit("::").next().unwrap_or_default();
    Some(Item { title: format!("impl {}", rest.trim()), name: name.to_owned(), container: true })
}

/// Returns `text` after a leading, possibly nested `<...>`.
fn skip_angle(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if c == '>' { text[at + 1..].trim_start() } else { text };
        }
        last = c;
    }
    text
}

fn script(line: &str, top: bool) -> Option<Item> {
    match first_word(line) {
        // Inside a class body, these keywords start statements of a method with unusual indentation.
        "const" | "let" | "var" if !top => None,
        _ => keyword(SCRIPT, line).or_else(|| if top { None } else { call_shape(line) }),
    }
}

fn go(line: &str, top: bool) -> Option<Item> {
    if !top {
        return None;
    }
    // A method has its receiver first: `func (s *Server) Close() error`.
    if let Some((receiver, rest)) =
        line.strip_prefix("func (").and_then(|rest| rest.split_once(')'))
    {
        let holder = receiver.rsplit([' ', '*']).next().unwrap_or(receiver);
        let holder = holder.split('[').next().unwrap_or(holder);
        let name = format!("{holder}.{}", leading_name(rest));
        return Some(Item { title: format!("func {name}"), name, container: false });
    }
    keyword(GO, line)
}

/// Recognises `name() {` of a shell script.
fn shell(line: &str) -> Option<Item> {
    let (name, rest) = line.split_once("()")?;
    let name = name.trim_end();
    let plain = !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.'));
    (plain && matches!(rest.trim_start().chars().next(), None | Some('{' | '(' | '#')))
        .then(|| Item { title: name.to_owned(), name: name.to_owned(), container: false })
}

/// Recognises a function or method without a keyword: words, a name, an opening bracket, and no statement end.
fn call_shape(line: &str) -> Option<Item> {
    let (head, rest) = line.split_once('(')?;
    let name = head.rsplit(|c: char| c.is_whitespace() || matches!(c, '*' | '&')).next()?;
    let plain =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '~' | '<' | '>' | ',' | '#' | '$');
    let first = first_word(head);
    let declares = !name.is_empty()
        && name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '~' | '#' | '$'))
        && name.chars().all(plain)
        && !NOT_A_NAME.contains(&name)
        && !NOT_A_NAME.contains(&first)
        && !head.contains(['=', '"', '.', '@', '#', ';', '{', '}', '!']);
    let opens = rest.trim_end().ends_with(['{', ',', '(', ')', '}']) || rest.ends_with("const");
    (declares && opens).then(|| Item {
        title: name.to_owned(),
        name: name.to_owned(),
        container: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(language: Language, line: &str) -> Option<(String, String, bool)> {
        item(language, line, !line.starts_with(' ')).map(|i| (i.title, i.name, i.container))
    }

    #[test]
    fn rust_items() {
        let some = |t: &str, n: &str, c| Some((t.to_owned(), n.to_owned(), c));
        assert_eq!(
            named(Language::Rust, "pub(crate) const fn a<T>(x: T) {"),
            some("fn a", "a", false)
        );
        assert_eq!(
            named(Language::Rust, "impl<'a, T: Fn() -> u8> Show for Thing<T> where T: X {"),
            some("impl Show for Thing<T>", "Thing", true)
        );
        assert_eq!(named(Language::Rust, "pub struct S;"), some("struct S", "S", false));
        assert_eq!(named(Language::Rust, "pub mod a;"), None);
        assert_eq!(named(Language::Rust, "unsafe extern \"C\" fn f() {"), some("fn f", "f", false));
        assert_eq!(named(Language::Rust, "let x = fn_call(1);"), None);
    }

    #[test]
    fn other_languages() {
        let name = |language, line| named(language, line).map(|(_, name, _)| name);
        assert_eq!(name(Language::Python, "async def go(self):").as_deref(), Some("go"));
        assert_eq!(
            name(Language::Go, "func (s *Server) Close() error {").as_deref(),
            Some("Server.Close")
        );
        assert_eq!(
            name(Language::JavaScript, "export default class A extends B {").as_deref(),
            Some("A")
        );
        assert_eq!(name(Language::JavaScript, "  render(props) {").as_deref(), Some("render"));
        assert_eq!(name(Language::JavaScript, "  if (x) {"), None);
        assert_eq!(
            name(Language::C, "static int main(int argc, char **argv)").as_deref(),
            Some("main")
        );
        assert_eq!(name(Language::C, "int main(void);"), None);
        assert_eq!(
            name(Language::Java, "    public List<String> names() {").as_deref(),
            Some("names")
        );
        assert_eq!(name(Language::Shell, "build() {").as_deref(), Some("build"));
        assert_eq!(name(Language::Ruby, "  def ready?").as_deref(), Some("ready"));
    }
}
