//! What an envelope asks for, and how the ledger says that it ended.
//!
//! A block carries commands, not effects: what was asked, with its arguments. Everything a replica
//! needs to run it again is in the envelope, whose request has these canonical bytes (one encoding
//! for each value). Who asked is the envelope's principal. How it ended is an [`outcome`].
//!
//! ```text
//! request       kind: 1 | body
//!   1 statement   text: str, arguments: values
//!   2 call        procedure: str, arguments: values
//!   3 load        text: str (the COPY), rows: varint × values
//!   4 interactive now: zigzag | schema: varint, 2 × version + whole | rows | ranges
//!                 | writes (kinds 1, 2, 3 and 7, each with what it answered)
//!   5 schema      text: str (DDL)
//!   6 parameter   name: str, value: str
//!   7 statement   text: str, types (`parameter_types`), arguments: values
//!   8 checkpoint  height: varint, digest: 32
//!   9 migration   as 4, with schema changes (kind 5) among its writes, one at least
//!  10 skip        first: varint, order hash: 32, reason: str
//!  11 endorsed    see [`endorsed`]
//! ```
//!
//! `str` is a varint length and UTF-8; `values` is a varint count and tagged values
//! (`types::codec`).

use concurrency::{Expectation, Interactive, Load, RangeDigest, RangeRequirement, Statement};
use identity::KeyId;
use ledger::Hash;
use order::{Envelope, Seed};
use pipeline::Barrier;
use types::codec::{decode_i64, decode_str, decode_u64, encode_i64, encode_str, encode_u64};
use types::{Error, Height, Result, SqlState, Value};

use crate::parameter_types::ParameterTypes;

pub mod endorsed;
pub mod outcome;
mod parts;

pub use endorsed::{RowChange, RowWrite, result_hash};
pub use outcome::{RowImage, encode_outcome, is_committed};
pub(crate) use parts::decode_rows;
use parts::{
    corrupt, decode_array, decode_byte, decode_list, decode_range, decode_row_read, decode_values,
    decode_word, encode_range, encode_row_read, encode_rows, encode_values,
};

/// One transaction of a block, before it is compiled: who asks, and what for.
#[derive(Clone, PartialEq, Debug)]
pub struct Transaction {
    pub user: String,
    /// What its text means under, by name; a [language](crate::Language) refuses what it does not
    /// know.
    pub settings: Vec<(String, String)>,
    /// What its random values are drawn from; zeros where it came without one.
    pub seed: Seed,
    /// Whose signatures it bears.
    pub signers: Vec<KeyId>,
    /// Whose approvals.
    pub approvers: Vec<KeyId>,
    pub body: Body,
}

/// What [`concurrency::Work`] is before its programs are compiled, and what is no program at all.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    Statement(Statement<StatementText>),
    /// By the procedure's name.
    Call(Statement<String>),
    /// By the text of the COPY.
    Load(Load<String>),
    /// With [schema changes](Body::Schema) among its writes it is a *migration*, which runs by
    /// itself.
    Interactive {
        seen: SchemaSeen,
        transaction: Interactive<Body>,
    },
    Schema {
        text: String,
    },
    Parameter {
        name: String,
        value: String,
    },
    /// The digest of the state after a block: see `checkpoint::vouched` of the engine.
    Checkpoint {
        height: Height,
        digest: Hash,
    },
    /// The blocks from this one on are not run: see [`crate::skip`].
    Skip {
        first: Height,
        /// Hash of its order.
        order: Hash,
        reason: String,
    },
    /// What endorsers have simulated.
    Endorsed(Box<Endorsed>),
}

/// The schema that a transaction's keys and ranges are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchemaSeen {
    /// Schema changes before the transaction began.
    pub version: u64,
    /// There must have been no other since. Else none of a table that it has read.
    pub whole: bool,
}

/// See [`endorsed`].
pub type Endorsed = endorsed::Endorsed<Body>;

const INTERACTIVE: u8 = 4;
const SCHEMA: u8 = 5;
const PARAMETER: u8 = 6;
const CHECKPOINT: u8 = 8;
const MIGRATION: u8 = 9;
const SKIP: u8 = 10;
const ENDORSED: u8 = 11;

/// A statement as the client sent it, and the types it gave with it.
#[derive(Clone, PartialEq, Debug)]
pub struct StatementText {
    pub text: String,
    pub types: ParameterTypes,
}

/// A request's bytes, and what its block comes to a stop for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub request: Vec<u8>,
    pub barrier: Barrier,
    /// It makes room in memory, and takes none.
    pub frees: bool,
}

impl Asked {
    fn new(write: impl FnOnce(&mut Vec<u8>)) -> Asked {
        let mut request = Vec::with_capacity(64);
        write(&mut request);
        Asked { request, barrier: Barrier::None, frees: false }
    }

    pub fn freeing(self, frees: bool) -> Asked {
        Asked { frees, ..self }
    }

    pub fn statement(text: &str, types: &ParameterTypes, arguments: &[Value]) -> Asked {
        Asked::new(|out| encode_statement(text, types, arguments, out))
    }

    pub fn call(procedure: &str, arguments: &[Value]) -> Asked {
        Asked::new(|out| encode_call(procedure, arguments, out))
    }

    pub fn load(text: &str, rows: &[Box<[Value]>]) -> Asked {
        Asked::new(|out| encode_load(text, rows, out))
    }

    /// `request`: that of a write.
    pub fn interactive<W>(
        seen: SchemaSeen,
        transaction: &Interactive<W>,
        request: impl Fn(&W) -> &[u8],
    ) -> Asked {
        let changes = |(write, _): &(W, _)| request(write).first() == Some(&SCHEMA);
        let is_migration = transaction.writes.iter().any(changes);
        let write = |write: &W, out: &mut Vec<u8>| out.extend_from_slice(request(write));
        let kind = if is_migration { MIGRATION } else { INTERACTIVE };
        let asked = Asked::new(|out| encode_interactive(kind, seen, transaction, write, out));
        let barrier = if is_migration { Barrier::Schema } else { Barrier::None };
        Asked { barrier, frees: transaction.writes.iter().all(changes), ..asked }
    }

    /// Whether it may take room in memory, which there has to be.
    pub fn takes(&self) -> bool {
        let writes = self.barrier == Barrier::None || self.request.first() == Some(&MIGRATION);
        writes && !self.frees
    }
}

impl From<&Body> for Asked {
    fn from(body: &Body) -> Asked {
        let asked = Asked { barrier: body.barrier(), ..Asked::new(|out| body.encode(out)) };
        let by_bytes = || Body::barrier_of(&asked.request);
        debug_assert_eq!(asked.barrier, by_bytes(), "other nodes tell a barrier by its bytes");
        asked
    }
}

impl Transaction {
    /// What an envelope asks for. Never panics, whatever the bytes.
    pub fn of<S: AsRef<str>, B: AsRef<[u8]>>(envelope: &Envelope<S, B>) -> Result<Transaction> {
        let body = Body::from_request(envelope.request.as_ref())?;
        let owned = |text: &S| text.as_ref().to_owned();
        let settings = envelope.settings.iter().map(|(name, value)| (owned(name), owned(value)));
        let (user, settings) = (owned(&envelope.principal), settings.collect());
        let signers = envelope.signatures.iter().map(|signature| signature.key_id).collect();
        let approvers = envelope.approvals.iter().map(|approval| approval.key_id).collect();
        Ok(Transaction { user, settings, seed: envelope.seed, signers, approvers, body })
    }
}

/// Whose a transaction is: its principal, and the role that it acts as, where that is another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Party<'a> {
    pub principal: &'a str,
    pub role: Option<&'a str>,
}

/// The setting of an envelope that names the role.
pub const ROLE: &str = "role";

impl Transaction {
    /// All replicas have to refuse what one of them would ignore.
    ///
    /// # Errors
    /// 42704: there is another setting than the role.
    pub fn party(&self) -> Result<Party<'_>> {
        Party::of(&self.user, &self.settings)
    }
}

impl<'a> Party<'a> {
    /// Of an envelope's principal and its settings.
    ///
    /// # Errors
    /// As for [`Transaction::party`].
    pub fn of(principal: &'a str, settings: &'a [(String, String)]) -> Result<Party<'a>> {
        Party::named(principal, settings.iter().map(|(name, value)| (&**name, &**value)))
    }

    /// # Errors
    /// As for [`Transaction::party`].
    pub fn of_envelope<S: AsRef<str>, B>(envelope: &'a Envelope<S, B>) -> Result<Party<'a>> {
        let settings = envelope.settings.iter();
        Party::named(
            envelope.principal.as_ref(),
            settings.map(|(name, value)| (name.as_ref(), value.as_ref())),
        )
    }

    fn named(
        principal: &'a str,
        settings: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Party<'a>> {
        let mut role = None;
        for (name, value) in settings {
            if name != ROLE {
                let what = format!("the ledger knows no setting \"{name}\"");
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, what).with_hint(
                    "Send the transaction without it: it means the same under any setting.",
                ));
            }
            role = Some(value);
        }
        Ok(Party { principal, role })
    }
}

impl Body {
    pub fn call(procedure: impl Into<String>, arguments: impl Into<Box<[Value]>>) -> Body {
        Body::Call(Statement { procedure: procedure.into(), arguments: arguments.into() })
    }

    pub fn statement(
        text: impl Into<String>,
        types: ParameterTypes,
        arguments: impl Into<Box<[Value]>>,
    ) -> Body {
        let procedure = StatementText { text: text.into(), types };
        Body::Statement(Statement { procedure, arguments: arguments.into() })
    }

    pub fn load(text: impl Into<String>, rows: Vec<Box<[Value]>>) -> Body {
        Body::Load(Load::new(text.into(), rows))
    }

    /// An envelope's request.
    pub fn to_request(&self) -> Vec<u8> {
        Asked::from(self).request
    }

    /// Never panics, whatever the bytes; trailing bytes are an error.
    pub fn from_request(bytes: &[u8]) -> Result<Body> {
        let mut input = bytes;
        let body = Body::decode(&mut input)?;
        match input.is_empty() {
            true => Ok(body),
            false => Err(corrupt("bytes after a request")),
        }
    }

    /// Why a block comes to a stop for a request, whose kind tells of most.
    pub(crate) fn barrier_of(request: &[u8]) -> Barrier {
        match request.first() {
            Some(&(SCHEMA | PARAMETER | CHECKPOINT | MIGRATION | SKIP)) => {
                Body::from_request(request).map_or(Barrier::None, |body| body.barrier())
            }
            _ => Barrier::None,
        }
    }

    /// Whether a request's bytes are of that kind.
    pub fn is_checkpoint(request: &[u8]) -> bool {
        request.first() == Some(&CHECKPOINT)
    }

    /// Whether endorsers can simulate it before it is ordered.
    pub fn is_proposal(request: &[u8]) -> bool {
        matches!(request.first(), Some(1..=3 | 7 | &INTERACTIVE))
    }

    /// Whether they have.
    pub fn is_endorsed(request: &[u8]) -> bool {
        request.first() == Some(&ENDORSED)
    }

    pub fn is_skip(request: &[u8]) -> bool {
        request.first() == Some(&SKIP)
    }

    /// What its block comes to a stop for: see [`Barrier`].
    pub fn barrier(&self) -> Barrier {
        match self {
            Body::Schema { .. } => Barrier::Schema,
            Body::Interactive { transaction, .. } if is_migration(transaction) => Barrier::Schema,
            Body::Parameter { .. } | Body::Checkpoint { .. } | Body::Skip { .. } => {
                Barrier::Parameters
            }
            _ => Barrier::None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Body::Statement(Statement { procedure: StatementText { text, types }, arguments }) => {
                encode_statement(text, types, arguments, out);
            }
            Body::Call(call) => encode_call(&call.procedure, &call.arguments, out),
            Body::Load(load) => encode_load(&load.procedure, &load.rows, out),
            Body::Interactive { seen, transaction } => {
                let kind = if is_migration(transaction) { MIGRATION } else { INTERACTIVE };
                encode_interactive(kind, *seen, transaction, Body::encode, out);
            }
            Body::Schema { text } => {
                out.push(SCHEMA);
                encode_str(text, out);
            }
            Body::Parameter { name, value } => {
                out.push(PARAMETER);
                encode_str(name, out);
                encode_str(value, out);
            }
            Body::Checkpoint { height, digest } => {
                out.push(CHECKPOINT);
                encode_u64(*height, out);
                out.extend_from_slice(digest);
            }
            Body::Skip { first, order, reason } => {
                out.push(SKIP);
                encode_u64(*first, out);
                out.extend_from_slice(order);
                encode_str(reason, out);
            }
            Body::Endorsed(endorsed) => {
                out.push(ENDORSED);
                endorsed.encode(Body::encode, out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Body> {
        let text = |input: &mut &[u8]| decode_str(input).map(str::to_owned);
        Ok(match decode_byte(input)? {
            1 => Body::statement(text(input)?, ParameterTypes::default(), decode_values(input)?),
            2 => Body::call(text(input)?, decode_values(input)?),
            3 => Body::load(text(input)?, decode_rows(input)?),
            kind @ (INTERACTIVE | MIGRATION) => decode_interactive(kind, input)?,
            SCHEMA => Body::Schema { text: text(input)? },
            PARAMETER => Body::Parameter { name: text(input)?, value: text(input)? },
            7 => {
                Body::statement(text(input)?, ParameterTypes::decode(input)?, decode_values(input)?)
            }
            CHECKPOINT => {
                Body::Checkpoint { height: decode_u64(input)?, digest: decode_array(input)? }
            }
            SKIP => Body::Skip {
                first: decode_u64(input)?,
                order: decode_array(input)?,
                reason: text(input)?,
            },
            ENDORSED => Body::Endorsed(Box::new(Endorsed::decode(input, Body::decode_proposal)?)),
            _ => return Err(corrupt("a transaction of unknown kind")),
        })
    }

    /// One that endorsers may have simulated.
    fn decode_proposal(input: &mut &[u8]) -> Result<Body> {
        match input.first() {
            Some(&INTERACTIVE) => Body::decode(input),
            _ => Body::decode_write(INTERACTIVE, input),
        }
    }

    /// One that may stand within an interactive transaction.
    fn decode_write(kind: u8, input: &mut &[u8]) -> Result<Body> {
        match input.first() {
            Some(1..=3 | 7) => Body::decode(input),
            Some(&SCHEMA) if kind == MIGRATION => Body::decode(input),
            _ => Err(corrupt("a write of unknown kind")),
        }
    }
}

fn encode_statement(text: &str, types: &ParameterTypes, arguments: &[Value], out: &mut Vec<u8>) {
    // Most statements declare nothing, and pay no byte for it.
    out.push(if types.is_empty() { 1 } else { 7 });
    encode_str(text, out);
    if !types.is_empty() {
        types.encode(out);
    }
    encode_values(arguments, out);
}

fn encode_call(procedure: &str, arguments: &[Value], out: &mut Vec<u8>) {
    out.push(2);
    encode_str(procedure, out);
    encode_values(arguments, out);
}

fn encode_load(text: &str, rows: &[Box<[Value]>], out: &mut Vec<u8>) {
    out.push(3);
    encode_str(text, out);
    encode_rows(rows, out);
}

fn is_migration(transaction: &Interactive<Body>) -> bool {
    transaction.writes.iter().any(|(write, _)| matches!(write, Body::Schema { .. }))
}

fn encode_interactive<W>(
    kind: u8,
    seen: SchemaSeen,
    transaction: &Interactive<W>,
    encode_write: impl Fn(&W, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    out.push(kind);
    encode_i64(transaction.now_us, out);
    encode_u64(seen.version << 1 | u64::from(seen.whole), out);
    encode_u64(transaction.rows.len() as u64, out);
    for row in &transaction.rows {
        encode_row_read(row, out);
    }
    encode_u64(transaction.ranges.len() as u64, out);
    for requirement in &transaction.ranges {
        encode_range(&requirement.range, out);
        let digest = &requirement.digest;
        encode_u64(digest.rows << 1 | u64::from(digest.stopped), out);
        for lane in digest.lanes() {
            out.extend_from_slice(&lane.to_be_bytes());
        }
    }
    encode_u64(transaction.writes.len() as u64, out);
    for (write, expected) in &transaction.writes {
        encode_write(write, out);
        encode_u64(expected.count, out);
        encode_rows(&expected.rows, out);
    }
}

fn decode_interactive(kind: u8, input: &mut &[u8]) -> Result<Body> {
    let (now_us, seen) = (decode_i64(input)?, decode_u64(input)?);
    let seen = SchemaSeen { version: seen >> 1, whole: seen & 1 == 1 };
    let transaction = Interactive {
        now_us,
        rows: decode_list(input, decode_row_read)?,
        ranges: decode_list(input, |input| {
            let range = decode_range(input)?;
            let rows = decode_u64(input)?;
            let lanes = [decode_word(input)?, decode_word(input)?];
            let digest = RangeDigest::from_parts(rows >> 1, rows & 1 == 1, lanes);
            Ok(RangeRequirement { range, digest, seal: None })
        })?,
        writes: decode_list(input, |input| {
            let write = Body::decode_write(kind, input)?;
            let (count, rows) = (decode_u64(input)?, decode_rows(input)?);
            Ok((write, Expectation { count, rows }))
        })?,
    };
    if (kind == MIGRATION) != is_migration(&transaction) {
        return Err(corrupt("a migration without a schema change"));
    }
    if kind == MIGRATION && !seen.whole {
        return Err(corrupt("a migration that rests on a part of the schema"));
    }
    Ok(Body::Interactive { seen, transaction })
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use concurrency::RowRequirement;
    use procedure::access::Range;
    use types::{DataType, Key, Stamp, TableId};

    use super::*;

    fn samples() -> Vec<Body> {
        let text = "UPDATE t SET a = a + $1";
        let arguments = || vec![Value::Int(-3), Value::Null];
        let statement = Body::statement(text, ParameterTypes::default(), arguments());
        let types = ParameterTypes::new(&[None, Some(DataType::Numeric(Some((9, 2))))]);
        let typed = Body::statement(text, types, arguments());
        let load = Body::load("COPY t FROM STDIN", vec![[Value::Int(1)].into()]);
        let key = Key::from(&[1, 2, 3][..]);
        let read = |stamp| RowRequirement { table: TableId(3), key: key.clone(), stamp };
        let range = Range {
            table: TableId(3),
            index: 1,
            low: Bound::Excluded(key.clone()),
            high: Bound::Unbounded,
            reverse: true,
        };
        let digest = RangeDigest::from_parts(9, true, [1, u64::MAX]);
        let expected = || Expectation { count: 2, rows: vec![[Value::Int(8)].into()] };
        let transaction = Interactive {
            now_us: -7,
            rows: vec![read(None), read(Some(Stamp::new(4, 5)))],
            ranges: vec![RangeRequirement { range, digest, seal: None }],
            writes: [&statement, &typed, &load].map(|body| (body.clone(), expected())).into(),
        };
        let schema = Body::Schema { text: "CREATE TABLE t (a int)".into() };
        let endorsed = |proposal: &Body| {
            let digest = RangeDigest::from_parts(9, true, [0; 2]);
            let range = transaction.ranges[0].range.clone();
            let write = |change| RowWrite { table: TableId(3), change };
            let key = || vec![Value::Int(7)];
            Body::Endorsed(Box::new(Endorsed {
                proposal: proposal.clone(),
                schema_version: 300,
                now_us: -7,
                rows: transaction.rows.clone(),
                ranges: vec![RangeRequirement { range, digest, seal: Some(Box::new([5; 32])) }],
                writes: vec![
                    write(RowChange::Insert(arguments())),
                    write(RowChange::Update { key: key(), columns: vec![(300, Value::Null)] }),
                    write(RowChange::Delete { key: key() }),
                ],
                result: [6; 32],
            }))
        };
        let seen = |whole| SchemaSeen { version: 300, whole };
        let commit = Body::Interactive { seen: seen(false), transaction: transaction.clone() };
        let endorsed = [&statement, &typed, &load, &commit].map(endorsed);
        let mut migration = transaction.clone();
        migration.writes.insert(1, (schema.clone(), Expectation::default()));
        let mut all = vec![
            statement,
            typed,
            load,
            Body::call("p", vec![Value::Bool(true)]),
            schema,
            Body::Parameter { name: "protocol".into(), value: "serial".into() },
            commit,
            Body::Interactive { seen: seen(true), transaction },
            Body::Interactive { seen: seen(true), transaction: migration },
            Body::Checkpoint { height: 300, digest: [7; 32] },
            Body::Skip { first: 300, order: [7; 32], reason: "it panics".into() },
        ];
        all.extend(endorsed);
        all
    }

    #[test]
    fn a_schema_change_is_told_by_its_kind() {
        for body in samples() {
            let request = body.to_request();
            assert_eq!(Body::barrier_of(&request), body.barrier());
            assert_eq!(Asked::from(&body).barrier, body.barrier());
            let Body::Interactive { seen, transaction } = &body else { continue };
            let transaction = transaction.clone().try_map(|write| Ok::<_, ()>(write.to_request()));
            let asked = Asked::interactive(*seen, &transaction.unwrap(), |write| write);
            assert_eq!((asked.request, asked.barrier), (request.clone(), body.barrier()));
            // Neither kind takes what is the other's.
            let mut other = request;
            other[0] = INTERACTIVE + MIGRATION - other[0];
            assert!(Body::from_request(&other).is_err(), "{seen:?}");
        }
    }

    #[test]
    fn every_kind_round_trips() {
        for body in samples() {
            assert_eq!(Body::from_request(&body.to_request()), Ok(body));
        }
    }

    #[test]
    fn cut_or_changed_bytes_never_panic_and_never_pass_as_the_same() {
        for body in samples() {
            let bytes = body.to_request();
            for cut in 0..bytes.len() {
                assert!(Body::from_request(&bytes[..cut]).is_err());
            }
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    assert_ne!(Body::from_request(&changed).as_ref(), Ok(&body));
                }
            }
        }
    }
}
