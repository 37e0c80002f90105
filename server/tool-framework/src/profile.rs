//! Client profiles of the catalog: `/mcp?profile=core`.

use recalld_common::nearest::cut;

/// Tools that `tools/list` returns. A profile shortens only the list: every tool that a caller may use can be called by
/// name under either profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// All tools that the caller may use.
    #[default]
    Full,
    /// The tools that an agent needs daily, of those that the caller may use.
    Core,
}

impl Profile {
    /// Every profile.
    pub const ALL: &'static [Self] = &[Self::Full, Self::Core];

    /// Name in the query parameter `profile`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Core => "core",
        }
    }

    /// Parses the `profile=` parameter of a query; without the parameter, returns `Full`. Other parameters are ignored.
    ///
    /// # Errors
    /// If the name is unknown or the parameter occurs twice, returns a message with the valid names.
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
