//! The verifier: a machine with a stack that reads a proof once.
//!
//! A proof is a version and steps, in the order in which hashes can be computed: a subtree before
//! its branch, the left side before the right one.
//!
//! ```text
//! step        bytes after it             what it does
//! 00 page     u16 length, the page        pushes the page
//! 01 left     u16 position, 32 hash       the top is the right side, the left one is hidden
//! 02 right    u16 position, 32 hash       the top is the left side, the right one is hidden
//! 03 both     u16 position                the two on top are the sides
//! ```
//!
//! At the end one subtree is on the stack: the whole tree, whose hash is the root.
//!
//! Of each subtree on the stack the machine keeps the hash, a key that is shown in it, and its
//! position: that of its branch, or the bit at which the first and the last key of a page first
//! differ. A branch is above it only at a smaller position, and on the side that the key's bit
//! names; that makes the order of all keys, and what a hidden side can hold, follow from what is
//! shown.

use core::fmt;

use crate::{
    Hash, PAGE_BYTES_MAX, Range, Row, Rows, bit, branch_hash, first_difference, page_hash,
};

/// The first byte of every proof.
pub const VERSION: u8 = 1;

pub const PAGE: u8 = 0;
pub const LEFT: u8 = 1;
pub const RIGHT: u8 = 2;
pub const BOTH: u8 = 3;

/// The position of a subtree that is one row: below every branch.
const BELOW_ALL: u16 = u16::MAX;

/// Why a proof proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Of another version.
    Version,
    /// It ends within a step, or with no or several subtrees.
    CutShort,
    /// No such step, or a step without the subtrees that it takes.
    Step,
    /// A page that is none: not rows in ascending order, or more bytes than a page has.
    Page,
    /// A position or a side that the keys below contradict.
    Shape,
    /// A hidden subtree may hold rows of the range.
    Hidden,
    /// More subtrees are open than the stack has room for.
    Deep,
    /// It leads to another root.
    Root,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Version => "the proof is of an unknown version",
            Refused::CutShort => "the proof is cut short",
            Refused::Step => "the proof has a step that is none",
            Refused::Page => "the proof shows a page that is none",
            Refused::Shape => "the proof is not the shape of a tree with these keys",
            Refused::Hidden => "the proof hides rows of the range",
            Refused::Deep => "the proof has more open subtrees than there is room for",
            Refused::Root => "the proof leads to another root",
        })
    }
}

impl core::error::Error for Refused {}

/// A subtree that was read.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    hash: Hash,
    /// Empty: there is none, as the tree has no rows.
    key: &'a [u8],
    position: u16,
}

impl Entry<'_> {
    /// What a stack is made of.
    pub const EMPTY: Self = Entry { hash: [0; 32], key: &[], position: BELOW_ALL };
}

/// A proof that holds: these are all rows of the range.
#[derive(Clone, Copy, Debug)]
pub struct Proven<'a, 'r> {
    proof: &'a [u8],
    range: Range<'r>,
}

impl<'a, 'r> Proven<'a, 'r> {
    /// All rows of the range, in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'a>> + use<'a, 'r> {
        let range = self.range;
        let mut steps = Steps { rest: &self.proof[1..] };
        let pages = core::iter::from_fn(move || {
            steps.find_map(|step| match step {
                Ok(Step::Page(page)) => Some(page),
                _ => None,
            })
        });
        pages.flat_map(Rows::of).filter(move |row| range.contains(row.key))
    }
}

/// Checks that the rows which a proof shows of a range are all that the tree with this root has
/// there. A stack of one entry is enough for the proof of a row or of an absence, 64 are for any
/// range unless keys were made for it, one more than the bits of a tree key, 1,153, always.
pub fn verify<'a, 'r>(
    proof: &'a [u8],
    root: &Hash,
    range: Range<'r>,
    stack: &mut [Entry<'a>],
) -> Result<Proven<'a, 'r>, Refused> {
    verify_by::<ALL_CHECKS>(proof, root, range, stack)
}

/// The checks, for tests that leave one out and find a forged proof that passes then.
const ALL_CHECKS: u8 = 0xff;
const CHECK_ASCENDING: u8 = 1;
const CHECK_POSITIONS: u8 = 2;
const CHECK_SIDES: u8 = 4;
const CHECK_HIDDEN: u8 = 8;
const CHECK_ROOT: u8 = 16;
const CHECK_PARTING: u8 = 32;

fn verify_by<'a, 'r, const CHECKS: u8>(
    proof: &'a [u8],
    root: &Hash,
    range: Range<'r>,
    stack: &mut [Entry<'a>],
) -> Result<Proven<'a, 'r>, Refused> {
    let (version, rest) = proof.split_first().ok_or(Refused::CutShort)?;
    if *version != VERSION {
        return Err(Refused::Version);
    }
    let mut open = 0_usize;
    for step in (Steps { rest }) {
        let entry = match step? {
            Step::Page(page) => {
                open += 1;
                read_page::<CHECKS>(page)?
            }
            Step::Hidden { position, side, hash } => {
                let top = *open.checked_sub(1).and_then(|at| stack.get(at)).ok_or(Refused::Step)?;
                below::<CHECKS>(&top, position, !side)?;
                let hides = range.meets(top.key, position, side);
                if hides && CHECKS & CHECK_HIDDEN != 0 {
                    return Err(Refused::Hidden);
                }
                let (left, right) = if side { (top.hash, hash) } else { (hash, top.hash) };
                branch(position, &left, &right, top.key)
            }
            Step::Both { position } => {
                open = open.checked_sub(1).filter(|open| *open > 0).ok_or(Refused::Step)?;
                let (left, right) = (stack[open - 1], stack[open]);
                below::<CHECKS>(&left, position, false)?;
                below::<CHECKS>(&right, position, true)?;
                let parts = first_difference(left.key, right.key) == Some(position);
                if !parts && CHECKS & CHECK_PARTING != 0 {
                    return Err(Refused::Shape);
                }
                branch(position, &left.hash, &right.hash, left.key)
            }
        };
        *stack.get_mut(open - 1).ok_or(Refused::Deep)? = entry;
    }
    match (open, stack.first()) {
        (1, Some(top)) if top.hash == *root || CHECKS & CHECK_ROOT == 0 => {
            Ok(Proven { proof, range })
        }
        (1, Some(_)) => Err(Refused::Root),
        _ => Err(Refused::CutShort),
    }
}

fn branch<'a>(position: u16, left: &Hash, right: &Hash, key: &'a [u8]) -> Entry<'a> {
    Entry { hash: branch_hash(position, left, right), key, position }
}

/// Refuses a subtree that cannot be on this side of a branch.
fn below<const CHECKS: u8>(entry: &Entry<'_>, position: u16, side: bool) -> Result<(), Refused> {
    let deeper = position < entry.position || CHECKS & CHECK_POSITIONS == 0;
    let beside = bit(entry.key, position) == side || CHECKS & CHECK_SIDES == 0;
    match deeper && beside && !entry.key.is_empty() {
        true => Ok(()),
        false => Err(Refused::Shape),
    }
}

fn read_page<const CHECKS: u8>(page: &[u8]) -> Result<Entry<'_>, Refused> {
    let hash = page_hash(page);
    let mut rows = Rows::of(page);
    let Some(first) = rows.next() else {
        return match page {
            [] => Ok(Entry { hash, ..Entry::EMPTY }),
            _ => Err(Refused::Page),
        };
    };
    let mut last = first;
    for row in &mut rows {
        if row.key <= last.key && CHECKS & CHECK_ASCENDING != 0 {
            return Err(Refused::Page);
        }
        last = row;
    }
    let position = first_difference(first.key, last.key);
    let whole = rows.rest().is_empty();
    if !whole || position.is_some() && page.len() > PAGE_BYTES_MAX {
        return Err(Refused::Page);
    }
    Ok(Entry { hash, key: first.key, position: position.unwrap_or(BELOW_ALL) })
}

enum Step<'a> {
    Page(&'a [u8]),
    /// A branch whose `side` is hidden.
    Hidden {
        position: u16,
        side: bool,
        hash: Hash,
    },
    Both {
        position: u16,
    },
}

struct Steps<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.step())
    }
}

impl<'a> Steps<'a> {
    fn step(&mut self) -> Result<Step<'a>, Refused> {
        let kind = self.take::<1>()?[0];
        let number = u16::from_be_bytes(*self.take::<2>()?);
        match kind {
            PAGE => {
                let (page, rest) =
                    self.rest.split_at_checked(number.into()).ok_or(Refused::CutShort)?;
                self.rest = rest;
                Ok(Step::Page(page))
            }
            LEFT | RIGHT => {
                let hash = *self.take::<32>()?;
                Ok(Step::Hidden { position: number, side: kind == RIGHT, hash })
            }
            BOTH => Ok(Step::Both { position: number }),
            _ => Err(Refused::Step),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], Refused> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Refused::CutShort)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
