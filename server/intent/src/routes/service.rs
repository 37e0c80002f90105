//! Routes for the service: status, figures, help and quota.

use super::route::{Route, nothing, route};

pub(super) const ROUTES: &[Route] = &[
    route(
        crate::STATUS,
        &[],
        |taking| taking.set("question", taking.said.text.trim().chars().take(QUESTION_CHARS_MAX).collect::<String>()),
    ),
    route(
        "brain_startup_context_tool",
        &[
            ("startup|session|start|starting +context", 90),
            ("bring|get +me|us up +to speed", 92),
            ("bring|get up +to +speed", 92),
            ("catch +me|us +up", 88),
            ("^what should +i|we know before|first|start|starting", 88),
            ("where +did +we|i leave|stop", 80),
            ("^what|%show +context", 84),
        ],
        |taking| {
            let bytes = taking.whole_by("byte max");
            taking.set_some("max_bytes", bytes);
        },
    )
    .closed(),
    route(
        "brain_operational_bootstrap_tool",
        &[
            ("^how +do|does|should|can use|work service|this|brain|memory|recalld|here|you", 84),
            ("^how +do|to|can|should|would|could|does %use %thing", 88),
            ("^what|which|%show tool|command|function +can|there|do|are|available|have", 84),
            ("^%list +tool|command|capability", 84),
            ("^what +can|do +you|i|we +do", 84),
            ("^how +does|do +this|it|that|everything|service|you +work", 88),
            ("how +i|we|one|to %use %thing", 86),
            ("^help", 74),
            ("rule +of +use", 88),
            ("^what am +i +able|allowed", 84),
            ("^who|what +are +you", 86),
            ("usage|use|user +instruction|guide|manual|rule", 86),
            ("^how do|can|would|should|could delete|forget|erase|link|ingest|remove|replace|hide @any|\
              @path", 86),
            ("^%show instruction|bootstrap|manual|usage", 84),
            ("bootstrap", 80),
        ],
        nothing,
    )
    .closed(),
    route(
        "recall_stats",
        &[
            ("statistic|stat ~graph ~benchmark", 78),
            ("recall|memory|store|storage +statistic|stat", 86),
            ("^%show statistic|stat ~graph", 84),
        ],
        nothing,
    )
    .closed(),
    route(
        "brain_runtime_check",
        &[
            ("health +check", 88),
            ("self +test|check", 90),
            ("^%check +yourself|itself", 88),
            ("selftest", 90),
            ("runtime +check", 90),
            ("diagnostic|diagnose|diagnosis", 86),
            ("^%check service|server|system|everything|store|encoder ok|fine|healthy|work|working|well|\
              okay|running|up", 88),
            ("^%check +service|server|system|encoder|clock|store", 84),
            ("^%check +disk|health", 84),
            ("sanity|smoke +check|test", 84),
            ("^run|do|perform +check|test|checks", 82),
            ("run|do|perform +check", 80),
        ],
        nothing,
    )
    .closed(),
    route(
        "brain_benchmark_recall",
        &[
            ("^%measure recall|search|retrieval ~quality ~accuracy", 91),
            ("benchmark of|for|on recall|search ~quality", 91),
            ("recall|search|retrieval +benchmark ~quality", 91),
            ("^run|start|do recall|search|retrieval benchmark ~quality", 92),
        ],
        |taking| {
            let queries = taking.whole_by("query question");
            taking.set_some("queries", queries.filter(|count| (1..=200).contains(count)));
            let lanes = ["keyword", "semantic", "governed"];
            let lane = lanes.into_iter().find(|lane| taking.has(lane));
            taking.set_some("lane", lane);
        },
    ),
    route(
        "brain_benchmark_encoder",
        &[
            ("^%measure encoder|embedding|encoding|embed|encode|vectorizing", 92),
            ("encoder|embedding|encoding benchmark", 92),
            ("benchmark of|for|on encoder|embedding|encoding", 92),
        ],
        |taking| {
            let tokens = taking.whole_by("token");
            taking.set_some("tokens", tokens.filter(|count| (4..=256).contains(count)));
            let texts = taking.whole_by("text time run");
            taking.set_some("n", texts.filter(|count| (1..=1_000).contains(count)));
        },
    ),
    route(
        "brain_benchmark_storage",
        &[
            ("^%measure storage|disk|write|store|io|sync", 92),
            ("storage|disk|write|store benchmark", 92),
            ("benchmark of|for|on storage|disk|store", 92),
        ],
        |taking| {
            let items = taking.whole_by("item write record row");
            taking.set_some("n", items.filter(|count| (1..=100_000).contains(count)));
        },
    ),
    route(
        "brain_benchmark_quality",
        &[
            ("^%measure quality|accuracy|precision", 94),
            ("quality|accuracy benchmark", 94),
            ("benchmark quality|accuracy", 93),
        ],
        |taking| {
            let items = taking.whole_by("item sample question");
            taking.set_some("n", items.filter(|count| (10..=500).contains(count)));
        },
    ),
    route(
        "brain_benchmark_report",
        &[
            ("earlier|last|previous|past|old|recent|latest|all|former benchmark", 92),
            ("benchmark +result|report|history|figure|number", 94),
            ("result|report|figure|history of benchmark", 92),
            ("^%list +benchmark", 88),
        ],
        nothing,
    ),
    route(
        "tenant_info",
        &[
            ("tenant|workspace +info|information|detail", 88),
            ("^what|which|%show workspace|tenant", 82),
            ("^what|which +plan", 86),
            ("^%show +plan", 82),
            ("^who +am|are +i", 86),
            ("^tenant|workspace", 72),
        ],
        nothing,
    )
    .closed(),
    route(
        "quota_status_tool",
        &[
            ("quota", 89),
            ("call|request left|remaining|remain|used|month", 90),
            ("remaining|left call|request", 90),
            ("rate +limit", 86),
            ("allowance", 80),
            ("limit +of|on|for call|request", 86),
        ],
        nothing,
    )
    .closed(),
];

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Characters of a question to the status tool.
    const QUESTION_CHARS_MAX: usize = 1024;
}
