//! What a client asks a ledger for, sealed in the bytes that are ordered.
//!
//! An envelope says who asks (`principal`), under which name the asking is done at most once
//! ([`Submission`]), until when, what the asker had seen of the ledger, the settings and the seed
//! that its meaning depends on, and the request itself, which nothing here looks into. Its id is a
//! hash of all of that; signatures and approvals are over the id and stand outside of it. The
//! envelopes root of an order header covers all bytes.
//!
//! ```text
//! [ form: 1 | ledger id: 16 | principal: text | submission | expires_us: zigzag
//!   | seen_height: varint | settings? | seed? | request: string ] [ tail? ]
//!  ───────────────────────── the id covers this ─────────────────
//!
//! form        bits 4..8 the format, 1; bit 0 a key and no sequence; bit 1 settings; bit 2 a seed
//! submission  submitter: 16, sequence: varint   or   key: text of 1 to 255 bytes
//! settings    count: varint, then name and value: text each; names ascending, at least one
//! seed        16, not all zeros: zeros are left out
//! tail        signatures, approvals: count: varint, then key id: 32 and bytes: string each, key
//!             ids ascending; no tail where both are empty
//! ```
//!
//! A string is its length as a varint and its bytes, a text a string in UTF-8. Varints and zigzag
//! are those of [`types::codec`].
//!
//! **Invariants.** One encoding for each value and one value for each encoding. Decoding reserves
//! no more than a small multiple of the input, and copies neither the request nor signatures.
//!
//! **Cost.** A usual envelope (a sequence, no settings, no seed, no signatures) has about 55 bytes
//! beside its request, a seed 16 more. Encoding allocates once.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::{BufMut, Bytes};
use ledger::LedgerId;
use ledger::hash::{Hash, tagged_hash};
use ledger::signatures::TAG_ENVELOPE;
use types::codec::{
    decode_bytes, decode_i64, decode_str, decode_u64, encode_bytes, encode_i64, encode_str,
    encode_u64,
};
use types::{Error, Height, Result, SqlState};

use crate::signed::Fault;
use crate::wire::{corrupt, finish, i64_bytes, string_bytes, take, u64_bytes};

/// Bytes of a principal, of a key, of a setting's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a setting's value.
pub const SETTING_BYTES_MAX: usize = 4096;
/// Bytes of one signature.
pub const SIGNATURE_BYTES_MAX: usize = 8192;
/// Settings, signatures, approvals of one envelope.
pub const LIST_MAX: usize = 64;

pub type Seed = [u8; 16];

const FORMAT: u8 = 0x10;
const WITH_KEY: u8 = 1;
const WITH_SETTINGS: u8 = 2;
const WITH_SEED: u8 = 4;

const NO_SEED: Seed = [0; 16];

/// The name under which a request is run at most once, whatever number of copies arrives. It
/// counts within its principal: no principal can use up another one's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Submission<S = String> {
    /// Drawn by a node or a driver: numbers in about ascending order, from a submitter's own count.
    Sequence { submitter: [u8; 16], sequence: u64 },
    /// Named by the client, who can ask for its outcome later.
    Key(S),
}

/// Over an envelope's id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature<B = Bytes> {
    pub key_id: [u8; 32],
    pub bytes: B,
}

/// See the module. `Envelope` owns what it says and shares the request with the bytes that it was
/// decoded from; [`View`] borrows all of it, for encoding without a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope<S = String, B = Bytes> {
    pub ledger_id: LedgerId,
    pub principal: S,
    pub submission: Submission<S>,
    /// The last block time at which it may be ordered.
    pub expires_us: i64,
    /// The height that its entry node had released: a session sees its own past anywhere.
    pub seen_height: Height,
    /// Session settings that change what the request means, by name; usually none.
    pub settings: Vec<(S, S)>,
    /// Of the random values that the request draws; zeros where it draws none.
    pub seed: Seed,
    pub request: B,
    /// By key id, one for each.
    pub signatures: Vec<Signature<B>>,
    /// Of others, where a policy asks for them. By key id, one for each.
    pub approvals: Vec<Signature<B>>,
}

/// An envelope in borrowed pieces.
pub type View<'a> = Envelope<&'a str, &'a [u8]>;

impl<S: AsRef<str>, B: AsRef<[u8]>> Envelope<S, B> {
    pub fn encode(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(self.body_bytes() + self.tail_bytes());
        self.encode_into(&mut out)?;
        Ok(out.into())
    }

    /// Appends the canonical bytes; nothing if there are none for this value.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<()> {
        self.check()?;
        self.encode_body(out);
        if !self.signatures.is_empty() || !self.approvals.is_empty() {
            encode_signatures(&self.signatures, out);
            encode_signatures(&self.approvals, out);
        }
        Ok(())
    }

    /// What signatures and approvals sign.
    pub fn id(&self) -> Result<Hash> {
        self.check()?;
        let mut body = Vec::with_capacity(self.body_bytes());
        self.encode_body(&mut body);
        Ok(tagged_hash(TAG_ENVELOPE, &body))
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        out.put_u8(self.form());
        out.put_slice(&self.ledger_id);
        encode_str(self.principal.as_ref(), out);
        match &self.submission {
            Submission::Sequence { submitter, sequence } => {
                out.put_slice(submitter);
                encode_u64(*sequence, out);
            }
            Submission::Key(key) => encode_str(key.as_ref(), out),
        }
        encode_i64(self.expires_us, out);
        encode_u64(self.seen_height, out);
        if !self.settings.is_empty() {
            encode_u64(self.settings.len() as u64, out);
            for (name, value) in &self.settings {
                encode_str(name.as_ref(), out);
                encode_str(value.as_ref(), out);
            }
        }
        if self.seed != NO_SEED {
            out.put_slice(&self.seed);
        }
        encode_bytes(self.request.as_ref(), out);
    }

    fn form(&self) -> u8 {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        FORMAT
            | flag(matches!(self.submission, Submission::Key(_)), WITH_KEY)
            | flag(!self.settings.is_empty(), WITH_SETTINGS)
            | flag(self.seed != NO_SEED, WITH_SEED)
    }

    fn body_bytes(&self) -> usize {
        let submission = match &self.submission {
            Submission::Sequence { sequence, .. } => 16 + u64_bytes(*sequence),
            Submission::Key(key) => string_bytes(key.as_ref().len()),
        };
        let pair = |(name, value): &(S, S)| {
            string_bytes(name.as_ref().len()) + string_bytes(value.as_ref().len())
        };
        let settings = match self.settings.len() {
            0 => 0,
            count => u64_bytes(count as u64) + self.settings.iter().map(pair).sum::<usize>(),
        };
        17 + string_bytes(self.principal.as_ref().len())
            + submission
            + i64_bytes(self.expires_us)
            + u64_bytes(self.seen_height)
            + settings
            + if self.seed == NO_SEED { 0 } else { 16 }
            + string_bytes(self.request.as_ref().len())
    }

    fn tail_bytes(&self) -> usize {
        if self.signatures.is_empty() && self.approvals.is_empty() {
            return 0;
        }
        let list = |list: &[Signature<B>]| {
            let one = |signature: &Signature<B>| 32 + string_bytes(signature.bytes.as_ref().len());
            u64_bytes(list.len() as u64) + list.iter().map(one).sum::<usize>()
        };
        list(&self.signatures) + list(&self.approvals)
    }

    /// What both directions refuse.
    fn check(&self) -> Result<()> {
        check_name("the principal", self.principal.as_ref())?;
        if let Submission::Key(key) = &self.submission {
            check_name("the key", key.as_ref())?;
        }
        for (name, value) in &self.settings {
            check_name("the name of a setting", name.as_ref())?;
            if value.as_ref().len() > SETTING_BYTES_MAX {
                return Err(invalid("a setting's value is too long".to_owned()));
            }
        }
        let names = self.settings.iter().map(|(name, _)| name.as_ref());
        check_list(
            "settings",
            self.settings.len(),
            names.is_sorted_by(|left, right| left < right),
        )?;
        check_signatures("signatures", &self.signatures)?;
        check_signatures("approvals", &self.approvals)
    }
}

impl<'a> View<'a> {
    /// Reads all of the bytes.
    pub fn read(bytes: &'a [u8]) -> Result<View<'a>> {
        Ok(parse(bytes)?.0)
    }
}

impl Envelope {
    /// Reads all of the bytes, and shares them.
    pub fn decode(bytes: &Bytes) -> Result<Envelope> {
        Ok(parse(bytes)?.0.sharing(bytes))
    }

    /// The envelope and its id, for one reading.
    pub fn decode_with_id(bytes: &Bytes) -> Result<(Envelope, Hash)> {
        let (view, body) = parse(bytes)?;
        Ok((view.sharing(bytes), tagged_hash(TAG_ENVELOPE, body)))
    }
}

/// The id of encoded bytes, which are checked on the way. Without settings and signatures it
/// allocates nothing.
pub fn id_of_encoded(bytes: &[u8]) -> Result<Hash> {
    let (_, body) = parse(bytes)?;
    Ok(tagged_hash(TAG_ENVELOPE, body))
}

impl View<'_> {
    /// `bytes` is what this was read from.
    fn sharing(self, bytes: &Bytes) -> Envelope {
        self.with_parts(str::to_owned, |part| bytes.slice_ref(part))
    }
}

impl<S, B> Envelope<S, B> {
    /// The same with its texts and bytes held in another way.
    fn with_parts<T, C>(self, text: impl Fn(S) -> T, bytes: impl Fn(B) -> C) -> Envelope<T, C> {
        let signatures = |list: Vec<Signature<B>>| {
            let one = |signature: Signature<B>| Signature {
                key_id: signature.key_id,
                bytes: bytes(signature.bytes),
            };
            list.into_iter().map(one).collect()
        };
        Envelope {
            ledger_id: self.ledger_id,
            principal: text(self.principal),
            submission: match self.submission {
                Submission::Sequence { submitter, sequence } => {
                    Submission::Sequence { submitter, sequence }
                }
                Submission::Key(key) => Submission::Key(text(key)),
            },
            expires_us: self.expires_us,
            seen_height: self.seen_height,
            settings: self.settings.into_iter().map(|(it, to)| (text(it), text(to))).collect(),
            seed: self.seed,
            request: bytes(self.request),
            signatures: signatures(self.signatures),
            approvals: signatures(self.approvals),
        }
    }
}

/// Where a part lies in an envelope's bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    to: usize,
}

impl Span {
    fn of(part: &[u8], whole: &[u8]) -> Span {
        let from = part.as_ptr() as usize - whole.as_ptr() as usize;
        debug_assert!(from + part.len() <= whole.len(), "a part lies in what it is a part of");
        Span { from, to: from + part.len() }
    }

    fn of_bytes(self, whole: &[u8]) -> &[u8] {
        &whole[self.from..self.to]
    }

    fn of_text(self, whole: &[u8]) -> &str {
        std::str::from_utf8(self.of_bytes(whole)).expect("it was read as text")
    }
}

/// The bytes that are ordered, and where their parts lie: read once, however many ask.
#[derive(Clone, Debug)]
pub struct EnvelopeBytes {
    bytes: Bytes,
    /// Beside the parts, how many bytes the id covers. `Err`: why they are no envelope.
    parts: Result<(Envelope<Span, Span>, usize)>,
    /// What is wrong with its signatures, once that was looked at.
    pub(crate) faults: OnceLock<Option<Fault>>,
}

impl EnvelopeBytes {
    /// Takes any bytes, as a batch may hold any.
    pub fn read(bytes: Bytes) -> EnvelopeBytes {
        let parts = parse(&bytes).map(|(view, body)| {
            let text = |part: &str| Span::of(part.as_bytes(), &bytes);
            (view.with_parts(text, |part| Span::of(part, &bytes)), body.len())
        });
        EnvelopeBytes { bytes, parts, faults: OnceLock::new() }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// What they say.
    pub fn view(&self) -> Result<View<'_>> {
        let (parts, _) = self.parts.as_ref().map_err(Error::clone)?;
        Ok(parts.clone().with_parts(|it| it.of_text(&self.bytes), |it| it.of_bytes(&self.bytes)))
    }

    pub fn is_signed(&self) -> bool {
        let parts = self.parts.as_ref();
        parts.is_ok_and(|(it, _)| !it.signatures.is_empty() || !it.approvals.is_empty())
    }

    /// What signatures and approvals sign.
    pub fn id(&self) -> Result<Hash> {
        let (_, body) = self.parts.as_ref().map_err(Error::clone)?;
        Ok(tagged_hash(TAG_ENVELOPE, &self.bytes[..*body]))
    }
}

impl Deref for EnvelopeBytes {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// The envelope, and the bytes that its id covers.
fn parse(bytes: &[u8]) -> Result<(View<'_>, &[u8])> {
    let mut rest = bytes;
    let [form] = take(&mut rest)?;
    if form & !(WITH_KEY | WITH_SETTINGS | WITH_SEED) != FORMAT {
        return Err(corrupt("an unknown form of envelope"));
    }
    let mut view = View {
        ledger_id: take(&mut rest)?,
        principal: decode_str(&mut rest)?,
        submission: decode_submission(form, &mut rest)?,
        expires_us: decode_i64(&mut rest)?,
        seen_height: decode_u64(&mut rest)?,
        settings: decode_settings(form, &mut rest)?,
        seed: decode_seed(form, &mut rest)?,
        request: decode_bytes(&mut rest)?,
        signatures: Vec::new(),
        approvals: Vec::new(),
    };
    let body = &bytes[..bytes.len() - rest.len()];
    if !rest.is_empty() {
        view.signatures = decode_signatures(&mut rest)?;
        view.approvals = decode_signatures(&mut rest)?;
        if view.signatures.is_empty() && view.approvals.is_empty() {
            return Err(corrupt("an empty tail of an envelope"));
        }
    }
    finish(rest)?;
    view.check().map_err(|error| corrupt(error.message()))?;
    Ok((view, body))
}

fn decode_submission<'a>(form: u8, rest: &mut &'a [u8]) -> Result<Submission<&'a str>> {
    Ok(if form & WITH_KEY != 0 {
        Submission::Key(decode_str(rest)?)
    } else {
        Submission::Sequence { submitter: take(rest)?, sequence: decode_u64(rest)? }
    })
}

fn decode_settings<'a>(form: u8, rest: &mut &'a [u8]) -> Result<Vec<(&'a str, &'a str)>> {
    if form & WITH_SETTINGS == 0 {
        return Ok(Vec::new());
    }
    let count = decode_u64(rest)?;
    if count == 0 {
        return Err(corrupt("an empty list of settings"));
    }
    check_count("settings", count)?;
    (0..count).map(|_| Ok((decode_str(rest)?, decode_str(rest)?))).collect()
}

fn decode_seed(form: u8, rest: &mut &[u8]) -> Result<Seed> {
    if form & WITH_SEED == 0 {
        return Ok(NO_SEED);
    }
    match take(rest)? {
        NO_SEED => Err(corrupt("a seed of zeros")),
        seed => Ok(seed),
    }
}

fn encode_signatures<B: AsRef<[u8]>>(list: &[Signature<B>], out: &mut Vec<u8>) {
    encode_u64(list.len() as u64, out);
    for signature in list {
        out.put_slice(&signature.key_id);
        encode_bytes(signature.bytes.as_ref(), out);
    }
}

fn decode_signatures<'a>(rest: &mut &'a [u8]) -> Result<Vec<Signature<&'a [u8]>>> {
    let count = decode_u64(rest)?;
    check_count("signatures", count)?;
    (0..count).map(|_| Ok(Signature { key_id: take(rest)?, bytes: decode_bytes(rest)? })).collect()
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    let found = name.len();
    Err(invalid(format!("{what} has {found} bytes, not 1 to {NAME_BYTES_MAX}")))
}

fn check_signatures<B: AsRef<[u8]>>(what: &str, list: &[Signature<B>]) -> Result<()> {
    if list.iter().any(|signature| signature.bytes.as_ref().len() > SIGNATURE_BYTES_MAX) {
        return Err(invalid(format!("one of the {what} is too long")));
    }
    let ascending = list.is_sorted_by(|left, right| left.key_id < right.key_id);
    check_list(what, list.len(), ascending)
}

/// Before a list is read: an item may take much less than what it is read into.
fn check_count(what: &str, count: u64) -> Result<()> {
    match count > LIST_MAX as u64 {
        true => Err(corrupt(&format!("{count} {what}, at most {LIST_MAX}"))),
        false => Ok(()),
    }
}

fn check_list(what: &str, count: usize, ascending: bool) -> Result<()> {
    if count > LIST_MAX {
        return Err(invalid(format!("{count} {what}, at most {LIST_MAX}")));
    }
    match ascending {
        true => Ok(()),
        false => Err(invalid(format!("the {what} do not ascend"))),
    }
}

fn invalid(what: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid envelope: {what}"))
}
