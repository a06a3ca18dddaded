//! Signatures over transactions: ed25519 as ZIP-215 has it, so that one alone and many together are
//! judged alike, on every replica.
//!
//! *Many together* are checked by one equation, whose factors are drawn from a hash of all of them:
//! the same signatures are judged by the same equation. Where the equation does not
//! hold, halves are checked, down to those that are wrong; a batch with one wrong signature costs
//! its own check and those of some pieces.
//!
//! *Once.* A node meets most signatures twice, when a transaction is handed in and in its block,
//! and one that approves many transactions as often as they are. Those that were found right lately
//! are known by the SHA-256 of key, message and signature, so each costs its equation once. What is
//! known differs between replicas and so do their equations, but not what they come to: a right
//! signature stays right, a wrong one is never known, and that an equation holds for a wrong one
//! has a chance of 2^-128. Who sends very many makes others forgotten, which are then checked
//! again.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ed25519_zebra::{Signature, SigningKey, VerificationKey, VerificationKeyBytes, batch};
use rand_core::{TryCryptoRng, TryRng};
use sha2::{Digest, Sha256};
use types::codec::decode_u64;
use types::{Error, Result, SqlState};

use crate::approvals::is_approved;
use crate::hash::{Hash, Tag, tagged_hash};

/// An ed25519 public key.
pub type PublicKey = [u8; 32];

pub const SIGNATURE_BYTES: usize = 64;

/// Below that, one by one is as quick.
const TOGETHER_MIN: usize = 3;

/// What signs transactions, and members' votes.
pub struct SecretKey(SigningKey);

/// What an Ed25519 key's PKCS #8 form has in front of its seed, after length and version: RFC
/// 8410, section 7.
const PKCS8_MIDDLE: [u8; 11] = [0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PKCS8_FRONT: usize = 5;

impl SecretKey {
    pub fn of_seed(seed: [u8; 32]) -> SecretKey {
        SecretKey(SigningKey::from(seed))
    }

    /// Of a key in PKCS #8, DER, as TLS has it.
    pub fn of_pkcs8(der: &[u8]) -> Result<SecretKey> {
        let seed = der
            .get(PKCS8_FRONT..)
            .and_then(|rest| rest.strip_prefix(&PKCS8_MIDDLE))
            .and_then(|rest| rest.first_chunk::<32>());
        seed.map(|seed| SecretKey::of_seed(*seed)).ok_or_else(|| {
            let what = "the key of this node is not an ed25519 key in PKCS #8";
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
        })
    }

    pub fn public(&self) -> PublicKey {
        VerificationKey::from(&self.0).into()
    }

    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message).to_bytes()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

/// Whether bytes are a key that signatures can be checked by: a point in its one spelling, which
/// all libraries take, and none of those few that any signature could be made for.
pub fn is_public_key(bytes: &PublicKey) -> bool {
    // The coordinate is below 2^255 - 19; the topmost bit is a sign.
    let [first, middle @ .., last] = bytes;
    let is_below = *first < 0xed || middle.iter().any(|byte| *byte != 0xff) || last & 0x7f != 0x7f;
    if !is_below {
        return false;
    }
    let Ok(key) = VerificationKey::try_from(*bytes) else { return false };
    // R the neutral element, s zero: holds for all messages if the key is of small order, and
    // otherwise for none that could be found.
    let mut neutral = [0; SIGNATURE_BYTES];
    neutral[0] = 1;
    key.verify(&Signature::from(neutral), b"").is_err()
}

/// One signature to be checked.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub key: &'a PublicKey,
    pub message: &'a [u8],
    pub signature: &'a [u8],
}

impl Claim<'_> {
    pub fn holds(&self) -> bool {
        self.item().is_some_and(|item| item.verify_single().is_ok())
    }

    fn item(&self) -> Option<batch::Item> {
        let signature = <[u8; SIGNATURE_BYTES]>::try_from(self.signature).ok()?;
        let key = VerificationKeyBytes::from(*self.key);
        Some(batch::Item::from((key, Signature::from(signature), self.message)))
    }

    fn digest(&self) -> Hash {
        let mut hash = Sha256::new();
        hash.update(b"tally claim v1\0\0");
        hash.update(self.key);
        for part in [self.message, self.signature] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// Which of them hold. What was checked lately, and what stands among them twice, is not checked
/// again.
pub fn check_all(claims: &[Claim<'_>]) -> Vec<bool> {
    let digests: Vec<Hash> = claims.iter().map(Claim::digest).collect();
    let mut held = KNOWN.with(|known| digests.iter().map(|it| known.has(it)).collect::<Vec<_>>());
    let mut first = HashMap::new();
    let unknown: Vec<usize> = (0..claims.len())
        .filter(|at| !held[*at] && *first.entry(digests[*at]).or_insert(*at) == *at)
        .collect();
    if unknown.is_empty() {
        return held;
    }
    let pick = |at: &usize| (digests[*at], claims[*at]);
    let checked = check_digested(&unknown.iter().map(pick).collect::<Vec<_>>());
    unknown.iter().zip(checked).for_each(|(at, holds)| held[*at] = holds);
    for (at, digest) in digests.iter().enumerate() {
        held[at] |= first.get(digest).is_some_and(|first| held[*first]);
    }
    KNOWN.with(|known| {
        let right = unknown.iter().filter(|at| held[**at]);
        right.for_each(|at| known.add(digests[*at]));
    });
    held
}

/// The same whatever is known: what a signature costs that none has met.
pub fn check_anew(claims: &[Claim<'_>]) -> Vec<bool> {
    check_digested(&claims.iter().map(|claim| (claim.digest(), *claim)).collect::<Vec<_>>())
}

fn check_digested(claims: &[(Hash, Claim<'_>)]) -> Vec<bool> {
    let mut held = vec![false; claims.len()];
    let items: Vec<(usize, batch::Item)> =
        claims.iter().enumerate().filter_map(|(at, (_, it))| Some((at, it.item()?))).collect();
    check_pieces(&items, &Factors::of(claims), &mut held);
    held
}

/// What this process has just signed need not be checked by it.
pub fn remember(claim: &Claim<'_>) {
    debug_assert!(claim.holds(), "its own key has signed it");
    KNOWN.with(|known| known.add(claim.digest()));
}

/// Forgets what is known, for tests that compare one way to judge with another.
pub fn forget() {
    KNOWN.with(|known| *known = Known::default());
}

/// In each of two generations: 32 bytes each, a few MiB in all.
const KNOWN_MAX: usize = 1 << 15;

static KNOWN: Shared = Shared(Mutex::new(None));

struct Shared(Mutex<Option<Known>>);

impl Shared {
    fn with<T>(&self, run: impl FnOnce(&mut Known) -> T) -> T {
        // What is left of a thread that panicked is a set of right ones still.
        let mut known: MutexGuard<'_, _> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        run(known.get_or_insert_default())
    }
}

/// Digests of claims that hold, the newest ones.
#[derive(Default)]
struct Known {
    newer: HashSet<Hash>,
    older: HashSet<Hash>,
}

impl Known {
    fn has(&self, digest: &Hash) -> bool {
        self.newer.contains(digest) || self.older.contains(digest)
    }

    fn add(&mut self, digest: Hash) {
        if self.newer.len() == KNOWN_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(digest);
        debug_assert!(self.newer.len() + self.older.len() <= 2 * KNOWN_MAX, "it is bounded");
    }
}

fn check_pieces(items: &[(usize, batch::Item)], factors: &Factors, held: &mut [bool]) {
    if items.len() < TOGETHER_MIN {
        for (at, item) in items {
            held[*at] = item.clone().verify_single().is_ok();
        }
        return;
    }
    let mut together = batch::Verifier::new();
    items.iter().for_each(|(_, item)| together.queue(item.clone()));
    if together.verify(factors.beginning_at(items[0].0)).is_ok() {
        items.iter().for_each(|(at, _)| held[*at] = true);
        return;
    }
    let (left, right) = items.split_at(items.len() / 2);
    check_pieces(left, factors, held);
    check_pieces(right, factors, held);
}

/// Factors of an equation, known only when all signatures are.
struct Factors([u8; 32]);

impl Factors {
    fn of(claims: &[(Hash, Claim<'_>)]) -> Factors {
        let mut hash = Sha256::new();
        hash.update(b"tally batch v2\0\0");
        claims.iter().for_each(|(digest, _)| hash.update(digest));
        Factors(hash.finalize().into())
    }

    fn beginning_at(&self, place: usize) -> Drawn {
        Drawn { seed: self.0, place: place as u64, drawn: 0 }
    }
}

struct Drawn {
    seed: [u8; 32],
    place: u64,
    drawn: u64,
}

impl Drawn {
    fn next(&mut self) -> [u8; 32] {
        let hash = Sha256::new()
            .chain_update(self.seed)
            .chain_update(self.place.to_be_bytes())
            .chain_update(self.drawn.to_be_bytes());
        self.drawn += 1;
        hash.finalize().into()
    }
}

impl TryRng for Drawn {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut word = [0; 8];
        self.try_fill_bytes(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for piece in out.chunks_mut(32) {
            let hash = self.next();
            piece.copy_from_slice(&hash[..piece.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for Drawn {}

/// What an envelope's id is hashed with.
pub const TAG_ENVELOPE: &Tag = b"tally envelope 1";

/// What its signatures are over, in front of its id.
pub const TAG_SIGNATURE: &Tag = b"tally signature1";

/// What its approvals are over, in front of its id: an approval is no signature of its own.
pub const TAG_APPROVAL: &Tag = b"tally approval 1";

/// Signatures of an envelope, and approvals.
const LIST_MAX: u64 = 64;

/// Who stands after an envelope by right signatures: each list in the envelope's order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Signers {
    /// Of the keys that asked for it.
    pub signed: Vec<PublicKey>,
    /// Of the keys that agreed to it.
    pub approved: Vec<PublicKey>,
}

/// The keys whose signatures over an envelope are right; none of bytes that are no envelope.
///
/// Of an envelope (`docs/order-format.md`, section 2) no more is read than that takes: a receipt
/// holds bytes of any ledger, whatever has become of them.
pub fn signers_of(envelope: &[u8]) -> Signers {
    let Some((body, [signatures, approvals])) = signed_parts(envelope) else {
        return Signers::default();
    };
    let id = tagged_hash(TAG_ENVELOPE, body);
    let message = [&TAG_SIGNATURE[..], &id].concat();
    let is_signed =
        |key: &PublicKey, signature: &[u8]| Claim { key, message: &message, signature }.holds();
    let right = |list: Signatures<'_>, is_right: &dyn Fn(&PublicKey, &[u8]) -> bool| {
        let right = list.into_iter().filter(|(key, bytes)| is_right(key, bytes));
        right.map(|(key, _)| *key).collect()
    };
    Signers {
        signed: right(signatures, &is_signed),
        approved: right(approvals, &|key, approval| is_approved(&id, key, approval)),
    }
}

type Signatures<'e> = Vec<(&'e PublicKey, &'e [u8])>;

/// What an id is made of; signatures and approvals.
fn signed_parts(envelope: &[u8]) -> Option<(&[u8], [Signatures<'_>; 2])> {
    let rest = &mut &*envelope;
    let form = *take(rest, 1)?.first()?;
    if form >> 3 != 2 {
        return None;
    }
    take(rest, 16)?;
    string(rest)?;
    if form & 1 != 0 {
        string(rest)?;
    } else {
        take(rest, 16)?;
        decode_u64(rest).ok()?;
    }
    decode_u64(rest).ok()?;
    decode_u64(rest).ok()?;
    if form & 2 != 0 {
        for _ in 0..count(rest)? {
            string(rest)?;
            string(rest)?;
        }
    }
    if form & 4 != 0 {
        take(rest, 16)?;
    }
    string(rest)?;
    let body = &envelope[..envelope.len() - rest.len()];
    if rest.is_empty() {
        return Some((body, [Vec::new(), Vec::new()]));
    }
    let lists = [signatures(rest)?, signatures(rest)?];
    rest.is_empty().then_some((body, lists))
}

fn take<'e>(rest: &mut &'e [u8], count: u64) -> Option<&'e [u8]> {
    let (taken, behind) = rest.split_at_checked(usize::try_from(count).ok()?)?;
    *rest = behind;
    Some(taken)
}

fn string<'e>(rest: &mut &'e [u8]) -> Option<&'e [u8]> {
    let length = decode_u64(rest).ok()?;
    take(rest, length)
}

fn count(rest: &mut &[u8]) -> Option<u64> {
    decode_u64(rest).ok().filter(|count| *count <= LIST_MAX)
}

fn signatures<'e>(rest: &mut &'e [u8]) -> Option<Signatures<'e>> {
    let count = count(rest)?;
    (0..count).map(|_| Some((take(rest, 32)?.first_chunk()?, string(rest)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Made = (PublicKey, Vec<u8>, Vec<u8>);

    fn made(count: usize) -> Vec<Made> {
        let one = |n: usize| {
            let secret = SecretKey::of_seed([n as u8 % 5 + 1; 32]);
            let message = format!("message {n}").into_bytes();
            let signature = secret.sign(&message).to_vec();
            (secret.public(), message, signature)
        };
        (0..count).map(one).collect()
    }

    fn claims(made: &[Made]) -> Vec<Claim<'_>> {
        made.iter().map(|(key, message, signature)| Claim { key, message, signature }).collect()
    }

    #[test]
    fn together_and_alone_are_judged_alike() {
        for count in [0, 1, 2, 3, 7, 64] {
            assert!(check_all(&claims(&made(count))).iter().all(|held| *held));
            assert!(check_anew(&claims(&made(count))).iter().all(|held| *held));
        }
        // Each kind of fault, alone and beside others, at every place.
        let faults: [fn(&mut Made); 7] = [
            |(key, ..)| key[5] ^= 1,
            |(key, ..)| *key = SecretKey::of_seed([99; 32]).public(),
            |(_, message, _)| message.push(0),
            |(.., signature)| signature[3] ^= 1,
            |(.., signature)| signature[40] ^= 1,
            |(.., signature)| signature.truncate(63),
            |(.., signature)| signature.clear(),
        ];
        for at in 0..9 {
            for (which, fault) in faults.iter().enumerate() {
                let mut all = made(9);
                fault(&mut all[at]);
                faults[(which + 1) % faults.len()](&mut all[(at + 4) % 9]);
                let claims = claims(&all);
                let alone: Vec<bool> = claims.iter().map(Claim::holds).collect();
                assert_eq!(check_anew(&claims), alone);
                assert_eq!(check_all(&claims), alone);
                assert_eq!(alone.iter().filter(|held| !**held).count(), 2);
            }
        }
    }

    /// A wrong one is checked anew each time, and what is known of one says nothing of another.
    #[test]
    fn what_is_known_is_right_and_forgotten_in_time() {
        let mut all = made(4);
        all[1].2[7] ^= 1;
        all.push(all[0].clone());
        all.push(all[1].clone());
        for _ in 0..3 {
            assert_eq!(check_all(&claims(&all)), [true, false, true, true, true, false]);
        }
        let mut known = Known::default();
        let digest = |n: usize| tagged_hash(TAG_ENVELOPE, &n.to_be_bytes());
        for n in 0..3 * KNOWN_MAX {
            known.add(digest(n));
            assert!(known.has(&digest(n)) && known.has(&digest(n.saturating_sub(KNOWN_MAX - 1))));
        }
        assert!(!known.has(&digest(0)) && !known.has(&digest(KNOWN_MAX - 1)));
        assert_eq!(known.newer.len() + known.older.len(), 2 * KNOWN_MAX);
    }

    #[test]
    fn keys_that_sign_anything_are_none() {
        assert!(is_public_key(&SecretKey::of_seed([7; 32]).public()));
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut of_order_two = [0xff; 32];
        (of_order_two[0], of_order_two[31]) = (0xec, 0x7f);
        // Of a point that is no weak one, the second spelling; and the largest coordinate.
        let (mut second_spelling, mut largest) = ([0xff; 32], [0xff; 32]);
        (second_spelling[31], largest[0]) = (0x7f, 0xec);
        for weak in [[0; 32], neutral, of_order_two, [0xff; 32], second_spelling, largest, [2; 32]]
        {
            assert!(!is_public_key(&weak), "{weak:?}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        assert_eq!(format!("{:?}", SecretKey::of_seed([7; 32])), "SecretKey");
    }

    #[test]
    fn a_key_is_read_as_tls_has_it() {
        let mut der = vec![0x30, 0x2e, 2, 1, 0];
        der.extend_from_slice(&PKCS8_MIDDLE);
        der.extend_from_slice(&[4; 32]);
        assert_eq!(
            SecretKey::of_pkcs8(&der).unwrap().public(),
            SecretKey::of_seed([4; 32]).public()
        );
        assert!(SecretKey::of_pkcs8(&der[..47]).is_err());
        der[9] = 4;
        assert!(SecretKey::of_pkcs8(&der).is_err());
    }
}
