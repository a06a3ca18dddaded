//! CometBFT's validators: the ledger's members, without those that were convicted of misbehaviour.
//!
//! All nodes derive the same set: the members after a ledger block from executing it, and
//! convictions from the evidence in CometBFT's blocks.

use std::collections::{BTreeMap, BTreeSet};

use types::Height;

use crate::app::Address;
use crate::home::address_of;

/// Public keys.
pub type Keys = BTreeSet<[u8; 32]>;

/// A validator's power from now on: 1, or 0 of one that validates no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    pub key: [u8; 32],
    pub power: u8,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Validators {
    /// Whom the ledger names after this block and later ones, up to the next entry.
    named: BTreeMap<Height, Keys>,
    /// With CometBFT's height of the first evidence.
    convicted: BTreeMap<Address, u64>,
}

impl Validators {
    /// `named`: after the ledger's blocks, as far back as is needed.
    pub fn new(
        named: BTreeMap<Height, Keys>,
        convicted: impl IntoIterator<Item = (Address, u64)>,
    ) -> Validators {
        let mut validators = Validators::default();
        named.into_iter().for_each(|(height, keys)| _ = validators.change(height, keys));
        convicted.into_iter().for_each(|(it, sequence)| validators.convict(sequence, &[it]));
        validators
    }

    /// The ledger's block after which the members were changed last.
    pub fn newest(&self) -> Option<Height> {
        self.named.last_key_value().map(|(height, _)| *height)
    }

    /// After a block these are the members. Whether others were.
    pub(crate) fn change(&mut self, height: Height, keys: Keys) -> bool {
        if self.named_behind(height) == Some(&keys) {
            return false;
        }
        self.named.insert(height, keys);
        true
    }

    /// By evidence in one of CometBFT's blocks.
    pub fn convict(&mut self, sequence: u64, who: &[Address]) {
        for address in who {
            let first = self.convicted.entry(*address).or_insert(sequence);
            *first = sequence.min(*first);
        }
    }

    /// Nothing is asked about blocks below this one any more.
    pub(crate) fn forget(&mut self, height: Height) {
        let Some(first) = self.named.range(..=height).next_back().map(|(first, _)| *first) else {
            return;
        };
        self.named = self.named.split_off(&first);
        debug_assert!(self.named.contains_key(&first), "who is named behind `height` stays known");
    }

    fn named_behind(&self, height: Height) -> Option<&Keys> {
        let behind = self.named.range(..=height).next_back().or(self.named.first_key_value());
        behind.map(|(_, keys)| keys)
    }

    /// After one of CometBFT's blocks, and the ledger's block that it goes by. One at least is
    /// left: without any there would be no order.
    pub(crate) fn behind(&self, (sequence, height): (u64, Height)) -> Keys {
        let named = self.named_behind(height).cloned().unwrap_or_default();
        let is_convicted =
            |key: &[u8; 32]| self.convicted.get(&address_of(key)).is_some_and(|it| *it <= sequence);
        let left: Keys = named.iter().copied().filter(|key| !is_convicted(key)).collect();
        let left = if left.is_empty() { named } else { left };
        debug_assert!(!left.is_empty() || self.named.is_empty(), "one at least is left");
        left
    }

    /// What changes from the one to the other.
    pub(crate) fn updates(&self, before: (u64, Height), now: (u64, Height)) -> Vec<Update> {
        let (before, now) = (self.behind(before), self.behind(now));
        let gone = before.difference(&now).map(|key| Update { key: *key, power: 0 });
        let new = now.difference(&before).map(|key| Update { key: *key, power: 1 });
        gone.chain(new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(all: &[u8]) -> Keys {
        all.iter().map(|key| [*key; 32]).collect()
    }

    fn of(key: u8, power: u8) -> Update {
        Update { key: [key; 32], power }
    }

    #[test]
    fn members_come_and_go_and_the_convicted_go() {
        let mut all = Validators::new(BTreeMap::from([(0, keys(&[1, 2, 3, 4]))]), []);
        assert!(!all.change(5, keys(&[1, 2, 3, 4])));
        assert!(all.change(6, keys(&[1, 2, 3, 4, 5])));
        assert!(all.change(7, keys(&[2, 3, 4, 5])));
        assert_eq!(all.updates((9, 4), (10, 5)), []);
        assert_eq!(all.updates((10, 5), (11, 6)), [of(5, 1)]);
        assert_eq!(all.updates((11, 6), (12, 7)), [of(1, 0)]);
        assert_eq!(all.updates((10, 5), (12, 7)), [of(1, 0), of(5, 1)], "both at once");
        all.convict(13, &[address_of(&[3; 32])]);
        all.convict(15, &[address_of(&[3; 32]), address_of(&[1; 32])]);
        assert_eq!(all.updates((12, 7), (13, 7)), [of(3, 0)]);
        for (sequence, height) in [(13, 7), (14, 7), (14, 8)] {
            let next = (sequence + 1, height);
            assert_eq!(all.updates((sequence, height), next), [], "{next:?}");
        }
        // Removed after it was convicted.
        assert!(all.change(9, keys(&[2, 4, 5])));
        assert_eq!(all.updates((16, 8), (17, 9)), []);
        all.forget(8);
        assert_eq!(all.updates((16, 8), (17, 9)), []);
        assert_eq!(all.named.keys().copied().collect::<Vec<_>>(), [7, 9]);
    }

    #[test]
    fn one_is_left() {
        let mut alone = Validators::new(BTreeMap::from([(0, keys(&[1]))]), []);
        alone.convict(3, &[address_of(&[1; 32])]);
        assert_eq!(alone.updates((2, 0), (3, 0)), []);
    }
}
