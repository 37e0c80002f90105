//! `recalld policy`: checks and explains policy rules. Opens no store and needs no server.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use engine::Sensitivity;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::tell::{tell, tell_line};
use recalld_common::counted::counted;
use recalld_common::keys::FileFault;
use recalld_common::keys::one_of;
use recalld_common::scope::Scope;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_config::Config;
use recalld_policy::plans::Plans;
use recalld_policy::rules_file;
use recalld_policy::rules_file::RulesFileFault;
use recalld_policy::{Action, Decision, Rules, Tried, Verdict, What, Who, decide, explain};
use recalld_tools::CATALOG;

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    common: Common,
    /// Settings file with the plans that the rules may name [default: the built-in ones].
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Check a rules file.
    Check {
        /// The rules file.
        file: PathBuf,
    },
    /// Print rules as a rules file: a workspace's initial rules, as a start for your own.
    Show {
        /// Print the rules of this file instead.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Evaluate the rules one by one, and print each match and the decision.
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// The rules file [default: a workspace's initial rules].
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The caller's plan.
    #[arg(long)]
    plan: String,
    /// The caller, such as user:ada.
    #[arg(long)]
    principal: String,
    /// A scope of the caller; may be given several times.
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    scope: Vec<Scope>,
    /// The caller's declared purpose, such as external_ai.
    #[arg(long)]
    purpose: Option<String>,
    /// The item's kind.
    #[arg(long, default_value = "note")]
    kind: String,
    /// The item's sensitivity.
    #[arg(long, default_value = "internal", value_parser = sensitivity)]
    sensitivity: Sensitivity,
    /// A gate of the item; may be given several times.
    #[arg(long, value_name = "GATE")]
    gate: Vec<String>,
    /// The action: read, export, write or erase.
    #[arg(long, value_parser = action)]
    action: Action,
}

fn scope(text: &str) -> Result<Scope, String> {
    let names: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    Scope::of(text).ok_or_else(|| format!("give {}", one_of(text, &names)))
}

pub(super) fn sensitivity(text: &str) -> Result<Sensitivity, String> {
    let names = Sensitivity::ALL.map(Sensitivity::name);
    Sensitivity::from_name(text).ok_or_else(|| format!("give {}", one_of(text, &names)))
}

fn action(text: &str) -> Result<Action, String> {
    let names: Vec<&str> = Action::ALL.iter().map(|action| action.word()).collect();
    Action::of(text).ok_or_else(|| format!("give {}", one_of(text, &names)))
}

pub(super) fn run(args: &PolicyArgs) -> Result<(), Failure> {
    let plans = match &args.config {
        None => Plans::built_in(),
        Some(path) => {
            let read = Config::read(path, &CATALOG.tool_names())
                .map_err(|fault| bad_file(path, &fault.into()));
            read?.plans
        }
    };
    let is_json = args.common.json;
    match &args.command {
        PolicyCommand::Check { file } => check(file, &plans, is_json),
        PolicyCommand::Show { file } => {
            let shown = rules_file::show(&rules(file.as_deref(), &plans)?);
            if is_json { tell_line(&json!({"rules": shown})) } else { tell(&shown) }
        }
        PolicyCommand::Explain(asked) => {
            explained(asked, &rules(asked.file.as_deref(), &plans)?, &plans, is_json)
        }
    }
}

fn rules(file: Option<&Path>, plans: &Plans) -> Result<Rules, Failure> {
    let Some(path) = file else { return Ok(Rules::initial()) };
    rules_file::read(path, plans).map_err(|fault| bad_file(path, &fault))
}

/// An unreadable file is not a usage error; invalid content is.
fn bad_file(path: &Path, fault: &RulesFileFault) -> Failure {
    match fault {
        RulesFileFault::File(unreadable @ FileFault::Unreadable { .. }) => {
            Failure::Could(format!("{unreadable}; name a file that can be read"))
        }
        wrong => Failure::No(format!("{}: {wrong}", path.display())),
    }
}

fn check(file: &Path, plans: &Plans, is_json: bool) -> Result<(), Failure> {
    let checked = rules_file::read(file, plans).map_err(|fault| (bad_file(file, &fault), fault));
    match checked {
        Ok(rules) => {
            let count = rules.iter().count();
            if is_json {
                return tell_line(&json!({"good": true, "rules": count}));
            }
            tell_line(&format_args!("{}: {}, all good", file.display(), counted(count, "rule")))
        }
        Err((failure @ Failure::No(_), fault)) => {
            if is_json {
                tell_line(&json!({"good": false, "fault": fault.to_string()}))?;
            }
            Err(failure)
        }
        Err((failure, _)) => Err(failure),
    }
}

fn explained(
    asked: &ExplainArgs,
    rules: &Rules,
    plans: &Plans,
    is_json: bool,
) -> Result<(), Failure> {
    if plans.find(&asked.plan).is_none() {
        let why = format!("--plan {}: give {}", asked.plan, one_of(&asked.plan, &plans.names()));
        return Err(Failure::Usage(why));
    }
    let scopes: Vec<&str> = asked.scope.iter().map(|scope| scope.name()).collect();
    let gates: Vec<&str> = asked.gate.iter().map(String::as_str).collect();
    // Rules apply within one workspace; another workspace's items are out of reach whatever the rules are.
    let workspace = LOCAL_WORKSPACE;
    let who = Who {
        workspace,
        principal: &asked.principal,
        plan: &asked.plan,
        scopes: &scopes,
        purpose: asked.purpose.as_deref(),
    };
    let what = What { workspace, kind: &asked.kind, sensitivity: asked.sensitivity, gates: &gates };
    let tried: Vec<Tried<'_>> = explain(rules, &who, &what, asked.action).collect();
    let decision = decide(rules, &who, &what, asked.action);
    if is_json {
        tell_line(&to_json(&tried, decision))?
    } else {
        tell(&readable(&tried, decision))?
    }
    if decision.verdict == Verdict::Deny {
        return Err(Failure::No(format!("not allowed, by {}", decision.rule)));
    }
    Ok(())
}

fn to_json(tried: &[Tried<'_>], decision: Decision<'_>) -> serde_json::Value {
    let rule = |tried: &Tried<'_>| {
        let Tried { rule, verdict, matches } = tried;
        json!({"rule": rule, "verdict": verdict.word(), "matches": matches})
    };
    json!({
        "decision": decision.verdict.word(),
        "rule": decision.rule,
        "rules": tried.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn readable(tried: &[Tried<'_>], decision: Decision<'_>) -> String {
    let width = tried.iter().map(|tried| tried.rule.chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for Tried { rule, verdict, matches } in tried {
        let matches = if *matches { "matches" } else { "-" };
        out += &format!("{rule:width$}  {:6}  {matches}\n", verdict.word());
    }
    out + &format!("{} by {}\n", decision.verdict.word(), decision.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_arguments_are_checked_and_the_nearest_is_told() {
        assert_eq!(scope("tenant:read"), Ok(Scope::TenantRead));
        let said = scope("tenant-raed").unwrap_err();
        assert!(said.ends_with("did you mean \"tenant:read\"?"), "{said}");
        assert!(action("raed").unwrap_err().contains("\"read\""));
        let said = sensitivity("secret").unwrap_err();
        assert_eq!(said, "give public, internal, confidential, restricted");
    }
}
