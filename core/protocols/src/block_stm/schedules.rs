//! The scheduler with transactions that each read what the one before wrote: the longest chain
//! there is. Whatever the schedule, it comes to an end with all of them valid; a lost wake-up would
//! be a deadlock.
//!
//! On real threads by `cargo test`; under every schedule that shuttle tries by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p protocols --lib schedules`.

use kit::sync::{Arc, Mutex, thread};

use super::scheduler::{Scheduler, Task, Version};

struct Chain {
    scheduler: Scheduler,
    links: Vec<Mutex<Link>>,
}

#[derive(Clone, Copy, Default)]
struct Link {
    written: Option<(Version, u64)>,
    estimate: bool,
    /// The version of the link before that this one rests on.
    read: Option<Version>,
}

impl Chain {
    fn new(count: usize) -> Chain {
        let links = (0..count).map(|_| Mutex::default()).collect();
        Chain { scheduler: Scheduler::new(count), links }
    }

    fn link(&self, at: u32) -> Link {
        *self.links[at as usize].lock().unwrap()
    }

    fn work(&self) {
        let mut task = None;
        while let Some(next) = task.take().or_else(|| self.scheduler.next_task()) {
            task = match next {
                Task::Execute(version) => self.execute(version),
                Task::Validate(version) => self.validate(version),
            };
        }
    }

    fn execute(&self, version: Version) -> Option<Task> {
        let at = version.transaction;
        let before = loop {
            let Some(before) = at.checked_sub(1) else {
                break None;
            };
            let link = self.link(before);
            if !link.estimate {
                break link.written;
            }
            if self.scheduler.wait_for(at, before) {
                return None;
            }
        };
        let mut link = self.links[at as usize].lock().unwrap();
        let moved = link.written.is_none();
        let number = before.map_or(0, |(_, number)| number) + 1;
        let read = before.map(|(version, _)| version);
        *link = Link { written: Some((version, number)), estimate: false, read };
        drop(link);
        self.scheduler.executed(version, moved)
    }

    fn validate(&self, version: Version) -> Option<Task> {
        let at = version.transaction;
        let valid = at.checked_sub(1).is_none_or(|before| {
            let before = self.link(before);
            !before.estimate && before.written.map(|(version, _)| version) == self.link(at).read
        });
        let aborted = !valid && self.scheduler.try_abort(version);
        if aborted {
            self.links[at as usize].lock().unwrap().estimate = true;
        }
        self.scheduler.validated(version, aborted)
    }

    fn run(count: usize, workers: usize, backwards: bool) {
        let chain = Arc::new(Chain::new(count));
        if backwards {
            for at in (0..count).rev() {
                let version = chain.scheduler.claim(at).expect("nobody else is there");
                assert_eq!(chain.execute(version), None);
            }
        }
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let chain = Arc::clone(&chain);
                thread::spawn(move || chain.work())
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("a worker ends"));
        for at in 0..count {
            let number = chain.link(at as u32).written.map(|(_, number)| number);
            assert_eq!(number, Some(at as u64 + 1));
        }
    }
}

#[cfg(not(shuttle))]
#[test]
fn a_chain_of_transactions_ends_with_everyone_valid() {
    for workers in [1, 2, 4] {
        for backwards in [false, true] {
            Chain::run(0, workers, backwards);
            (0..20).for_each(|_| Chain::run(200, workers, backwards));
        }
    }
}

#[cfg(shuttle)]
#[test]
fn every_schedule_ends_with_everyone_valid() {
    for backwards in [false, true] {
        shuttle::check_random(move || Chain::run(3, 2, backwards), 5_000);
        shuttle::check_random(move || Chain::run(3, 3, backwards), 5_000);
    }
}
