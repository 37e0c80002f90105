//! Each `recalld` command in a document, executed or not, has subcommands and flags that the program has; and each
//! script that a document names exists.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use support_wire::markdown::{Block, blocks, quoted};
use support_wire::service::binary;
use support_wire::tree::{ending, none, workspace};

/// Words after the program's name that are no user commands: the child that reads PDFs, and texts under a MAC.
const NO_COMMANDS: [&str; 2] = ["read-pdf", "sign-in"];

/// Subcommands and flags of a command, from its `--help`.
struct Help {
    commands: Vec<String>,
    flags: Vec<String>,
}

/// Cache of help pages, each read once.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, Help>);

impl Helps {
    fn of(&mut self, path: &[String]) -> &Help {
        self.0.entry(path.to_vec()).or_insert_with(|| {
            let mut command = Command::new(binary());
            let output = command.args(path).arg("--help").stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{path:?} --help");
            read(&String::from_utf8(output.stdout).unwrap())
        })
    }
}

fn read(text: &str) -> Help {
    let under = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = under.take_while(|line| !line.is_empty());
    // The description of an entry may continue on lines that are indented further.
    let rows = rows.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands = rows.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    let options = text.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = options.flat_map(|line| line.split_whitespace().take(2));
    let flags = words.map(|word| word.trim_end_matches(',')).filter(|word| word.starts_with('-'));
    Help { commands: commands.collect(), flags: flags.map(str::to_owned).collect() }
}

/// Returns the words of each call of the program in a piece of shell, without the program's name. A call ends at
/// another command, a redirection, or the end of the line; a quoted string is one word.
fn calls(code: &str) -> Vec<Vec<String>> {
    let code = code.replace("\\\n", " ");
    let (mut found, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    // The open quote, and the quotes that are open around a nested command.
    let (mut quote, mut outer) = (None, Vec::new());
    let mut letters = code.chars().chain(['\n']).peekable();
    while let Some(letter) = letters.next() {
        let mut is_end = false;
        match (quote, letter) {
            (Some('"'), '$') if letters.next_if_eq(&'(').is_some() => {
                outer.push(quote.take());
                is_end = true;
            }
            (Some(open), _) if letter == open => quote = None,
            (Some(_), ' ') => word.push('_'),
            (Some(_), _) => word.push(letter),
            (None, '"' | '\'') => quote = Some(letter),
            (None, ' ' | '\t') => words.extend(take(&mut word)),
            (None, '#') if word.is_empty() => {
                while letters.next_if(|next| *next != '\n').is_some() {}
            }
            (None, '\n' | '|' | ';' | '&' | '(' | ')' | '<' | '>') => is_end = true,
            (None, _) => word.push(letter),
        }
        if is_end {
            words.extend(take(&mut word));
            found.extend(call(&std::mem::take(&mut words)));
            match letter {
                '(' => outer.push(None),
                ')' => quote = outer.pop().flatten(),
                _ => {}
            }
        }
    }
    found
}

fn take(word: &mut String) -> Option<String> {
    Some(std::mem::take(word)).filter(|word| !word.is_empty())
}

/// Returns the arguments of the program if one of the words is the program.
fn call(words: &[String]) -> Option<Vec<String>> {
    let is_program = |word: &String| word == "recalld" || word.ends_with("/release/recalld");
    let by_cargo = words.iter().position(|word| word == "--").filter(|_| {
        words.first().is_some_and(|word| word == "cargo")
            && words.iter().any(|word| word == "run")
            && !words.iter().any(|word| word == "-p")
    });
    let manager = words.first().is_some_and(|word| {
        ["systemctl", "journalctl", "apt", "apt-get", "man"].contains(&word.as_str())
    });
    if manager {
        return None;
    }
    let user = words.iter().position(|word| word == "-u").map(|at| at + 1);
    let own = (0..words.len()).find(|at| is_program(&words[*at]) && Some(*at) != user);
    by_cargo.or(own).map(|at| words[at + 1..].to_vec())
}

fn faults(helps: &mut Helps, words: &[String]) -> Vec<String> {
    let mut path = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next_if(|word| helps.of(&path).commands.contains(*word)) {
        path.push(word.clone());
    }
    let help = helps.of(&path);
    let mut faults = Vec::new();
    if !help.commands.is_empty()
        && let Some(word) = rest.peek()
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        && !word.starts_with('-')
        && !NO_COMMANDS.contains(&word.as_str())
    {
        faults.push(format!("`recalld {}` has no command `{word}`", path.join(" ")));
    }
    for word in rest.filter(|word| word.starts_with("--") && word.len() > 2) {
        let flag = word.split('=').next().unwrap().trim_end_matches(['.', ',', ']']);
        if !help.flags.iter().any(|known| known == flag) {
            faults.push(format!("`recalld {}` has no flag `{flag}`", path.join(" ")));
        }
    }
    faults
}

/// Documents of the current version; the changelog describes former versions.
fn documents() -> Vec<(std::path::PathBuf, String)> {
    let pages = ending("md").into_iter();
    pages.filter(|(path, _)| !["CHANGELOG.md"].iter().any(|name| path == Path::new(name))).collect()
}

fn is_shell(block: &Block) -> bool {
    matches!(block.kind.split(' ').next(), Some("sh" | "bash" | "shell" | "console"))
}

#[test]
fn every_command_is_one_of_the_program() {
    let (mut helps, mut wrong, mut count) = (Helps::default(), Vec::new(), 0);
    for (path, text) in documents() {
        let shell = blocks(&text).into_iter().filter(is_shell);
        let mut pieces: Vec<(usize, String)> =
            shell.map(|block| (block.line, block.code)).collect();
        let spans = quoted(&text).into_iter().filter(|(_, span)| span.starts_with("recalld "));
        pieces.extend(spans.map(|(line, span)| (line, span.to_owned())));
        for (line, code) in pieces {
            for words in calls(&code) {
                count += 1;
                let found = faults(&mut helps, &words);
                wrong.extend(found.iter().map(|why| format!("{}:{line}: {why}", path.display())));
            }
        }
    }
    assert!(count > 150, "{count} commands only");
    none("commands that the program does not have", &wrong);
}

/// A block that is not executed has a comment above, invisible in the rendered page, that states why.
#[test]
fn what_is_not_run_says_why() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let is_run = path == Path::new("README.md") || path.starts_with("docs");
        for block in blocks(&text).iter().filter(|block| is_run && is_shell(block)) {
            let why = match block.kind.as_str() {
                "sh" => None,
                "sh no-run" if block.above.contains("not run: ") => None,
                "sh no-run" => Some("a comment above has to say `not run: ` and why"),
                _ => Some("blocks of commands are `sh` or `sh no-run`"),
            };
            let line = block.line;
            wrong.extend(why.map(|why| format!("{}:{line}: {why}", path.display())));
        }
    }
    none("blocks that the campaign does not know what to do with", &wrong);
}

/// Scripts that documents name by their path in the repository exist.
#[test]
fn scripts_that_are_named_are_there() {
    let (mut gone, mut count) = (Vec::new(), 0);
    for (path, text) in documents() {
        let shell = blocks(&text).into_iter().filter(is_shell).map(|block| block.code);
        let pieces = shell.chain(quoted(&text).into_iter().map(|(_, span)| span.to_owned()));
        for piece in pieces {
            let scripts = piece.split_whitespace().filter(|word| {
                let is_script = word.ends_with(".sh") || word.ends_with(".py");
                let room = ["tests/", "benches/", "format-spec/", "docs/", "packaging/"];
                is_script && room.iter().any(|room| word.starts_with(room))
            });
            for script in scripts {
                count += 1;
                if !workspace().join(script).exists() {
                    gone.push(format!("{}: {script}", path.display()));
                }
            }
        }
    }
    assert!(count > 30, "{count} scripts only");
    none("scripts that are not there", &gone);
}

#[test]
fn calls_are_found_wherever_they_stand() {
    let words = |code: &str| calls(code).iter().map(|call| call.join(" ")).collect::<Vec<_>>();
    assert_eq!(words("recalld recall \"what for?\" --json | head"), ["recall what_for? --json"]);
    assert_eq!(
        words("id=$(recalld remember 'a b' --kind x)  # recalld y"),
        ["remember a_b --kind x"]
    );
    let nested = "eval \"$(target/release/recalld credentials show)\"\nrecalld stats";
    assert_eq!(words(nested), ["credentials show", "stats"]);
    assert_eq!(words("cargo run --release -- serve \\\n  --ingest x"), ["serve --ingest x"]);
    assert_eq!(words("sudo -u recalld recalld doctor\nsystemctl status recalld"), ["doctor"]);
}
