//! Who votes on which block, as the blocks say that this node has executed.

use std::collections::VecDeque;
use std::sync::Arc;

use ledger::{Electors, Hash, LedgerId, Parameters};
use tracing::warn;

/// Of so many changes of members it is known who came.
const SEEN_MAX: usize = 64;

pub struct Voters {
    ledger_id: LedgerId,
    parameters: Option<(Arc<Parameters>, Hash)>,
    /// In the order in which blocks named them, with their hashes; the last ones are in force for
    /// the next block.
    seen: VecDeque<(Electors, Hash)>,
}

impl Voters {
    pub fn new(ledger_id: LedgerId) -> Voters {
        Voters { ledger_id, parameters: None, seen: VecDeque::new() }
    }

    /// These parameters are in force from the next block on. Whether others vote by that.
    pub fn follow(&mut self, parameters: &Arc<Parameters>) -> bool {
        if self.parameters.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, parameters)) {
            return false;
        }
        let next = Electors::under(self.ledger_id, parameters);
        let (electors, hash) = match next.and_then(|electors| Ok((electors, parameters.hash()?))) {
            Ok(found) => found,
            // No change of parameters is taken that would lead here.
            Err(error) => {
                warn!(%error, "who votes from now on cannot be read");
                self.parameters = None;
                return false;
            }
        };
        self.parameters = Some((Arc::clone(parameters), hash));
        let named = electors.hash();
        if self.seen.back().is_some_and(|(_, known)| *known == named) {
            return false;
        }
        self.seen.push_back((electors, named));
        if self.seen.len() > SEEN_MAX {
            self.seen.pop_front();
        }
        true
    }

    /// Those in force for the next block.
    pub fn newest(&self) -> Option<&Electors> {
        self.seen.back().map(|(electors, _)| electors)
    }

    /// The hash of those in force for the next block, if its header names these parameters.
    pub fn of(&self, parameters_hash: &Hash) -> Option<Hash> {
        let (_, known) = self.parameters.as_ref()?;
        self.seen.back().filter(|_| known == parameters_hash).map(|(_, named)| *named)
    }

    pub fn named(&self, hash: &Hash) -> Option<&Electors> {
        self.seen.iter().find(|(_, named)| named == hash).map(|(electors, _)| electors)
    }
}

#[cfg(test)]
mod tests {
    use ledger::hash::to_hex;

    use super::*;

    fn parameters(members: u8, other: &str) -> Arc<Parameters> {
        let mut parameters = Parameters::new("harmony");
        let one = |id: u8| format!("{id} {} host:1", to_hex(&[id; 32]));
        let all: Vec<String> = (1..=members).map(one).collect();
        parameters.others.insert("members".to_owned(), all.join(", "));
        parameters.others.insert("block_bytes_max".to_owned(), other.to_owned());
        Arc::new(parameters)
    }

    #[test]
    fn blocks_say_who_votes_on_the_next_one() {
        let mut voters = Voters::new([1; 16]);
        let (three, same, four) = (parameters(3, "1"), parameters(3, "2"), parameters(4, "2"));
        let hash = |parameters: &Parameters| parameters.hash().unwrap();
        assert_eq!(voters.of(&hash(&three)), None);
        assert!(voters.follow(&three) && !voters.follow(&three));
        let first = voters.of(&hash(&three)).unwrap();
        assert_eq!(voters.of(&hash(&four)), None, "a block was missed");
        assert!(!voters.follow(&same), "other parameters, and the same members");
        assert_eq!((voters.of(&hash(&same)), voters.of(&hash(&three))), (Some(first), None));
        assert!(voters.follow(&four));
        assert_eq!(voters.newest().unwrap().keys.len(), 4);
        assert_eq!(voters.named(&first).unwrap().keys.len(), 3);
        assert!(!voters.follow(&Arc::new(Parameters::new("harmony"))));
        assert_eq!(voters.of(&hash(&four)), None);
    }
}
