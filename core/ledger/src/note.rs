//! Signed heads: what a node says that its ledger is, in the format of C2SP's `tlog-checkpoint`,
//! which witnesses and monitors of transparency logs read.
//!
//! ```text
//! tally/000102030405060708090a0b0c0d0e0f          origin: the ledger's id
//! 4711                                            blocks, from genesis on
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=    root of the tree of heads (crate::heads)
//!
//! — tally/0001…0e0f m4PfmQ…                       name, base64 of key id ‖ ed25519 signature
//! ```
//!
//! The signature is over the text above the empty line, its newline included. A **key id** is the
//! first four bytes of SHA-256(name ‖ newline ‖ 01 ‖ public key); a **verifier key** is the text
//! `name+key id+base64(01 ‖ public key)`. Lines of other signers, such as cosignatures of
//! witnesses, may stand beside the node's and are passed over, as are further lines of the text.
//!
//! **What a signature says**: that this node held this ledger. Two signed heads of which neither
//! begins the other are evidence against the key that both bear.
//!
//! Strict: one spelling of each number and each base64. Signatures are checked as ZIP-215 says,
//! which accepts all that an honest signer makes and some that only the key's holder could.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_zebra::{Signature, SigningKey, VerificationKey, VerificationKeyBytes};
use sha2::{Digest, Sha256};
use types::{Error, Result, SqlState};

use crate::hash::{Hash, from_hex, to_hex};
use crate::header::LedgerId;

/// The type of ed25519 signatures of notes.
const ED25519: u8 = 1;
/// A note has no more lines of signatures than that.
pub const SIGNATURES_MAX: usize = 100;
const DASH: &[u8] = "— ".as_bytes();

/// Why a signed head says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteFault {
    /// It is no signed head.
    Malformed,
    /// The trusted key has not signed it.
    NoSuchKey,
    Signature,
}

/// What a signed head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedHead {
    pub origin: String,
    /// How many blocks the ledger has.
    pub size: u64,
    pub root: Hash,
}

/// Of a ledger, by its id.
pub fn origin(ledger_id: &LedgerId) -> String {
    format!("tally/{}", to_hex(ledger_id))
}

/// A key that signs heads.
pub struct Signer {
    name: String,
    key: SigningKey,
}

impl Signer {
    pub fn new(name: impl Into<String>, seed: [u8; 32]) -> Signer {
        Signer { name: name.into(), key: SigningKey::from(seed) }
    }

    pub fn verifier(&self) -> Verifier {
        let key = VerificationKey::from(&self.key);
        Verifier { name: self.name.clone(), key }
    }

    pub fn sign(&self, head: &SignedHead) -> String {
        let SignedHead { origin, size, root } = head;
        self.sign_text(&format!("{origin}\n{size}\n{}\n", STANDARD.encode(root)))
    }

    pub(crate) fn sign_text(&self, text: &str) -> String {
        let signature: [u8; 64] = self.key.sign(text.as_bytes()).into();
        let id = self.verifier().id();
        let signature = STANDARD.encode([&id[..], &signature].concat());
        format!("{text}\n— {} {signature}\n", self.name)
    }
}

/// A key that signatures are checked by.
#[derive(Clone, Debug)]
pub struct Verifier {
    name: String,
    key: VerificationKey,
}

impl Verifier {
    /// Of its text form; an error if it is none.
    pub fn parse(text: &str) -> Result<Verifier> {
        parse_key(text).ok_or_else(|| {
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "this is no verifier key")
                .with_hint("Such a key is one line: name, key id and key, joined by plus signs.")
        })
    }

    fn id(&self) -> [u8; 4] {
        let hash = Sha256::new()
            .chain_update(self.name.as_bytes())
            .chain_update([b'\n', ED25519])
            .chain_update(<[u8; 32]>::from(VerificationKeyBytes::from(self.key)))
            .finalize();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// What a note says that this key has signed.
    pub fn open(&self, note: &[u8]) -> Result<SignedHead, NoteFault> {
        let (text, lines, head) = parse(note).ok_or(NoteFault::Malformed)?;
        let own = |line: &&Line<'_>| line.name == self.name && line.signed[..4] == self.id();
        let line = lines.iter().find(own).ok_or(NoteFault::NoSuchKey)?;
        let signature: [u8; 64] = line.signed[4..].try_into().map_err(|_| NoteFault::Signature)?;
        let checked = self.key.verify(&Signature::from(signature), text.as_bytes());
        checked.map(|()| head).map_err(|_| NoteFault::Signature)
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key: [u8; 32] = VerificationKeyBytes::from(self.key).into();
        let key = STANDARD.encode([&[ED25519][..], &key].concat());
        write!(f, "{}+{}+{key}", self.name, to_hex(&self.id()))
    }
}

fn parse_key(text: &str) -> Option<Verifier> {
    let mut parts = text.splitn(3, '+');
    let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
    let key = STANDARD.decode(key).ok()?;
    let (ED25519, key) = key.split_first().map(|(kind, key)| (*kind, key))? else { return None };
    let key = VerificationKey::try_from(<[u8; 32]>::try_from(key).ok()?).ok()?;
    let verifier = Verifier { name: name.to_owned(), key };
    (is_name(name) && from_hex(id).ok()? == verifier.id()).then_some(verifier)
}

struct Line<'a> {
    name: &'a str,
    /// Key id and signature.
    signed: Vec<u8>,
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains([' ', '+', '\n'])
}

/// The text that is signed, the signatures, and what the text says.
fn parse(note: &[u8]) -> Option<(&str, Vec<Line<'_>>, SignedHead)> {
    let note = std::str::from_utf8(note).ok()?;
    if note.bytes().any(|byte| byte < b' ' && byte != b'\n') {
        return None;
    }
    let end = note.rfind("\n\n")?;
    let (text, lines) = (&note[..=end], &note[end + 2..]);
    let lines: Vec<&str> = lines.strip_suffix('\n')?.split('\n').collect();
    if lines.len() > SIGNATURES_MAX {
        return None;
    }
    let lines = lines.into_iter().map(line).collect::<Option<Vec<_>>>()?;
    let mut said = text.strip_suffix('\n')?.split('\n');
    let (origin, size, root) = (said.next()?, said.next()?, said.next()?);
    if origin.is_empty() || said.any(str::is_empty) {
        return None;
    }
    let size = number(size)?;
    let root = STANDARD.decode(root).ok()?.try_into().ok()?;
    Some((text, lines, SignedHead { origin: origin.to_owned(), size, root }))
}

fn line(text: &str) -> Option<Line<'_>> {
    let rest = text.as_bytes().strip_prefix(DASH)?;
    let (name, signed) = text[text.len() - rest.len()..].split_once(' ')?;
    let signed = STANDARD.decode(signed).ok()?;
    (is_name(name) && signed.len() > 4).then_some(Line { name, signed })
}

/// In decimal, without a sign or leading zeros, below 2^63.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    text.parse::<i64>().ok().filter(|_| plain)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> (Signer, SignedHead, String) {
        let signer = Signer::new("tally/test", [5; 32]);
        let head = SignedHead { origin: "tally/test".to_owned(), size: 12, root: [9; 32] };
        let note = signer.sign(&head);
        (signer, head, note)
    }

    #[test]
    fn a_signed_head_is_read_by_its_key_and_no_byte_can_change() {
        let (signer, head, note) = signed();
        let verifier = Verifier::parse(&signer.verifier().to_string()).unwrap();
        assert_eq!(verifier.open(note.as_bytes()), Ok(head));
        for at in 0..note.len() {
            for bit in 0..8 {
                let mut forged = note.clone().into_bytes();
                forged[at] ^= 1 << bit;
                assert!(verifier.open(&forged).is_err(), "{at}");
            }
            assert!(verifier.open(&note.as_bytes()[..at]).is_err());
        }
        let other = Signer::new("tally/test", [6; 32]).verifier();
        assert_eq!(other.open(note.as_bytes()), Err(NoteFault::NoSuchKey));
        let key = signer.verifier().to_string();
        for at in 0..key.len() {
            assert!(Verifier::parse(&key[..at]).is_err());
        }
    }

    #[test]
    fn lines_of_others_are_passed_over() {
        let (signer, head, note) = signed();
        let witness = Signer::new("witness.example", [8; 32]);
        let (text, _) = note.rsplit_once("\n—").unwrap();
        let theirs = witness.sign_text(text);
        let line = theirs.rsplit_once("\n\n").unwrap().1;
        for both in [format!("{note}{line}"), format!("{text}\n{line}{}", &note[text.len() + 1..])]
        {
            assert_eq!(signer.verifier().open(both.as_bytes()), Ok(head.clone()));
            assert_eq!(witness.verifier().open(both.as_bytes()), Ok(head.clone()));
        }
        let more = signer.sign_text(&format!("{text}an extension\n"));
        assert_eq!(signer.verifier().open(more.as_bytes()), Ok(head));
        for text in [
            "a\n1\n",
            "a\n1\nAAAA\n",
            "a\n01\n",
            "\n1\n",
            "a\n-1\n",
            "a\n+1\n",
            "a\n\n1\n",
            "a\n9223372036854775808\n",
        ] {
            let root = STANDARD.encode([9; 32]);
            let text = if text.contains("AAAA") { text.into() } else { format!("{text}{root}\n") };
            let note = signer.sign_text(&text);
            let opened = signer.verifier().open(note.as_bytes());
            assert_eq!(opened.is_ok(), text.starts_with("a\n1\n") && !text.contains("AAAA"));
        }
    }

    /// Signed by another implementation (RFC 8032, test 1), whose text is empty.
    #[test]
    fn the_signature_is_that_of_the_standard() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let key = SigningKey::from(crate::hash::hash_from_hex(seed).unwrap());
        let signature: [u8; 64] = key.sign(b"").into();
        assert!(to_hex(&signature).starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974"));
    }
}
