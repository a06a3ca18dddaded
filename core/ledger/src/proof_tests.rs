//! `docs/vectors/proofs.json`: proofs that hold, and some hundred that do not, each with why. The
//! verifiers in `clients` are run on it by `tests/clients/verifiers`.

#[path = "proof_signed_tests.rs"]
mod signed;

use std::path::PathBuf;
use std::process::Command;

use kit::random::Random;
use proofs::TreeKey;
use state_tree::{StateTree, Value as RowState};

use super::*;
use crate::block::Block;
use crate::genesis::Genesis;
use crate::header::ORDER_HEADER_BYTES;
use crate::heads::HeadTree;
use crate::memory_files::MemoryFiles;
use crate::note::{SignedHead, Signer};
use crate::parameters::Parameters;
use crate::testing as support;
use crate::votes::tests::{electors_of, key as member_key, parameters};
use crate::votes::{Certificate, Electors, Said, Succession};

/// A ledger whose headers name state roots, and the key that signs its heads.
struct World {
    genesis: Genesis,
    blocks: Vec<Block>,
    headers: Vec<ResultHeader>,
    rows: Vec<(u32, Vec<u8>, Vec<u8>, u64)>,
    state: StateTree,
    heads: HeadTree,
    signer: Signer,
}

fn rows() -> Vec<(u32, Vec<u8>, Vec<u8>, u64)> {
    let image = |n: u64| format!("row {n}").into_bytes();
    let short = (0..14).map(|n: u64| (7, (n * n).to_be_bytes().to_vec(), image(n), n % 6));
    let pairs = (0..6).map(|n: u8| (8, vec![n / 3, 1, n], image(u64::from(n)), 2));
    let long = (0..4).map(|n: u8| {
        let key = [vec![n / 2; 90], vec![n; 8 * usize::from(n)]].concat();
        (9, key, image(100 + u64::from(n)), 5)
    });
    let mut rows: Vec<_> = short.chain(pairs).chain(long).collect();
    rows.sort_by_key(|(table, key, ..)| TreeKey::new(*table, key));
    rows
}

fn world() -> World {
    let genesis = Genesis { parameters: parameters(4, None), ..support::genesis() };
    let blocks = support::chain_of(&genesis, 9, 3);
    let rows = rows();
    let state = rows.iter().map(|(table, key, image, height)| {
        let value = RowState { image: row_image_hash(image), height: *height };
        (TreeKey::new(*table, key), value)
    });
    let state = StateTree::load(state, 1);
    let mut headers: Vec<ResultHeader> = Vec::new();
    let files = MemoryFiles::new();
    let mut heads = HeadTree::open(&files, &mut |_| Ok(None)).unwrap();
    for block in &blocks {
        let mut header = block.result.header().clone();
        if let Some(before) = headers.last() {
            header.previous_result_hash = before.hash();
        }
        // The parameter was set in block 2.
        header.state_root = if header.height > 2 { state.root() } else { ZERO_HASH };
        heads.push(&header.hash()).unwrap();
        headers.push(header);
    }
    let signer = Signer::new(origin(&headers[0].ledger_id), [42; 32]);
    World { genesis, blocks, headers, rows, state, heads, signer }
}

impl World {
    fn key(&self) -> String {
        self.signer.verifier().to_string()
    }

    fn signed_by(&self, signer: &Signer, size: u64) -> Vec<u8> {
        let origin = origin(&self.headers[0].ledger_id);
        let head = SignedHead { origin, size, root: self.heads.root(size).unwrap() };
        signer.sign(&head).into_bytes()
    }

    fn signed(&self, height: u64, size: u64) -> Anchor {
        let hashes = self.heads.inclusion(height, size).unwrap();
        Anchor::Signed { note: self.signed_by(&self.signer, size), hashes }
    }

    fn head(&self, height: usize) -> String {
        to_hex(&self.headers[height].hash())
    }

    fn first(&self) -> String {
        first_of(&self.genesis)
    }

    fn certify(&self, height: usize, electors: &Electors, by: &[u64]) -> Certificate {
        let (result_hash, electors) = (self.headers[height].hash(), electors.hash());
        let said = Said { height: height as u64, result_hash, electors };
        let ledger_id = self.genesis.ledger_id;
        let sign = |id: &u64| (*id, member_key(*id).vote(ledger_id, *id, said).signature);
        Certificate { ledger_id, said, votes: by.iter().map(sign).collect() }
    }

    fn succession(&self, height: usize, next: &Electors, by: &[u64]) -> Succession {
        Succession::new(next.clone(), self.certify(height, next, by))
    }

    /// By the first electors, of block 9.
    fn by_founders(&self, height: usize) -> CertifiedAnchor {
        CertifiedAnchor {
            first_block: CertifiedAnchor::first_block(&self.genesis).unwrap(),
            successions: Vec::new(),
            links: self.headers[height + 1..].to_vec(),
            certificate: self.certify(9, &electors_of(&[1, 2, 3, 4]), &[1, 2, 4]),
        }
    }

    /// Member 2 has gone, and 5 has come; of block 9.
    fn by_others(&self, height: usize) -> CertifiedAnchor {
        let [three, four] = [&[1, 3, 4][..], &[1, 3, 4, 5]].map(electors_of);
        CertifiedAnchor {
            successions: vec![
                self.succession(4, &three, &[1, 3, 4]),
                self.succession(6, &four, &[1, 3, 4]),
            ],
            certificate: self.certify(9, &four, &[1, 3, 5]),
            ..self.by_founders(height)
        }
    }

    fn receipt(&self, height: usize, index: u32) -> Body {
        let mut receipt = Receipt::of(&self.blocks[height], index).unwrap();
        receipt.result = self.headers[height].clone();
        Body::Receipt(Box::new(receipt))
    }

    fn carried(&self) -> Body {
        let mut receipt =
            Receipt::of_carried(&self.blocks[4].batch, 0, &[], &self.blocks[5]).unwrap();
        receipt.result = self.headers[5].clone();
        Body::Receipt(Box::new(receipt))
    }

    fn rows(&self, height: usize, range: KeyRange) -> Rows {
        let (first, last, extends) = range.bounds();
        let tree = Range { first: first.as_bytes(), last: last.as_bytes(), extends };
        let state_proof = self.state.prove(&tree);
        let shown = |(table, key, ..): &&(u32, Vec<u8>, Vec<u8>, u64)| {
            tree.contains(TreeKey::new(*table, key).as_bytes())
        };
        let rows = self.rows.iter().filter(shown);
        let rows = rows.map(|(_, key, image, _)| (key.clone(), image.clone())).collect();
        Rows { header: self.headers[height].clone(), range, state_proof, rows }
    }

    fn consistency(&self, old: u64, new: u64) -> Proof {
        let hashes = self.heads.consistency(old, new).unwrap();
        let [old, new] = [old, new].map(|size| self.signed_by(&self.signer, size));
        Proof { body: Body::Consistency { old, new, hashes }, anchor: Anchor::None }
    }
}

fn first_of(genesis: &Genesis) -> String {
    format!("{FIRST}{}", to_hex(&genesis.to_batch().unwrap().hash()))
}

fn certified(anchor: CertifiedAnchor) -> Anchor {
    Anchor::Certified(Box::new(anchor))
}

struct Case {
    name: String,
    trust: String,
    proof: Vec<u8>,
}

fn case(name: impl Into<String>, trust: &str, proof: &Proof) -> Case {
    Case { name: name.into(), trust: trust.to_owned(), proof: proof.encode().unwrap() }
}

fn verdict(trust: &str, proof: &[u8]) -> Result<String, Refused> {
    let proof = Proof::decode(proof)?;
    proof.verify(&Trust::parse(trust).unwrap()).map(|proven| proven.to_string())
}

fn ranges() -> Vec<(&'static str, KeyRange)> {
    let n = |n: u64| n.to_be_bytes().to_vec();
    let between =
        |table, first: Vec<u8>, last: Vec<u8>, extends| KeyRange { table, first, last, extends };
    vec![
        ("a row", KeyRange::of(7, &n(9))),
        ("the first row", KeyRange::of(7, &n(0))),
        ("an absence", KeyRange::of(7, &n(10))),
        ("an absence in a table without rows", KeyRange::of(6, &n(1))),
        ("an absence behind all rows", KeyRange::of(77, b"")),
        ("rows between two keys", between(7, n(5), n(40), false)),
        ("no rows between two keys", between(7, n(5), n(8), false)),
        ("rows from a key on", between(7, n(50), vec![], true)),
        ("a table", KeyRange::beginning(7, b"")),
        ("rows whose key begins so", KeyRange::beginning(8, &[1])),
        ("a table with long keys", KeyRange::beginning(9, b"")),
        ("a row with a long key", KeyRange::of(9, &[vec![1; 90], vec![3; 24]].concat())),
        ("an absence of a long key", KeyRange::of(9, &[1; 300])),
        (
            "rows between long keys",
            between(9, vec![0; 95], [vec![1; 90], vec![2; 9]].concat(), false),
        ),
        ("rows whose long key begins so", KeyRange::beginning(9, &[1; 89])),
        ("all rows of all keys that begin with 93 bytes", KeyRange::beginning(9, &[1; 93])),
    ]
}

fn valid(world: &World) -> Vec<Case> {
    let key = world.key();
    let mut cases = Vec::new();
    let mut anchored = |name: &str, height: usize, body: Body| {
        let head = world.head(height);
        let anchor = Anchor::None;
        cases.push(case(name, &head, &Proof { body: body.clone(), anchor }));
        let anchor = Anchor::Headers(world.headers[height + 1..].to_vec());
        let later = Proof { body: body.clone(), anchor };
        cases.push(case(format!("{name}, by a later head"), &world.head(9), &later));
        let signed = Proof { body: body.clone(), anchor: world.signed(height as u64, 10) };
        cases.push(case(format!("{name}, by a signed head"), &key, &signed));
        let voted = Proof { body: body.clone(), anchor: certified(world.by_founders(height)) };
        cases.push(case(format!("{name}, by the founders' votes"), &world.first(), &voted));
        let voted = Proof { body, anchor: certified(world.by_others(height)) };
        cases.push(case(format!("{name}, by those who followed"), &world.first(), &voted));
    };
    anchored("a head", 7, Body::Head(Box::new(world.headers[7].clone())));
    anchored("the newest head", 9, Body::Head(Box::new(world.headers[9].clone())));
    anchored("a receipt", 6, world.receipt(6, 2));
    anchored("a receipt of what was deferred", 5, world.carried());
    let [first, rest @ ..] = &ranges()[..] else { unreachable!() };
    anchored(first.0, 8, Body::Rows(Box::new(world.rows(8, first.1.clone()))));
    for (name, range) in rest {
        let body = Body::Rows(Box::new(world.rows(8, range.clone())));
        let anchor = world.signed(8, 9);
        cases.push(case(*name, &key, &Proof { body, anchor }));
    }
    for (old, new) in [(1, 10), (4, 10), (7, 8), (6, 9), (10, 10)] {
        let name = format!("{old} blocks and {new}");
        cases.push(case(name, &key, &world.consistency(old, new)));
    }
    cases.extend(signed::receipts());
    cases
}

/// Forgeries in which every hash fits that can be made to.
fn forged(world: &World) -> Vec<(Case, &'static str)> {
    let mut cases = forged_anchors(world);
    cases.extend(forged_notes(world));
    cases.extend(forged_firsts(world));
    cases.extend(forged_successions(world));
    cases.extend(forged_votes(world));
    cases.extend(forged_rows(world));
    let key = world.key();
    let mut receipt = |name: &str, change: &dyn Fn(&mut Receipt)| {
        let Body::Receipt(mut receipt) = world.receipt(6, 2) else { unreachable!() };
        change(&mut receipt);
        let (body, anchor) = (Body::Receipt(receipt), world.signed(6, 10));
        cases.push((case(name, &key, &Proof { body, anchor }), "receipt"));
    };
    receipt("another envelope", &|receipt| receipt.envelope = b"envelope 6.1".to_vec());
    receipt("another outcome", &|receipt| receipt.outcome = b"outcome 6.1".to_vec());
    receipt("the neighbour's index", &|receipt| receipt.index = 1);
    receipt("an outcome of the neighbour", &|receipt| receipt.outcome_index = 1);
    receipt("an order of another block", &|receipt| {
        receipt.orders = vec![world.blocks[7].batch.header().clone()];
    });
    receipt("an order more", &|receipt| {
        receipt.orders.push(world.blocks[5].batch.header().clone());
    });
    let swapped = |old: u64, new: u64| {
        let Body::Consistency { old, new, hashes } = world.consistency(old, new).body else {
            unreachable!()
        };
        Body::Consistency { old: new, new: old, hashes }
    };
    let anchor = || Anchor::None;
    let proof = Proof { body: swapped(4, 10), anchor: anchor() };
    cases.push((case("the newer first", &key, &proof), "consistency"));
    let proof = world.consistency(4, 10);
    cases.push((case("consistency under a head", &world.head(9), &proof), "trust"));
    let Body::Consistency { old, hashes, .. } = proof.body else { unreachable!() };
    let new = fork(world, 10);
    let body = Body::Consistency { old: old.clone(), new, hashes: hashes.clone() };
    cases.push((case("a fork", &key, &Proof { body, anchor: anchor() }), "consistency"));
    let head = SignedHead { origin: "tally/other".into(), size: 10, root: [1; 32] };
    let new = world.signer.sign(&head).into_bytes();
    let body = Body::Consistency { old, new, hashes };
    cases.push((case("two ledgers", &key, &Proof { body, anchor: anchor() }), "origin"));
    cases
}

/// A signed head of a ledger whose block 3 is another.
fn fork(world: &World, size: u64) -> Vec<u8> {
    let mut heads = HeadTree::open(&MemoryFiles::new(), &mut |_| Ok(None)).unwrap();
    for header in &world.headers {
        let hash = if header.height == 3 { [3; 32] } else { header.hash() };
        heads.push(&hash).unwrap();
    }
    let (origin, root) = (origin(&world.headers[0].ledger_id), heads.root(size).unwrap());
    world.signer.sign(&SignedHead { origin, size, root }).into_bytes()
}

fn forged_anchors(world: &World) -> Vec<(Case, &'static str)> {
    let key = world.key();
    let body = Body::Head(Box::new(world.headers[7].clone()));
    let mut cases = Vec::new();
    let mut put = |name: &str, trust: &str, anchor: Anchor, why| {
        cases.push((case(name, trust, &Proof { body: body.clone(), anchor }), why));
    };
    put("no anchor", &key, Anchor::None, "trust");
    put("headers, where a key is trusted", &key, Anchor::Headers(vec![]), "trust");
    put("another head", &world.head(6), Anchor::None, "head");
    put("a signed head under another head", &world.head(6), world.signed(7, 10), "head");
    let headers = |range: std::ops::Range<usize>| Anchor::Headers(world.headers[range].to_vec());
    put("headers that end early", &world.head(9), headers(8..9), "head");
    put("headers with a gap", &world.head(9), headers(9..10), "links");
    put("headers from the own on", &world.head(9), headers(7..10), "links");
    let changed = |change: &dyn Fn(&mut ResultHeader)| {
        let mut header = world.headers[8].clone();
        change(&mut header);
        (to_hex(&header.hash()), Anchor::Headers(vec![header]))
    };
    let (head, anchor) = changed(&|header| header.height = 9);
    put("a height that does not follow", &head, anchor, "links");
    let (head, anchor) = changed(&|header| header.ledger_id = [0; 16]);
    put("a header of another ledger", &head, anchor, "links");
    let (head, anchor) = changed(&|header| header.previous_result_hash = [0; 32]);
    put("a header that does not link", &head, anchor, "links");
    let Anchor::Signed { note, hashes } = world.signed(7, 10) else { unreachable!() };
    let signed = |note: &[u8], hashes: &[Hash]| Anchor::Signed {
        note: note.to_vec(),
        hashes: hashes.to_vec(),
    };
    put("a proof too short", &key, signed(&note, &hashes[1..]), "inclusion");
    let longer = [&hashes[..], &[[0; 32]]].concat();
    put("a proof too long", &key, signed(&note, &longer), "inclusion");
    let early = world.signed_by(&world.signer, 7);
    put("a ledger that ends before the block", &key, signed(&early, &hashes), "inclusion");
    put("a fork", &key, signed(&fork(world, 10), &hashes), "inclusion");
    let Anchor::Signed { hashes: others, .. } = world.signed(6, 10) else { unreachable!() };
    put("a neighbour's proof", &key, signed(&note, &others), "inclusion");
    cases
}

fn head_by(world: &World, name: &str, trust: &str, anchor: CertifiedAnchor) -> Case {
    let body = Body::Head(Box::new(world.headers[7].clone()));
    case(name, trust, &Proof { body, anchor: certified(anchor) })
}

fn forged_firsts(world: &World) -> Vec<(Case, &'static str)> {
    let good = || world.by_founders(7);
    let other = |parameters: Parameters| Genesis { parameters, ..world.genesis.clone() };
    let mut cases = Vec::new();
    let mut put = |name: &str, trust: &str, first_block: Vec<u8>, why| {
        cases.push((head_by(world, name, trust, CertifiedAnchor { first_block, ..good() }), why));
    };
    let bytes = |genesis: &Genesis| CertifiedAnchor::first_block(genesis).unwrap();
    let own = bytes(&world.genesis);
    put("votes, where a key is trusted", &world.key(), own.clone(), "trust");
    put("votes under another head", &world.head(6), own.clone(), "head");
    let mine = other(parameters(1, None));
    put("a first block of one's own", &world.first(), bytes(&mine), "first");
    put("votes of another ledger's members", &first_of(&mine), bytes(&mine), "votes");
    let without = other(Parameters::new("serial"));
    put("a first block without members", &first_of(&without), bytes(&without), "first");
    let unsafe_rule = other(parameters(4, Some(2)));
    put("a rule that is none", &first_of(&unsafe_rule), bytes(&unsafe_rule), "first");
    let header = &own[..ORDER_HEADER_BYTES];
    let swapped = [header, &bytes(&mine)[ORDER_HEADER_BYTES..]].concat();
    put("an envelope of another first block", &world.first(), swapped, "first");
    put("a first block without envelope", &world.first(), header.to_vec(), "first");
    put("a first block cut short", &world.first(), header[1..].to_vec(), "malformed");
    let batch = &world.blocks[5].batch;
    let trust = format!("{FIRST}{}", to_hex(&batch.hash()));
    let later = [&batch.header().encode()[..], &batch.envelopes()[0]].concat();
    put("a later block as the first", &trust, later, "first");
    cases
}

fn forged_successions(world: &World) -> Vec<(Case, &'static str)> {
    let mut cases = Vec::new();
    let mut put = |name: &str, change: &dyn Fn(&mut CertifiedAnchor), why| {
        let mut anchor = world.by_others(7);
        change(&mut anchor);
        cases.push((head_by(world, name, &world.first(), anchor), why));
    };
    let [first, three, four] = [&[1, 2, 3, 4][..], &[1, 3, 4], &[1, 3, 4, 5]].map(electors_of);
    put("electors that are not named", &|it| it.successions.clear(), "votes");
    put("the last succession missing", &|it| drop(it.successions.pop()), "votes");
    put("successions that changed places", &|it| it.successions.swap(0, 1), "electors");
    let mut replaced = |name: &str, at: usize, by: Succession| {
        put(name, &|it| it.successions[at] = by.clone(), "electors");
    };
    replaced("electors named by too few", 0, world.succession(4, &three, &[1, 4]));
    replaced("electors named by themselves", 1, world.succession(6, &four, &[3, 4, 5]));
    replaced("electors named by one who has gone", 1, world.succession(6, &four, &[1, 2, 3]));
    replaced("a succession that leads back", 1, world.succession(4, &four, &[1, 3, 4]));
    replaced("a block for those before", 1, world.succession(6, &three, &[1, 3, 4]));
    let weak = Electors { votes: 2, liars: 1, ..four.clone() };
    replaced("a rule that is none", 1, world.succession(6, &weak, &[1, 3, 4]));
    let mut other_key = four.clone();
    other_key.keys.insert(5, member_key(6).public());
    let good = world.succession(6, &four, &[1, 3, 4]);
    let with = |next: Electors| Succession { next, ..good.clone() };
    replaced("electors with another key", 1, with(other_key));
    replaced("electors with another rule", 1, with(Electors { votes: 4, ..four.clone() }));
    replaced("electors that are not certified", 1, with(first));
    let mut elsewhere = good.clone();
    elsewhere.certificate.ledger_id = [0; 16];
    replaced("a succession of another ledger", 1, elsewhere);
    let mut unsigned = good.clone();
    unsigned.certificate.votes[1].1 = [0; 64];
    replaced("a signature of zeros", 1, unsigned);
    cases
}

fn forged_votes(world: &World) -> Vec<(Case, &'static str)> {
    let mut cases = Vec::new();
    let mut put = |name: &str, change: &dyn Fn(&mut CertifiedAnchor), why| {
        let mut anchor = world.by_others(7);
        change(&mut anchor);
        cases.push((head_by(world, name, &world.first(), anchor), why));
    };
    let [first, three, four] = [&[1, 2, 3, 4][..], &[1, 3, 4], &[1, 3, 4, 5]].map(electors_of);
    put("too few votes", &|it| it.certificate.votes.truncate(2), "votes");
    put("no votes", &|it| it.certificate.votes.clear(), "votes");
    let votes = |electors: &Electors, by: &'static [u64]| world.certify(9, electors, by);
    let by_first = votes(&first, &[1, 2, 3]);
    put("votes of those who have gone", &|it| it.certificate = by_first.clone(), "votes");
    let one_gone = votes(&four, &[1, 2, 3]);
    put("a vote of one who has gone", &|it| it.certificate = one_gone.clone(), "votes");
    let before = votes(&three, &[1, 3, 4]);
    put("votes for a block of others", &|it| it.certificate = before.clone(), "votes");
    put("a vote of another member", &|it| it.certificate.votes[1].0 = 4, "votes");
    put("a vote for another block", &|it| it.certificate.said.height = 8, "votes");
    put("a vote for another result", &|it| it.certificate.said.result_hash = [3; 32], "votes");
    put("a ledger of another name", &|it| it.certificate.ledger_id = [0; 16], "votes");
    put("a vote twice", &|it| it.certificate.votes[1] = it.certificate.votes[0], "malformed");
    put("a link too few", &|it| drop(it.links.pop()), "head");
    put("a gap in the links", &|it| drop(it.links.remove(0)), "links");
    put("a link that does not link", &|it| it.links[0].previous_result_hash = [0; 32], "links");
    put("a link of another ledger", &|it| it.links[0].ledger_id = [0; 16], "links");
    let early = world.certify(8, &four, &[1, 3, 5]);
    put("votes for a block before the last", &|it| it.certificate = early.clone(), "head");
    let body = Body::Head(Box::new(world.headers[7].clone()));
    let none = Proof { body: body.clone(), anchor: Anchor::None };
    cases.push((case("no votes at all", &world.first(), &none), "trust"));
    let signed = Proof { body, anchor: world.signed(7, 10) };
    cases
        .push((case("a signed head, where votes are asked for", &world.first(), &signed), "trust"));
    cases
}

fn forged_notes(world: &World) -> Vec<(Case, &'static str)> {
    let key = world.key();
    let body = Body::Head(Box::new(world.headers[7].clone()));
    let Anchor::Signed { note, hashes } = world.signed(7, 10) else { unreachable!() };
    let note = String::from_utf8(note).unwrap();
    let text = &note[..note.rfind("\n— ").unwrap()];
    let line = &note[text.len() + 1..];
    let root = text.lines().nth(2).unwrap();
    let origin = text.lines().next().unwrap();
    let mut cases = Vec::new();
    let mut put = |name: &str, note: &str, why| {
        let anchor = Anchor::Signed { note: note.as_bytes().to_vec(), hashes: hashes.clone() };
        cases.push((case(name, &key, &Proof { body: body.clone(), anchor }), why));
    };
    let resigned = |text: String| world.signer.sign_text(&text);
    put("another origin", &resigned(format!("tally/00\n10\n{root}\n")), "origin");
    put("another size", &resigned(format!("{origin}\n8\n{root}\n")), "inclusion");
    for (name, text) in [
        ("a size with a zero in front", format!("{origin}\n010\n{root}\n")),
        ("a size with a sign", format!("{origin}\n+10\n{root}\n")),
        ("a size of 2^63", format!("{origin}\n9223372036854775808\n{root}\n")),
        ("no size", format!("{origin}\n\n{root}\n")),
        ("a hexadecimal size", format!("{origin}\n0xa\n{root}\n")),
        ("a size in Arabic digits", format!("{origin}\n\u{661}\u{660}\n{root}\n")),
        ("no origin", format!("\n10\n{root}\n")),
        ("no root", format!("{origin}\n10\n")),
        ("a short root", format!("{origin}\n10\nAAAA\n")),
        ("a root without padding", format!("{origin}\n10\n{}\n", root.trim_end_matches('='))),
        ("a root with bits behind its end", format!("{origin}\n10\n{}\n", loosened(root))),
        ("a root with a space", format!("{origin}\n10\n {root}\n")),
        (
            "a root in base64 for addresses",
            format!("{origin}\n10\n{}_-{}\n", &root[..2], &root[4..]),
        ),
        ("an empty line", format!("{origin}\n10\n{root}\n\nmore\n")),
        ("a carriage return", format!("{origin}\r\n10\n{root}\n")),
        ("a tabulator", format!("{origin}\n10\n{root}\na\tb\n")),
    ] {
        put(name, &resigned(text), "note");
    }
    let mine = world.signer.verifier().to_string();
    let id: String = mine.split('+').nth(1).unwrap().to_owned();
    let id = from_hex(&id).unwrap();
    let encode = |bytes: &[u8]| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    let with = |signature: &[u8]| {
        format!("{text}\n— {origin} {}\n", encode(&[&id[..], signature].concat()))
    };
    put("a signature of zeros", &with(&[0; 64]), "signature");
    put("a short signature", &with(&[1; 63]), "signature");
    put("a long signature", &with(&[1; 65]), "signature");
    put("a key id without a signature", &with(&[]), "note");
    put("no newline at the end", note.trim_end(), "note");
    put("no signature", &format!("{text}\n"), "note");
    put("no empty line", &format!("{text}{line}"), "note");
    put("a hyphen for a dash", &note.replace('—', "-"), "note");
    put("two spaces", &note.replace("— ", "—  "), "note");
    put("an empty line of signatures", &format!("{note}\n"), "note");
    put("a line that is none", &format!("{note}more\n"), "note");
    put("101 signatures", &format!("{text}\n{}", line.repeat(101)), "note");
    put("a name with a plus sign", &format!("{note}— a+b AAAAAAAA\n"), "note");
    let named = Signer::new(format!("{origin}x"), [42; 32]);
    put("the same key under another name", &named.sign_text(text), "key");
    let other = Signer::new(origin, [43; 32]);
    put("another key under the same name", &other.sign_text(text), "key");
    let bad = with(&[7; 64]);
    put("a bad signature before the good one", &format!("{bad}{line}"), "signature");
    cases
}

/// Another text that lenient readers take for the same 32 bytes.
fn loosened(root: &str) -> String {
    let at = root.len() - 2;
    let last = root.as_bytes()[at] as char;
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let next = digits.find(last).unwrap() + 1;
    format!("{}{}=", &root[..at], &digits[next..=next])
}

fn forged_rows(world: &World) -> Vec<(Case, &'static str)> {
    let key = world.key();
    let mut cases = Vec::new();
    let n = |n: u64| n.to_be_bytes().to_vec();
    let all = || world.rows(8, KeyRange::beginning(7, b""));
    let mut put = |name: &str, rows: Rows, why| {
        let (height, body) = (rows.header.height, Body::Rows(Box::new(rows)));
        let anchor = world.signed(height, 10);
        cases.push((case(name, &key, &Proof { body, anchor }), why));
    };
    let mut changed = |name: &str, change: &dyn Fn(&mut Rows), why| {
        let mut rows = all();
        change(&mut rows);
        put(name, rows, why);
    };
    changed("another image", &|rows| rows.rows[3].1 = b"row 4".to_vec(), "rows");
    changed("another key", &|rows| rows.rows[3].0 = n(10), "rows");
    changed("two rows that changed places", &|rows| rows.rows.swap(2, 3), "rows");
    changed("a row too few", &|rows| drop(rows.rows.remove(5)), "rows");
    changed("the last row missing", &|rows| drop(rows.rows.pop()), "rows");
    changed("a row twice", &|rows| rows.rows.insert(4, rows.rows[4].clone()), "rows");
    changed("a row of another table", &|rows| rows.rows.push((vec![9], vec![])), "rows");
    changed("no rows", &|rows| rows.rows.clear(), "rows");
    changed("another table", &|rows| rows.range.table = 8, "state");
    changed("a range that is wider", &|rows| rows.range = KeyRange::beginning(8, b""), "state");
    changed("a state proof that is none", &|rows| rows.state_proof.clear(), "state");
    let mut hidden = all();
    let one = KeyRange::of(7, &n(9));
    hidden.state_proof = world.rows(8, one.clone()).state_proof;
    put("rows that are hidden", hidden, "state");
    let mut absent = world.rows(8, KeyRange::of(7, &n(169)));
    absent.state_proof = world.rows(8, KeyRange::of(7, &n(0))).state_proof;
    absent.rows.clear();
    put("an absence of a row that is hidden", absent, "state");
    put("a block without a state root", world.rows(1, one.clone()), "state_root");
    let mut older = world.state.clone();
    let change = state_tree::Change { key: TreeKey::new(7, &n(9)), value: None };
    older.apply(&[change], 1);
    let bounds = one.bounds();
    let range = Range { first: bounds.0.as_bytes(), last: bounds.1.as_bytes(), extends: false };
    let state_proof = older.prove(&range);
    let gone = Rows { rows: vec![], state_proof, ..world.rows(8, one) };
    put("another state", gone, "state");
    cases
}

/// Bytes of a valid proof from `at` on, `cut` of them replaced.
struct Edit {
    of: usize,
    at: usize,
    cut: usize,
    put: Vec<u8>,
}

fn edited(proof: &[u8], edit: &Edit) -> Vec<u8> {
    let (before, rest) = proof.split_at(edit.at);
    [before, &edit.put, &rest[edit.cut..]].concat()
}

fn edit(of: usize, proof: &[u8], random: &mut Random) -> Edit {
    let at = random.below(proof.len() as u64) as usize;
    let left = proof.len() - at;
    let byte = random.below(256) as u8;
    match random.below(6) {
        0 => Edit { of, at, cut: left, put: vec![] },
        1 => Edit { of, at, cut: 0, put: vec![byte] },
        2 => Edit { of, at, cut: 1, put: vec![] },
        3 => Edit { of, at, cut: 1, put: vec![byte] },
        _ => Edit { of, at, cut: 1, put: vec![proof[at] ^ (1 << (byte & 7))] },
    }
}

/// So many of each valid proof.
const EDITS: usize = 14;

/// What an edit makes of a proof. It may be a proof of something else that is so, of an absence of
/// another key; of nothing that is not.
fn answer(world: &World, name: &str, trust: &str, proof: &[u8]) -> (&'static str, String) {
    let trust = Trust::parse(trust).unwrap();
    let proven = match Proof::decode(proof).and_then(|proof| proof.verify(&trust)) {
        Err(why) => return ("why", why.word().to_owned()),
        Ok(proven) => proven,
    };
    let Proven::Rows { range, rows, .. } = &proven else { panic!("{name}: {proven}") };
    let so =
        world.rows.iter().filter(|(table, key, ..)| *table == range.table && range.contains(key));
    let row = |(_, key, image, height): &(u32, Vec<u8>, Vec<u8>, u64)| ProvenRow {
        key: key.clone(),
        image: image.clone(),
        height: *height,
    };
    assert_eq!(*rows, so.map(row).collect::<Vec<_>>(), "{name}");
    ("says", proven.to_string())
}

fn generated(world: &World, valid: &[Case]) -> Vec<Value> {
    let mut random = Random::new(11);
    let mut vectors = Vec::new();
    for (of, case) in valid.iter().enumerate() {
        for _ in 0..EDITS {
            let edit = edit(of, &case.proof, &mut random);
            let proof = edited(&case.proof, &edit);
            if proof == case.proof {
                continue;
            }
            let (member, answer) = answer(world, &case.name, &case.trust, &proof);
            let Edit { of, at, cut, put } = edit;
            let put = to_hex(&put);
            vectors.push(json!({ "of": of, "at": at, "cut": cut, "put": put, member: answer }));
        }
    }
    vectors
}

#[test]
fn vectors() {
    let world = world();
    let valid = valid(&world);
    let holds = valid.iter().map(|case| {
        let Case { name, trust, proof } = case;
        let says = verdict(trust, proof).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        json!({ "name": name, "trust": trust, "proof": to_hex(proof), "says": says })
    });
    let forged = forged(&world);
    let found = |case: &Case| verdict(&case.trust, &case.proof).map_err(Refused::word);
    let wrong = forged.iter().map(|(case, why)| (&case.name, found(case), Err(*why)));
    let wrong: Vec<_> = wrong.filter(|(_, found, why)| found != why).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let forged = forged.into_iter().map(|(case, why)| {
        let Case { name, trust, proof } = case;
        json!({ "name": name, "trust": trust, "proof": to_hex(&proof), "why": why })
    });
    let vectors = json!({
        "valid": holds.collect::<Vec<_>>(),
        "forged": forged.collect::<Vec<_>>(),
        "edited": generated(&world, &valid),
    });
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/proofs.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&vectors).unwrap());
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == text, "{}", path.display());
}

#[test]
fn each_reason_is_in_the_vectors() {
    let world = world();
    let edited = generated(&world, &valid(&world));
    let forged = forged(&world);
    for why in [
        Refused::Malformed,
        Refused::Trust,
        Refused::Head,
        Refused::Links,
        Refused::Note,
        Refused::Key,
        Refused::Signature,
        Refused::Origin,
        Refused::Inclusion,
        Refused::First,
        Refused::Electors,
        Refused::Votes,
        Refused::Consistency,
        Refused::Receipt,
        Refused::StateRoot,
        Refused::State,
        Refused::Rows,
    ] {
        let is_forged = forged.iter().any(|(_, word)| *word == why.word());
        assert!(is_forged || edited.iter().any(|edit| edit["why"] == why.word()), "{why:?}");
    }
}

/// Every proof that is read writes the same bytes, in both forms, and members for people agree.
#[test]
fn files_are_read_in_both_forms() {
    for case in valid(&world()) {
        let proof = Proof::read_file(&case.proof).unwrap();
        assert_eq!(proof.encode().unwrap(), case.proof);
        let mut json = proof.to_json().unwrap();
        assert_eq!(Proof::read_file(json.to_string().as_bytes()), Ok(proof));
        json["kind"] = "other".into();
        let file = json.to_string();
        assert_eq!(Proof::read_file(file.as_bytes()), Err(Refused::Malformed));
    }
}

/// `clients/check_proof.py`, which knows nothing but the pages, answers what the vectors say.
#[test]
fn a_verifier_that_shares_no_line_agrees() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = root.join("tests/clients/verifiers");
    let done = Command::new("python3").arg(script).env("VERIFIERS", "python").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
