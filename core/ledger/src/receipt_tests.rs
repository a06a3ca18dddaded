use super::*;
use crate::result::{BlockResult, ResultSeal};
use crate::testing::chain;

/// A block that decides about transactions 1 and 4 of the block three before it.
pub fn late_decision() -> (Vec<Block>, Block) {
    let mut blocks = chain(5, 5);
    let last = blocks.pop().unwrap();
    let header = last.result.header();
    let seal = ResultSeal {
        ledger_id: header.ledger_id,
        height: header.height,
        previous_result_hash: header.previous_result_hash,
        order_hash: header.order_hash,
        snapshot_height: header.snapshot_height,
        executor: header.executor,
        effects: crate::effects::EffectsBuilder::new().digest(),
        reorderings: 0,
        carried_root: [0; 32],
        state_root: [0; 32],
    };
    let late = |index| CarriedOutcome { height: 2, index, outcome: "at last".into() };
    let outcomes = last.result.outcomes().to_vec();
    let result = BlockResult::seal(seal, outcomes, vec![late(1), late(4)]).unwrap();
    (blocks, Block { batch: last.batch, result })
}

fn carried(index: u32) -> (Receipt, Hash) {
    let (blocks, last) = late_decision();
    let between: Vec<_> = [4, 3].map(|at: usize| blocks[at].batch.header().clone()).into();
    let receipt = Receipt::of_carried(&blocks[2].batch, index, &between, &last).unwrap();
    (receipt, last.hash())
}

#[test]
fn every_envelope_has_a_receipt() {
    for transactions in [1, 2, 3, 7, 8, 9] {
        let block = chain(3, transactions).pop().unwrap();
        let head = block.hash();
        for index in 0..transactions as u32 {
            let receipt = Receipt::of(&block, index).unwrap();
            receipt.verify(&head).unwrap();
            assert_eq!((receipt.height(), receipt.ordered_at()), (3, Some(3)));
            assert_eq!(Receipt::decode(&receipt.encode().unwrap()).unwrap(), receipt);
            assert_eq!(Receipt::from_json(&receipt.to_json()).unwrap(), receipt);
            assert!(receipt.verify(&[0; 32]).is_err());
        }
        assert_eq!(Receipt::of(&block, transactions as u32), None);
    }
}

#[test]
fn a_transaction_that_was_put_off_has_a_receipt_of_the_block_that_decided() {
    for index in [1, 4] {
        let (receipt, head) = carried(index);
        receipt.verify(&head).unwrap();
        assert_eq!((receipt.height(), receipt.ordered_at()), (5, Some(2)));
        assert_eq!(receipt.outcome, b"at last");
        assert_eq!(receipt.orders.len(), 4);
        assert_eq!(Receipt::decode(&receipt.encode().unwrap()).unwrap(), receipt);
        assert_eq!(Receipt::from_json(&receipt.to_json()).unwrap(), receipt);
    }
    let (blocks, last) = late_decision();
    let header = |at: usize| blocks[at].batch.header().clone();
    let of = |origin: usize, index, between: &[OrderHeader]| {
        Receipt::of_carried(&blocks[origin].batch, index, between, &last)
    };
    assert_eq!(of(2, 0, &[header(4), header(3)]), None, "it was not deferred");
    assert_eq!(of(3, 1, &[header(4)]), None, "that is another block's");
    assert_eq!(of(2, 1, &[header(4)]), None, "a header is missing");
    assert_eq!(of(2, 1, &[header(3), header(4)]), None, "the wrong way round");
}

/// Neither kind of outcome passes for the other.
#[test]
fn an_own_outcome_is_not_a_carried_one() {
    let (receipt, head) = carried(1);
    let (blocks, last) = late_decision();
    let own = Receipt::of(&last, 1).unwrap();
    own.verify(&last.hash()).unwrap();

    // The carried leaf, claimed as the own outcome of the deciding block.
    let leaf = last.result.carried()[0].leaf();
    let forged = Receipt {
        outcome_index: receipt.outcome_index,
        outcome: leaf,
        outcome_proof: receipt.outcome_proof.clone(),
        ..own.clone()
    };
    assert!(forged.verify(&head).is_err());
    // An own outcome of the deciding block, claimed for an envelope of the block before.
    let mut forged = own;
    forged.orders.push(blocks[4].batch.header().clone());
    forged.envelope = blocks[4].batch.envelopes()[1].to_vec();
    forged.envelope_proof = envelope_proof(&blocks[4].batch, 1).unwrap();
    assert!(forged.verify(&head).is_err());
    // The outcome of another transaction that was deferred.
    let (other, _) = carried(4);
    let forged = Receipt {
        outcome_index: other.outcome_index,
        outcome: other.outcome,
        outcome_proof: other.outcome_proof,
        ..receipt
    };
    assert!(forged.verify(&head).is_err());
}

#[test]
fn no_bit_of_the_binary_form_can_change() {
    let block = chain(3, 5).pop().unwrap();
    let own = [0, 3, 4].map(|index| (Receipt::of(&block, index).unwrap(), block.hash()));
    for (receipt, head) in own.into_iter().chain([carried(1), carried(4)]) {
        let bytes = receipt.encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let verdict = Receipt::decode(&changed).and_then(|r| r.verify(&head));
            assert!(verdict.is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Receipt::decode(&bytes[..cut]).is_err());
        }
    }
}

/// A changed JSON text is refused, or it is another spelling of the same receipt.
#[test]
fn no_character_of_the_json_form_can_change_its_meaning() {
    let (receipt, head) = carried(4);
    let text = serde_json::to_vec_pretty(&receipt.to_json()).unwrap();
    for position in 0..text.len() {
        for mask in [1, 2, 4, 0x10, 0x20, 0x80] {
            let mut changed = text.clone();
            changed[position] ^= mask;
            let Ok(value) = serde_json::from_slice(&changed) else {
                continue;
            };
            let Ok(found) = Receipt::from_json(&value) else {
                continue;
            };
            if found.verify(&head).is_ok() {
                assert_eq!(found, receipt, "character {position}");
            }
        }
    }
}
