/// Languages whose symbols are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the language it names")]
pub enum Language {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Go,
    Java,
    Kotlin,
    Scala,
    Swift,
    C,
    Cpp,
    CSharp,
    Php,
    Ruby,
    Lua,
    Shell,
}

impl Language {
    /// Returns the language of a file name's extension, given in lower case and without the dot.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension {
            "rs" => Self::Rust,
            "py" | "pyi" | "pyw" => Self::Python,
            "js" | "mjs" | "cjs" | "jsx" => Self::JavaScript,
            "ts" | "tsx" | "mts" | "cts" => Self::TypeScript,
            "go" => Self::Go,
            "java" => Self::Java,
            "kt" | "kts" => Self::Kotlin,
            "scala" | "sc" => Self::Scala,
            "swift" => Self::Swift,
            "c" | "h" => Self::C,
            "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" | "cu" => Self::Cpp,
            "cs" => Self::CSharp,
            "php" => Self::Php,
            "rb" => Self::Ruby,
            "lua" => Self::Lua,
            "sh" | "bash" | "zsh" => Self::Shell,
            _ => return None,
        })
    }

    /// Returns the language of a script's interpreter line, such as `/usr/bin/env python3`.
    pub(super) fn of_interpreter(command: &str) -> Option<Self> {
        let program = command
            .split_whitespace()
            .find(|word| !word.ends_with("/env") && !word.starts_with('-'))?;
        let program =
            program.rsplit('/').next()?.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        Some(match program {
            "python" | "pypy" => Self::Python,
            "sh" | "bash" | "dash" | "zsh" | "ksh" => Self::Shell,
            "node" | "deno" | "bun" => Self::JavaScript,
            "ruby" => Self::Ruby,
            "lua" => Self::Lua,
            "php" => Self::Php,
            _ => return None,
        })
    }

    /// Short name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Go => "go",
            Self::Java => "java",
            Self::Kotlin => "kotlin",
            Self::Scala => "scala",
            Self::Swift => "swift",
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::CSharp => "csharp",
            Self::Php => "php",
            Self::Ruby => "ruby",
            Self::Lua => "lua",
            Self::Shell => "shell",
        }
    }

    pub(super) fn hash_comments(self) -> bool {
        matches!(self, Self::Python | Self::Ruby | Self::Shell)
    }

    /// Separator between the parts of a member's full name.
    pub(super) fn joint(self) -> &'static str {
        match self {
            Self::Rust | Self::Cpp | Self::Php => "::",
            _ => ".",
        }
    }
}
