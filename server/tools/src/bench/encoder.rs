//! `brain_benchmark_encoder`: time to embed a text.

use serde_json::{Map, Value};

use super::timer::{CUT, N, P50, P95, P99, Timer, begin, kept};
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Int, args};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::Key;
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "brain_benchmark_encoder";
/// Special tokens that the model adds to every text.
const TOKENS_AROUND: i64 = 2;
/// Words of one token each, rotated so that no two texts in a row are equal.
const WORDS: [&str; 8] = ["memory", "river", "stone", "light", "water", "music", "house", "paper"];

args! {
    struct Asked {
        tokens: Int<4, 256> = Int(16) => "Of each text.",
        n: Int<1, 1000> = Int(50) => "How many texts.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ENCODER: Tool = Tool {
    name: NAME,
    title: "Measure the encoder",
    about: "How long a text takes to become a vector, one after another. At most 10 s.",
    shape: Asked::shape,
    results: &[
        N,
        P50,
        P95,
        P99,
        CUT,
        always("tokens", Kind::Integer).says("Of each text, with the two around it."),
        always("kernel", Kind::Text).says("The instruction set in use."),
        always("precision", Kind::Text).says("How the weights are stored."),
        always("model", Kind::Text).says("Its name."),
    ],
    scope: Some(Scope::BenchRun),
    change: Change::Adds,
    core: false,
    run: |context, raw| measure(context, raw),
    example: r#"{"tokens": 8, "n": 2}"#,
};

fn measure(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let (writing, first) = begin(context, NAME, &wanted.idempotency_key, raw)?;
    if let Some(first) = first {
        return Ok(first);
    }
    let embedder = context.view().embedder;
    let many = usize::try_from(wanted.n.0).unwrap_or_default();
    let words = usize::try_from(wanted.tokens.0 - TOKENS_AROUND).unwrap_or_default();
    let mut timer = Timer::begin(context);
    for turn in 0..many {
        let text: Vec<&str> =
            WORDS.iter().cycle().skip(turn % WORDS.len()).take(words).copied().collect();
        let text = text.join(" ");
        if !timer.goes_on()? {
            break;
        }
        timer.measure(many, "encode", || drop(embedder.embed(&text)));
    }
    let mut figures = timer.figures();
    figures.insert("tokens".to_owned(), wanted.tokens.0.into());
    figures.insert("kernel".to_owned(), embedder.kernel().into());
    figures.insert("precision".to_owned(), embedder.precision().into());
    figures.insert("model".to_owned(), embedder.name().into());
    kept(writing, NAME, figures)
}
