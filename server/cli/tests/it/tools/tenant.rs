//! The remaining quota and rate.

use std::time::Instant;

use recalld_policy::plans::Plans;
use recalld_policy::rate::key_of;
use recalld_policy::{Caller, Metered};
use serde_json::json;
use support_server::desk::{Desk, operator};

#[test]
fn a_metered_caller_is_told_what_is_left_and_what_is_reserved() {
    let desk = Desk::new();
    let bucket = key_of(b"asker");
    let metered = Metered { bucket, calls_per_month: Some(160), may_write: true };
    let plan = Plans::built_in().find("team").unwrap().clone();
    let rate = plan.rate.unwrap();
    let caller = Caller { metered: Some(metered), entitled: plan, ..operator() };
    let status = || desk.call_as(&caller, "quota_status_tool", json!({}));
    let first = status();
    assert_eq!(first["metered"], true);
    let wanted = json!({
        "limit": 160, "used": 0, "left": 160, "month": "2026-01", "resets_at": "2026-02-01T00:00:00Z",
    });
    assert_eq!(first["quota"], wanted);
    let wanted = json!({"per_second": 20, "burst": 60, "available": 60});
    assert_eq!(first["rate"], wanted);
    let wanted = json!({"calls_open": 1, "calls_held": 9, "blocks": 1});
    assert_eq!(first["reservations"], wanted, "this call is among them");

    let now = desk.started().parts.clock.now();
    let open = desk.started().parts.meter.reserve("local", Some(160), now).unwrap();
    // Taken at a future time, so that the token bucket has refilled none by the time of the call.
    let later = Instant::now() + std::time::Duration::from_secs(3_600);
    for _ in 0..5 {
        desk.started().parts.rates.take(&bucket, rate, later).unwrap();
    }
    let second = status();
    assert_eq!((&second["quota"]["used"], &second["quota"]["left"]), (&json!(1), &json!(159)));
    let wanted = json!({"calls_open": 2, "calls_held": 7, "blocks": 1});
    assert_eq!(second["reservations"], wanted);
    assert_eq!(second["rate"]["available"], 0, "the bucket is full again only then");
    drop(open);
    let third = status();
    assert_eq!(third["reservations"]["calls_open"], 1);
    assert_eq!(third["quota"]["used"], 2, "what was released does not count");
}

#[test]
fn of_the_operator_nothing_is_counted() {
    let desk = Desk::new();
    let mut status = desk.call("quota_status_tool", json!({}));
    status.as_object_mut().unwrap().remove("receipt");
    assert_eq!(status, json!({"metered": false}));
}
