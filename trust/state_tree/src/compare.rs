//! Comparing with a tree elsewhere: from the root down, only where hashes differ.
//!
//! Each round asks the peer for what it has in some regions. It cannot lie: an answer must have the
//! hash that the answer before named, down from a root that the caller trusts or wants to know the
//! contents of. The key that comes with a branch is under no hash; a wrong one leads to regions in
//! which the rows that the hashes commit to do not fit, so a comparison that comes to its end has
//! used none. Rounds are as many as the tree is deep at most, regions asked for as many as branches
//! and pages above differences.

use proofs::{Hash, Row, Rows, TreeKey};

use crate::apply::Value;
use crate::node::StateTree;
use crate::region::{Region, Summary};

/// The other tree: another node's, or an older one of this one.
pub trait Peer {
    type Error;

    fn root(&mut self) -> Result<Hash, Self::Error>;

    /// What it has in each of the regions, in their order.
    fn summaries(&mut self, regions: &[Region]) -> Result<Vec<Summary>, Self::Error>;
}

impl Peer for &StateTree {
    type Error = std::convert::Infallible;

    fn root(&mut self) -> Result<Hash, Self::Error> {
        Ok(StateTree::root(self))
    }

    fn summaries(&mut self, regions: &[Region]) -> Result<Vec<Summary>, Self::Error> {
        Ok(regions.iter().map(|region| self.summary(region)).collect())
    }
}

/// A row that two trees do not have alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    pub key: TreeKey,
    pub here: Option<Value>,
    pub there: Option<Value>,
}

/// What a comparison came to.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Ascending by key.
    pub differences: Vec<Difference>,
    /// Not all differences: there are more than were asked for.
    pub more: bool,
    /// How often the peer was asked, and for how many regions in all.
    pub rounds: usize,
    pub regions: usize,
}

/// Why a comparison ended before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contradiction<E> {
    Peer(E),
    /// The peer's answer is not what it committed to before.
    Answer(Region),
}

/// How many regions one round asks for at most, so that neither side's memory is the peer's.
const REGIONS_PER_ROUND: usize = 1_024;

impl StateTree {
    /// Names the rows that differ from those of a peer, up to about `differences_max` of them.
    pub fn compare<P: Peer>(
        &self,
        peer: &mut P,
        differences_max: usize,
    ) -> Result<Compared, Contradiction<P::Error>> {
        let mut compared = Compared::default();
        let mut open = vec![(Region::All, peer.root().map_err(Contradiction::Peer)?)];
        loop {
            let from = open.len().saturating_sub(REGIONS_PER_ROUND);
            let mut asked = open.split_off(from);
            asked.retain(|(region, hash)| self.summary(region).hash() != *hash);
            if asked.is_empty() && open.is_empty() {
                break;
            }
            if compared.differences.len() >= differences_max {
                compared.more = true;
                break;
            }
            if asked.is_empty() {
                continue;
            }
            let regions: Vec<Region> = asked.iter().map(|(region, _)| *region).collect();
            let answers = peer.summaries(&regions).map_err(Contradiction::Peer)?;
            compared.rounds += 1;
            compared.regions += regions.len();
            let mut answers = answers.into_iter();
            for (region, hash) in asked {
                let answer = answers.next().filter(|answer| {
                    let honest = answer.hash() == hash && answer.fits(&region);
                    honest || kit::mutant::mutated("tree_answer_believed")
                });
                let answer = answer.ok_or(Contradiction::Answer(region))?;
                self.descend(&region, &answer, &mut open, &mut compared.differences);
            }
        }
        compared.differences.sort_by_key(|difference| difference.key);
        Ok(compared)
    }

    fn descend(
        &self,
        region: &Region,
        there: &Summary,
        open: &mut Vec<(Region, Hash)>,
        found: &mut Vec<Difference>,
    ) {
        match there {
            Summary::Page(page) => {
                let here = self.rows_of(region, None);
                differ(here.into_iter(), Rows::of(page), found);
            }
            Summary::Branch { key, position, sides } => {
                let outside = self.rows_of(region, Some((key, *position)));
                if !kit::mutant::mutated("tree_surplus_unseen") {
                    differ(outside.into_iter(), Rows::of(&[]), found);
                }
                for (side, hash) in [false, true].into_iter().zip(sides) {
                    open.push((Region::Side { key: *key, position: *position, side }, *hash));
                }
            }
        }
    }
}

/// What two lists of rows in order do not have alike.
fn differ<'a>(
    here: impl Iterator<Item = Row<'a>>,
    there: impl Iterator<Item = Row<'a>>,
    found: &mut Vec<Difference>,
) {
    let value = |row: &Row<'_>| Value { image: row.image, height: row.height };
    let mut found_one = |key: &[u8], here: Option<&Row<'_>>, there: Option<&Row<'_>>| {
        found.extend(TreeKey::of_bytes(key).map(|key| Difference {
            key,
            here: here.map(value),
            there: there.map(value),
        }));
    };
    let mut there = there.peekable();
    for row in here {
        while let Some(other) = there.next_if(|other| other.key < row.key) {
            found_one(other.key, None, Some(&other));
        }
        match there.next_if(|other| other.key == row.key) {
            Some(other) if other == row => {}
            other => found_one(row.key, Some(&row), other.as_ref()),
        }
    }
    there.for_each(|other| found_one(other.key, None, Some(&other)));
}
