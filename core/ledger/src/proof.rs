//! Proofs as files: what a client takes home, and checks without any node. `docs/proofs.md` defines
//! every byte, and verifiers in five languages were written from it.
//!
//! A proof has a **body**, which shows something under a result header, and an **anchor**, which
//! leads from that header to what the client trusts:
//!
//! ```text
//!   body                                          anchor                       trust
//!   receipt   envelope, outcome ─┐                none ──────────────────────► a head: this one
//!   rows      images ─ state root┼─► head ──────► result headers after it ──► a head: a later one
//!   head                       ──┘                inclusion ─► signed head ──► a key
//!                                                 votes, electors ────────────► a first block
//!   consistency   signed head ─► signed head ────────────────────────────────► a key
//! ```
//!
//! ```text
//! bytes      field                   (numbers big-endian, strings with a u32 length)
//!     1      version, 1
//!     1      kind                    1 receipt, 2 rows, 3 head, 4 consistency
//! 4 + n      body                    by kind
//!     1      anchor                  0 none, 1 result headers, 2 signed head, 3 certificate
//!            of 1: u32 count, headers; of 2: string note, u8 count, hashes; of 3: `votes::anchor`
//!
//! rows: result header, u32 table, string first, string last, u8 extends, string state proof,
//!       u32 count, count × (string key, string image)
//! consistency: string old note, string new note, u8 count, hashes
//! ```
//!
//! **What rows prove.** All rows of a range of keys, with their images, in the state after a
//! block: of one key a row, or that there is none. The client knows which table and keys it asked
//! for, and compares: a proof that holds may be the answer to another question.
//!
//! **Refusals** have one word each, and the same in every verifier: bytes are read to the end
//! first, then the anchor is checked, then the body.

use proofs::{Entry, Range, TREE_KEY_BYTES_MAX, TreeKey};
use serde_json::{Value, json};
use types::{Error, Result, SqlState};

use crate::effects::row_image_hash;
use crate::hash::{Hash, ZERO_HASH, from_hex, to_hex};
use crate::header::{RESULT_HEADER_BYTES, ResultHeader};
use crate::heads::consistent;
use crate::merkle::{leaf_hash, verify_inclusion};
use crate::note::{NoteFault, SignedHead, Verifier, origin};
use crate::receipt::Receipt;
use crate::signatures::{Signers, signers_of};
use crate::votes::anchor::{AnchorFault, CertifiedAnchor, last_of};
use crate::wire::{Cursor, put_prefixed};

const VERSION: u8 = 1;
/// Bits of a tree key, and one: the most subtrees that a proof can have open.
const STACK: usize = TREE_KEY_BYTES_MAX * proofs::BITS_PER_BYTE + 1;
/// Longer bounds are cut: the order of long keys is that of so many bytes.
const BOUND_BYTES_MAX: usize = 92;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    pub body: Body,
    pub anchor: Anchor,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    Receipt(Box<Receipt>),
    Rows(Box<Rows>),
    Head(Box<ResultHeader>),
    Consistency { old: Vec<u8>, new: Vec<u8>, hashes: Vec<Hash> },
}

/// All rows of a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    pub header: ResultHeader,
    pub range: KeyRange,
    /// Of `proofs`, over the range of tree keys.
    pub state_proof: Vec<u8>,
    /// Key and image of each row that the state proof shows in its range.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Encoded primary keys of a table from `first` to `last`; with `extends`, and those that begin
/// with `last`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub table: u32,
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    pub extends: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Anchor {
    None,
    /// Those of the blocks behind, in order.
    Headers(Vec<ResultHeader>),
    /// That the head is in the ledger that was signed.
    Signed {
        note: Vec<u8>,
        hashes: Vec<Hash>,
    },
    /// That the ledger's members have voted for it, or for a block after it.
    Certified(Box<CertifiedAnchor>),
}

/// What the client believes.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The result hash of some block.
    Head(Hash),
    /// Who signs heads.
    Key(Verifier),
    /// The order hash of the ledger's first block.
    FirstBlock(Hash),
}

/// What a first block's hash has in front of it.
const FIRST: &str = "first:";

impl Trust {
    /// 64 hexadecimal digits, a verifier key, or `first:` and 64 digits.
    pub fn parse(text: &str) -> Result<Trust> {
        if let Some(first) = text.strip_prefix(FIRST) {
            return crate::hash::hash_from_hex(first).map(Trust::FirstBlock);
        }
        match crate::hash::hash_from_hex(text) {
            Ok(head) => Ok(Trust::Head(head)),
            Err(_) => Verifier::parse(text).map(Trust::Key),
        }
    }
}

/// Why a proof proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The bytes are no proof.
    Malformed,
    /// The anchor does not lead to what is trusted: another kind is needed.
    Trust,
    /// It leads to another head.
    Head,
    /// Result headers that do not follow one another.
    Links,
    /// No signed head.
    Note,
    /// The trusted key has not signed.
    Key,
    Signature,
    /// Signed for another ledger.
    Origin,
    /// The head is not in the tree that was signed.
    Inclusion,
    /// The first block is another, or none.
    First,
    /// Electors have not named those who follow.
    Electors,
    /// They have not certified the block.
    Votes,
    /// The newer ledger does not begin with the older one.
    Consistency,
    /// Envelope or outcome are not those of the block.
    Receipt,
    /// The header names no state root.
    StateRoot,
    /// The state proof does not hold.
    State,
    /// These are not the rows that the state proof shows.
    Rows,
}

impl Refused {
    /// The same in every verifier.
    pub fn word(self) -> &'static str {
        match self {
            Refused::Malformed => "malformed",
            Refused::Trust => "trust",
            Refused::Head => "head",
            Refused::Links => "links",
            Refused::Note => "note",
            Refused::Key => "key",
            Refused::Signature => "signature",
            Refused::Origin => "origin",
            Refused::Inclusion => "inclusion",
            Refused::First => "first",
            Refused::Electors => "electors",
            Refused::Votes => "votes",
            Refused::Consistency => "consistency",
            Refused::Receipt => "receipt",
            Refused::StateRoot => "state_root",
            Refused::State => "state",
            Refused::Rows => "rows",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Refused::Malformed => "the bytes are no proof",
            Refused::Trust => "it has no anchor that leads to what is trusted",
            Refused::Head => "it leads to another head",
            Refused::Links => "its result headers do not follow one another",
            Refused::Note => "its signed head is none",
            Refused::Key => "the trusted key has not signed its head",
            Refused::Signature => "the signature of its head is not valid",
            Refused::Origin => "its signed head is another ledger's",
            Refused::Inclusion => "its block is not in the ledger that was signed",
            Refused::First => "it leads to another first block",
            Refused::Electors => "those who vote are not named by those before",
            Refused::Votes => "the members have not voted for it",
            Refused::Consistency => "the newer ledger does not begin with the older one",
            Refused::Receipt => "the block has another envelope or outcome there",
            Refused::StateRoot => "its block names no state root",
            Refused::State => "the state has other rows in the range, or may have",
            Refused::Rows => "its rows are not those of the state",
        }
    }
}

impl From<NoteFault> for Refused {
    fn from(fault: NoteFault) -> Self {
        match fault {
            NoteFault::Malformed => Refused::Note,
            NoteFault::NoSuchKey => Refused::Key,
            NoteFault::Signature => Refused::Signature,
        }
    }
}

impl From<AnchorFault> for Refused {
    fn from(fault: AnchorFault) -> Self {
        match fault {
            AnchorFault::First => Refused::First,
            AnchorFault::Electors => Refused::Electors,
            AnchorFault::Votes => Refused::Votes,
            AnchorFault::Links => Refused::Links,
            AnchorFault::Head => Refused::Head,
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Error::new(SqlState::DATA_CORRUPTED, "the proof does not hold").with_detail(format!(
            "{} ({}).",
            refused.sentence(),
            refused.word()
        ))
    }
}

/// What a proof proves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proven {
    Receipt(Box<Receipt>),
    Rows { height: u64, range: KeyRange, rows: Vec<ProvenRow> },
    Head { height: u64, head: Hash },
    Consistency { old: SignedHead, new: SignedHead },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvenRow {
    pub key: Vec<u8>,
    pub image: Vec<u8>,
    /// Of the block that changed the row last.
    pub height: u64,
}

/// One line, the same from every verifier.
impl std::fmt::Display for Proven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Proven::Receipt(receipt) => {
                let (ordered, index) = (receipt.ordered_at().unwrap_or_default(), receipt.index);
                let [envelope, outcome] = [&receipt.envelope, &receipt.outcome].map(|b| to_hex(b));
                let decided = receipt.height();
                write!(f, "receipt {decided} {ordered} {index} {envelope}:{outcome}")?;
                let Signers { signed, approved } = signers_of(&receipt.envelope);
                signed.iter().try_for_each(|key| write!(f, " {}", to_hex(key)))?;
                approved.iter().try_for_each(|key| write!(f, " approval:{}", to_hex(key)))
            }
            Proven::Rows { height, range, rows } => {
                let KeyRange { table, first, last, extends } = range;
                let (first, last, extends) = (to_hex(first), to_hex(last), u8::from(*extends));
                write!(f, "rows {height} {table} {first}:{last}:{extends}")?;
                rows.iter().try_for_each(|ProvenRow { key, image, height }| {
                    write!(f, " {}:{}:{height}", to_hex(key), to_hex(image))
                })
            }
            Proven::Head { height, head } => write!(f, "head {height} {}", to_hex(head)),
            Proven::Consistency { old, new } => {
                let (was, is) = (to_hex(&old.root), to_hex(&new.root));
                write!(f, "consistency {}:{was} {}:{is}", old.size, new.size)
            }
        }
    }
}

impl KeyRange {
    /// One row, or none.
    pub fn of(table: u32, key: &[u8]) -> KeyRange {
        KeyRange { table, first: key.to_vec(), last: key.to_vec(), extends: false }
    }

    /// The keys that begin with these bytes.
    pub fn beginning(table: u32, with: &[u8]) -> KeyRange {
        KeyRange { extends: true, ..KeyRange::of(table, with) }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        let KeyRange { first, last, extends, .. } = self;
        &key[..] >= &first[..] && (key <= &last[..] || *extends && key.starts_with(last))
    }

    /// The range of tree keys that holds those of all keys of the range, and whether it extends.
    pub fn bounds(&self) -> (TreeKey, TreeKey, bool) {
        let KeyRange { table, first, last, extends } = self;
        if first == last && !extends {
            let key = TreeKey::new(*table, first);
            return (key, key, false);
        }
        let is_cut = last.len() > BOUND_BYTES_MAX;
        (TreeKey::bound(*table, first), TreeKey::bound(*table, last), *extends || is_cut)
    }
}

impl Proof {
    /// The header that the body is under; of consistency there is none.
    pub fn header(&self) -> Option<&ResultHeader> {
        match &self.body {
            Body::Receipt(receipt) => Some(&receipt.result),
            Body::Rows(rows) => Some(&rows.header),
            Body::Head(header) => Some(header),
            Body::Consistency { .. } => None,
        }
    }

    pub fn verify(&self, trust: &Trust) -> Result<Proven, Refused> {
        if let Some(header) = self.header() {
            self.check_anchor(header, trust)?;
        }
        match &self.body {
            Body::Head(header) => Ok(Proven::Head { height: header.height, head: header.hash() }),
            Body::Receipt(receipt) => {
                let holds = receipt.verify(&receipt.result.hash());
                holds.map_err(|_| Refused::Receipt)?;
                Ok(Proven::Receipt(receipt.clone()))
            }
            Body::Rows(rows) => rows.verify(),
            Body::Consistency { old, new, hashes } => {
                let Trust::Key(key) = trust else { return Err(Refused::Trust) };
                let (old, new) = (key.open(old)?, key.open(new)?);
                if old.origin != new.origin {
                    return Err(Refused::Origin);
                }
                match consistent((old.size, &old.root), (new.size, &new.root), hashes) {
                    true => Ok(Proven::Consistency { old, new }),
                    false => Err(Refused::Consistency),
                }
            }
        }
    }

    fn check_anchor(&self, header: &ResultHeader, trust: &Trust) -> Result<(), Refused> {
        match (&self.anchor, trust) {
            (Anchor::Headers(behind), Trust::Head(head)) => {
                let last = last_of(header, behind).map_err(|_| Refused::Links)?;
                if last.hash() == *head { Ok(()) } else { Err(Refused::Head) }
            }
            (_, Trust::Head(head)) if header.hash() == *head => Ok(()),
            (_, Trust::Head(_)) => Err(Refused::Head),
            (Anchor::Signed { note, hashes }, Trust::Key(key)) => {
                let signed = key.open(note)?;
                if signed.origin != origin(&header.ledger_id) {
                    return Err(Refused::Origin);
                }
                let (leaf, SignedHead { size, root, .. }) = (leaf_hash(&header.hash()), signed);
                match verify_inclusion(leaf, header.height, size, hashes, &root) {
                    true => Ok(()),
                    false => Err(Refused::Inclusion),
                }
            }
            (Anchor::Certified(anchor), Trust::FirstBlock(first_block)) => {
                let checked = anchor.check(header, first_block);
                Ok(checked.map(drop).map_err(|unanchored| unanchored.fault)?)
            }
            (_, Trust::Key(_) | Trust::FirstBlock(_)) => Err(Refused::Trust),
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let (kind, body) = self.encode_body()?;
        let mut bytes = vec![VERSION, kind];
        put_prefixed(&mut bytes, &body)?;
        match &self.anchor {
            Anchor::None => bytes.push(0),
            Anchor::Headers(headers) => {
                bytes.push(1);
                bytes.extend_from_slice(&(headers.len() as u32).to_be_bytes());
                headers.iter().for_each(|header| bytes.extend_from_slice(&header.encode()));
            }
            Anchor::Signed { note, hashes } => {
                bytes.push(2);
                put_prefixed(&mut bytes, note)?;
                put_hashes(&mut bytes, hashes)?;
            }
            Anchor::Certified(anchor) => {
                bytes.push(3);
                anchor.encode_into(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    fn encode_body(&self) -> Result<(u8, Vec<u8>)> {
        let mut body = Vec::new();
        let kind = match &self.body {
            Body::Receipt(receipt) => return Ok((1, receipt.encode()?)),
            Body::Rows(rows) => {
                rows.encode_into(&mut body)?;
                2
            }
            Body::Head(header) => return Ok((3, header.encode().to_vec())),
            Body::Consistency { old, new, hashes } => {
                put_prefixed(&mut body, old)?;
                put_prefixed(&mut body, new)?;
                put_hashes(&mut body, hashes)?;
                4
            }
        };
        Ok((kind, body))
    }

    pub fn decode(bytes: &[u8]) -> Result<Proof, Refused> {
        Self::read(bytes).map_err(|_| Refused::Malformed)
    }

    fn read(bytes: &[u8]) -> Result<Proof> {
        let mut cursor = Cursor::new("proof", bytes);
        let version = cursor.u8()?;
        if version != VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let kind = cursor.u8()?;
        let body = cursor.prefixed()?;
        let body = match kind {
            1 => Body::Receipt(Box::new(Receipt::decode(body)?)),
            2 => Body::Rows(Box::new(Rows::decode(body)?)),
            3 => Body::Head(Box::new(ResultHeader::decode(body)?)),
            4 => {
                let mut cursor = Cursor::new("consistency proof", body);
                let (old, new) = (cursor.prefixed()?.to_vec(), cursor.prefixed()?.to_vec());
                let hashes = take_hashes(&mut cursor)?;
                cursor.finish()?;
                Body::Consistency { old, new, hashes }
            }
            _ => return Err(cursor.invalid(format!("kind {kind} is not known"))),
        };
        let anchor = match cursor.u8()? {
            0 => Anchor::None,
            1 => {
                let count = cursor.count(RESULT_HEADER_BYTES)?;
                let header = |cursor: &mut Cursor<'_>| {
                    ResultHeader::decode(cursor.take(RESULT_HEADER_BYTES)?)
                };
                let headers = (0..count).map(|_| header(&mut cursor));
                Anchor::Headers(headers.collect::<Result<_>>()?)
            }
            2 => Anchor::Signed {
                note: cursor.prefixed()?.to_vec(),
                hashes: take_hashes(&mut cursor)?,
            },
            3 => Anchor::Certified(Box::new(CertifiedAnchor::read(&mut cursor)?)),
            other => return Err(cursor.invalid(format!("anchor {other} is not known"))),
        };
        let fits = !matches!(body, Body::Consistency { .. }) || anchor == Anchor::None;
        if !fits {
            return Err(cursor.invalid("its signed heads are its anchor"));
        }
        cursor.finish()?;
        Ok(Proof { body, anchor })
    }

    /// For people and other programs: the binary form in hexadecimal, and what it is about.
    pub fn to_json(&self) -> Result<Value> {
        let proof = to_hex(&self.encode()?);
        let Some(header) = self.header() else {
            return Ok(json!({ "kind": "consistency", "proof": proof }));
        };
        let (height, head) = (header.height, to_hex(&header.hash()));
        Ok(match &self.body {
            Body::Rows(rows) => json!({
                "kind": "rows",
                "height": height,
                "head": head,
                "table": rows.range.table,
                "rows": rows.rows.len(),
                "proof": proof,
            }),
            Body::Receipt(receipt) => json!({
                "kind": "receipt",
                "height": height,
                "head": head,
                "ordered_at": receipt.ordered_at(),
                "index": receipt.index,
                "proof": proof,
            }),
            _ => json!({ "kind": "head", "height": height, "head": head, "proof": proof }),
        })
    }

    /// Of either form. Members for people must agree with the proof.
    pub fn read_file(file: &[u8]) -> Result<Proof, Refused> {
        if !file.starts_with(b"{") {
            return Self::decode(file);
        }
        let value: Value = serde_json::from_slice(file).map_err(|_| Refused::Malformed)?;
        let text = value.get("proof").and_then(Value::as_str).ok_or(Refused::Malformed)?;
        let proof = Self::decode(&from_hex(text).map_err(|_| Refused::Malformed)?)?;
        match proof.to_json() {
            Ok(again) if again == value => Ok(proof),
            _ => Err(Refused::Malformed),
        }
    }
}

impl Rows {
    fn verify(&self) -> Result<Proven, Refused> {
        if self.header.state_root == ZERO_HASH {
            return Err(Refused::StateRoot);
        }
        let (first, last, extends) = self.range.bounds();
        let range = Range { first: first.as_bytes(), last: last.as_bytes(), extends };
        let mut stack = vec![Entry::EMPTY; STACK];
        let shown = proofs::verify(&self.state_proof, &self.header.state_root, range, &mut stack);
        let mut shown = shown.map_err(|_| Refused::State)?.rows();
        let mut rows = Vec::new();
        for (key, image) in &self.rows {
            let row = shown.next().ok_or(Refused::Rows)?;
            let is_it = row.key == TreeKey::new(self.range.table, key).as_bytes()
                && row.image == row_image_hash(image);
            if !is_it {
                return Err(Refused::Rows);
            }
            // A bound that was cut shows more.
            if self.range.contains(key) {
                rows.push(ProvenRow { key: key.clone(), image: image.clone(), height: row.height });
            }
        }
        match shown.next() {
            None => {
                Ok(Proven::Rows { height: self.header.height, range: self.range.clone(), rows })
            }
            Some(_) => Err(Refused::Rows),
        }
    }

    fn encode_into(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.header.encode());
        out.extend_from_slice(&self.range.table.to_be_bytes());
        put_prefixed(out, &self.range.first)?;
        put_prefixed(out, &self.range.last)?;
        out.push(u8::from(self.range.extends));
        put_prefixed(out, &self.state_proof)?;
        let count = u32::try_from(self.rows.len()).map_err(|_| {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a proof has room for 2^32 rows")
        })?;
        out.extend_from_slice(&count.to_be_bytes());
        for (key, image) in &self.rows {
            put_prefixed(out, key)?;
            put_prefixed(out, image)?;
        }
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Rows> {
        let mut cursor = Cursor::new("proof of rows", bytes);
        let header = ResultHeader::decode(cursor.take(RESULT_HEADER_BYTES)?)?;
        let table = cursor.u32()?;
        let (first, last) = (cursor.prefixed()?.to_vec(), cursor.prefixed()?.to_vec());
        let extends = match cursor.u8()? {
            0 => false,
            1 => true,
            _ => return Err(cursor.invalid("extends is 0 or 1")),
        };
        let range = KeyRange { table, first, last, extends };
        if !range.contains(&range.first) {
            return Err(cursor.invalid("the range ends before it begins"));
        }
        let state_proof = cursor.prefixed()?.to_vec();
        let mut rows = Vec::new();
        for _ in 0..cursor.count(8)? {
            rows.push((cursor.prefixed()?.to_vec(), cursor.prefixed()?.to_vec()));
        }
        cursor.finish()?;
        Ok(Rows { header, range, state_proof, rows })
    }
}

fn put_hashes(out: &mut Vec<u8>, hashes: &[Hash]) -> Result<()> {
    let count = u8::try_from(hashes.len()).map_err(|_| {
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a proof has at most 255 hashes")
    })?;
    out.push(count);
    hashes.iter().for_each(|hash| out.extend_from_slice(hash));
    Ok(())
}

fn take_hashes(cursor: &mut Cursor<'_>) -> Result<Vec<Hash>> {
    let count = cursor.u8()?;
    (0..count).map(|_| cursor.array()).collect()
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
