//! How much of the catalog a client is shown: `/mcp?profile=core`.

use recalld_common::nearest::cut;

/// Which tools `tools/list` gives. It shortens the list only: a tool that a caller may use can be
/// called by its name under either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// All that the caller may use.
    #[default]
    Full,
    /// Those of them that an agent needs daily.
    Core,
}

impl Profile {
    /// Every profile.
    pub const ALL: &'static [Self] = &[Self::Full, Self::Core];

    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Core => "core",
        }
    }

    /// The profile that a query names by `profile=`; without one, the full one. Other parameters are
    /// ignored.
    ///
    /// # Errors
    /// No profile has this name, or two are named: which there are.
    pub fn from_query(query: Option<&str>) -> Result<Self, String> {
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let mut named = pairs.filter(|(name, _)| *name == "profile").map(|(_, value)| value);
        let Some(first) = named.next() else { return Ok(Self::Full) };
        let names: Vec<&str> = Self::ALL.iter().map(|profile| profile.name()).collect();
        let names = names.join(", ");
        if named.next().is_some() {
            return Err(format!("profile: is given twice; one of {names} is wanted"));
        }
        let known = Self::ALL.iter().find(|profile| profile.name() == first);
        known
            .copied()
            .ok_or_else(|| format!("profile: is \"{}\"; one of {names} is wanted", cut(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_profile_or_is_told_which_there_are() {
        for (query, profile) in [
            (None, Profile::Full),
            (Some(""), Profile::Full),
            (Some("other=1&flag"), Profile::Full),
            (Some("profile=full"), Profile::Full),
            (Some("profile=core"), Profile::Core),
            (Some("a=b&profile=core&c=d"), Profile::Core),
        ] {
            assert_eq!(Profile::from_query(query), Ok(profile), "{query:?}");
        }
        for (query, words) in [
            ("profile=", "is \"\"; one of full, core is wanted"),
            ("profile=Core", "is \"Core\"; one of full, core"),
            ("profile=core&profile=core", "twice"),
            ("profile=%zz", "is \"%zz\""),
        ] {
            let error = Profile::from_query(Some(query)).unwrap_err();
            assert!(error.starts_with("profile: ") && error.contains(words), "{query}: {error}");
        }
    }
}
