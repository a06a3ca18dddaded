//! Which of a submitter's sequences are used: the highest, and a bit for each of the 1024 up to it.
//!
//! ```text
//! highest - 1023 ────────────────► highest        below: not known any more, refused
//! bit of sequence s: word s / 64 mod 16, bit s mod 64; zero above the highest, in the ring's sense
//! ```
//!
//! A node numbers its requests one by one, but they may arrive out of order by as many as are on
//! their way at once. Cost: 136 bytes, a few instructions.

/// How far behind the highest sequence one may arrive.
pub const WINDOW: u64 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;
pub(super) const BITMAP_BYTES: usize = WORDS * 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Window {
    highest: u64,
    used: [u64; WORDS],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    Fresh,
    Used,
    Below,
}

impl Window {
    pub fn starting_with(sequence: u64) -> Self {
        let mut window = Window { highest: sequence, used: [0; WORDS] };
        window.set(sequence);
        window
    }

    pub fn take(&mut self, sequence: u64) -> Taken {
        if sequence > self.highest {
            self.advance(sequence);
        } else if self.highest - sequence >= WINDOW {
            return Taken::Below;
        } else if self.is_used(sequence) {
            return Taken::Used;
        }
        self.set(sequence);
        Taken::Fresh
    }

    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Forgets what falls out below, where the ring has the sequences that are skipped now. The
    /// highest itself is set next.
    fn advance(&mut self, sequence: u64) {
        if sequence - self.highest >= WINDOW {
            self.used = [0; WORDS];
        } else {
            for skipped in self.highest + 1..sequence {
                self.used[word(skipped)] &= !bit(skipped);
            }
        }
        self.highest = sequence;
    }

    fn is_used(&self, sequence: u64) -> bool {
        self.used[word(sequence)] & bit(sequence) != 0
    }

    fn set(&mut self, sequence: u64) {
        self.used[word(sequence)] |= bit(sequence);
    }

    /// Bit `n`, counted from the first byte's highest, says that `highest - n` is used.
    pub fn bitmap(&self) -> [u8; BITMAP_BYTES] {
        let mut bytes = [0; BITMAP_BYTES];
        for back in 0..WINDOW.min(self.highest.saturating_add(1)) {
            if self.is_used(self.highest - back) {
                bytes[back as usize / 8] |= 0x80 >> (back % 8);
            }
        }
        bytes
    }

    /// `None` if the highest is not used, or one below zero is.
    pub fn from_bitmap(highest: u64, bytes: &[u8; BITMAP_BYTES]) -> Option<Window> {
        let mut window = Window { highest, used: [0; WORDS] };
        for back in (0..WINDOW).filter(|back| bytes[*back as usize / 8] & (0x80 >> (back % 8)) != 0)
        {
            window.set(highest.checked_sub(back)?);
        }
        window.is_used(highest).then_some(window)
    }
}

fn word(sequence: u64) -> usize {
    (sequence / 64 % WORDS as u64) as usize
}

fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}
