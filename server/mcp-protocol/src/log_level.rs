/// Severity of a log message (RFC 5424), with the names of the protocol; least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the levels of RFC 5424 explain themselves")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

const NAMES: [(Level, &str); 8] = [
    (Level::Debug, "debug"),
    (Level::Info, "info"),
    (Level::Notice, "notice"),
    (Level::Warning, "warning"),
    (Level::Error, "error"),
    (Level::Critical, "critical"),
    (Level::Alert, "alert"),
    (Level::Emergency, "emergency"),
];

impl Level {
    /// The name of the level.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Returns the level with this name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, of)| *of == name).map(|(level, _)| *level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (level, name) in NAMES {
            assert_eq!((level.name(), Level::named(name)), (name, Some(level)));
        }
        assert_eq!(Level::named("INFO"), None);
        assert!(Level::Debug < Level::Info && Level::Alert < Level::Emergency);
    }
}
