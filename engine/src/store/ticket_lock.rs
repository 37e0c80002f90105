//! FIFO lock, acquired in the order of the calls.
//!
//! A mutex is unfair: a thread that repeatedly releases and re-acquires it can exclude others indefinitely. Here the
//! thread that has waited longest is next (the ticket lock of Reed and Kanodia, "Synchronization with eventcounts and
//! sequencers", CACM 1979).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Ticket lock.
#[derive(Debug, Default)]
pub(crate) struct TicketLock {
    tickets: Mutex<Tickets>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Tickets {
    /// Next ticket to assign.
    next: u64,
    /// Ticket that owns the lock.
    now_serving: u64,
}

/// Ownership of the lock; on drop, after a panic too, the next ticket owns it.
#[derive(Debug)]
pub(crate) struct TicketGuard<'a>(&'a TicketLock);

impl TicketLock {
    /// Acquires the lock after all earlier callers.
    pub(crate) fn lock(&self) -> TicketGuard<'_> {
        let mut tickets = self.tickets();
        let mine = tickets.next;
        tickets.next += 1;
        while tickets.now_serving != mine {
            tickets = self.changed.wait(tickets).unwrap_or_else(PoisonError::into_inner);
        }
        TicketGuard(self)
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TicketGuard<'_> {
    fn drop(&mut self) {
        self.0.tickets().now_serving += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn wait_until_asked(turns: &TicketLock, tickets: u64) {
        while turns.tickets().next < tickets {
            std::thread::yield_now();
        }
    }

    #[test]
    fn ticket_lock_is_fair_to_the_longest_waiter() {
        let turns = TicketLock::default();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let first = turns.lock();
            for (n, name) in (2..).zip(["second", "third"]) {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.lock();
                    order.lock().unwrap().push(name);
                });
                wait_until_asked(turns, n);
            }
            drop(first);
            let _again = turns.lock();
            assert_eq!(*order.lock().unwrap(), ["second", "third"]);
        });
    }

    #[test]
    fn ticket_lock_is_exclusive_and_released_on_panic() {
        let (turns, inside, panics) =
            (TicketLock::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for n in 0..8 {
                let (turns, inside, panics) = (&turns, &inside, &panics);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let _turn = turns.lock();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let _turn = turns.lock();
                        panic!("{n} in its turn");
                    }));
                    panics.fetch_add(usize::from(panicked.is_err()), Ordering::SeqCst);
                });
            }
        });
        assert_eq!(panics.into_inner(), 8);
    }
}
