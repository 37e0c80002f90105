//! A clock that goes back (CTL-09).

use super::*;

fn is_closed<T: std::fmt::Debug>(outcome: &Result<T, ControlError>) -> bool {
    matches!(outcome, Err(error) if error.to_string().contains("the clock was set back"))
}

#[test]
fn while_the_clock_is_behind_nothing_is_told_or_changed_and_it_goes_on_by_itself() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    ground.clock.pass(3_600);
    control.find_tenant("acme").unwrap();
    ground.clock.pass(-60);
    assert!(control.find_tenant("acme").is_ok(), "as far as a clock is put right");
    ground.clock.pass(-1);
    assert!(is_closed(&control.find_tenant("acme")));
    assert!(is_closed(&control.suspend_tenant("acme")));
    assert!(is_closed(&control.sweep()));
    assert!(is_closed(&control.take_block("acme", "2026-11", 1, 1, None)));
    ground.clock.pass(1);
    assert!(control.suspend_tenant("acme").is_ok());
}

#[test]
fn the_latest_time_is_on_record_within_a_minute() {
    let ground = Ground::new();
    make_tenant(&ground.control, "acme");
    // Each write records the watermark; without writes, the sweep does.
    ground.clock.pass(3_600);
    ground.control.suspend_tenant("acme").unwrap();
    ground.clock.pass(-3_600);
    let ground = ground.reopened_by(|control| assert!(is_closed(&control.ready())));
    ground.clock.pass(7_200);
    assert_eq!(ground.control.sweep(), Ok(0));
    ground.clock.pass(-61);
    let ground = ground.reopened_by(|control| assert!(is_closed(&control.ready())));
    ground.clock.pass(1);
    ground.control.ready().unwrap();
}

#[test]
fn a_time_that_was_wrong_is_given_up_by_the_operators_word() {
    let ground = Ground::new();
    make_tenant(&ground.control, "acme");
    const YEAR: i64 = 365 * 24 * 3_600;
    ground.clock.pass(10 * YEAR);
    ground.control.suspend_tenant("acme").unwrap();
    ground.clock.pass(-10 * YEAR);
    let ground = ground.reopened_by(|control| assert!(is_closed(&control.ready())));
    assert_eq!(ground.control.accept_clock(), Ok(START + 10 * 365 * 24 * 3_600));
    ground.control.resume_tenant("acme").unwrap();
    ground.reopened_by(|control| control.ready().unwrap());
}

#[test]
fn a_clock_that_tells_no_time_is_not_remembered() {
    let ground = Ground::new();
    make_tenant(&ground.control, "acme");
    ground.clock.pass(i64::from(i32::MAX) * 1_000);
    drop(ground.control.find_tenant("acme"));
    ground.clock.pass(-i64::from(i32::MAX) * 1_000);
    assert!(ground.control.find_tenant("acme").is_ok());
}
