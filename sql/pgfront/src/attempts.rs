//! Failed logins, counted by address: guessing passwords over the network has to be slow.
//!
//! An address may fail so many times at once, and each failure is forgiven after its share of a
//! minute. An address that has used all of them up is turned away until the next one is forgiven,
//! with the right password too: who is told "wrong" only after a guess was looked at learns
//! something. The proof is looked at and a failure entered without a wait between the two, so that
//! guesses side by side are counted like guesses one after another, but for those that other
//! threads look at in the same microseconds.
//!
//! Invariant: at most [`ADDRESSES_MAX`] addresses are remembered. Where there are more, it is the
//! one that has failed least that is forgotten.
//!
//! Absence: nothing is counted by user, since then any client could lock any user out.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::listener::Source;
use kit::sync::lock;

const ADDRESSES_MAX: usize = 4096;
const MINUTE: Duration = Duration::from_secs(60);

/// Failures of each address.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Failures until when an address is forgiven all of them.
    forgiven_at: Mutex<HashMap<Source, Instant>>,
    /// `None`: no bound.
    forgiven_every: Option<Duration>,
}

impl Attempts {
    /// `per_minute_max` of 0: failures are not counted.
    pub fn new(per_minute_max: u32) -> Attempts {
        let forgiven_every = (per_minute_max > 0).then(|| MINUTE / per_minute_max);
        Attempts { forgiven_at: Mutex::default(), forgiven_every }
    }

    /// How long `source` has to wait until it may try again.
    pub fn wait(&self, source: Source, now: Instant) -> Option<Duration> {
        let every = self.forgiven_every?;
        let forgiven_at = lock(&self.forgiven_at);
        let owed = forgiven_at.get(&source)?.saturating_duration_since(now);
        // One more failure must not owe more than a minute.
        (owed + every).checked_sub(MINUTE).filter(|wait| !wait.is_zero())
    }

    pub fn failed(&self, source: Source, now: Instant) {
        let Some(every) = self.forgiven_every else { return };
        let mut forgiven_at = lock(&self.forgiven_at);
        if forgiven_at.len() >= ADDRESSES_MAX && !forgiven_at.contains_key(&source) {
            forgiven_at.retain(|_, at| *at > now);
            if forgiven_at.len() >= ADDRESSES_MAX {
                forget_least(&mut forgiven_at);
            }
        }
        let at = forgiven_at.entry(source).or_insert(now);
        *at = (*at).max(now) + every;
    }
}

fn forget_least(forgiven_at: &mut HashMap<Source, Instant>) {
    let least = forgiven_at.iter().min_by_key(|(_, at)| **at).map(|(source, _)| *source);
    if let Some(least) = least {
        forgiven_at.remove(&least);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u32) -> Source {
        Source::of(IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let attempts = Attempts::new(6);
        let mut now = Instant::now();
        for _ in 0..6 {
            assert_eq!(attempts.wait(source(1), now), None);
            attempts.failed(source(1), now);
        }
        assert_eq!(attempts.wait(source(1), now), Some(Duration::from_secs(10)));
        assert_eq!(attempts.wait(source(2), now), None);
        now += Duration::from_secs(10);
        assert_eq!(attempts.wait(source(1), now), None);
        attempts.failed(source(1), now);
        assert_eq!(attempts.wait(source(1), now), Some(Duration::from_secs(10)));
        assert_eq!(attempts.wait(source(1), now + MINUTE), None);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_those_that_fail_most() {
        let attempts = Attempts::new(2);
        let now = Instant::now();
        for _ in 0..2 {
            attempts.failed(source(0), now);
        }
        for number in 1..=2 * ADDRESSES_MAX as u32 {
            attempts.failed(source(number), now);
        }
        assert_eq!(attempts.forgiven_at.lock().unwrap().len(), ADDRESSES_MAX);
        assert!(attempts.wait(source(0), now).is_some());
    }

    #[test]
    fn without_a_bound_nothing_is_counted() {
        let attempts = Attempts::new(0);
        attempts.failed(source(1), Instant::now());
        assert!(attempts.forgiven_at.lock().unwrap().is_empty());
    }
}
