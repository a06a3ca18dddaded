//! `inet` and `cidr`: addresses of hosts and networks, as PostgreSQL 15 reads, writes and orders
//! them.
//!
//! A value is kept as bytes that compare as the addresses do, so storage, keys, sorting, grouping
//! and hashing are those of `bytea`; the type tells how it is written.
//!
//! ```text
//! family   network                    bits   address
//! 4 or 6   4 or 16 bytes, the bits    1      4 or 16 bytes
//!          after the mask being 0
//! ```
//!
//! *Invariant.* Of a `cidr` network and address are the same. PostgreSQL compares the bits that
//! both networks have, then how many those are, then the addresses: of a shorter network the bits
//! that it has not are zeros here, so bytes compare in the same order.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::BufMut;

use crate::datatype::DataType;
use crate::error::{Error, Result, SqlState};
use crate::value::Value;

const VERSION_4: u8 = 4;
const VERSION_6: u8 = 6;
/// What PostgreSQL's binary form calls the two.
const SENT_4: u8 = 2;
const SENT_6: u8 = 3;

/// An address with the length of its network's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network<'v> {
    pub is_version_6: bool,
    pub bits: u8,
    pub address: &'v [u8],
}

impl<'v> Network<'v> {
    /// `None`: the bytes are no address.
    pub fn of(value: &'v [u8]) -> Option<Network<'v>> {
        let (family, rest) = value.split_first()?;
        let length = match *family {
            VERSION_4 => 4,
            VERSION_6 => 16,
            _ => return None,
        };
        let (_, rest) = rest.split_at_checked(length)?;
        let (bits, address) = rest.split_first()?;
        let is_whole = address.len() == length && usize::from(*bits) <= 8 * length;
        let is_version_6 = *family == VERSION_6;
        is_whole.then_some(Network { is_version_6, bits: *bits, address })
    }

    fn bits_max(&self) -> u8 {
        8 * self.address.len() as u8
    }

    /// The address alone.
    pub fn host(&self) -> String {
        match <[u8; 4]>::try_from(self.address) {
            Ok(octets) => Ipv4Addr::from(octets).to_string(),
            Err(_) => host_6(self.address),
        }
    }

    /// With the length of the network, unless that is the whole address.
    pub fn shown_text(&self) -> String {
        if self.bits == self.bits_max() { self.host() } else { self.whole_text() }
    }

    /// With the length of the network, be it the whole address.
    pub fn whole_text(&self) -> String {
        format!("{}/{}", self.host(), self.bits)
    }
}

/// Words in hexadecimal; the first of the longest runs of two zeros or more is left out, and an
/// address of version 4 within one is written as such.
fn host_6(address: &[u8]) -> String {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
    let words: Vec<u16> = address.chunks_exact(2).map(word).collect();
    let (mut best, mut run) = (0..0, 0..0);
    for (place, word) in words.iter().enumerate() {
        run = match (*word, run.end == place && !run.is_empty()) {
            (0, true) => run.start..place + 1,
            (0, false) => place..place + 1,
            _ => run,
        };
        if run.len() > best.len() {
            best = run.clone();
        }
    }
    if best.len() < 2 {
        best = 0..0;
    }
    let holds_4 =
        best.start == 0 && (best.len() == 6 || best.len() == 5 && words.get(5) == Some(&0xffff));
    let mut text = String::new();
    for (place, word) in words.iter().enumerate() {
        if best.contains(&place) {
            if place == best.start {
                text.push(':');
            }
            continue;
        }
        if place > 0 {
            text.push(':');
        }
        if holds_4 && place == 6 {
            let octets: [u8; 4] = address[12..].try_into().unwrap_or_default();
            text.push_str(&Ipv4Addr::from(octets).to_string());
            return text;
        }
        text.push_str(&format!("{word:x}"));
    }
    if !best.is_empty() && best.end == words.len() {
        text.push(':');
    }
    text
}

/// The bytes of a value.
fn made(address: &[u8], bits: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + 2 * address.len());
    out.push(if address.len() == 4 { VERSION_4 } else { VERSION_6 });
    out.extend(masked(address, bits));
    out.push(bits);
    out.extend_from_slice(address);
    out
}

fn masked(address: &[u8], bits: u8) -> impl Iterator<Item = u8> {
    address.iter().enumerate().map(move |(place, byte)| {
        let kept = usize::from(bits).saturating_sub(8 * place).min(8);
        byte & !(0xff_u16 >> kept) as u8
    })
}

fn checked(address: &[u8], bits: u8, data_type: &DataType, shown: &str) -> Result<Value> {
    let has_more = !masked(address, bits).eq(address.iter().copied());
    if *data_type == DataType::Cidr && has_more {
        let what = format!("invalid cidr value: \"{shown}\"");
        return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
            .with_detail("Value has bits set to right of mask."));
    }
    Ok(Value::from(&made(address, bits)[..]))
}

pub(crate) fn read(data_type: &DataType, text: &str) -> Result<Value> {
    let invalid = || {
        let what = format!("invalid input syntax for type {data_type}: \"{text}\"");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    };
    let (said, bits) = match text.split_once('/') {
        Some((said, bits)) => (said, Some(length(bits).ok_or_else(invalid)?)),
        None => (text, None),
    };
    let is_network = *data_type == DataType::Cidr;
    let (address, bits) = match said.contains(':') {
        true => {
            let address: Ipv6Addr = said.parse().map_err(|_| invalid())?;
            (address.octets().to_vec(), bits.unwrap_or(128))
        }
        false => {
            let (address, octets) = octets(said).ok_or_else(invalid)?;
            let usual = match (octets, is_network) {
                (4, _) => 32,
                // That of the group addresses as a whole.
                (1, true) if address[0] == 224 => 4,
                (octets, true) => length_of_class(address[0]).max(8 * octets as u8),
                // Which part is meant has to be said.
                (_, false) => bits.ok_or_else(invalid)?,
            };
            (address.to_vec(), bits.unwrap_or(usual))
        }
    };
    match usize::from(bits) <= 8 * address.len() {
        true => checked(&address, bits, data_type, text),
        false => Err(invalid()),
    }
}

/// Up to three digits.
fn length(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// One to four of them, the others being zero; how many were given.
fn octets(text: &str) -> Option<([u8; 4], usize)> {
    let mut address = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        *address.get_mut(count)? = length(part)?;
        count += 1;
    }
    Some((address, count))
}

/// What a network's first octet once said of how long it is.
fn length_of_class(first: u8) -> u8 {
    match first {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    }
}

pub(crate) fn write(bytes: &[u8], data_type: &DataType, out: &mut impl BufMut) {
    let Some(network) = Network::of(bytes) else { return };
    let text = match data_type {
        DataType::Inet => network.shown_text(),
        _ => network.whole_text(),
    };
    out.put_slice(text.as_bytes());
}

/// Family, bits of the network, whether it is a `cidr`, length, address.
pub(crate) fn write_binary(bytes: &[u8], data_type: &DataType, out: &mut impl BufMut) -> bool {
    let Some(Network { is_version_6, bits, address }) = Network::of(bytes) else { return false };
    let family = if is_version_6 { SENT_6 } else { SENT_4 };
    let is_network = u8::from(*data_type == DataType::Cidr);
    out.put_slice(&[family, bits, is_network, address.len() as u8]);
    out.put_slice(address);
    true
}

pub(crate) fn read_binary(data_type: &DataType, bytes: &[u8]) -> Result<Value> {
    let name = data_type.base_name();
    let invalid = |what: &str| {
        let what = format!("invalid {what} in external \"{name}\" value");
        Error::new(SqlState::INVALID_BINARY_REPRESENTATION, what)
    };
    let [family, bits, _, length, address @ ..] = bytes else { return Err(invalid("length")) };
    let expected = match *family {
        SENT_4 => 4,
        SENT_6 => 16,
        _ => return Err(invalid("address family")),
    };
    if usize::from(*bits) > 8 * expected {
        return Err(invalid("bits"));
    }
    if usize::from(*length) != expected || address.len() != expected {
        return Err(invalid("length"));
    }
    let has_more = !masked(address, *bits).eq(address.iter().copied());
    if *data_type == DataType::Cidr && has_more {
        let what = "invalid external \"cidr\" value";
        return Err(Error::new(SqlState::INVALID_BINARY_REPRESENTATION, what)
            .with_detail("Value has bits set to right of mask."));
    }
    Ok(Value::from(&made(address, *bits)[..]))
}

/// A host's address as that of its network.
pub(crate) fn network_of(bytes: &[u8]) -> Option<Value> {
    let network = Network::of(bytes)?;
    let address: Vec<u8> = masked(network.address, network.bits).collect();
    Some(Value::from(&made(&address, network.bits)[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data_type: &DataType, text: &str) -> String {
        match Value::read_text(data_type, text) {
            Ok(value) => {
                let mut binary = Vec::new();
                value.write_binary(data_type, &mut binary).unwrap();
                assert_eq!(Value::read_binary(data_type, &binary).unwrap(), value, "{text}");
                value.to_text(data_type)
            }
            Err(error) => error.message().to_owned(),
        }
    }

    /// Right-hand sides are PostgreSQL 15's.
    #[test]
    fn addresses_are_read_and_shown_as_by_postgresql() {
        for (text, inet, cidr) in [
            ("10.0.0.1", "10.0.0.1", "10.0.0.1/32"),
            ("10.1/16", "10.1.0.0/16", "10.1.0.0/16"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.3/32"),
            ("192.168.1.0/24", "192.168.1.0/24", "192.168.1.0/24"),
            ("::1", "::1", "::1/128"),
            ("::", "::", "::/128"),
            ("2001:db8::/32", "2001:db8::/32", "2001:db8::/32"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4", "::ffff:1.2.3.4/128"),
            ("::102:304", "::1.2.3.4", "::1.2.3.4/128"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3", "1:0:0:2::3/128"),
            ("fe80:0:1:0:1:0:1:0", "fe80:0:1:0:1:0:1:0", "fe80:0:1:0:1:0:1:0/128"),
        ] {
            assert_eq!(shown(&DataType::Inet, text), inet, "{text}");
            assert_eq!(shown(&DataType::Cidr, text), cidr, "{text}");
        }
        assert_eq!(shown(&DataType::Cidr, "10"), "10.0.0.0/8");
        assert_eq!(shown(&DataType::Cidr, "192.168"), "192.168.0.0/24");
        assert_eq!(shown(&DataType::Cidr, "10.1.2"), "10.1.2.0/24");
        assert_eq!(shown(&DataType::Inet, "192.168.1.5/24"), "192.168.1.5/24");
        assert_eq!(
            shown(&DataType::Cidr, "192.168.1.5/24"),
            "invalid cidr value: \"192.168.1.5/24\""
        );
        for text in ["10", "10.1", "", "1.2.3.4.5", "1.2.3.256", "::1/129", "1.2.3.4/33", "x", ":"]
        {
            let expected = format!("invalid input syntax for type inet: \"{text}\"");
            assert_eq!(shown(&DataType::Inet, text), expected);
        }
    }

    #[test]
    fn they_are_ordered_as_by_postgresql() {
        let ascending = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.255.0.0/8",
            "10.0.0.0/16",
            "10.0.0.0/24",
            "10.0.0.0",
            "10.0.0.1",
            "10.1.0.0/16",
            "192.168.0.1",
            "::/0",
            "::1",
            "2001:db8::/32",
        ];
        let values = ascending.map(|text| Value::read_text(&DataType::Inet, text).unwrap());
        for pair in values.windows(2) {
            assert!(pair[0].as_bytes() < pair[1].as_bytes(), "{pair:?}");
        }
    }
}
