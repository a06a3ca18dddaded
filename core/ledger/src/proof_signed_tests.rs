//! Receipts whose envelopes have signatures, right ones and others.

use super::{Body, Case, Proof, case, support};
use crate::approvals::{Approved, approve};
use crate::batch::{Batch, OrderSeal};
use crate::hash::{Hash, Tag, tagged_hash, to_hex};
use crate::merkle::{leaf_hash, root_from_proof};
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

/// An envelope whose one approval is these bytes.
fn approved_as(body: &[u8], approval: &[u8]) -> Vec<u8> {
    let mut length = Vec::new();
    types::codec::encode_u64(approval.len() as u64, &mut length);
    let key = SecretKey::of_seed([3; 32]).public();
    [body, &[0, 1], &key, &length, approval].concat()
}

/// Approvals of many transactions by one signature, right ones and others.
fn approved_together(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let (id, key) = (tagged_hash(TAG_ENVELOPE, body), SecretKey::of_seed([3; 32]));
    let tree = |leaves: usize, at: usize| {
        let mut ids: Vec<Hash> = (0..leaves).map(|n| leaf_hash(&n.to_be_bytes())).collect();
        ids[at] = id;
        approve(&key, &ids).unwrap().swap_remove(at)
    };
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut approval = tree(5, 2);
        change(&mut approval);
        approval
    };
    // Signed as it claims to be: nothing is wrong but its shape.
    let shaped = |leaves: u16, path: usize| {
        let path = vec![[5; 32]; path];
        let leaf = leaf_hash(Approved::one(&id).message());
        let root = root_from_proof(leaf, 0, leaves.into(), &path).unwrap_or(leaf);
        let signature = key.sign(Approved::many(leaves, &root).message());
        [&signature[..], &leaves.to_be_bytes(), &[0; 2], &path.concat()].concat()
    };
    let alone = key.sign(Approved::one(&id).message()).to_vec();
    let approvals = [
        ("an approval of two", tree(2, 1)),
        ("an approval of five", tree(5, 2)),
        ("an approval of five, the last", tree(5, 4)),
        ("an approval of as many as may be", tree(1024, 700)),
        ("a path of another leaf", changed(&|it| it[67] ^= 1)),
        ("a path of another root", changed(&|it| *it.last_mut().unwrap() ^= 1)),
        ("a tree of another number", changed(&|it| it[65] = 6)),
        ("a leaf behind the last", changed(&|it| it[67] = 5)),
        ("a path that is too long", changed(&|it| it.extend([0; 32]))),
        ("a path that is cut", changed(&|it| it.truncate(it.len() - 32))),
        ("half a hash", changed(&|it| it.truncate(it.len() - 16))),
        ("no path", changed(&|it| it.truncate(68))),
        ("a shape that is cut", changed(&|it| it.truncate(66))),
        ("an empty tree", shaped(0, 0)),
        ("a tree of one", shaped(1, 0)),
        ("a tree that is too large", shaped(1025, 11)),
        ("a tree of as many as a number holds", shaped(65535, 16)),
        ("a tree under one's own signature", [&alone[..], &tree(5, 2)[64..]].concat()),
        ("a root's signature alone", tree(5, 2)[..64].to_vec()),
    ];
    approvals.map(|(name, approval)| (name, approved_as(body, &approval))).to_vec()
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
    let together = approved_together(&plain);
    let sealed = envelopes.iter().chain(&together).map(|(name, envelope)| {
        let (head, proof) = seal(envelope);
        case(format!("a receipt with {name}"), &head, &proof)
    });
    sealed.collect()
}
