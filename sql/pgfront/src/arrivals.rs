//! Sockets that have not shown yet who they are: bounded, and shared fairly among addresses.
//!
//! Opening a socket costs its peer nothing, so a bound alone would let one peer keep all others
//! out by silence. Here a newcomer always gets in. Where the room is full, it is the oldest socket
//! of the address that holds most of them that has to go.
//!
//! ```text
//! a  a  a  a  b          room for 5; c arrives
//! ↑ goes                 a has most, this is its oldest
//! ```
//!
//! A peer that is alone can thus fill the room, and loses it as soon as others come. What is left
//! to an attacker at one address is to hurry its own neighbours behind that address.
//!
//! Cost: a map's entry for each socket; the scan for who has to go is over the room, when full.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use kit::sync::lock;
use tokio::sync::Notify;

use crate::listener::Source;

/// The room.
#[derive(Debug)]
pub struct Arrivals {
    room: Mutex<Room>,
    max: usize,
}

#[derive(Debug, Default)]
struct Room {
    last_number: u64,
    /// By number, so the oldest first.
    waiting: BTreeMap<u64, (Source, Arc<Notify>)>,
    by_source: HashMap<Source, usize>,
}

impl Arrivals {
    /// Room for `max` sockets, and for one at least.
    pub fn new(max: usize) -> Arc<Arrivals> {
        Arc::new(Arrivals { room: Mutex::default(), max: max.max(1) })
    }

    pub fn max(&self) -> usize {
        self.max
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        lock(&self.room)
    }

    /// Lets a socket in, and sends another one away if it must be.
    pub fn admit(self: &Arc<Self>, source: Source) -> Arrival {
        let mut room = self.lock();
        let sent_away = Arc::new(Notify::new());
        let number = room.enter(source, sent_away.clone());
        if room.waiting.len() > self.max
            && let Some(oldest) = room.oldest_of_most()
            && let Some(notify) = room.leave(oldest)
        {
            notify.notify_one();
        }
        Arrival { arrivals: Arc::clone(self), number, sent_away }
    }
}

impl Room {
    fn enter(&mut self, source: Source, sent_away: Arc<Notify>) -> u64 {
        self.last_number += 1;
        self.waiting.insert(self.last_number, (source, sent_away));
        *self.by_source.entry(source).or_default() += 1;
        self.last_number
    }

    fn leave(&mut self, number: u64) -> Option<Arc<Notify>> {
        let (source, sent_away) = self.waiting.remove(&number)?;
        if let Some(count) = self.by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
        Some(sent_away)
    }

    fn oldest_of_most(&self) -> Option<u64> {
        let most = self.by_source.values().max()?;
        let is_one = |(source, _): &(Source, Arc<Notify>)| self.by_source.get(source) == Some(most);
        self.waiting.iter().find(|(_, one)| is_one(one)).map(|(number, _)| *number)
    }
}

/// A socket's place in the room, given up on drop.
#[derive(Debug)]
pub struct Arrival {
    arrivals: Arc<Arrivals>,
    number: u64,
    sent_away: Arc<Notify>,
}

impl Arrival {
    /// Completes when the place was given to another one, also when that came first.
    pub async fn sent_away(&self) {
        self.sent_away.notified().await;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.arrivals.lock().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures::FutureExt;

    use super::*;

    fn source(last: u8) -> Source {
        Source::of(IpAddr::from([192, 0, 2, last]))
    }

    fn has_gone(arrival: &Arrival) -> bool {
        let gone = arrival.sent_away().now_or_never().is_some();
        if gone {
            arrival.sent_away.notify_one();
        }
        gone
    }

    #[test]
    fn who_has_most_makes_room() {
        let arrivals = Arrivals::new(4);
        let many: Vec<_> = (0..4).map(|_| arrivals.admit(source(1))).collect();
        let others: Vec<_> = (2..4).map(|last| arrivals.admit(source(last))).collect();
        let gone: Vec<_> = many.iter().map(has_gone).collect();
        assert_eq!(gone, [true, true, false, false]);
        assert!(!others.iter().any(has_gone), "a newcomer gets in");
        let again = arrivals.admit(source(2));
        assert!(has_gone(&many[2]) && !has_gone(&again) && !others.iter().any(has_gone));
    }

    #[test]
    fn places_are_given_back_and_nothing_is_kept() {
        let arrivals = Arrivals::new(2);
        for last in 0..=255 {
            let held = [arrivals.admit(source(last)), arrivals.admit(source(last))];
            assert!(!held.iter().any(has_gone));
        }
        let room = arrivals.lock();
        assert!(room.waiting.is_empty() && room.by_source.is_empty());
    }
}
