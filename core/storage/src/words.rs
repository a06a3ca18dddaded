//! Memory that never moves: a growing space of atomic words.
//!
//! Everything the engine stores (records, undo versions, long strings, index nodes) lies in words
//! of eight bytes that are only ever accessed atomically. A [`Words`] is a sequence of equal
//! *units* (a record, a chunk, a node); its segments double, so that a unit's address follows from
//! its number by a count of leading zeros and never changes:
//!
//! ```text
//! segment 0   F units          units 0 .. F
//! segment 1   2F units         units F .. 3F
//! segment k   F << k units     units F(2^k - 1) .. F(2^(k+1) - 1)
//! ```
//!
//! Memory is *type-stable*: it is handed back to its own space, never to the allocator while the
//! space lives. A reader that holds a stale number reads a stale or foreign word, never freed
//! memory, and finds out by validating a stamp. That is why no pointer, no epoch and no unsafe code
//! is needed above this module. The cost: a space keeps its high-water mark (untouched parts of a
//! segment are zero pages that the kernel has not backed yet).

use std::sync::OnceLock;

use kit::sync::atomic::AtomicU64;

pub(crate) const WORDS_PER_LINE: usize = 8;
/// Lines of a row that are worth fetching at once; what lies after follows in order.
pub(crate) const LINES_MAX: usize = 6;

const SEGMENTS_MAX: usize = 33;
const UNITS_MAX: u64 = 1 << 40;

pub struct Words {
    /// Words in a unit.
    stride: usize,
    first_units_log2: u32,
    segments: [OnceLock<Segment>; SEGMENTS_MAX],
}

struct Segment {
    words: Zeroed,
    /// Words before the first cache line boundary; the units start there.
    skip: usize,
}

impl Words {
    pub fn new(stride: usize, first_units_log2: u32) -> Self {
        assert!(stride > 0);
        Words { stride, first_units_log2, segments: [const { OnceLock::new() }; SEGMENTS_MAX] }
    }

    #[inline]
    fn locate(&self, unit: u64) -> (usize, usize) {
        let shifted = unit + (1 << self.first_units_log2);
        let segment = shifted.ilog2() - self.first_units_log2;
        (segment as usize, (shifted - (1u64 << shifted.ilog2())) as usize)
    }

    /// The words of a unit; `None` if the space has never grown that far.
    #[inline]
    pub fn unit(&self, unit: u64) -> Option<&[AtomicU64]> {
        self.slice(unit, self.stride)
    }

    /// `words` words from the start of a unit on, which must not reach beyond its segment.
    #[inline]
    pub fn slice(&self, unit: u64, words: usize) -> Option<&[AtomicU64]> {
        // Numbers out of memory that is being written may be anything.
        if unit >= UNITS_MAX {
            return None;
        }
        let (segment, offset) = self.locate(unit);
        let segment = self.segments.get(segment)?.get()?;
        let start = segment.skip + offset * self.stride;
        segment.words.get(start..start + words)
    }

    /// Backs the segment that a unit lies in.
    pub fn ensure(&self, unit: u64) {
        let (segment, _) = self.locate(unit);
        self.segments[segment].get_or_init(|| {
            let units = 1usize << (self.first_units_log2 as usize + segment);
            Segment::new(units * self.stride)
        });
    }

    /// Gives the memory of `count` units from `unit` on, all of one segment, back to the kernel, if
    /// it came from there: whether it did. They read as zero until they are written.
    pub fn release(&self, unit: u64, count: usize) -> bool {
        let (segment, offset) = self.locate(unit);
        let Some(segment) = self.segments.get(segment).and_then(OnceLock::get) else {
            return false;
        };
        let start = segment.skip + offset * self.stride;
        segment.words.release(start..start + count * self.stride)
    }

    /// Units from `unit` to the end of its segment, itself included.
    pub fn units_left_in_segment(&self, unit: u64) -> u64 {
        let (segment, offset) = self.locate(unit);
        (1u64 << (u64::from(self.first_units_log2) + segment as u64)) - offset as u64
    }

    /// Bytes of address space taken (not all of it need be backed by memory).
    pub fn reserved_bytes(&self) -> usize {
        self.segments.iter().filter_map(OnceLock::get).map(|s| s.words.len() * 8).sum()
    }

    /// Fetches a unit, all of it unless it is very long.
    #[inline]
    pub fn prefetch(&self, unit: u64) {
        for word in self.unit(unit).unwrap_or_default().iter().step_by(WORDS_PER_LINE).take(8) {
            raw::prefetch(word);
        }
    }
}

impl Segment {
    fn new(words: usize) -> Self {
        let words = raw::zeroed(words, WORDS_PER_LINE - 1);
        let past_line = (words.as_ptr() as usize / 8) % WORDS_PER_LINE;
        Segment { words, skip: (WORDS_PER_LINE - past_line) % WORDS_PER_LINE }
    }
}

/// Asks the processor to bring a value's cache lines closer, not what it refers to.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    raw::prefetch(value);
}

/// `count` words of zero, not yet backed by memory if they are many; [`Zeroed::clear`] gives such
/// memory back.
pub(crate) fn zeroed(count: usize) -> Zeroed {
    raw::zeroed(count, 0)
}

pub(crate) use raw::Zeroed;

#[allow(unsafe_code)]
mod raw {
    //! The three things that safe Rust cannot say: "this zeroed memory is a slice of atomics",
    //! "take its pages back", and "fetch this line".
    //!
    //! Much memory is asked of the kernel itself, which zeroes it page by page as it is touched. An
    //! allocator that has used the memory before zeroes all of it at once, and the writer that
    //! needed one more row waits for it: a tenth of a second for a table of millions.

    use std::ops::{Deref, Range};
    use std::ptr::NonNull;

    use kit::sync::atomic::{AtomicU64, Ordering};
    #[cfg(not(any(shuttle, miri)))]
    use memmap2::{Advice, MmapMut, UncheckedAdvice};

    /// From so many words on the kernel is asked, in sizes that huge pages fit: a process can have
    /// some 65,000 maps, and a table has many segments.
    #[cfg(not(any(shuttle, miri)))]
    const MAPPED_WORDS_MIN: usize = 1 << 18;

    /// Whichever size a kernel's pages have, this is a multiple of it.
    const PAGE_BYTES_MAX: usize = 64 << 10;

    /// Words that were zero when they came.
    pub(crate) struct Zeroed {
        words: NonNull<[AtomicU64]>,
        /// What they lie in; `None`: a box of their own.
        #[cfg(not(any(shuttle, miri)))]
        map: Option<MmapMut>,
    }

    // SAFETY: it owns its words, in a map or a box, which both may go to other threads, and gives
    // out nothing but shared borrows of atomics.
    unsafe impl Send for Zeroed {}
    // SAFETY: the same.
    unsafe impl Sync for Zeroed {}

    impl Drop for Zeroed {
        fn drop(&mut self) {
            if !self.is_mapped() {
                // SAFETY: without a map the words are what a box gave up in `Zeroed::boxed`, and
                // no borrow of them outlives this value.
                drop(unsafe { Box::from_raw(self.words.as_ptr()) });
            }
        }
    }

    impl Zeroed {
        fn boxed(words: Box<[AtomicU64]>) -> Zeroed {
            Zeroed {
                words: NonNull::from(Box::leak(words)),
                #[cfg(not(any(shuttle, miri)))]
                map: None,
            }
        }

        /// Makes some words zero again, and gives much memory back to the kernel. Others may read
        /// meanwhile; a reader that sees one of these zeros sees what was stored before the call.
        pub(crate) fn clear(&self, words: Range<usize>) {
            let pages = PAGE_BYTES_MAX / size_of::<AtomicU64>();
            let is_whole = words.start.is_multiple_of(pages) && words.end.is_multiple_of(pages);
            if !is_whole || !self.release(words.clone()) {
                self[words].iter().for_each(|word| word.store(0, Ordering::Release));
            }
        }

        /// Gives the whole pages of some words back to the kernel, which is whence they must have
        /// come: whether they did. They read as zero from then on, as after [`Zeroed::clear`].
        #[cfg_attr(any(shuttle, miri), expect(unused_variables))]
        pub(crate) fn release(&self, words: Range<usize>) -> bool {
            #[cfg(not(any(shuttle, miri)))]
            if let Some(map) = &self.map {
                let end = words.end.min(self.len()) * size_of::<AtomicU64>();
                let end = end / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
                let begin = words.start * size_of::<AtomicU64>();
                let begin = begin.next_multiple_of(PAGE_BYTES_MAX);
                let Some(length) = end.checked_sub(begin).filter(|length| *length > 0) else {
                    return false;
                };
                let advice = UncheckedAdvice::DontNeed;
                // SAFETY: the mapping is private and anonymous, so its pages read as zero from then
                // on, and every word is only ever accessed as an atomic, for which zero is a value
                // like any other. The kernel orders it after what this thread stored: it takes the
                // pages out of every processor's address table before it returns. The range lies
                // within the mapping, from page to page.
                return unsafe { map.unchecked_advise_range(advice, begin, length) }.is_ok();
            }
            false
        }

        /// Whether it is the kernel's, and takes no memory where it was cleared.
        pub(crate) fn is_mapped(&self) -> bool {
            #[cfg(not(any(shuttle, miri)))]
            {
                self.map.is_some()
            }
            #[cfg(any(shuttle, miri))]
            {
                false
            }
        }
    }

    impl Deref for Zeroed {
        type Target = [AtomicU64];

        #[inline]
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: the words are a box's, or the map has room for so many, lies on a page
            // boundary and was zeroed by the kernel. They have no other owner, the map is never
            // written through its own methods, and both live as long as this value.
            unsafe { self.words.as_ref() }
        }
    }

    /// `count` words, and `spare` more where they may not lie on a page boundary.
    #[cfg(not(shuttle))]
    pub(super) fn zeroed(count: usize, spare: usize) -> Zeroed {
        #[cfg(not(miri))]
        if count >= MAPPED_WORDS_MIN
            && let Ok(mut map) = MmapMut::map_anon(count * size_of::<AtomicU64>())
            && let Some(first) = NonNull::new(map.as_mut_ptr().cast::<AtomicU64>())
        {
            // Fewer entries for the processor's address tables; without them it is only slower.
            let _ = map.advise(Advice::HugePage);
            let words = NonNull::slice_from_raw_parts(first, count);
            return Zeroed { words, map: Some(map) };
        }
        const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
        let words = Box::into_raw(vec![0u64; count + spare].into_boxed_slice());
        // SAFETY: `AtomicU64` has the size and bit validity of `u64` by its documentation and the
        // same alignment by the assertion above, so the allocation's layout is the same too; the
        // box was just given up, so nothing else owns it.
        Zeroed::boxed(unsafe { Box::from_raw(words as *mut [AtomicU64]) })
    }

    #[cfg(shuttle)]
    pub(super) fn zeroed(count: usize, spare: usize) -> Zeroed {
        Zeroed::boxed((0..count + spare).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(super) fn prefetch<T: ?Sized>(value: &T) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for byte in (0..size_of_val(value)).step_by(super::WORDS_PER_LINE * 8) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let place = std::ptr::from_ref(value).cast::<i8>().wrapping_add(byte);
            // SAFETY: a prefetch reads nothing and faults on nothing; SSE is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_given_back_reads_as_zero_and_can_be_written_again() {
        let words = Words::new(1 << 13, 0);
        let is_zero = |unit| {
            let unit = words.unit(unit).expect("it is there");
            unit.iter().all(|word| word.load(Relaxed) == 0)
        };
        for unit in 0..127 {
            words.ensure(unit);
            words.unit(unit).expect("just ensured").iter().for_each(|word| word.store(7, Relaxed));
        }
        assert!(!words.release(15, 16) && !is_zero(15), "the allocator's");
        assert!(!words.release(127, 1), "it was never there");
        // Maps are left out by Miri.
        if words.release(63 + 32, 32) {
            assert!(!is_zero(63 + 31) && is_zero(63 + 32) && is_zero(63 + 63));
            words.unit(63 + 40).expect("it is there")[1].store(8, Relaxed);
            assert!(!is_zero(63 + 40));
        } else {
            assert!(cfg!(any(shuttle, miri)));
        }
    }

    #[test]
    fn units_are_distinct_aligned_and_stay() {
        let words = Words::new(8, 2);
        for unit in 0..100 {
            assert!(words.segments[7].get().is_none());
            words.ensure(unit);
            let unit_words = words.unit(unit).expect("just ensured");
            assert_eq!(unit_words.as_ptr() as usize % 64, 0);
            assert_eq!(unit_words[0].swap(unit + 1, Relaxed), 0);
            unit_words[7].store(unit, Relaxed);
        }
        for unit in 0..100 {
            let unit_words = words.unit(unit).expect("ensured above");
            assert_eq!(unit_words[0].load(Relaxed), unit + 1);
            assert_eq!(unit_words[7].load(Relaxed), unit);
        }
        assert!(words.unit(1 << 20).is_none());
        assert_eq!(words.units_left_in_segment(0), 4);
        assert_eq!(words.units_left_in_segment(4), 8);
        assert_eq!(words.units_left_in_segment(11), 1);
    }
}
