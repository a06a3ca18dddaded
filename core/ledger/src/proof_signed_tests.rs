//! Receipts whose envelopes have signatures, right ones and others.

use super::{Body, Case, Proof, case, support};
use crate::batch::{Batch, OrderSeal};
use crate::hash::{Tag, tagged_hash, to_hex};
use crate::proof::Anchor;
use crate::receipt::Receipt;
use crate::signatures::{SecretKey, TAG_APPROVAL, TAG_ENVELOPE, TAG_SIGNATURE};

/// An envelope's bytes up to its request, of a form.
fn envelope_of(form: u8) -> Vec<u8> {
    let mut body = [&[form][..], b"test ledger 0001", b"\x03ada"].concat();
    match form & 1 {
        0 => body.extend([&[7; 16][..], b"\xf0\xa2\x04"].concat()),
        _ => body.extend(b"\x04rent"),
    }
    body.extend(b"\x80\x80\x04\x2a");
    if form & 2 != 0 {
        body.extend(b"\x01\x04role\x06payers");
    }
    if form & 4 != 0 {
        body.extend([9; 16]);
    }
    body.extend(b"\x0b\x01\x08SELECT 1\x00");
    body
}

/// A list with signatures by the keys of these seeds.
fn signed_by(tag: &Tag, body: &[u8], seeds: &[u8]) -> Vec<u8> {
    let id = tagged_hash(TAG_ENVELOPE, body);
    let message = [&tag[..], &id].concat();
    let mut list = vec![seeds.len() as u8];
    for seed in seeds {
        let key = SecretKey::of_seed([*seed; 32]);
        list.extend([&key.public()[..], &[64], &key.sign(&message)].concat());
    }
    list
}

/// Receipts whose envelopes have signatures, right ones and others.
pub(super) fn receipts() -> Vec<Case> {
    let whole = |form: u8, seeds: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let body = envelope_of(form);
        let mut bytes = [&body[..], &signed_by(TAG_SIGNATURE, &body, seeds), &[0]].concat();
        change(&mut bytes);
        bytes
    };
    let plain = envelope_of(0x10);
    let approved_by = |signers: &[u8], approvers: &[u8]| {
        let [signed, approved] = [(TAG_SIGNATURE, signers), (TAG_APPROVAL, approvers)]
            .map(|(tag, seeds)| signed_by(tag, &plain, seeds));
        [&plain[..], &signed, &approved].concat()
    };
    let mut one_wrong = approved_by(&[1], &[2, 3]);
    *one_wrong.last_mut().unwrap() ^= 1;
    let signature = signed_by(TAG_SIGNATURE, &plain, &[2]);
    let as_is: &dyn Fn(&mut Vec<u8>) = &|_| ();
    let envelopes = [
        ("no signature", plain.clone()),
        ("one signature", whole(0x10, &[1], as_is)),
        ("one of every part", whole(0x17, &[2], as_is)),
        ("two signatures", whole(0x11, &[1, 2], as_is)),
        ("a wrong one", whole(0x10, &[1], &|bytes| bytes[60] ^= 1)),
        (
            "one wrong of two",
            whole(0x10, &[1, 2], &|bytes| {
                let end = bytes.len() - 2;
                bytes[end] ^= 1;
            }),
        ),
        (
            "one of 63 bytes",
            whole(0x10, &[1], &|bytes| {
                let length = bytes.len() - 66;
                bytes[length] = 63;
                bytes.remove(length + 1);
            }),
        ),
        (
            "approvals beside it",
            whole(0x10, &[1], &|bytes| {
                bytes.pop();
                bytes.extend([&[1][..], &[5; 32], b"\x02ok"].concat());
            }),
        ),
        ("an approval alone", approved_by(&[], &[3])),
        ("two approvals", approved_by(&[1], &[2, 3])),
        ("one wrong approval of two", one_wrong),
        ("a signature in an approval's place", [&plain[..], &[0], &signature].concat()),
        ("a byte too many", whole(0x10, &[1], &|bytes| bytes.push(0))),
        ("a form that is none", whole(0x20, &[1], as_is)),
        ("a list that is too long", [&plain[..], &[65], &[0; 65 * 33], &[0]].concat()),
        (
            "an overlong number",
            whole(0x10, &[1], &|bytes| {
                bytes.pop();
                bytes.extend([0x80, 0]);
            }),
        ),
        ("an envelope that is cut", whole(0x10, &[1], &|bytes| bytes.truncate(90))),
    ];
    let blocks = support::chain(1, 1);
    let seal = |envelope: &[u8]| {
        let before = blocks[1].batch.header();
        let order = OrderSeal {
            ledger_id: before.ledger_id,
            height: 1,
            previous_order_hash: before.previous_order_hash,
            time_us: before.time_us,
            proposer: before.proposer,
            parameters_hash: before.parameters_hash,
            seen_height: 0,
        };
        let batch = Batch::seal(order, vec![envelope.to_vec().into()]).unwrap();
        let mut block = blocks[1].clone();
        block.result = support::changed_result(&block.result, &|header, _| {
            header.order_hash = batch.hash();
        });
        block.batch = batch;
        let receipt = Receipt::of(&block, 0).unwrap();
        let body = Body::Receipt(Box::new(receipt));
        (to_hex(&block.result.header().hash()), Proof { body, anchor: Anchor::None })
    };
    let sealed = envelopes.iter().map(|(name, envelope)| {
        let (head, proof) = seal(envelope);
        case(format!("a receipt with {name}"), &head, &proof)
    });
    sealed.collect()
}
