use engine::Micros;
use serde_json::{Value, json};

use super::ask::{Lane, RANKED};
use super::measures::{Latency, Ranked, Stale, share};
use recalld_common::counted::counted;
use recalld_common::names;

/// The metrics, by layout of the data set.
#[derive(Debug, Clone)]
pub(super) enum Figures {
    Ranked(Ranked),
    Stale(Stale),
}

/// The report of an evaluation.
#[derive(Debug, Clone)]
pub struct Report {
    pub(super) name: String,
    pub(super) lane: Lane,
    pub(super) now: Micros,
    pub(super) documents: u64,
    pub(super) figures: Figures,
    pub(super) latency: Latency,
    /// Abstentions, and the number of out-of-scope questions.
    pub(super) foreign: Option<(u64, u64)>,
}

const PERCENTILES: [usize; 3] = [50, 95, 99];

impl Report {
    /// The JSON printed by `--json` (`format-spec/eval.md`).
    pub fn to_json(&self) -> Value {
        let mut report = json!({
            "dataset": self.name, "lane": self.lane.name(), "now": names::time(self.now),
            "documents": self.documents, "ranked": RANKED,
        });
        match &self.figures {
            Figures::Ranked(ranked) => {
                report["questions"] = ranked.questions().into();
                report["unanswered"] = ranked.unanswered().into();
                report["ndcg_at_10"] = rounded(ranked.ndcg());
                report["recall_at_10"] = rounded(ranked.recall());
                report["mrr_at_10"] = rounded(ranked.mrr());
            }
            Figures::Stale(stale) => {
                report["questions"] = stale.questions.into();
                report["unanswered"] = stale.unanswered.into();
                report["current_first"] = stale.current_first.into();
                report["stale_above"] = stale.stale_above.into();
                report["stale_reachable"] = stale.reachable.into();
            }
        }
        for percent in PERCENTILES {
            report["latency_ms"][format!("p{percent}")] = rounded(self.latency.percentile(percent));
        }
        if let Some((abstained, questions)) = self.foreign {
            report["foreign"] = json!({"questions": questions, "abstained": abstained});
        }
        report
    }

    /// The report as text, with a final newline.
    pub fn readable(&self) -> String {
        let of =
            |part: u64, all: u64| format!("{part} of {all} ({:.2} %)", 100.0 * share(part, all));
        let (questions, unanswered) = match &self.figures {
            Figures::Ranked(ranked) => (ranked.questions(), ranked.unanswered()),
            Figures::Stale(stale) => (stale.questions, stale.unanswered),
        };
        let mut lines = vec![format!(
            "{}: {}, {}, {}",
            self.name,
            counted(self.documents, "document"),
            counted(questions, "question"),
            self.lane.name()
        )];
        match &self.figures {
            Figures::Ranked(ranked) => {
                lines.push(format!("nDCG@10        {:.4}", ranked.ndcg()));
                lines.push(format!("recall@10      {:.4}", ranked.recall()));
                lines.push(format!("MRR@10         {:.4}", ranked.mrr()));
            }
            Figures::Stale(stale) => {
                lines.push(format!("current first  {}", of(stale.current_first, questions)));
                lines.push(format!("stale above    {}", of(stale.stale_above, questions)));
                lines.push(format!("by id, chain   {}", of(stale.reachable, questions)));
            }
        }
        lines.push(format!("not answered   {}", of(unanswered, questions)));
        if let Some((abstained, foreign)) = self.foreign {
            lines.push(format!("foreign        {} abstained", of(abstained, foreign)));
        }
        let [median, most, nearly_all] =
            PERCENTILES.map(|percent| self.latency.percentile(percent));
        lines.push(format!(
            "latency        p50 {median:.2} ms, p95 {most:.2} ms, p99 {nearly_all:.2} ms"
        ));
        lines.join("\n") + "\n"
    }
}

/// Rounds to 4 decimals.
fn rounded(figure: f64) -> Value {
    ((figure * 1e4).round() / 1e4).into()
}
