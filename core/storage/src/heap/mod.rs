//! Byte strings as 16-byte views: short ones inline, longer ones in a heap.
//!
//! A view is Arrow's, as two little-endian words:
//!
//! ```text
//!          63              32 31               0
//! word 0   [ bytes 0 .. 4     | length in bytes ]
//! word 1   [ bytes 4 .. 12                      ]   length <= 12, unused bytes zero
//! word 1   [ location: heap word of byte 0      ]   length  > 12
//! ```
//!
//! A string's words are written before any view of it is published, and neither change nor move
//! until [`Heap::free`] gives the string up, which is when no reader whose result counts comes to a
//! view of it any more: of a column when no image that is seen holds it
//! ([`Table::collect`](crate::Table)), of an index key when its node has lost it. Then its words
//! serve another string ([`free`]). A reader that still holds the view reads bytes of either, and
//! finds out by the same check that tells it that the view is stale.

mod free;

use compact_str::CompactString;
use kit::sync::atomic::{AtomicU64, Ordering};

use crate::words::Words;
use free::{FreeRuns, run_of};

/// Longest string that a view holds itself.
pub(crate) const INLINE_BYTES: usize = 12;
const FIRST_WORDS_LOG2: u32 = if cfg!(any(shuttle, miri)) { 4 } else { 10 };

/// A string's two words.
pub(crate) type View = [u64; 2];

pub(crate) struct Heap {
    words: Words,
    /// First heap word not given away.
    next: AtomicU64,
    free: FreeRuns,
}

#[inline]
pub(crate) fn length(view: View) -> usize {
    view[0] as u32 as usize
}

/// Whether a view's string lies in the heap.
#[inline]
pub(crate) fn is_long(view: View) -> bool {
    length(view) > INLINE_BYTES
}

#[inline]
pub(crate) fn inline_view(bytes: &[u8]) -> Option<View> {
    if bytes.len() > INLINE_BYTES {
        return None;
    }
    // The most usual key.
    if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        let word = u64::from_le_bytes(eight);
        return Some([word << 32 | 8, word >> 32]);
    }
    let mut image = [0u8; 16];
    image[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    image[4..4 + bytes.len()].copy_from_slice(bytes);
    let low = u64::from_le_bytes(std::array::from_fn(|i| image[i]));
    let high = u64::from_le_bytes(std::array::from_fn(|i| image[8 + i]));
    Some([low, high])
}

/// The bytes that a view itself holds: all of a short string, four of a long one.
#[inline]
fn image(view: View) -> [u8; 16] {
    let mut image = [0u8; 16];
    image[..8].copy_from_slice(&view[0].to_le_bytes());
    image[8..].copy_from_slice(&view[1].to_le_bytes());
    image
}

impl Heap {
    pub(crate) fn new() -> Self {
        Heap {
            words: Words::new(1, FIRST_WORDS_LOG2),
            next: AtomicU64::new(0),
            free: FreeRuns::default(),
        }
    }

    /// A view of `bytes`, which are stored if they do not fit the view.
    ///
    /// A string longer than `u32::MAX` bytes cannot reach storage: requests are bounded far below.
    #[inline]
    pub(crate) fn store(&self, bytes: &[u8]) -> View {
        inline_view(bytes).unwrap_or_else(|| self.store_long(bytes))
    }

    fn store_long(&self, bytes: &[u8]) -> View {
        assert!(u32::try_from(bytes.len()).is_ok(), "a string of {} bytes", bytes.len());
        let (run, class) = run_of(bytes.len().div_ceil(8) as u64);
        let location = self.free.take(run, class).unwrap_or_else(|| self.reserve(run));
        let places = self.words.slice(location, bytes.len().div_ceil(8)).expect("reserved above");
        let (whole, rest) = bytes.as_chunks::<8>();
        for (place, word) in places.iter().zip(whole) {
            place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0u8; 8];
            word[..rest.len()].copy_from_slice(rest);
            places[whole.len()].store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        let prefix = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        [bytes.len() as u64 | u64::from(prefix) << 32, location]
    }

    /// Gives up the string of a view, if it has one here. No reader whose result counts may come to
    /// the view any more, and no string is given up twice.
    pub(crate) fn free(&self, view: View) {
        if is_long(view) {
            let (run, class) = run_of(length(view).div_ceil(8) as u64);
            self.free.put(view[1], run, class);
        }
    }

    /// A run of words within one segment.
    fn reserve(&self, count: u64) -> u64 {
        loop {
            let start = self.next.fetch_add(count, Ordering::Relaxed);
            self.words.ensure(start);
            if self.words.units_left_in_segment(start) >= count {
                return start;
            }
        }
    }

    /// Calls `with` on the string's bytes. A view that was not validated can give any bytes, but
    /// never touches memory outside the heap.
    #[inline]
    pub(crate) fn with_bytes<R>(&self, view: View, with: impl FnOnce(&[u8]) -> R) -> R {
        let length = length(view);
        if length <= INLINE_BYTES {
            return with(&image(view)[4..4 + length]);
        }
        let Some(words) = self.words.slice(view[1], length.div_ceil(8)) else {
            return with(&[]);
        };
        let mut short = [0u8; 256];
        if words.len() * 8 <= short.len() {
            for (bytes, word) in short.chunks_exact_mut(8).zip(words) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            return with(&short[..length]);
        }
        let mut bytes = Vec::with_capacity(words.len() * 8);
        for word in words {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        with(&bytes[..length])
    }

    /// The string of a text column. Bytes that are no UTF-8 can only come from a view that was not
    /// validated, and are replaced.
    #[inline]
    pub(crate) fn text(&self, view: View) -> CompactString {
        const NOT_ASCII: u64 = 0x8080_8080_8080_8080;
        if length(view) <= INLINE_BYTES && (view[0] >> 32 | view[1]) & NOT_ASCII == 0 {
            return ascii::text(view);
        }
        self.with_bytes(view, |bytes| match std::str::from_utf8(bytes) {
            Ok(text) => CompactString::new(text),
            Err(_) => CompactString::from_utf8_lossy(bytes),
        })
    }

    #[inline]
    pub(crate) fn equals(&self, view: View, bytes: &[u8]) -> bool {
        match inline_view(bytes) {
            Some(expected) => view == expected,
            None => length(view) == bytes.len() && self.with_bytes(view, |own| own == bytes),
        }
    }

    /// Bytes of strings, of those that were given up too.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.next.load(Ordering::Relaxed) * 8
    }

    /// Bytes that strings have left and that none has taken again.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.words() * 8
    }
}

#[allow(unsafe_code)]
mod ascii {
    //! Texts that need no look at their encoding.

    use compact_str::CompactString;

    use super::{INLINE_BYTES, View, length};

    /// The text of an inline view whose every byte is below 128.
    #[inline]
    pub(super) fn text(view: View) -> CompactString {
        let low = view[0] >> 32 | view[1] << 32;
        let high = view[1] >> 32;
        let both = u128::from(low) | u128::from(high) << 64;
        let bytes = both.to_le_bytes();
        let bytes = &bytes[..length(view).min(INLINE_BYTES)];
        debug_assert!(bytes.is_ascii());
        // SAFETY: the caller has seen that no byte of the view has its highest bit set, and the
        // rest of the sixteen bytes is zero: ASCII, which is UTF-8.
        CompactString::new(unsafe { std::str::from_utf8_unchecked(bytes) })
    }
}

#[cfg(all(test, not(shuttle)))]
mod histories;
#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    #[test]
    fn every_length_comes_back() {
        let heap = Heap::new();
        let text: Vec<u8> = (0..40_001u32).map(|i| (i * 7 + 3) as u8).collect();
        let short = if cfg!(miri) { 20 } else { 300 };
        let long = if cfg!(miri) { vec![257] } else { vec![1000, 8192, 8193, 40_000] };
        let lengths = (0..short).chain(long);
        let views: Vec<(usize, View)> = lengths.map(|n| (n, heap.store(&text[..n]))).collect();
        for (n, view) in views {
            assert_eq!(length(view), n);
            assert!(heap.equals(view, &text[..n]));
            assert!(!heap.equals(view, &text[1..n + 1]) || n == 0);
            heap.with_bytes(view, |bytes| assert_eq!(bytes, &text[..n]));
        }
    }

    /// Random strings come and go; a map of those that stand is the model.
    #[test]
    fn what_is_given_up_is_taken_again_and_what_stands_stays() {
        let (heap, mut random) = (Heap::new(), Random::new(7));
        let mut standing: Vec<(View, Vec<u8>)> = Vec::new();
        let turns = if cfg!(miri) { 200 } else { 20_000 };
        for turn in 0..turns {
            if standing.len() > 50 || (random.below(2) == 0 && !standing.is_empty()) {
                let (view, bytes) =
                    standing.swap_remove(random.below(standing.len() as u64) as usize);
                assert!(heap.equals(view, &bytes));
                heap.free(view);
            }
            let bytes = vec![turn as u8; random.below(400) as usize];
            standing.push((heap.store(&bytes), bytes));
        }
        standing.iter().for_each(|(view, bytes)| assert!(heap.equals(*view, bytes)));
        let of = |bytes: &[u8]| if bytes.len() > INLINE_BYTES { bytes.len() as u64 } else { 0 };
        let live: u64 = standing.iter().map(|(_, bytes)| of(bytes)).sum();
        let taken = heap.reserved_bytes() - heap.free_bytes();
        assert!(taken >= live && taken <= live * 9 / 8 + 8 * 60 + 8 * 2048, "{taken} for {live}");
        assert!(cfg!(miri) || heap.reserved_bytes() < 100_000, "{}", heap.reserved_bytes());
    }
}
