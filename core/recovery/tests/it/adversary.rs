//! A forged ledger, of which every root and hash was computed anew, is found by running the
//! transactions again, or by a head that is kept elsewhere. Which of the two it takes is said here
//! of every field of an order header, a result header, an envelope, an outcome and an effect.
//!
//! What only an outside head finds is not a gap: such a ledger is the one that an honest node would
//! have, had its clients asked for other things.

use std::sync::Arc;

use bytes::Bytes;
use engine::transaction::outcome::{Reported, RowImage, imaged, split_images};
use engine::{Body, ParameterTypes, Request};
use ledger::header::{ORDER_HEADER_BYTES, RESULT_HEADER_BYTES};
use ledger::{Files, Hash, MemoryFiles, OrderHeader, ResultHeader};
use order::{Envelope, Signature, Submission};
use types::Value;

use crate::forger::Found::{self, Bytes as InBytes, Execution, OutsideHead};
use crate::forger::{Alteration, Block, altered, found, run_again, taken_apart};
use crate::ledgered::{LEDGER_ID, Ledgered};

/// One of each kind: blocks in order, deferring, overlapping, arriving, arriving without an order.
const PROTOCOLS: [&str; 5] = ["serial", "aria", "harmony:inter_block=on", "silo", "si"];

/// No serial order explains its blocks: results hold row images, and outcomes are not reported
/// again.
const IMAGED: &str = "si";

/// The block that reads the time, the user and a seed, and whose rows are inserted, updated,
/// deleted.
const FULL: usize = 6;

/// The same without a look at any of them.
const PLAIN: usize = 7;

fn statement(text: &str) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

fn script() -> Vec<Vec<Body>> {
    let schema = |text: &str| Body::Schema { text: text.into() };
    let parameter =
        |name: &str, value: &str| Body::Parameter { name: name.into(), value: value.into() };
    let all = |texts: &[&str]| texts.iter().map(|text| statement(text)).collect::<Vec<_>>();
    let row = |id: i64| [Value::Int(id), Value::Int(0), Value::Null].into();
    let twice = "UPDATE t SET v = v + 1 WHERE id = 1";
    vec![
        vec![schema("CREATE TABLE t (id bigint PRIMARY KEY, v bigint, note text)")],
        vec![Body::load("COPY t FROM STDIN", (1..8).map(row).collect())],
        vec![parameter("attempts_max", "7")],
        all(&[twice, twice, twice, "INSERT INTO t VALUES (1, 1, 'again')"]),
        vec![
            schema("CREATE INDEX notes ON t (note)"),
            statement("INSERT INTO t VALUES (20, 1, '')"),
        ],
        all(&[
            "INSERT INTO t VALUES (30, 1, current_user)",
            "UPDATE t SET note = now()::text WHERE id = 3",
            "UPDATE t SET note = random()::text WHERE id = 4",
            "DELETE FROM t WHERE id = 5",
            "UPDATE t SET v = 7 WHERE id = 7 RETURNING id, v, note",
            "UPDATE t SET v = 8 WHERE id = 6 RETURNING repeat('long', 100)",
            "INSERT INTO t VALUES (2, 1, 'again')",
        ]),
        all(&[
            "INSERT INTO t VALUES (40, 1, 'plain')",
            "UPDATE t SET v = v + 1 WHERE id = 2",
            "UPDATE t SET v = v + 1 WHERE id = 2",
            "UPDATE t SET v = v + 1 WHERE id = 2",
            "DELETE FROM t WHERE id = 6",
        ]),
        all(&["INSERT INTO t VALUES (50, 1, 'keyed')", "UPDATE t SET v = v + 1 WHERE id = 40"]),
        all(&["UPDATE t SET v = v + 1 WHERE id = 30"]),
    ]
}

/// The requests of a block: as many as there are bodies, and a copy of the first in [`PLAIN`].
fn requests(height: usize, bodies: &[Body]) -> Vec<Request> {
    let envelope = |index: usize, body: &Body| {
        let sequence = (height * 100 + index) as u64;
        let submission = match (height, index) {
            (PLAIN, 0) => Submission::Key("a key".to_owned()),
            _ => Submission::Sequence { submitter: [1; 16], sequence },
        };
        let envelope: Envelope<String, Bytes> = Envelope {
            ledger_id: LEDGER_ID,
            principal: "tally".into(),
            submission,
            expires_us: 1_000_000,
            seen_height: 0,
            settings: Vec::new(),
            seed: [9; 16],
            request: body.to_request().into(),
            signatures: Vec::new(),
            approvals: Vec::new(),
        };
        envelope.encode().unwrap()
    };
    let mut envelopes: Vec<Bytes> =
        bodies.iter().enumerate().map(|(index, body)| envelope(index, body)).collect();
    if height == PLAIN {
        envelopes.push(envelopes[0].clone());
    }
    envelopes.into_iter().map(Request::of_bytes).collect()
}

/// A ledger of some blocks, taken apart, and its head.
fn honest(protocol: &str) -> (Vec<Block>, Hash) {
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
    let mut ledger = Ledgered::new(Arc::clone(&files), protocol, 1, &[]);
    for (height, bodies) in (1..).zip(script()) {
        // As far back as any of the protocols reads.
        let seen = (height as u64).saturating_sub(2);
        let requests = requests(height, &bodies);
        let ordered = ledger.replica.order(height as i64 * 10, [0; 32], seen, requests).unwrap();
        let executed = ledger.replica.run(ordered).unwrap();
        ledger.log.append_order(&[executed.batch.encode().unwrap()]).unwrap();
        ledger.replica.publish();
        ledger.log.append_results(&[executed.result.encode().unwrap()]).unwrap();
    }
    let recorded = taken_apart(&files);
    let mut blocks = recorded.clone();
    run_again(&mut blocks);
    let head = ledger.replica.head().hash;
    assert_eq!(blocks.last().unwrap().result.hash(), head, "{protocol}");
    // A forgery that alters nothing is the same ledger, to the last bit.
    let unaltered = altered(&blocks, FULL, Alteration::Bodies(&|_| ()));
    assert_eq!(unaltered, blocks, "{protocol}");
    (blocks, head)
}

/// A field's name, its bytes, and what may find that one of them is another.
type Field = (&'static str, usize, &'static [Found]);

const ORDER_FIELDS: [Field; 10] = [
    ("version", 2, &[InBytes]),
    ("ledger_id", 16, &[InBytes]),
    ("height", 8, &[InBytes]),
    ("previous_order_hash", 32, &[InBytes]),
    // An earlier one is not after the block before. Of a later one see below.
    ("time_us", 8, &[InBytes, Execution, OutsideHead]),
    ("proposer", 32, &[OutsideHead]),
    ("parameters_hash", 32, &[Execution]),
    // No block has seen one that is not before it. Of the others see below.
    ("seen_height", 8, &[InBytes, Execution, OutsideHead]),
    ("envelope_count", 4, &[InBytes]),
    ("envelopes_root", 32, &[InBytes]),
];

const RESULT_FIELDS: [Field; 15] = [
    ("version", 2, &[InBytes]),
    ("ledger_id", 16, &[InBytes]),
    ("height", 8, &[InBytes]),
    ("previous_result_hash", 32, &[InBytes]),
    ("order_hash", 32, &[InBytes]),
    ("snapshot_height", 8, &[InBytes, Execution]),
    ("executor", 4, &[InBytes, Execution]),
    ("outcome_count", 4, &[InBytes]),
    ("carried_count", 4, &[InBytes]),
    ("outcomes_root", 32, &[InBytes]),
    ("effect_count", 8, &[Execution]),
    ("effects_root", 32, &[Execution]),
    ("reorderings", 4, &[Execution]),
    ("carried_root", 32, &[Execution]),
    ("state_root", 32, &[Execution]),
];

/// Each byte of a header with one bit of it changed, and the field that it belongs to.
fn changed_bytes(fields: &[Field], encoded: &[u8]) -> Vec<(Field, Vec<u8>)> {
    let of_bytes = fields.iter().flat_map(|field| std::iter::repeat_n(*field, field.1));
    let fields: Vec<Field> = of_bytes.collect();
    assert_eq!(fields.len(), encoded.len(), "the fields are not all of the header");
    let changed = fields.into_iter().enumerate().map(|(place, field)| {
        let mut bytes = encoded.to_vec();
        bytes[place] ^= 2;
        (field, bytes)
    });
    changed.collect()
}

#[test]
fn every_byte_of_the_headers_is_found_by_what_its_field_says() {
    for protocol in PROTOCOLS {
        let (blocks, head) = honest(protocol);
        let order = blocks[FULL].order.encode();
        assert_eq!(order.len(), ORDER_HEADER_BYTES);
        for (field, bytes) in changed_bytes(&ORDER_FIELDS, &order) {
            let finder = match OrderHeader::decode(&bytes) {
                Err(_) => InBytes,
                Ok(header) => {
                    let alter = |order: &mut OrderHeader| *order = header.clone();
                    found(&altered(&blocks, FULL, Alteration::Order(&alter)), &head)
                }
            };
            assert!(field.2.contains(&finder), "{protocol}: {}: {finder:?}", field.0);
        }
        let result = blocks[FULL].result.encode();
        assert_eq!(result.len(), RESULT_HEADER_BYTES);
        for (field, bytes) in changed_bytes(&RESULT_FIELDS, &result) {
            let finder = match ResultHeader::decode(&bytes) {
                Err(_) => InBytes,
                Ok(header) => {
                    let alter = |result: &mut ResultHeader| *result = header.clone();
                    found(&altered(&blocks, FULL, Alteration::Result(&alter)), &head)
                }
            };
            assert!(field.2.contains(&finder), "{protocol}: {}: {finder:?}", field.0);
        }
    }
}

/// What a block ran at and what it had seen are found where something depends on them.
#[test]
fn another_time_is_found_where_it_is_read() {
    for protocol in PROTOCOLS {
        let (blocks, head) = honest(protocol);
        let at_time = |at: usize, later_us: i64| {
            let alter = |order: &mut OrderHeader| order.time_us += later_us;
            found(&altered(&blocks, at, Alteration::Order(&alter)), &head)
        };
        // Where rows stand in the ledger, only what made them looked at the clock.
        let read = if protocol == IMAGED { OutsideHead } else { Execution };
        assert_eq!(at_time(FULL, 1), read, "{protocol}");
        assert_eq!(at_time(PLAIN, 1), OutsideHead, "{protocol}");
        assert_eq!(at_time(PLAIN, -11), InBytes, "{protocol}");
        let seeing = |seen_height: u64| {
            let alter = |order: &mut OrderHeader| order.seen_height = seen_height;
            found(&altered(&blocks, FULL, Alteration::Order(&alter)), &head)
        };
        let last = FULL as u64 - 1;
        assert_eq!(seeing(last + 1), InBytes, "{protocol}");
        assert_ne!(seeing(last), InBytes, "{protocol}");
    }
}

/// Where outcomes of each kind stand: block, index.
fn of_each_kind(blocks: &[Block]) -> Vec<(usize, usize)> {
    let mut kinds = std::collections::BTreeSet::new();
    let mut places = Vec::new();
    for (at, block) in blocks.iter().enumerate().skip(1) {
        for (index, outcome) in block.outcomes.iter().enumerate() {
            // What stands in a committed one is told by the byte after its count.
            let kind = (outcome[0], outcome.get(2).copied().filter(|_| outcome[0] == 0));
            if kinds.insert(kind) {
                places.push((at, index));
            }
        }
    }
    places
}

/// All bytes with one bit changed each; cut, and longer by one.
fn others(bytes: &[u8]) -> Vec<Bytes> {
    let flipped = (0..bytes.len()).flat_map(|place| {
        [1, 0x40].map(|bit| {
            let mut other = bytes.to_vec();
            other[place] ^= bit;
            other
        })
    });
    let cut = bytes[..bytes.len() - 1].to_vec();
    flipped.chain([cut, [bytes, &[0]].concat()]).map(Bytes::from).collect()
}

#[test]
fn outcomes_are_told_again() {
    let (mut kinds, mut carried) = (std::collections::BTreeSet::new(), 0);
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != IMAGED) {
        let (blocks, head) = honest(protocol);
        for (at, index) in of_each_kind(&blocks) {
            let outcome = &blocks[at].outcomes[index];
            kinds.insert(outcome[0]);
            for other in others(outcome) {
                let alter = |block: &mut Block| block.outcomes[index] = other.clone();
                let finder = found(&altered(&blocks, at, Alteration::Bodies(&alter)), &head);
                assert_eq!(finder, Execution, "{protocol}: {outcome:?} became {other:?}");
            }
        }
        let alter = |block: &mut Block| block.outcomes[0] = imaged(&[], &block.outcomes[0]);
        let finder = found(&altered(&blocks, PLAIN, Alteration::Bodies(&alter)), &head);
        assert_eq!(finder, Execution, "{protocol}: rows where an order explains the block");
        for at in 1..blocks.len() {
            carried += blocks[at].carried.len();
            carried_outcomes_are_told_again(&blocks, at, &head);
        }
    }
    assert!(kinds.is_superset(&[0, 1, 3, 4].into()), "{kinds:?}");
    assert!(carried > 3, "{carried} outcomes of earlier blocks");
}

fn carried_outcomes_are_told_again(blocks: &[Block], at: usize, head: &Hash) {
    let by_bytes_or_running = |alter: &dyn Fn(&mut Block)| {
        let finder = found(&altered(blocks, at, Alteration::Bodies(alter)), head);
        assert_ne!(finder, OutsideHead, "a carried outcome of block {at}");
    };
    for index in 0..blocks[at].carried.len() {
        let outcome = &blocks[at].carried[index].outcome;
        for other in others(outcome) {
            let alter = |block: &mut Block| block.carried[index].outcome = other.clone();
            let finder = found(&altered(blocks, at, Alteration::Bodies(&alter)), head);
            assert_eq!(finder, Execution, "{outcome:?} became {other:?}");
        }
        by_bytes_or_running(&|block| block.carried[index].height -= 1);
        by_bytes_or_running(&|block| block.carried[index].index += 10);
        by_bytes_or_running(&|block| drop(block.carried.remove(index)));
        by_bytes_or_running(&|block| {
            let mut again = block.carried[index].clone();
            again.index += 10;
            block.carried.insert(index + 1, again);
        });
    }
}

/// Each byte of a leaf: table, key, image before, image after, height of the change before.
#[test]
fn effects_follow_from_the_transactions() {
    for protocol in PROTOCOLS {
        let (blocks, head) = honest(protocol);
        let leaves = blocks[FULL].leaves.as_ref().unwrap();
        assert!(leaves.len() >= 5, "{protocol}: {} rows", leaves.len());
        let running = |what: &str, alter: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let alter = |block: &mut Block| alter(block.leaves.as_mut().unwrap());
            let finder = found(&altered(&blocks, FULL, Alteration::Bodies(&alter)), &head);
            assert_eq!(finder, Execution, "{protocol}: {what}");
        };
        for index in 0..leaves.len() {
            for place in (0..leaves[index].len()).step_by(if index < 2 { 1 } else { 7 }) {
                running("a byte", &|leaves| leaves[index][place] ^= 1);
            }
            running("no row", &|leaves| drop(leaves.remove(index)));
            running("a row twice", &|leaves| leaves.insert(index, leaves[index].clone()));
            if index > 0 {
                running("another order", &|leaves| leaves.swap(index, index - 1));
            }
        }
    }
}

type EnvelopeCase = (&'static str, usize, usize, fn(&mut Envelope), Found);

/// A field of an envelope, the transaction that it is altered of, and what finds it if the result
/// stays.
const ENVELOPE_CASES: [EnvelopeCase; 20] = [
    ("ledger_id", PLAIN, 1, |it| it.ledger_id[0] ^= 1, Execution),
    ("principal", FULL, 0, |it| it.principal = "other".into(), Execution),
    ("principal", PLAIN, 1, |it| it.principal = "other".into(), Execution),
    ("submission", PLAIN, 1, |it| it.submission = sequence(FULL * 100), Execution),
    ("submission", PLAIN, 1, |it| it.submission = sequence(PLAIN * 100 + 50), OutsideHead),
    ("submission", PLAIN, 1, |it| it.submission = Submission::Key("a key".into()), Execution),
    ("submission", PLAIN, 1, |it| it.submission = Submission::Key("new".into()), OutsideHead),
    ("expires_us", PLAIN, 1, |it| it.expires_us = 1, Execution),
    ("expires_us", PLAIN, 1, |it| it.expires_us += 1, OutsideHead),
    ("seen_height", PLAIN, 1, |it| it.seen_height = PLAIN as u64, Execution),
    ("seen_height", PLAIN, 1, |it| it.seen_height = 1, OutsideHead),
    ("settings", PLAIN, 1, |it| it.settings = vec![("a".into(), "b".into())], Execution),
    ("settings", PLAIN, 1, |it| it.settings = vec![("role".into(), "tally".into())], OutsideHead),
    ("seed", FULL, 2, |it| it.seed[0] ^= 1, Execution),
    ("seed", PLAIN, 1, |it| it.seed[0] ^= 1, OutsideHead),
    ("request", PLAIN, 1, |it| it.request = request("DELETE FROM t WHERE id = 2"), Execution),
    ("request", PLAIN, 4, |it| it.request = request("DELETE FROM t WHERE id = 7"), Execution),
    ("request", PLAIN, 4, |it| it.request = request("DELETE FROM t WHERE 6 = id"), OutsideHead),
    ("signatures", PLAIN, 1, |it| it.signatures = vec![signature()], Execution),
    ("approvals", PLAIN, 1, |it| it.approvals = vec![signature()], Execution),
];

fn sequence(sequence: usize) -> Submission {
    Submission::Sequence { submitter: [1; 16], sequence: sequence as u64 }
}

fn request(text: &str) -> Bytes {
    statement(text).to_request().into()
}

fn signature() -> Signature {
    Signature { key_id: [1; 32], bytes: Bytes::from_static(b"of no key") }
}

/// A field more does not compile here.
fn envelope_fields(envelope: Envelope) -> [&'static str; 10] {
    let Envelope {
        ledger_id: _,
        principal: _,
        submission: _,
        expires_us: _,
        seen_height: _,
        settings: _,
        seed: _,
        request: _,
        signatures: _,
        approvals: _,
    } = envelope;
    [
        "ledger_id",
        "principal",
        "submission",
        "expires_us",
        "seen_height",
        "settings",
        "seed",
        "request",
        "signatures",
        "approvals",
    ]
}

#[test]
fn another_envelope_is_found_where_its_transaction_would_end_otherwise() {
    for protocol in PROTOCOLS {
        let (blocks, head) = honest(protocol);
        let first = Envelope::decode(&blocks[PLAIN].envelopes[1]).unwrap();
        for field in envelope_fields(first) {
            assert!(ENVELOPE_CASES.iter().any(|(of, ..)| *of == field), "{field} is not altered");
        }
        for (field, at, index, change, finder) in ENVELOPE_CASES {
            let alter = |block: &mut Block| {
                let mut envelope = Envelope::decode(&block.envelopes[index]).unwrap();
                change(&mut envelope);
                block.envelopes[index] = envelope.encode().unwrap();
            };
            let altered = altered(&blocks, at, Alteration::Bodies(&alter));
            // The rows of its blocks stand in the ledger, and nothing is run.
            let finder = if protocol == IMAGED { OutsideHead } else { finder };
            assert_eq!(found(&altered, &head), finder, "{protocol}: {field} of block {at}");
        }
        for (what, change) in ENVELOPE_LISTS {
            let alter = |block: &mut Block| change(&mut block.envelopes);
            let finder = found(&altered(&blocks, PLAIN, Alteration::Bodies(&alter)), &head);
            assert_ne!(finder, OutsideHead, "{protocol}: {what}");
        }
    }
}

const ENVELOPE_LISTS: [(&str, fn(&mut Vec<Bytes>)); 3] = [
    ("one less", |envelopes| drop(envelopes.pop())),
    ("one more", |envelopes| envelopes.push(envelopes[1].clone())),
    ("no envelope in its bytes", |envelopes| envelopes.push(Bytes::from_static(b"\x00"))),
];

/// What was altered is also run. What comes of it is a valid ledger, of another head.
#[test]
fn what_was_run_again_is_found_by_an_outside_head_alone() {
    type Change = fn(&mut Vec<Block>);
    let changes: [(&str, Change); 6] = [
        ("a request", |blocks| {
            let mut envelope = Envelope::decode(&blocks[PLAIN].envelopes[1]).unwrap();
            envelope.request = request("UPDATE t SET v = v + 1000 WHERE id = 2");
            blocks[PLAIN].envelopes[1] = envelope.encode().unwrap();
        }),
        ("a transaction less", |blocks| {
            blocks[FULL].envelopes.remove(0);
            blocks[FULL].outcomes.remove(0);
        }),
        ("another order", |blocks| {
            blocks[FULL].envelopes.swap(1, 2);
            blocks[FULL].outcomes.swap(1, 2);
        }),
        ("another time", |blocks| blocks[FULL].order.time_us += 5),
        ("another proposer", |blocks| blocks[FULL].order.proposer = [1; 32]),
        ("the last block less", |blocks| drop(blocks.pop())),
    ];
    for protocol in PROTOCOLS {
        let (blocks, head) = honest(protocol);
        for (what, change) in changes {
            let mut altered = blocks.clone();
            change(&mut altered);
            run_again(&mut altered);
            assert_eq!(found(&altered, &head), OutsideHead, "{protocol}: {what}");
        }
    }
}

/// Where outcomes hold row images, these are what execution compares the effects with: a forgery of
/// both is found by an outside head alone.
#[test]
fn row_images_are_held_against_the_effects_alone() {
    let (blocks, head) = honest(IMAGED);
    let of_images = |change: fn(&mut Vec<RowImage>)| {
        move |block: &mut Block| {
            for outcome in &mut block.outcomes {
                let (mut images, ended) = split_images(outcome).unwrap();
                change(&mut images);
                *outcome = imaged(&images, &Bytes::copy_from_slice(ended));
            }
        }
    };
    let changes: [(&str, fn(&mut Vec<RowImage>)); 4] = [
        ("image", |images| {
            // The last byte of the second column, a bigint after another one.
            if let Some(RowImage::Row { image, .. }) = images.last_mut() {
                image[2 * (4 + 8) - 1] ^= 1;
            }
        }),
        ("key", |images| images.retain(|image| !matches!(image, RowImage::Gone { .. }))),
        ("table", |images| {
            for image in images {
                let (RowImage::Row { table, .. } | RowImage::Gone { table, .. }) = image;
                table.0 += 1;
            }
        }),
        ("all rows", Vec::clear),
    ];
    for (what, change) in changes {
        let alter = of_images(change);
        let mut blocks = altered(&blocks, PLAIN, Alteration::Bodies(&alter));
        assert_eq!(found(&blocks, &head), Execution, "{what}");
        if what != "table" {
            run_again(&mut blocks);
            assert_eq!(found(&blocks, &head), OutsideHead, "{what}");
        }
    }
    let alter = |block: &mut Block| {
        let ended = split_images(&block.outcomes[0]).unwrap().1;
        block.outcomes[0] = Bytes::copy_from_slice(ended);
    };
    let bare = altered(&blocks, PLAIN, Alteration::Bodies(&alter));
    assert_eq!(found(&bare, &head), Execution, "no images");
    // What it says of how a transaction ended is not reported again.
    let alter = |block: &mut Block| {
        let (images, ended) = split_images(&block.outcomes[1]).unwrap();
        assert!(matches!(Reported::decode(ended), Ok(Reported::Committed { .. })));
        block.outcomes[1] = imaged(&images, b"\x0123505");
    };
    let blocks = altered(&blocks, PLAIN, Alteration::Bodies(&alter));
    assert_eq!(found(&blocks, &head), OutsideHead);
}
