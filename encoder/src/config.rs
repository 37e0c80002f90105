//! The settings files: network shape, pooling and token limit.
//!
//! This module bounds every number of a model's settings, so that the rest of the crate can rely on them.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::OpenError;
use crate::files::{CONFIG, POOLING, SENTENCE, SettingsFiles};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    const HIDDEN: RangeInclusive<usize> = 1..=4096;
    const HEADS: RangeInclusive<usize> = 1..=256;
    const LAYERS: RangeInclusive<usize> = 1..=64;
    const INNER: RangeInclusive<usize> = 1..=16_384;
    /// `[CLS]` and `[SEP]` need two positions; the memory of attention scores grows with positions squared.
    const POSITIONS: RangeInclusive<usize> = 3..=1024;
    const VOCABULARY: RangeInclusive<usize> = 1..=1_000_000;
    const TYPES: RangeInclusive<usize> = 1..=16;
}

/// Reduction of the token rows to one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// The mean of all rows.
    Mean,
    /// The row of the first token, `[CLS]`.
    First,
}

/// The network's shape, and the settings besides the weights that change vectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Width of a token's row; also the dimensions of a vector.
    pub(crate) hidden: usize,
    /// Attention heads, which divide `hidden` equally.
    pub(crate) heads: usize,
    /// Transformer blocks.
    pub(crate) layers: usize,
    /// Intermediate width of the feed-forward layer.
    pub(crate) inner: usize,
    /// Rows of the position table.
    pub(crate) positions: usize,
    /// Rows of the word embedding table.
    pub(crate) vocabulary: usize,
    /// Rows of the segment table, of which only the first is used.
    pub(crate) types: usize,
    /// Constant that layer normalization adds to the variance.
    pub(crate) epsilon: f32,
    pub(crate) pooling: Pooling,
    /// Most tokens of a text, `[CLS]` and `[SEP]` included.
    pub(crate) tokens_max: usize,
    /// Text is lowercased before tokenization, whatever the tokenizer's own setting is.
    pub(crate) lowercase: bool,
}

impl Config {
    pub(crate) fn read(files: &SettingsFiles<'_>) -> Result<Config, OpenError> {
        let config = Settings::parse(CONFIG, files.config)?;
        config.text("model_type", None, &["bert"])?;
        config.text("hidden_act", Some("gelu"), &["gelu"])?;
        config.text("position_embedding_type", Some("absolute"), &["absolute"])?;
        let hidden = config.count("hidden_size", None, HIDDEN)?;
        let heads = config.count("num_attention_heads", None, HEADS)?;
        if hidden % heads != 0 {
            let wanted = format!("a divisor of hidden_size {hidden}");
            return Err(config.unsupported("num_attention_heads", heads, wanted));
        }
        let positions = config.count("max_position_embeddings", None, POSITIONS)?;
        let (tokens_max, lowercase) = sentence(files, positions)?;
        Ok(Config {
            hidden,
            heads,
            layers: config.count("num_hidden_layers", None, LAYERS)?,
            inner: config.count("intermediate_size", None, INNER)?,
            positions,
            vocabulary: config.count("vocab_size", None, VOCABULARY)?,
            types: config.count("type_vocab_size", Some(2), TYPES)?,
            epsilon: config.small("layer_norm_eps", 1e-12)?,
            pooling: pooling(files, hidden)?,
            tokens_max,
            lowercase,
        })
    }

    /// Settings that change vectors, besides weights and vocabulary, for the fingerprint. The wording is fixed: another
    /// text makes another fingerprint.
    pub(crate) fn facts(&self) -> String {
        let Config { heads, layers, pooling, tokens_max, lowercase, .. } = self;
        let epsilon = self.epsilon.to_bits();
        format!(
            "heads={heads} layers={layers} epsilon={epsilon:08x} pooling={pooling:?} \
             tokens_max={tokens_max} lowercase={lowercase}"
        )
    }
}

/// Reads the token limit and the lowercase setting.
fn sentence(files: &SettingsFiles<'_>, positions: usize) -> Result<(usize, bool), OpenError> {
    let Some(bytes) = files.sentence else { return Ok((positions, false)) };
    let sentence = Settings::parse(SENTENCE, bytes)?;
    let longest = 3..=usize::MAX;
    let tokens_max = sentence.count("max_seq_length", Some(positions), longest)?.min(positions);
    Ok((tokens_max, sentence.flag("do_lower_case")?))
}

fn pooling(files: &SettingsFiles<'_>, hidden: usize) -> Result<Pooling, OpenError> {
    let Some(bytes) = files.pooling else { return Ok(Pooling::Mean) };
    let pooling = Settings::parse(POOLING, bytes)?;
    let width = pooling.count("word_embedding_dimension", Some(hidden), HIDDEN)?;
    if width != hidden {
        let wanted = format!("the model's hidden_size {hidden}");
        return Err(pooling.unsupported("word_embedding_dimension", width, wanted));
    }
    let fields = pooling.value.as_object().map(|object| object.iter());
    let chosen: Vec<&str> = fields
        .into_iter()
        .flatten()
        .filter(|(name, value)| name.starts_with("pooling_mode_") && **value == Value::Bool(true))
        .map(|(name, _)| name.as_str())
        .collect();
    match chosen.as_slice() {
        ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        ["pooling_mode_cls_token"] => Ok(Pooling::First),
        other => {
            let wanted = "exactly one of pooling_mode_mean_tokens, pooling_mode_cls_token".into();
            Err(pooling.unsupported("pooling_mode", other.join(" and "), wanted))
        }
    }
}

/// A parsed settings file, which reports errors with its name.
pub(crate) struct Settings {
    file: &'static str,
    pub(crate) value: Value,
}

impl Settings {
    pub(crate) fn parse(file: &'static str, bytes: &[u8]) -> Result<Settings, OpenError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| OpenError::Malformed {
            file,
            found: error.to_string(),
            wanted: "one JSON object".into(),
        })?;
        if !value.is_object() {
            return Err(OpenError::Malformed {
                file,
                found: brief(&value),
                wanted: "one JSON object".into(),
            });
        }
        Ok(Settings { file, value })
    }

    /// Returns the value at a path of names separated by dots; `Null` if there is none.
    pub(crate) fn at(&self, field: &str) -> &Value {
        field.split('.').fold(&self.value, |value, name| &value[name])
    }

    pub(crate) fn unsupported(
        &self,
        field: &str,
        found: impl ToString,
        wanted: String,
    ) -> OpenError {
        OpenError::Unsupported {
            file: self.file,
            field: field.into(),
            found: found.to_string(),
            wanted,
        }
    }

    /// Reads an integer within `range`; `absent` replaces a missing one.
    pub(crate) fn count(
        &self,
        field: &str,
        absent: Option<usize>,
        range: RangeInclusive<usize>,
    ) -> Result<usize, OpenError> {
        let value = self.at(field);
        let count = match absent {
            Some(absent) if value.is_null() => Some(absent),
            _ => value.as_u64().and_then(|count| usize::try_from(count).ok()),
        };
        count.filter(|count| range.contains(count)).ok_or_else(|| {
            let wanted = format!("a whole number from {} to {}", range.start(), range.end());
            self.unsupported(field, brief(value), wanted)
        })
    }

    /// Reads one of the `known` words; `absent` replaces a missing one.
    pub(crate) fn text(
        &self,
        field: &str,
        absent: Option<&str>,
        known: &[&str],
    ) -> Result<(), OpenError> {
        let value = self.at(field);
        let word = if value.is_null() { absent } else { value.as_str() };
        match word {
            Some(word) if known.contains(&word) => Ok(()),
            _ => Err(self.unsupported(field, brief(value), known.join(" or "))),
        }
    }

    /// Reads a boolean; false if missing.
    pub(crate) fn flag(&self, field: &str) -> Result<bool, OpenError> {
        Ok(self.flag_if_present(field)?.unwrap_or(false))
    }

    /// Reads a boolean; `None` if missing or null.
    pub(crate) fn flag_if_present(&self, field: &str) -> Result<Option<bool>, OpenError> {
        match self.at(field) {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            other => Err(self.unsupported(field, brief(other), "true or false".into())),
        }
    }

    /// Reads a number above zero and at most one.
    fn small(&self, field: &str, absent: f64) -> Result<f32, OpenError> {
        let value = self.at(field);
        let number = if value.is_null() { Some(absent) } else { value.as_f64() };
        #[expect(clippy::cast_possible_truncation, reason = "the network computes in f32")]
        let number = number.map(|number| number as f32);
        number.filter(|number| *number > 0.0 && *number <= 1.0).ok_or_else(|| {
            self.unsupported(field, brief(value), "a number above 0 and at most 1".into())
        })
    }
}

/// Formats a JSON value for an error message: abbreviated, and printable for any content.
pub(crate) fn brief(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    match value {
        Value::Null => "nothing".into(),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(fields) => format!("an object of {} fields", fields.len()),
        Value::String(text) => format!("{:?}", text.chars().take(CHARS_MAX).collect::<String>()),
        other => other.to_string().chars().take(CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Config;
    use crate::tiny::{POSITIONS, Tiny, TinyFiles};
    use crate::{OpenError, Remedy};

    fn read(files: &TinyFiles) -> Result<Config, OpenError> {
        Config::read(&files.borrowed().settings())
    }

    /// Corrupts one setting.
    type Bend = fn(&mut Tiny);

    #[test]
    fn what_is_not_supported_is_named_with_what_is() {
        let cases: &[(Bend, &str)] = &[
            (
                |tiny| tiny.config["model_type"] = json!("t5"),
                "model_type to \"t5\"; supported is bert",
            ),
            (
                |tiny| tiny.config["hidden_act"] = json!("relu"),
                "hidden_act to \"relu\"; supported is gelu",
            ),
            (
                |tiny| tiny.config["hidden_size"] = json!(0),
                "hidden_size to 0; supported is a whole number from 1",
            ),
            (|tiny| tiny.config["hidden_size"] = json!(null), "hidden_size to nothing"),
            (|tiny| tiny.config["num_attention_heads"] = json!(3), "a divisor of hidden_size 8"),
            (
                |tiny| tiny.config["num_hidden_layers"] = json!(1e9),
                "num_hidden_layers to 1000000000.0",
            ),
            (|tiny| tiny.config["max_position_embeddings"] = json!(2), "from 3 to 1024"),
            (
                |tiny| tiny.config["position_embedding_type"] = json!("relative_key"),
                "supported is absolute",
            ),
            (|tiny| tiny.config["layer_norm_eps"] = json!(-1), "a number above 0"),
            (|tiny| tiny.sentence = Some(json!({"max_seq_length": 1})), "max_seq_length to 1"),
            (|tiny| tiny.sentence = Some(json!({"do_lower_case": 1})), "true or false"),
            (|tiny| tiny.pooling = Some(json!({})), "exactly one of"),
            (
                |tiny| tiny.pooling = Some(json!({"pooling_mode_max_tokens": true})),
                "pooling_mode_max_tokens;",
            ),
            (
                |tiny| {
                    let both =
                        json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true});
                    tiny.pooling = Some(both);
                },
                "pooling_mode_cls_token and pooling_mode_mean_tokens;",
            ),
            (
                |tiny| tiny.pooling = Some(json!({"word_embedding_dimension": 16})),
                "the model's hidden_size 8",
            ),
        ];
        for (bend, wanted) in cases {
            let mut tiny = Tiny::new();
            bend(&mut tiny);
            let error = read(&tiny.files()).map(|_| ()).unwrap_err();
            assert_eq!(error.remedy(), Remedy::ChooseAnother);
            assert!(error.to_string().contains(wanted), "{error} lacks {wanted:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_an_object_is_damaged() {
        for bytes in [&b""[..], b"[]", b"{", b"\xFF", b"nul", b"3"] {
            let mut files = Tiny::new().files();
            files.config = bytes.to_vec();
            let error = read(&files).map(|_| ()).unwrap_err();
            assert!(matches!(error, OpenError::Malformed { file: "config.json", .. }), "{error}");
        }
    }

    #[test]
    fn no_more_tokens_are_read_than_there_are_positions() {
        let mut tiny = Tiny::new();
        tiny.sentence = Some(json!({"max_seq_length": 512}));
        assert_eq!(read(&tiny.files()).unwrap().tokens_max, POSITIONS);
    }
}
