//! Settings as text for people: an example file, the effective settings with their sources, and the page
//! `docs/configuration.md`.
//!
//! Contains the text around the list of settings, but not the list.

use super::layers::{Loaded, Source};
use super::settings::{Kind, SETTINGS, Setting, TABLES};

/// Maximum columns of comments in a file.
const COLUMNS: usize = 110;

/// Renders a file with every setting and its default as comments, equivalent to an empty file.
pub fn example() -> String {
    let mut out = String::from(
        "# Settings of recalld: `recalld serve --config FILE`, or RECALLD_CONFIG=FILE in the environment.\n\
         # What is not said has the default that stands here. A flag comes before an environment variable, and both\n\
         # before this file. Look at a change before it counts: `recalld config check FILE`. Settings marked (live)\n\
         # are taken by a running server on SIGHUP; the others by the next start. Paths are meant from this folder.\n",
    );
    for (table, about) in TABLES {
        // The table `[mail]` without a server would be rejected, so its header is a comment too.
        let mark = if *table == "mail" { "#" } else { "" };
        out += &format!("\n{}{mark}[{table}]\n", remarks(about));
        for setting in SETTINGS.iter().filter(|setting| setting.table() == *table) {
            let live = if setting.is_live { " (live)" } else { "" };
            out += &remarks(&format!("{}{live}", setting.what));
            out += &format!("# {}, {}\n", setting.typed(), setting.variable());
            out += &format!("#{} = {}\n", setting.name(), setting.example);
        }
    }
    out += "\n# Plans may be changed and added; `recalld config show` prints the built-in ones.\n\
            #[plans.free]\n#calls_per_month = 1000\n";
    out
}

/// Wraps a text into comment lines.
fn remarks(text: &str) -> String {
    let (mut out, mut line) = (String::new(), String::from("#"));
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS {
            out += &format!("{line}\n");
            line = String::from("#");
        }
        line += &format!(" {word}");
    }
    out + &line + "\n"
}

/// Renders the effective settings as an equivalent file, each value with its source.
pub fn with_sources(loaded: &Loaded) -> String {
    let mut out = String::new();
    for (line, source) in told(loaded) {
        out += &match source {
            Some(source) => format!("{line}  # {source}\n"),
            None => format!("{line}\n"),
        };
    }
    out
}

/// Returns the lines of the effective settings, with the sources of listed settings.
fn told(loaded: &Loaded) -> Vec<(String, Option<Source>)> {
    let shown = loaded.config.show();
    let mut table = String::new();
    let told = shown.lines().map(|line| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut table);
        }
        let name = line.split_once(" = ").map(|(name, _)| name);
        let setting = name.and_then(|name| Setting::named(&format!("{table}.{name}")));
        (line.to_owned(), setting.map(|setting| loaded.source(setting.key).clone()))
    });
    told.collect()
}

/// Returns the keys, including those of plans, whose values differ between two sets of settings.
pub fn changed(before: &super::Config, after: &super::Config) -> Vec<String> {
    let lines = |config: &super::Config| {
        let (mut table, mut lines) = (String::new(), std::collections::BTreeMap::new());
        for line in config.show().lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut table);
            } else if let Some((name, value)) = line.split_once(" = ") {
                lines.insert(format!("{table}.{name}"), value.to_owned());
            }
        }
        lines
    };
    let (before, after) = (lines(before), lines(after));
    let differs = |key: &&String| before.get(*key) != after.get(*key);
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    keys.into_iter().filter(differs).cloned().collect()
}

/// Renders the page of all settings.
pub fn reference() -> String {
    let mut out = String::from(
        "# Settings\n\n\
         Made from the list in server/config/src/settings.rs by a test (`RECALLD_TEST_BLESS=1\n\
         cargo test -p recalld-cli --test it page_of_settings`); do not edit it by hand.\n\n\
         Each setting may be said in three places. A flag comes before an environment variable, and both before\n\
         the file that `recalld serve --config FILE` or `RECALLD_CONFIG=FILE` names. A setting without a flag of\n\
         its own is given by `--set KEY=VALUE`. Lists: a flag is given again and again, a variable has commas\n\
         between values, or colons between paths. A path in the file is meant from the file's folder, any other\n\
         from the working directory. An empty variable counts for nothing.\n\n\
         ```sh\n\
         recalld config example > recalld.toml   # every setting, with its default\n\
         recalld config check recalld.toml       # of a wrong one: line, column, what is allowed, what was meant\n\
         recalld config show --config recalld.toml   # what is in effect, and where each value came from\n\
         ```\n\n\
         On SIGHUP a running server reads the file again (and its certificates). Settings marked *live* count from\n\
         then on; of others that changed the log says that they need a restart. A file that is refused changes\n\
         nothing, and the log says why. Flags and variables are those that the server was started with.\n\n\
         Two things are not in the file, since the file is found by them or commands find the data by them without\n\
         reading it: `--data DIR` (`RECALLD_DATA`) and `--config FILE` (`RECALLD_CONFIG`). Where models are fetched\n\
         from and kept is the environment's: `RECALLD_CACHE`, `RECALLD_MODEL_HUB`.\n",
    );
    for (table, about) in TABLES {
        out += &format!("\n## `[{table}]`\n\n{about}\n\n");
        out += "| key | allowed | default | flag | variable | what |\n|---|---|---|---|---|---|\n";
        for setting in SETTINGS.iter().filter(|setting| setting.table() == *table) {
            let live = if setting.is_live { " *live*" } else { "" };
            out += &format!(
                "| `{}`{live} | {} | {} | `{}` | `{}` | {} |\n",
                setting.key,
                allowed(setting.kind),
                setting.default.map_or_else(|| "none".to_owned(), |default| format!("`{default}`")),
                setting.typed(),
                setting.variable(),
                setting.what.replace('|', "\\|")
            );
        }
    }
    out += PLANS;
    out
}

fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Text => "a text".to_owned(),
        Kind::Word(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Whole(least, most) => format!("{least} to {most}"),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::Paths => "a list of paths".to_owned(),
    }
}

/// Section of the page about plans, whose names are chosen by the operator.
const PLANS: &str = "\n## `[plans.NAME]`\n\n\
    What workspaces are entitled to. `free` and `team` are built in and may be changed; others may be added.\n\
    Plans are the file's alone. `recalld config show` prints them with what they have.\n\n\
    | key | allowed | default |\n|---|---|---|\n\
    | `families`, or instead `tools` | names of families of tools, or of tools | must be there for a new plan |\n\
    | `scopes` | names of scopes | must be there for a new plan |\n\
    | `calls_per_month` | 0 to 1000000000000, or `\"none\"` | `\"none\"` |\n\
    | `rate_per_second` | 1 to 10000, or `\"none\"` | 20 |\n\
    | `burst` | 1 to 1000000, beside `rate_per_second` | three times that |\n\
    | `writes_need_verified_email` | `true`, `false` | `false` |\n";

#[cfg(test)]
mod tests {
    use crate::tests::TOOLS;
    use std::path::Path;

    use super::*;
    use crate::Config;
    use crate::layers::load;
    use crate::remote::Remote;

    /// Parses the example unchanged, and with each value enabled.
    #[test]
    fn the_example_means_the_defaults_as_it_is_and_with_every_default_said() {
        let example = example();
        assert_eq!(Config::parse(&example, Path::new(""), TOOLS).unwrap(), Config::default());
        let said = |is_wanted: &dyn Fn(&Setting) -> bool| {
            let mut out = String::new();
            for (table, _) in TABLES {
                let of = SETTINGS.iter().filter(|setting| setting.table() == *table);
                let lines: String = of
                    .filter(|setting| is_wanted(setting))
                    .map(|setting| format!("{} = {}\n", setting.name(), setting.example))
                    .collect();
                if !lines.is_empty() {
                    out += &format!("[{table}]\n{lines}");
                }
            }
            Config::parse(&out, Path::new("/etc"), TOOLS)
                .unwrap_or_else(|why| panic!("{why}\n{out}"))
        };
        // These tables are rejected without their destination.
        let needs_more = ["mail", "backup", "remote"];
        let is_default =
            |one: &Setting| one.default.is_some() && !needs_more.contains(&one.table());
        let defaults = said(&is_default);
        assert_eq!(defaults, Config::default(), "the list tells other defaults than there are");
        // A node is a writer or a follower, so the two keys exclude each other.
        let all = said(&|one| one.key != "remote.replica_of");
        let remote = all.remote.as_ref().unwrap();
        let alone = Remote { address: remote.address.clone(), ..Remote::at(String::new()) };
        assert_eq!(remote.keep, alone.keep);
        assert_eq!((remote.lease_seconds, remote.delay), (alone.lease_seconds, alone.delay));
        assert_eq!((remote.stale_max, remote.durability), (alone.stale_max, alone.durability));
        let backup = all.backup.as_ref().unwrap();
        assert_eq!((backup.at, backup.keep, backup.verify), ((3, 30), 7, true));
        assert_eq!(changed(&all, &all), Vec::<String>::new());
        // Each setting is rendered under its key.
        let shown = all.show();
        let again = Config::parse(&shown, Path::new(""), TOOLS).unwrap();
        assert_eq!(again, all, "{shown}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recalld.toml");
        std::fs::write(&file, &shown).unwrap();
        let loaded = load(Some(&file), &[], &|_| None, TOOLS).unwrap();
        let sources: Vec<Source> =
            told(&loaded).into_iter().filter_map(|(_, source)| source).collect();
        // All settings except `remote.replica_of`.
        assert_eq!(sources.len(), SETTINGS.len() - 1, "{shown}");
        assert!(sources.iter().all(|source| matches!(source, Source::File(_))), "{sources:?}");
        let with = with_sources(&loaded);
        assert!(with.contains("\nkeep = 7  # file, line "), "{with}");
        assert_eq!(Config::parse(&with, Path::new(""), TOOLS).unwrap(), all);
    }

    #[test]
    fn what_changed_is_named_by_its_key() {
        let parse = |text: &str| Config::parse(text, Path::new(""), TOOLS).unwrap();
        let before = parse("[log]\nlevel = \"warn\"\n");
        let after = parse(
            "[log]\nlevel = \"info\"\n[plans.free]\ncalls_per_month = 3\n[backup]\nto = \"/b\"\nat = \"04:00\"",
        );
        let keys = changed(&before, &after);
        for key in ["log.level", "plans.free.calls_per_month", "backup.to", "backup.at"] {
            assert!(keys.iter().any(|it| it == key), "{key}: {keys:?}");
        }
        assert!(!keys.iter().any(|key| key.starts_with("oauth")), "{keys:?}");
    }
}
