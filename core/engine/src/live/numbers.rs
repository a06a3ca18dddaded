//! Numbers of envelopes that others agree to before they are handed in, so that none is too old by
//! then.
//!
//! The ledger knows of each submitter the highest number that came, and which of the [`WINDOW`]
//! below it did (`order::submissions`). An envelope that waits for a slow endorser would fall out
//! of that window while thousands pass it. It cannot draw another number, since its approvals are
//! over this one. So this node is as many submitters as it takes, its *lanes*:
//!
//! ```text
//!   lane 0   ──●── ──── ──── ──── ──│  1,024 from the oldest one that is open: no more for now
//!   lane 1   ──── ── …              │
//!              ▲ open: drawn, and not decided yet
//! ```
//!
//! *Invariants.* In a lane no number is drawn that is a window or more above one that is open; so
//! whatever order a lane's envelopes come in, each is admitted. A number is drawn once in its lane.
//! A number is open as long as its [`Number`] lives, which is dropped when its transaction's end is
//! known, or given up.
//!
//! *Once.* A transaction that is simulated anew keeps its number, and others may hold envelopes of
//! earlier attempts: the ledger admits one of all that bear it.
//!
//! *Cost.* A lane that can give none has an open number, of a session that waits. The ledger
//! remembers 136 bytes for each, until what came last in it has expired, and bounds how many one
//! principal has over the whole cluster. So a node has [`LANES_MAX`] at most; where none of them
//! can give a number none is drawn. The first lane that can give one does, so few are in use.
//!
//! *Given up.* Of a transaction whose end is not known to this node the number is open no more, and
//! its envelope may be on its way still: it may be too old when it comes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kit::sync::lock;
use ledger::hash::tagged_hash;
use order::WINDOW;
use types::{Error, Result, SqlState};

/// What lanes' names are hashed behind.
const TAG_LANE: &[u8; 16] = b"tally submitter1";

/// Of a node's start: those of as many nodes as a cluster has, each started twice within what the
/// ledger remembers, are no more than it allows a principal.
const LANES_MAX: usize = 32;

/// Of one start.
pub(super) struct Numbers {
    /// What lanes' names are made from.
    submitter: [u8; 16],
    lanes: Mutex<Vec<Lane>>,
}

struct Lane {
    name: [u8; 16],
    next: u64,
    open: BTreeSet<u64>,
}

impl Lane {
    fn new(submitter: &[u8; 16], number: usize) -> Lane {
        let named = [&submitter[..], &(number as u64).to_be_bytes()].concat();
        let mut name = [0; 16];
        name.copy_from_slice(&tagged_hash(TAG_LANE, &named)[..16]);
        Lane { name, next: 0, open: BTreeSet::new() }
    }

    fn draw(&mut self) -> Option<u64> {
        let drawn = self.next;
        if self.open.first().is_some_and(|oldest| drawn - oldest >= WINDOW) {
            return None;
        }
        self.next += 1;
        self.open.insert(drawn);
        Some(drawn)
    }
}

/// A number that no other envelope has, which may be handed in as long as this lives.
pub struct Number {
    numbers: Arc<Numbers>,
    lane: usize,
    pub(super) submitter: [u8; 16],
    pub(super) sequence: u64,
}

impl Numbers {
    pub fn new(submitter: [u8; 16]) -> Arc<Numbers> {
        Arc::new(Numbers { submitter, lanes: Mutex::default() })
    }

    /// # Errors
    /// 53300: too many wait for others in each lane.
    pub fn draw(self: &Arc<Self>) -> Result<Number> {
        let mut lanes = lock(&self.lanes);
        let drawn = (0..).zip(lanes.iter_mut()).find_map(|(at, lane)| Some((at, lane.draw()?)));
        let (lane, sequence) = match drawn {
            Some(drawn) => drawn,
            None if lanes.len() == LANES_MAX => return Err(too_many()),
            None => {
                let number = lanes.len();
                lanes.push(Lane::new(&self.submitter, number));
                let newest = lanes.last_mut().and_then(Lane::draw);
                (number, newest.expect("nothing is open in a lane that is new"))
            }
        };
        let submitter = lanes[lane].name;
        drop(lanes);
        Ok(Number { numbers: Arc::clone(self), lane, submitter, sequence })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(lane) = lock(&self.numbers.lanes).get_mut(self.lane) {
            let was_open = lane.open.remove(&self.sequence);
            debug_assert!(was_open, "a number is open until it is dropped");
        }
    }
}

fn too_many() -> Error {
    let what = "too many transactions wait for the endorsements of others";
    Error::new(SqlState::TOO_MANY_CONNECTIONS, what)
        .with_detail(format!("{LANES_MAX} of them have been passed by {WINDOW} others each."))
        .with_hint("Try again, or name the transaction by tally.transaction_key.")
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use kit::random::Random;

    use super::*;

    fn is_open(numbers: &Numbers, lane: usize) -> usize {
        lock(&numbers.lanes)[lane].open.len()
    }

    #[test]
    fn one_that_waits_holds_its_lane_up_and_no_other() {
        let numbers = Numbers::new([7; 16]);
        let slow = numbers.draw().unwrap();
        for sequence in 1..WINDOW {
            let number = numbers.draw().unwrap();
            assert_eq!((number.submitter, number.sequence), (slow.submitter, sequence));
        }
        let beside = numbers.draw().unwrap();
        assert_ne!(beside.submitter, slow.submitter);
        assert_eq!(beside.sequence, 0, "each lane counts by itself");
        assert_eq!([0, 1].map(|lane| is_open(&numbers, lane)), [1, 1]);
        let of_first = slow.submitter;
        drop(slow);
        let next = numbers.draw().unwrap();
        assert_eq!((next.submitter, next.sequence), (of_first, WINDOW), "it goes on");
        let other = Numbers::new([8; 16]).draw().unwrap();
        assert!(![of_first, beside.submitter].contains(&other.submitter), "of another start");
    }

    #[test]
    fn a_node_has_so_many_lanes_and_no_more() {
        let numbers = Numbers::new([7; 16]);
        let mut kept = Vec::new();
        for _ in 0..LANES_MAX {
            kept.push(numbers.draw().unwrap());
            (1..WINDOW).for_each(|_| drop(numbers.draw().unwrap()));
        }
        let why = numbers.draw().err().expect("each lane is held up");
        assert_eq!(why.code(), SqlState::TOO_MANY_CONNECTIONS);
        let goes_on = kept.swap_remove(LANES_MAX / 2).submitter;
        assert_eq!(numbers.draw().unwrap().submitter, goes_on);
    }

    /// Whatever waits for how long and is handed in in which order, the ledger's window admits it.
    #[test]
    fn none_falls_out_of_the_window_and_none_comes_twice() {
        for seed in 0..8 {
            let (mut random, numbers) = (Random::new(seed), Numbers::new([1; 16]));
            let (mut open, mut highest, mut seen) =
                (Vec::new(), HashMap::<[u8; 16], u64>::new(), HashSet::new());
            let (sessions, slow_one_in) = (1 + random.below(900) as usize, 2 + random.below(500));
            for _ in 0..20_000 {
                open.push((numbers.draw().unwrap(), random.below(slow_one_in) == 0));
                while open.len() >= sessions {
                    // A slow one waits until the others have passed it ten thousand times.
                    let at = random.below(open.len() as u64) as usize;
                    if open[at].1 && random.below(10_000) > 0 && open.iter().any(|it| !it.1) {
                        continue;
                    }
                    let (number, _) = open.swap_remove(at);
                    let Number { submitter, sequence, .. } = number;
                    assert!(seen.insert((submitter, sequence)), "drawn twice");
                    let top = highest.entry(submitter).or_insert(sequence);
                    *top = sequence.max(*top);
                    assert!(*top - sequence < WINDOW, "{sequence} is too far below {top}");
                }
            }
            assert!(lock(&numbers.lanes).len() <= sessions + 1);
        }
    }
}
