//! The registry of active snapshots, from which garbage collection learns which versions it may
//! free.
//!
//! A snapshot is a block height. A reader pins it by writing the height into a *place*: one atomic
//! word of a shard chosen by thread, so that pinning and unpinning contend with no other shard's
//! threads for a cache line.
//!
//! ```text
//! 63      62      61      60                                            0
//! [ vacant | lease | ended |                height                       ]
//! ```
//!
//! # Pinning against collection
//!
//! A reader that pins height `h` must not be missed by a collector that is about to free what `h`
//! needs. Both sides write first and read afterwards (Dekker's scheme, sequentially consistent):
//!
//! ```text
//! reader                         collector
//! place <- h                     floor <- newest
//! if floor > h: unpin, fail      pinned <- read every place
//! ```
//!
//! In the single total order of these accesses there are two cases. If the reader's write precedes
//! the collector's read of that place, the collector sees `h`. Otherwise the collector's write of
//! `floor` precedes the reader's check, and the reader withdraws.
//!
//! *Invariant.* Once `floor` is published, the heights below it that can be read are exactly those
//! that the collector saw pinned; no other one becomes readable again. A version that none of these
//! heights sees can therefore be freed, also one between two of them ([`Readable`]).
//!
//! *A reader that is about to withdraw* may be seen too. It is ignored: its height was not readable
//! after the previous collection, so it is not among the readable ones now.
//!
//! *Progress.* `floor` never exceeds the newest published height. A reader that asks for the newest
//! retries only if a block is published and a collection begins between its read and its check.
//!
//! *Sharing.* Below the floor a height can be read only by sharing an existing pin
//! ([`Pins::retain`]). The place is shared too, never copied to another one: during a copy a
//! collector could read the new place before it is written and the old one after it is cleared.
//!
//! # Leases
//!
//! A reader that can restart takes a *lease* instead of a pin. When memory runs short the collector
//! revokes leases: it sets `ended` and ignores the place from then on. The reader is not
//! interrupted and may read versions that are being freed, so it checks the bit before it returns
//! anything that it has read ([`Pin::is_ended`]). The bit is set before anything is freed: a reader
//! that has seen an effect of the collection also sees the bit.

use std::collections::BTreeMap;
use std::fmt;

use crossbeam_utils::CachePadded;
use kit::sync::Arc;
use kit::sync::atomic::{AtomicU64, Ordering, fence};
use parking_lot::Mutex;
use types::Height;

const SHARDS: usize = if cfg!(any(shuttle, miri)) { 2 } else { 16 };
const PLACES_PER_SHARD: usize = if cfg!(any(shuttle, miri)) { 2 } else { 32 };
const VACANT: u64 = u64::MAX;
const LEASE: u64 = 1 << 62;
const ENDED: u64 = 1 << 61;
const HEIGHT: u64 = ENDED - 1;

/// The registry of snapshot heights.
pub struct Pins {
    shards: [Arc<CachePadded<Shard>>; SHARDS],
    newest: CachePadded<AtomicU64>,
    /// No pin can be taken below this height, but by sharing one that stands.
    floor: CachePadded<AtomicU64>,
    /// What the last collection went by.
    readable: Mutex<Readable>,
    /// Heights that stay readable for later requests.
    retained: Mutex<BTreeMap<Height, SharedPin>>,
}

struct Shard {
    places: [AtomicU64; PLACES_PER_SHARD],
    /// Pins beyond the places.
    overflow: Mutex<Vec<Arc<AtomicU64>>>,
}

/// Keeps everything that a reader at [`Pin::height`] can see, until dropped.
pub struct Pin {
    shard: Arc<CachePadded<Shard>>,
    place: Place,
    height: Height,
}

pub(crate) type SharedPin = Arc<Pin>;

enum Place {
    InShard(usize),
    Overflow(Arc<AtomicU64>),
}

/// The heights that are read: some below `newest`, and every one from there on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readable {
    /// In ascending order.
    below: Vec<Height>,
    newest: Height,
}

impl Readable {
    pub(crate) fn new(heights: impl IntoIterator<Item = Height>, newest: Height) -> Readable {
        let mut below: Vec<_> = heights.into_iter().filter(|height| *height < newest).collect();
        below.sort_unstable();
        below.dedup();
        Readable { below, newest }
    }

    /// No reader is below it, now or later.
    pub(crate) fn horizon(&self) -> Height {
        self.below.first().copied().unwrap_or(self.newest)
    }

    pub(crate) fn newest(&self) -> Height {
        self.newest
    }

    /// The height of a reader that sees an image that the block at `from` made and the block at
    /// `to` replaced: the highest of those.
    pub(crate) fn witness(&self, from: Height, to: Height) -> Option<Height> {
        let highest = if to > self.newest { Some(to - 1) } else { self.last_below(to) };
        highest.filter(|height| (from..to).contains(height))
    }

    pub(crate) fn last_below(&self, height: Height) -> Option<Height> {
        let above = self.below.partition_point(|read| *read < height);
        self.below[..above].last().copied()
    }

    /// Whether a height is still read for whose sake something was kept.
    pub(crate) fn contains(&self, height: Height) -> bool {
        height >= self.newest || self.below.binary_search(&height).is_ok()
    }
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
            readable: Mutex::default(),
            retained: Mutex::default(),
        }
    }

    /// The newest published height.
    pub fn newest(&self) -> Height {
        self.newest.load(Ordering::SeqCst)
    }

    /// Pins the newest published height.
    pub fn pin_newest(&self) -> Pin {
        self.announce_newest(0)
    }

    /// The same, by a pin that the store may end.
    pub(crate) fn lease_newest(&self) -> Pin {
        self.announce_newest(LEASE)
    }

    fn announce_newest(&self, kind: u64) -> Pin {
        loop {
            if let Some(pin) = self.announce(self.newest(), kind) {
                return pin;
            }
        }
    }

    /// Pins a height; `None` if what it needs may have been collected already.
    pub fn pin(&self, height: Height) -> Option<Pin> {
        self.announce(height, 0)
    }

    pub(crate) fn lease(&self, height: Height) -> Option<Pin> {
        self.announce(height, LEASE)
    }

    fn announce(&self, height: Height, kind: u64) -> Option<Pin> {
        let shard = &self.shards[thread_shard()];
        let place = shard.announce(height | kind);
        let pin = Pin { shard: Arc::clone(shard), place, height };
        (self.floor.load(Ordering::SeqCst) <= height).then_some(pin)
    }

    pub(crate) fn publish(&self, height: Height) {
        debug_assert!(height >= self.newest(), "heights are published in order");
        self.newest.store(height, Ordering::SeqCst);
    }

    /// Keeps a height readable for later requests, until [`Pins::release`]. Whether it still is.
    pub(crate) fn retain(&self, height: Height) -> bool {
        let mut retained = self.retained.lock();
        if retained.contains_key(&height) {
            return true;
        }
        let Some(pin) = self.lease(height) else { return false };
        retained.insert(height, Arc::new(pin));
        true
    }

    /// The same of a height that a lease holds, by a share in its place.
    pub(crate) fn retain_shared(&self, pin: &SharedPin) -> bool {
        let mut retained = self.retained.lock();
        // A collection that ends it afterwards waits for the lock, and then releases the height.
        if pin.is_ended() {
            return false;
        }
        retained.entry(pin.height).or_insert_with(|| SharedPin::clone(pin));
        true
    }

    /// A reader that is at the height already goes on.
    pub(crate) fn release(&self, height: Height) {
        let pin = self.retained.lock().remove(&height);
        drop(pin);
    }

    /// A share in the pin of a retained height.
    pub(crate) fn retained(&self, height: Height) -> Option<SharedPin> {
        self.retained.lock().get(&height).cloned()
    }

    pub(crate) fn retained_heights(&self) -> Vec<Height> {
        self.retained.lock().keys().copied().collect()
    }

    /// The heights that are read, and no other one will be. Raises the floor. For one collector.
    pub(crate) fn readable(&self, also: impl IntoIterator<Item = Height>) -> Readable {
        let newest = self.newest();
        self.floor.fetch_max(newest, Ordering::SeqCst);
        let before = self.readable.lock().clone();
        // A reader that announces a height which was not read any more is about to withdraw.
        let stands = |height: &Height| before.contains(*height);
        let heights = self.heights().into_iter().chain(also).filter(stands);
        let readable = Readable::new(heights, newest);
        self.readable.lock().clone_from(&readable);
        readable
    }

    /// From here on every published height can still be read.
    pub(crate) fn floor(&self) -> Height {
        self.floor.load(Ordering::SeqCst)
    }

    /// The lowest height that is pinned.
    pub fn lowest(&self) -> Option<Height> {
        self.heights().into_iter().min()
    }

    /// Heights that are pinned, as often as they are.
    pub fn heights(&self) -> Vec<Height> {
        let mut heights = Vec::new();
        self.each_place(|word| heights.extend(standing(word.load(Ordering::SeqCst))));
        heights
    }

    /// Ends the leases of the lowest height that has one, if that is below `limit`.
    pub(crate) fn end_oldest_leases(&self, limit: Height) -> Option<Height> {
        let leased = |word: u64| standing(word).filter(|_| word & LEASE != 0);
        let mut oldest: Option<Height> = None;
        self.each_place(|word| {
            let height = leased(word.load(Ordering::SeqCst)).filter(|height| *height < limit);
            oldest = oldest.into_iter().chain(height).min();
        });
        let oldest = oldest?;
        let (lease, order) = (oldest | LEASE, Ordering::SeqCst);
        self.each_place(|word| {
            // It may have been dropped, and the place taken by another pin.
            let _ = word.compare_exchange(lease, lease | ENDED, order, order);
        });
        fence(Ordering::SeqCst);
        self.release(oldest);
        Some(oldest)
    }

    fn each_place(&self, mut visit: impl FnMut(&AtomicU64)) {
        for shard in &self.shards {
            shard.places.iter().for_each(&mut visit);
            let overflow = shard.overflow.lock().clone();
            overflow.iter().for_each(|word| visit(word));
        }
    }
}

/// The height of a pin that counts.
fn standing(word: u64) -> Option<Height> {
    (word != VACANT && word & ENDED == 0).then_some(word & HEIGHT)
}

impl Default for Pins {
    fn default() -> Self {
        Pins::new()
    }
}

impl Shard {
    fn announce(&self, word: u64) -> Place {
        for (i, place) in self.places.iter().enumerate() {
            let vacant = place.load(Ordering::Relaxed) == VACANT;
            let order = Ordering::SeqCst;
            if vacant && place.compare_exchange(VACANT, word, order, order).is_ok() {
                return Place::InShard(i);
            }
        }
        let place = Arc::new(AtomicU64::new(word));
        self.overflow.lock().push(Arc::clone(&place));
        Place::Overflow(place)
    }

    fn withdraw(&self, place: &Place) {
        match place {
            Place::InShard(place) => self.places[*place].store(VACANT, Ordering::Release),
            Place::Overflow(place) => {
                self.overflow.lock().retain(|one| !Arc::ptr_eq(one, place));
            }
        }
    }
}

impl Pin {
    pub fn height(&self) -> Height {
        self.height
    }

    /// Whether it was a lease and was ended: what was read by it since may be wrong, and nothing
    /// that was read before this call is if it says no.
    pub fn is_ended(&self) -> bool {
        fence(Ordering::Acquire);
        let word = match &self.place {
            Place::InShard(place) => &self.shard.places[*place],
            Place::Overflow(place) => place,
        };
        word.load(Ordering::SeqCst) & ENDED != 0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shard.withdraw(&self.place);
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

    fn horizon(pins: &Pins) -> Height {
        pins.readable([]).horizon()
    }

    #[test]
    fn below_the_newest_only_pinned_heights_can_be_read() {
        let pins = Pins::new();
        assert_eq!(horizon(&pins), 0);
        pins.publish(5);
        let five = pins.pin_newest();
        pins.publish(7);
        let seven = pins.pin(6).expect("nothing was collected since");
        pins.publish(9);
        let nine = pins.pin_newest();
        assert_eq!((five.height(), nine.height()), (5, 9));
        assert_eq!(pins.readable([]), Readable { below: vec![5, 6], newest: 9 });
        assert!(pins.pin(4).is_none());
        assert!(pins.pin(5).is_none() && pins.pin(7).is_none(), "the collector has looked");
        drop(five);
        assert_eq!(horizon(&pins), 6);
        drop(seven);
        drop(nine);
        assert_eq!(horizon(&pins), 9);
        assert!(pins.pin(8).is_none());
    }

    #[test]
    fn more_pins_than_places() {
        let pins = Pins::new();
        pins.publish(3);
        let many: Vec<Pin> = (0..PLACES_PER_SHARD + 10).map(|_| pins.lease_newest()).collect();
        pins.publish(4);
        assert_eq!(horizon(&pins), 3);
        assert_eq!(pins.end_oldest_leases(4), Some(3));
        assert_eq!(horizon(&pins), 4);
        assert!(many.iter().all(Pin::is_ended));
        drop(many);
        assert!(pins.heights().is_empty());
    }

    #[test]
    fn a_retained_height_is_shared_and_only_leases_are_ended() {
        let pins = Pins::new();
        pins.publish(2);
        assert!(pins.retain(2) && pins.retain(2));
        pins.publish(3);
        let kept = pins.pin_newest();
        pins.publish(4);
        assert_eq!(pins.readable([]).below, [2, 3]);
        assert!(!pins.retain(3), "nobody would see to it that it stays");
        let shared = pins.retained(2).expect("it is retained");
        pins.release(2);
        assert_eq!(horizon(&pins), 2, "whoever reads it goes on");
        assert!(pins.retained(2).is_none());
        assert_eq!(pins.end_oldest_leases(2), None);
        assert!(!shared.is_ended());
        assert_eq!(pins.end_oldest_leases(4), Some(2));
        assert!(shared.is_ended() && !kept.is_ended());
        assert_eq!(pins.end_oldest_leases(4), None);
        assert_eq!(horizon(&pins), 3);
    }

    /// By brute force over all small intervals.
    #[test]
    fn a_witness_is_the_highest_reader_of_an_interval() {
        let readable = Readable::new([7, 2, 4, 4, 9], 9);
        for from in 0..12 {
            for to in 0..12 {
                let mut readers = (from..to).rev().filter(|h| *h >= 9 || [2, 4, 7].contains(h));
                assert_eq!(readable.witness(from, to), readers.next(), "{from}..{to}");
            }
        }
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
                    horizon.store(pins.readable([]).horizon(), Ordering::SeqCst);
                }
                for reader in readers {
                    reader.join().expect("a reader's check holds");
                }
            },
            10_000,
        );
    }
}
