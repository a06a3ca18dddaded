//! A block in the form in which the ledger records it.
//!
//! Under a deterministic protocol that is the block as it was cut. Where transactions run as they
//! arrive, only that run knows the serial order, and a replica that executes the block again must
//! be told. The ledger therefore records the transactions in their serial order, and the stamps of
//! the rows that they wrote hold their positions in it.

use std::sync::Arc;

use types::Position;

use crate::protocol::{Block, BlockOutcome, Protocol};

pub struct Sealed {
    pub block: Arc<Block>,
    /// Of the block as it is sealed.
    pub outcome: BlockOutcome,
    /// Where the transaction at each position stood when the block was cut; `None`: there.
    pub arrivals: Option<Vec<Position>>,
}

impl Sealed {
    /// `protocol` has just finished `block`.
    pub fn of(protocol: &dyn Protocol, block: &Arc<Block>, outcome: BlockOutcome) -> Sealed {
        check(&outcome, block.transactions.len());
        if protocol.info().deterministic {
            return Sealed { block: Arc::clone(block), outcome, arrivals: None };
        }
        let BlockOutcome { outcomes, serial_order, carried, report, .. } = outcome;
        let transactions = in_order(block.transactions.clone(), &serial_order);
        let outcome = BlockOutcome {
            outcomes: in_order(outcomes, &serial_order),
            serial_order: (0..transactions.len() as Position).collect(),
            carried,
            report,
            ..BlockOutcome::default()
        };
        let block = Block { transactions, ..**block };
        Sealed { block: Arc::new(block), outcome, arrivals: Some(serial_order) }
    }
}

/// What [`BlockOutcome`] says of a block of so many transactions. What it defers out of place halts
/// the pipeline, in every build.
fn check(outcome: &BlockOutcome, transactions: usize) {
    let BlockOutcome { outcomes, serial_order, .. } = outcome;
    debug_assert_eq!(outcomes.len(), transactions, "one outcome for each transaction");
    debug_assert!(is_permutation(serial_order, transactions), "each has a place in the order");
}

fn is_permutation(order: &[Position], count: usize) -> bool {
    let mut stands = vec![false; count];
    let mut is_new = |&at: &Position| {
        stands.get_mut(at as usize).is_some_and(|stands| !std::mem::replace(stands, true))
    };
    order.len() == count && order.iter().all(&mut is_new)
}

/// The items at `order`, a permutation of their places.
pub fn in_order<T>(items: Vec<T>, order: &[Position]) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let take = |&at: &Position| items[at as usize].take().expect("a permutation");
    order.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::{in_order, is_permutation};

    #[test]
    fn items_come_in_the_order_that_is_named() {
        assert_eq!(in_order(vec!['a', 'b', 'c'], &[2, 0, 1]), ['c', 'a', 'b']);
    }

    #[test]
    fn a_permutation_has_each_place_once() {
        assert!(is_permutation(&[2, 0, 1], 3));
        for wrong in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 2]] {
            assert!(!is_permutation(wrong, 3), "{wrong:?}");
        }
    }
}
