//! The parameters that decide what a block does: protocol, row encoding, and whatever else can
//! change an outcome.
//!
//! They are ledger state. Genesis holds the first ones, a ledger transaction changes them, and each
//! header names by hash the ones in force for its block (a change in block n holds from block
//! n + 1), so that an edited configuration file can never make an old block mean something else.
//!
//! ```text
//! bytes  field                        (lengths and counts: u32, big-endian)
//! 4 + n  protocol                     length, UTF-8
//! 4 + n  row_encoding                 length, UTF-8
//!     4  number of other parameters
//!        each: 4 + n name, 4 + n value; names strictly ascending by bytes
//! ```
//!
//! Parameters hash = SHA-256(`"tally params v1" 00` ‖ these bytes).

use std::collections::BTreeMap;

use types::Result;
use types::row::ROW_ENCODING;

use crate::hash::{Hash, TAG_PARAMETERS, tagged_hash};
use crate::wire::{Cursor, put_prefixed};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    pub protocol: String,
    pub row_encoding: String,
    /// Everything else that can affect an outcome, by name.
    pub others: BTreeMap<String, String>,
}

impl Parameters {
    pub fn new(protocol: impl Into<String>) -> Self {
        Parameters {
            protocol: protocol.into(),
            row_encoding: ROW_ENCODING.to_owned(),
            others: BTreeMap::new(),
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        put_prefixed(&mut bytes, self.protocol.as_bytes())?;
        put_prefixed(&mut bytes, self.row_encoding.as_bytes())?;
        // A map with 2^32 entries does not fit any memory that a name and a value need.
        bytes.extend_from_slice(&(self.others.len() as u32).to_be_bytes());
        for (name, value) in &self.others {
            put_prefixed(&mut bytes, name.as_bytes())?;
            put_prefixed(&mut bytes, value.as_bytes())?;
        }
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("parameters", bytes);
        let protocol = cursor.prefixed_text()?;
        let row_encoding = cursor.prefixed_text()?;
        let mut others = BTreeMap::new();
        for _ in 0..cursor.u32()? {
            let name = cursor.prefixed_text()?;
            let value = cursor.prefixed_text()?;
            if others.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(cursor.invalid(format!("{name:?} is out of order")));
            }
            others.insert(name, value);
        }
        cursor.finish()?;
        Ok(Parameters { protocol, row_encoding, others })
    }

    pub fn hash(&self) -> Result<Hash> {
        Ok(tagged_hash(TAG_PARAMETERS, &self.encode()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_value_has_one_encoding() {
        let mut parameters = Parameters::new("harmony");
        parameters.others.insert("block_transactions_max".into(), "1000".into());
        parameters.others.insert("a".into(), "".into());
        let bytes = parameters.encode().unwrap();
        assert_eq!(Parameters::decode(&bytes).unwrap(), parameters);

        // The two pairs swapped: the same map, but not the canonical bytes of it.
        let (head, pairs) = bytes.split_at(4 + 7 + 4 + 11 + 4);
        let (first, second) = pairs.split_at(4 + 1 + 4);
        assert!(Parameters::decode(&[head, second, first].concat()).is_err());
        assert!(Parameters::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_canonical(bytes in prop::collection::vec(0u8..4, 0..64)) {
            if let Ok(parameters) = Parameters::decode(&bytes) {
                prop_assert_eq!(parameters.encode().unwrap(), bytes);
            }
        }
    }
}
