//! Ledger entries and quota usage of calls, for each outcome.

use engine::ledger::Effect;
use recalld_policy::Metered;
use recalld_policy::rate::key_of;
use recalld_tool_framework::{Refused, ServiceError, Stored, governed};
use support_server::house::entries;

use super::*;

const TOOL: &str = "a_tool";

/// A metered caller.
fn counted() -> Caller {
    let bucket = key_of(b"ada");
    let metered = Metered { bucket, calls_per_month: Some(1_000), may_write: true };
    Caller { metered: Some(metered), ..member() }
}

impl House {
    /// Runs a governed call. With `is_late`, its deadline has passed when the work is done.
    fn governed(
        &self,
        is_late: bool,
        work: impl FnOnce() -> Result<Answer, ServiceError>,
    ) -> Result<Answer, Refused> {
        self.with_context(&counted(), |context| {
            let deadline = if is_late { Instant::now() } else { context.deadline };
            let context = ToolContext { deadline, ..*context };
            governed(&context, TOOL, &json!({}), true, |_| work())
        })
    }

    /// Ends the service. Returns the decision, rule and outcome of each entry, and the number of metered calls.
    fn end(self) -> (Vec<[String; 3]>, u64) {
        let Self { started, _scratch: scratch } = self;
        let parts = &started.parts;
        parts.meter.close(parts.clock.now()).unwrap();
        let used = parts.control.usage("local", "2026-01").unwrap().used;
        drop(started);
        let entries = entries(&scratch.path().join("data"), "local", TOOL).into_iter();
        let words = |entry: Value| {
            ["decision", "rule", "outcome"].map(|field| entry[field].as_str().unwrap().to_owned())
        };
        (entries.map(words).collect(), used)
    }
}

fn wrote() -> Answer {
    Answer::plain(json!({}), String::new()).touching(Effect::Written, [ItemId(7)])
}

#[test]
fn work_that_panics_has_failed_and_has_its_entry() {
    let house = House::new();
    let refused = house.governed(false, || panic!("on purpose")).unwrap_err();
    assert_eq!(refused.error.reason(), "internal_error");
    assert!(refused.receipt.is_some());
    assert!(!refused.to_string().contains("on purpose"), "{refused}");
    assert_eq!(house.end(), (vec![["allow", "scope", "failed"].map(str::to_owned)], 0));
}

#[test]
fn what_was_written_counts_however_late_it_was() {
    let house = House::new();
    let late = house.governed(true, || Ok(wrote())).unwrap_err();
    assert_eq!(late.error.reason(), "timed_out");
    let written = vec![ItemId(7)];
    let stored = Box::new(Stored { written, ..Stored::default() });
    let broken = ServiceError::BrokenOff { error: Box::new(ServiceError::Cancelled), stored };
    let broken = house.governed(false, || Err(broken)).unwrap_err();
    assert_eq!(broken.error.reason(), "cancelled");
    // The following calls write nothing.
    house.governed(true, || Ok(Answer::plain(json!({}), String::new()))).unwrap_err();
    house.governed(false, || Err(ServiceError::argument("text", "wrong"))).unwrap_err();
    let outcomes = ["done", "failed", "cancelled", "refused"];
    let (entries, used) = house.end();
    assert_eq!(entries.iter().map(|[_, _, outcome]| outcome).collect::<Vec<_>>(), outcomes);
    assert_eq!(used, 2);
}

#[test]
fn a_tenant_is_not_told_what_may_name_a_file() {
    let house = House::new();
    let why = "could not write /srv/data/tenants/acme/store/log: no space";
    for error in [
        ServiceError::Unwritable(why.to_owned()),
        ServiceError::Unaudited(why.to_owned()),
        ServiceError::Damaged(engine::CorruptionError::new("SEG-1", why)),
    ] {
        let reason = error.reason();
        let refused = house.governed(false, || Err(error)).unwrap_err();
        assert_eq!(refused.error.reason(), reason);
        assert!(!refused.to_string().contains("/srv"), "{refused}");
    }
    let operators = house.with_context(&operator(), |context| {
        governed(context, TOOL, &json!({}), true, |_| Err(ServiceError::Unwritable(why.to_owned())))
    });
    assert!(operators.unwrap_err().to_string().contains(why));
}
