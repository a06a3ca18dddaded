//! The format of a CometBFT transaction: envelopes of one node, or a request of that node.
//!
//! ```text
//! bundle  [ version: 1 | kind: 1 | instance: 8 | number: 8 | count: varint, a string each ]
//! kind    1 envelopes: one or more    2 nudge: a batch is wanted    3 marker: only a place
//! ```
//!
//! `instance` is drawn when a node starts and `number` counts from there, so no two transactions
//! are the same bytes: CometBFT would keep the second from being ordered, and what is sent again
//! after a lost answer is to be ordered again. One bundle has one encoding.

use bytes::{BufMut, Bytes};
use types::codec::{decode_bytes, decode_u64, encode_bytes, encode_u64};
use types::{Error, Result, SqlState};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 2 + 8 + 8;

/// The largest transaction; `config.toml` and the genesis leave room for it.
pub const BUNDLE_BYTES_MAX: usize = 12 << 20;
/// What a bundle adds to its envelopes at most, if there is one; else some bytes for each.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + 2 * 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Envelopes = 1,
    Nudge = 2,
    Marker = 3,
}

/// Which of a node's bundles it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name {
    pub instance: u64,
    pub number: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    pub kind: Kind,
    pub name: Name,
    pub envelopes: Vec<Bytes>,
}

impl Bundle {
    pub fn encode(&self) -> Bytes {
        debug_assert_eq!(self.envelopes.is_empty(), self.kind != Kind::Envelopes);
        let envelopes = self.envelopes.iter().map(|envelope| envelope.len() + 10);
        let mut out = Vec::with_capacity(OVERHEAD_BYTES + envelopes.sum::<usize>());
        out.put_slice(&[VERSION, self.kind as u8]);
        out.put_u64(self.name.instance);
        out.put_u64(self.name.number);
        encode_u64(self.envelopes.len() as u64, &mut out);
        for envelope in &self.envelopes {
            encode_bytes(envelope, &mut out);
        }
        out.into()
    }

    /// Shares the bytes with its envelopes, into which it does not look.
    pub fn decode(bytes: &Bytes) -> Result<Bundle> {
        if bytes.len() > BUNDLE_BYTES_MAX {
            return Err(invalid(&format!("it has {} bytes", bytes.len())));
        }
        let Some((head, mut rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(invalid("it is cut short"));
        };
        let kind = match (head[0], head[1]) {
            (VERSION, 1) => Kind::Envelopes,
            (VERSION, 2) => Kind::Nudge,
            (VERSION, 3) => Kind::Marker,
            (version, kind) => return Err(invalid(&format!("kind {kind} of version {version}"))),
        };
        let number = |from: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[from..from + 8]);
            u64::from_be_bytes(bytes)
        };
        let name = Name { instance: number(2), number: number(10) };
        let count = decode_u64(&mut rest)?;
        if (count > 0) != (kind == Kind::Envelopes) || count > rest.len() as u64 {
            return Err(invalid(&format!("{count} envelopes in a bundle of kind {}", kind as u8)));
        }
        let envelopes: Result<Vec<Bytes>> =
            (0..count).map(|_| Ok(bytes.slice_ref(decode_bytes(&mut rest)?))).collect();
        let bundle = Bundle { kind, name, envelopes: envelopes? };
        match rest.len() {
            0 => Ok(bundle),
            left => Err(invalid(&format!("{left} bytes are left over"))),
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("a transaction is no bundle: {what}"))
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    fn bundle(random: &mut Random) -> Bundle {
        let kind = [Kind::Envelopes, Kind::Nudge, Kind::Marker][random.below(3) as usize];
        let count = if kind == Kind::Envelopes { 1 + random.below(4) } else { 0 };
        let envelope = |random: &mut Random| vec![7; random.below(300) as usize].into();
        let name = Name { instance: random.below(9), number: random.below(1 << 40) };
        Bundle { kind, name, envelopes: (0..count).map(|_| envelope(random)).collect() }
    }

    #[test]
    fn what_is_encoded_is_read_and_nothing_else() {
        let mut random = Random::new(1);
        for _ in 0..300 {
            let bundle = bundle(&mut random);
            let bytes = bundle.encode();
            assert_eq!(Bundle::decode(&bytes).unwrap(), bundle);
            let cut = bytes.slice(..random.below(bytes.len() as u64) as usize);
            assert!(Bundle::decode(&cut).is_err(), "{cut:?}");
            let more = Bytes::from([&bytes[..], &[0]].concat());
            assert!(Bundle::decode(&more).is_err());
            // Whatever is changed: it is refused, or it is what these bytes say.
            let mut changed = bytes.to_vec();
            changed[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8);
            if let Ok(other) = Bundle::decode(&changed.clone().into()) {
                assert_eq!(other.encode(), changed);
            }
        }
    }
}
