//! Who reads which height, and the height below which nobody reads any more.
//!
//! A snapshot is a height that somebody has announced in a *place*: one atomic word in a shard
//! picked by thread, so that taking and dropping a pin touches no line that other threads write.
//!
//! # The announcement race
//!
//! A reader chooses height `h`, announces it, and must not be overlooked by a collector that is
//! about to recycle what `h` needs. Both sides write first and look afterwards (Dekker's scheme,
//! sequentially consistent):
//!
//! ```text
//! reader                         collector
//! place <- h                     floor <- candidate        (newest, or a lower pin)
//! if floor > h: withdraw, retry  horizon <- min(candidate, every place)
//! ```
//!
//! In the single order of these accesses either the reader's write comes before the collector's
//! scan, and the collector sees `h`, or the collector's `floor` comes before the reader's look, and
//! the reader withdraws. So every pin that stands is `>= horizon`, and no pin below a published
//! `floor` can appear later. The newest published height is never below the floor, so a reader
//! that asks for the newest succeeds unless blocks are published faster than it can look twice.

use std::collections::BTreeMap;
use std::fmt;

use crossbeam_utils::CachePadded;
use kit::sync::Arc;
use kit::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;
use types::Height;

const SHARDS: usize = if cfg!(shuttle) { 2 } else { 16 };
const PLACES_PER_SHARD: usize = if cfg!(shuttle) { 2 } else { 32 };
const VACANT: u64 = u64::MAX;

/// The registry of snapshot heights.
pub struct Pins {
    shards: [Arc<CachePadded<Shard>>; SHARDS],
    newest: CachePadded<AtomicU64>,
    /// No pin can be taken below this height.
    floor: CachePadded<AtomicU64>,
}

struct Shard {
    places: [AtomicU64; PLACES_PER_SHARD],
    /// Pins beyond the places, counted by height.
    overflow: Mutex<BTreeMap<Height, usize>>,
}

/// Keeps everything that a reader at [`Pin::height`] can see, until dropped.
pub struct Pin {
    shard: Arc<CachePadded<Shard>>,
    place: Option<usize>,
    height: Height,
}

impl Pins {
    pub fn new() -> Self {
        let shard = || {
            Arc::new(CachePadded::new(Shard {
                places: std::array::from_fn(|_| AtomicU64::new(VACANT)),
                overflow: Mutex::default(),
            }))
        };
        Pins {
            shards: std::array::from_fn(|_| shard()),
            newest: CachePadded::new(AtomicU64::new(0)),
            floor: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// The newest published height.
    pub fn newest(&self) -> Height {
        self.newest.load(Ordering::SeqCst)
    }

    /// Pins the newest published height.
    pub fn pin_newest(&self) -> Pin {
        loop {
            if let Some(pin) = self.pin(self.newest()) {
                return pin;
            }
        }
    }

    /// Pins a height; `None` if it may have been collected already.
    pub fn pin(&self, height: Height) -> Option<Pin> {
        let shard = &self.shards[thread_shard()];
        let place = shard.announce(height);
        let pin = Pin { shard: Arc::clone(shard), place, height };
        (self.floor.load(Ordering::SeqCst) <= height).then_some(pin)
    }

    pub(crate) fn publish(&self, height: Height) {
        debug_assert!(height >= self.newest(), "heights are published in order");
        self.newest.store(height, Ordering::SeqCst);
    }

    /// A height that no pin, present or future, is below. Raises the floor.
    pub fn horizon(&self) -> Height {
        let newest = self.newest();
        let candidate = self.lowest_pin().map_or(newest, |pin| pin.min(newest));
        self.floor.fetch_max(candidate, Ordering::SeqCst);
        self.lowest_pin().map_or(candidate, |pin| pin.min(candidate))
    }

    fn lowest_pin(&self) -> Option<Height> {
        self.shards.iter().filter_map(|shard| shard.lowest()).min()
    }
}

impl Default for Pins {
    fn default() -> Self {
        Pins::new()
    }
}

impl Shard {
    fn announce(&self, height: Height) -> Option<usize> {
        for (i, place) in self.places.iter().enumerate() {
            let vacant = place.load(Ordering::Relaxed) == VACANT;
            let order = Ordering::SeqCst;
            if vacant && place.compare_exchange(VACANT, height, order, order).is_ok() {
                return Some(i);
            }
        }
        *self.overflow.lock().entry(height).or_insert(0) += 1;
        None
    }

    fn withdraw(&self, place: Option<usize>, height: Height) {
        if let Some(place) = place {
            self.places[place].store(VACANT, Ordering::Release);
            return;
        }
        let mut overflow = self.overflow.lock();
        if let Some(count) = overflow.get_mut(&height) {
            *count -= 1;
            if *count == 0 {
                overflow.remove(&height);
            }
        }
    }

    fn lowest(&self) -> Option<Height> {
        let in_places = self.places.iter().map(|place| place.load(Ordering::SeqCst)).min();
        let in_overflow = self.overflow.lock().keys().next().copied();
        in_places.filter(|&h| h != VACANT).into_iter().chain(in_overflow).min()
    }
}

impl Pin {
    pub fn height(&self) -> Height {
        self.height
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shard.withdraw(self.place, self.height);
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({})", self.height)
    }
}

/// Threads are dealt out over the shards in the order of their first pin.
fn thread_shard() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_is_the_lowest_pin() {
        let pins = Pins::new();
        assert_eq!(pins.horizon(), 0);
        pins.publish(5);
        let five = pins.pin_newest();
        pins.publish(9);
        let nine = pins.pin_newest();
        assert_eq!((five.height(), nine.height()), (5, 9));
        assert_eq!(pins.horizon(), 5);
        assert!(pins.pin(4).is_none());
        let seven = pins.pin(7).expect("not below the floor");
        drop(five);
        assert_eq!(pins.horizon(), 7);
        drop(seven);
        drop(nine);
        assert_eq!(pins.horizon(), 9);
        assert!(pins.pin(8).is_none());
    }

    #[test]
    fn more_pins_than_places() {
        let pins = Pins::new();
        pins.publish(3);
        let many: Vec<Pin> = (0..PLACES_PER_SHARD + 10).map(|_| pins.pin_newest()).collect();
        pins.publish(4);
        assert_eq!(pins.horizon(), 3);
        drop(many);
        assert_eq!(pins.horizon(), 4);
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use kit::sync::thread;

    /// No horizon that a collector was given is above a pin that stands.
    #[test]
    fn the_horizon_is_never_above_a_pin() {
        shuttle::check_random(
            || {
                let pins = Arc::new(Pins::new());
                let horizon = Arc::new(AtomicU64::new(0));
                let readers: Vec<_> = (0..2)
                    .map(|_| {
                        let (pins, horizon) = (pins.clone(), horizon.clone());
                        thread::spawn(move || {
                            let pin = pins.pin_newest();
                            for _ in 0..8 {
                                assert!(horizon.load(Ordering::SeqCst) <= pin.height());
                            }
                        })
                    })
                    .collect();
                for height in 1..=2 {
                    pins.publish(height);
                    horizon.store(pins.horizon(), Ordering::SeqCst);
                }
                for reader in readers {
                    reader.join().expect("a reader's check holds");
                }
            },
            10_000,
        );
    }
}
