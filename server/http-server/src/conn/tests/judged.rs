//! Body decisions: requests for which the service decides before the body is read.

use super::*;
use crate::limits::{self, BODY_BYTES_SMALL};

fn post(fields: &str) -> String {
    format!("POST /p HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
}

fn chunk(bytes: usize) -> String {
    format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes))
}

#[test]
fn a_small_body_is_taken_unasked_and_a_larger_one_is_not() {
    for (bytes, asked) in [(1, vec![]), (BODY_BYTES_SMALL, vec![])]
        .into_iter()
        .chain([(BODY_BYTES_SMALL + 1, vec![BODY_BYTES_SMALL + 1])])
    {
        let mut bench = Bench::new();
        bench.feed(post(&format!("Content-Length: {bytes}\r\n")).as_bytes());
        // The head alone suffices: no body byte has arrived at the time of the decision.
        assert_eq!((&bench.asked, bench.conn.body_bytes()), (&asked, 0), "{bytes}");
        bench.feed(&vec![b'x'; bytes]);
        assert_eq!((bench.statuses(), bench.calls[0].body.len()), (vec![200], bytes));
        bench.feed(GET);
        assert_eq!(bench.statuses(), [200, 200]);
    }
}

#[test]
fn a_declined_body_is_answered_at_once_and_thrown_away() {
    let mut bench = Bench::new();
    bench.judge = Box::new(|request, _| {
        assert!(request.body.is_empty());
        Err(404)
    });
    bench.feed(post("Content-Length: 100000\r\n").as_bytes());
    assert_eq!(bench.statuses(), [404]);
    assert!(bench.text().contains("connection: close\r\n"));
    assert!(bench.conn.is_lingering() && bench.calls.is_empty());
    bench.feed(&[b'x'; 60_000]);
    assert_eq!((bench.conn.inbox.held(), bench.conn.body_bytes()), (0, 0));
    bench.expire_after(limits::LINGER_TIMEOUT);
    assert!(bench.conn.is_closed());
}

#[test]
fn no_time_passes_while_a_head_is_judged() {
    let mut bench = Bench::new();
    bench.conn.receive(post("Content-Length: 100000\r\n").as_bytes(), bench.moment.now);
    let Some(Arrived::Head(request, _)) = bench.conn.advance(&bench.moment) else {
        panic!("a head")
    };
    assert_eq!(bench.conn.deadline(), None);
    bench.conn.admit(request, usize::MAX, &bench.moment);
    assert_eq!(bench.conn.deadline(), Some(bench.moment.now + limits::BODY_TIMEOUT));
}

#[test]
fn an_expectation_is_judged_before_it_is_met() {
    for framing in ["Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n"] {
        let head = post(&format!("Expect: 100-continue\r\n{framing}"));
        let mut bench = Bench::new();
        bench.judge = Box::new(|_, _| Err(403));
        bench.feed(head.as_bytes());
        assert_eq!((bench.statuses(), bench.asked.len()), (vec![403], 1));
        let mut bench = Bench::new();
        bench.feed(head.as_bytes());
        assert_eq!((bench.statuses(), bench.asked.len()), (vec![100], 1));
    }
}

#[test]
fn a_body_longer_than_granted_is_413() {
    let mut bench = Bench::new();
    bench.judge = Box::new(|_, _| Ok(20_000));
    bench.feed(post("Expect: 100-continue\r\nContent-Length: 20001\r\n").as_bytes());
    assert_eq!(bench.statuses(), [413]);
    assert!(bench.conn.is_lingering());
}

#[test]
fn chunks_are_judged_where_they_become_large_wherever_they_are_cut() {
    let small = BODY_BYTES_SMALL / 2;
    let head = post("Transfer-Encoding: chunked\r\n");
    let fitting = format!("{head}{}{}0\r\n\r\n", chunk(small), chunk(small));
    let growing =
        format!("{head}{}{}{}{}0\r\n\r\n", chunk(small), chunk(small), chunk(1), chunk(9_999));
    let refused_at = head.len() + 2 * chunk(small).len() + "1\r\n".len();
    for cut in (0..growing.len()).step_by(97).chain([refused_at - 1, refused_at]) {
        let mut bench = Bench::new();
        bench.feed(&fitting.as_bytes()[..cut.min(fitting.len())]);
        bench.feed(&fitting.as_bytes()[cut.min(fitting.len())..]);
        assert_eq!((bench.statuses(), bench.asked.len()), (vec![200], 0), "cut at {cut}");

        // A decision is requested when the body becomes large, and again when the body exceeds the accepted size.
        let mut bench = Bench::new();
        bench.judge = Box::new(|_, bytes| Ok(bytes));
        bench.feed(&growing.as_bytes()[..cut]);
        bench.feed(&growing.as_bytes()[cut..]);
        assert_eq!(bench.asked, [2 * small + 1, 2 * small + 10_000], "cut at {cut}");
        assert_eq!((bench.statuses(), bench.calls[0].body.len()), (vec![200], 2 * small + 10_000));

        let mut bench = Bench::new();
        bench.judge = Box::new(|_, _| Err(404));
        bench.feed(&growing.as_bytes()[..cut]);
        bench.feed(&growing.as_bytes()[cut..]);
        assert_eq!((bench.statuses(), bench.asked.len()), (vec![404], 1), "cut at {cut}");
        assert!(bench.conn.is_lingering() && bench.calls.is_empty());
    }
}
