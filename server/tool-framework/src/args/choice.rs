//! Arguments with a fixed set of words (JSON Schema `enum`).

/// Declares a choice.
///
/// ```text
/// choices! {
///     /// Which way edges are followed.
///     enum Way { Out = "out", In = "in" }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! tool_choices {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $(#[doc = $word] $variant),* }

        impl $name {
            /// The word of this variant.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The variant of `word`; `None` if `word` is unknown.
            #[allow(dead_code, reason = "not every choice is also stored and read again")]
            $vis fn of(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl $crate::args::Argument for $name {
            fn schema() -> serde_json::Value {
                serde_json::json!({"type": "string", "enum": [$($word),*]})
            }

            fn read(value: &serde_json::Value) -> Result<Self, String> {
                $crate::args::one_of(value, &[$($word),*])
                    .map(|at| [$(Self::$variant),*][at])
            }
        }

        impl $crate::args::Shown for $name {
            fn shown(&self) -> Option<serde_json::Value> {
                Some(self.name().into())
            }
        }
    };
}
pub use tool_choices as choices;

use serde_json::Value;

use super::argument::wanted;
use recalld_common::nearest::nearest;

/// Index of the value among `words`; the error suggests the nearest word.
pub fn one_of(value: &Value, words: &[&str]) -> Result<usize, String> {
    let given = value.as_str();
    if let Some(at) = given.and_then(|given| words.iter().position(|word| *word == given)) {
        return Ok(at);
    }
    let meant = given.and_then(|given| nearest(given, words.iter().copied()));
    let meant = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    Err(format!("{}{meant}", wanted(&format!("one of {}", words.join(", ")), value)))
}
