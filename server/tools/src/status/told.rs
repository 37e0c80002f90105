//! Facts for each topic of a status question, from the counters of other tools.
//!
//! The tools run as the caller, so no fact discloses more than these tools would.

use std::collections::BTreeMap;

use engine::{Filter, Micros};
use serde_json::{Map, Value};

use super::bootstrap::families;
use super::runtime::check_all;
use crate::continuity::followups::soonest;
use recalld_common::names;
use recalld_common::own_kinds::TASK_ATTEMPT;
use recalld_common::scope::Scope;
use recalld_ingest::StoredJob;
use recalld_recall::AccessView;
use recalld_status_answers::sources::{
    BOOTSTRAP, CHECK, DUE, GRAPH, MANIFEST, QUOTA, STATS, TASKS, TENANT,
};
use recalld_status_answers::{
    ATTEMPT_STATES, Backups, CheckResult, Facts, Followups, Jobs, LastJob, Topic, TopicMatch,
};
use recalld_store_admin::{ToldBackups, told_backups};
use recalld_tool_framework::records::Record;
use recalld_tool_framework::{Profile, ServiceError, Tool, ToolContext};

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

pub(super) struct Teller<'a> {
    context: &'a ToolContext<'a>,
    snapshot: AccessView<'a>,
    /// Results of other tools, each called once.
    given: BTreeMap<&'static str, Value>,
    /// Results of the checks, which run once; empty before.
    checks: Vec<CheckResult>,
    pub(super) facts: Facts,
}

/// A phrase; `None` if the caller may not know the fact.
type Phrase = Result<Option<String>, ServiceError>;

impl<'a> Teller<'a> {
    pub(super) fn new(context: &'a ToolContext<'a>) -> Self {
        let snapshot = context.snapshot();
        let (given, checks) = (BTreeMap::new(), Vec::new());
        Self { context, snapshot, given, checks, facts: Facts::default() }
    }

    fn usable(&self, tool: &str) -> Option<&'static Tool> {
        let catalog = self.context.services.catalog;
        catalog.visible_to(self.context.caller, Profile::Full).find(|usable| usable.name == tool)
    }

    /// Result of another tool for this caller; `None` if the caller may not use the tool.
    fn ask(&mut self, tool: &'static str) -> Result<Option<Value>, ServiceError> {
        if let Some(given) = self.given.get(tool) {
            return Ok(Some(given.clone()));
        }
        let Some(row) = self.usable(tool) else { return Ok(None) };
        let given = (row.run)(self.context, &Map::new())?.structured;
        self.given.insert(tool, given.clone());
        Ok(Some(given))
    }

    /// Phrase made from the result of another tool.
    fn of(&mut self, tool: &'static str, say: impl FnOnce(&mut Facts, &Value) -> String) -> Phrase {
        let given = self.ask(tool)?;
        Ok(given.map(|given| say(&mut self.facts, &given)))
    }

    /// Phrase made by `count`, if the caller may use the tool that reports the same counter.
    fn by(
        &mut self,
        tool: &str,
        count: impl FnOnce(&mut Self) -> Result<String, ServiceError>,
    ) -> Phrase {
        if self.usable(tool).is_none() {
            return Ok(None);
        }
        count(self).map(Some)
    }

    pub(super) fn tell(&mut self, meant: &TopicMatch) -> Phrase {
        let topic = meant.topic;
        let services = self.context.services;
        match topic {
            Topic::Documents => self.by(MANIFEST, Self::documents),
            Topic::Tasks => self.by(TASKS, Self::tasks),
            Topic::Followups => self.by(DUE, Self::followups),
            Topic::Ingest => self.by(STATS, Self::jobs),
            Topic::Backups => self.backups(),
            Topic::Uptime => Ok(Some(self.facts.uptime(services.started.elapsed().as_secs()))),
            Topic::Version => Ok(Some(self.facts.version())),
            Topic::Clock => Ok(Some(self.facts.clock(names::time(services.clock.now())))),
            Topic::Health | Topic::Disk | Topic::Ledger => {
                self.by(CHECK, |teller| teller.checked(topic))
            }
            Topic::Graph => self.of(GRAPH, Facts::graph),
            Topic::Quota | Topic::Rate => {
                self.of(QUOTA, |facts, given| facts.metered(given, topic))
            }
            Topic::Plan | Topic::Scopes | Topic::Workspace => {
                self.of(TENANT, |facts, given| facts.tenant(given, topic))
            }
            Topic::Tools => self.by(BOOTSTRAP, |teller| Ok(teller.tools())),
            Topic::Model | Topic::Limits => {
                self.of(BOOTSTRAP, |facts, given| facts.bootstrap(given, topic))
            }
            Topic::Writes => self.writes(),
            topic => self.of(STATS, |facts, given| facts.stats(given, topic, &meant.words)),
        }
    }

    fn checked(&mut self, topic: Topic) -> Result<String, ServiceError> {
        let (entries, _) = self.context.workspace.audit.progress();
        if self.checks.is_empty() {
            self.checks = check_all(self.context)?;
        }
        Ok(self.facts.checked(&self.checks, topic, entries))
    }

    fn tools(&mut self) -> String {
        let families = families(self.context);
        let names: Vec<&str> = families.iter().map(|family| family.family).collect();
        let count = families.iter().map(|family| family.tools.len()).sum();
        self.facts.tools(count, &names)
    }

    /// Calls `of` for each current item of a kind that the caller may know.
    fn count(&self, kind: &str, mut of: impl FnMut(&Record<'_>)) -> Result<(), ServiceError> {
        let hidden = self.snapshot.hidden()?;
        let kinds = vec![kind.to_owned()];
        let filter = Filter {
            kinds,
            current_only: true,
            mask: hidden,
            include_unsearchable: true,
            ..Filter::default()
        };
        self.snapshot.for_each_admitted(&filter, |_, place| {
            of(&Record::of(&self.snapshot, place)?);
            Ok::<(), ServiceError>(())
        })
    }

    fn documents(&mut self) -> Result<String, ServiceError> {
        let mut count = 0_u64;
        self.count("document", |_| count += 1)?;
        Ok(self.facts.documents(count))
    }

    fn tasks(&mut self) -> Result<String, ServiceError> {
        let mut all = 0_u64;
        let mut counts = [0_u64; ATTEMPT_STATES.len()];
        self.count(TASK_ATTEMPT, |record| {
            all += 1;
            // Imported attempts may have any status; only the six known states are counted by name.
            let status = record.text("status");
            if let Some(at) = ATTEMPT_STATES.iter().position(|state| *state == status) {
                counts[at] += 1;
            }
        })?;
        Ok(self.facts.tasks(all, counts))
    }

    fn followups(&mut self) -> Result<String, ServiceError> {
        let hidden = self.snapshot.hidden()?;
        let now = self.context.services.clock.now();
        let midnight = Micros(now.0 - now.0.rem_euclid(DAY_MICROS) + DAY_MICROS - 1);
        let count = |before| soonest(&self.snapshot, hidden.clone(), (None, before), 1);
        let (open, next) = count(Micros(i64::MAX))?;
        let ((overdue, _), (today, _)) = (count(now)?, count(midnight)?);
        let first_at = next.first().map(|(at, ..)| names::time(*at));
        Ok(self.facts.followups(Followups { open, overdue, today, first_at }))
    }

    fn jobs(&mut self) -> Result<String, ServiceError> {
        let (mut ended, mut open) = (0_u64, 0_u64);
        let mut last: Option<(Micros, StoredJob)> = None;
        self.count("job", |record| {
            // The mark of a running or interrupted job has a ref; the record of an ended job has none.
            if record.item.reference.is_some() {
                open += 1;
                return;
            }
            ended += 1;
            let at = record.item.recorded_at;
            if last.as_ref().is_none_or(|(last, _)| *last <= at) {
                last = Some((at, StoredJob::of(record.item.text)));
            }
        })?;
        let last = last.map(|(at, StoredJob { files, items, errors_count, .. })| LastJob {
            at: names::time(at),
            files,
            items,
            errors_count,
        });
        Ok(self.facts.jobs(Jobs { ended, open, last }))
    }

    /// Backups concern the operator only, so a tenant's workspace has no such fact.
    fn backups(&mut self) -> Phrase {
        let context = self.context;
        if context.caller.metered.is_some() || !context.is_local() {
            return Ok(None);
        }
        let told = told_backups(context.services.data).map_err(ServiceError::Unwritable)?;
        let ToldBackups { known, reachable, last_at, pending } = told;
        Ok(Some(self.facts.backups(Backups { known, reachable, pending, last_at })))
    }

    fn writes(&mut self) -> Phrase {
        let tenant = self.ask(TENANT)?;
        let stats = self.ask(STATS)?;
        let (Some(tenant), Some(stats)) = (tenant, stats) else { return Ok(None) };
        let scope = self.context.caller.scopes.contains(&Scope::MemoryWrite);
        Ok(Some(self.facts.writes(&tenant, &stats, scope)))
    }
}
