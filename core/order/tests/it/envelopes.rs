//! Envelopes, proposals, certificates: one encoding for each value, whatever the bytes.

use bytes::Bytes;
use kit::mutation::mutate;
use kit::random::Random;
use order::envelope::{LIST_MAX, NAME_BYTES_MAX, SETTING_BYTES_MAX, SIGNATURE_BYTES_MAX};
use order::{
    Certificate, CertificateKind, Envelope, Proposal, Signature, Submission, View, id_of_encoded,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::samples::{envelopes, usual};

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_and_shares_its_bytes(envelope in envelopes()) {
        let bytes = envelope.encode().unwrap();
        let (decoded, id) = Envelope::decode_with_id(&bytes).unwrap();
        prop_assert_eq!(&decoded, &envelope);
        prop_assert_eq!(id, envelope.id().unwrap());
        prop_assert_eq!(id, id_of_encoded(&bytes).unwrap());
        if !envelope.request.is_empty() {
            prop_assert!(bytes.as_ptr_range().contains(&decoded.request.as_ptr()), "a copy");
        }
        let view = View::read(&bytes).unwrap();
        prop_assert_eq!(view.encode().unwrap(), bytes);
    }

    /// Signatures are over the id, which they must not change; everything else must.
    #[test]
    fn the_id_covers_all_but_signatures(envelope in envelopes(), key in any::<[u8; 32]>()) {
        let id = envelope.id().unwrap();
        let mut signed = envelope.clone();
        signed.approvals = vec![Signature { key_id: key, bytes: Bytes::from_static(b"signed") }];
        signed.signatures.clear();
        prop_assert_eq!(id_of_encoded(&signed.encode().unwrap()).unwrap(), id);
        let changes: [fn(&mut Envelope); 8] = [
            |e| e.ledger_id[0] ^= 1,
            |e| e.principal.push('x'),
            |e| e.submission = Submission::Key(format!("{:?}", e.submission)),
            |e| e.expires_us ^= 1,
            |e| e.seen_height ^= 1,
            |e| e.settings.push(("~".to_owned(), String::new())),
            |e| e.seed[15] ^= 1,
            |e| e.request = [&e.request[..], b"x"].concat().into(),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = envelope.clone();
            change(&mut changed);
            prop_assert_ne!(changed.id().unwrap(), id, "change {}", number);
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_are_the_one_encoding(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let samples = samples();
        for _ in 0..40 {
            let mut bytes = samples[random.below(samples.len() as u64) as usize].clone();
            mutate(&mut bytes, &samples, random);
            let bytes = Bytes::from(bytes);
            if let Ok(envelope) = Envelope::decode(&bytes) {
                prop_assert_eq!(envelope.encode().unwrap(), &bytes);
            }
            prop_assert_eq!(id_of_encoded(&bytes).is_ok(), Envelope::decode(&bytes).is_ok());
            if let Ok(proposal) = Proposal::decode(&bytes) {
                prop_assert_eq!(proposal.encode(), &bytes);
            }
            if let Ok(certificate) = Certificate::decode(&bytes) {
                prop_assert_eq!(certificate.encode(), &bytes);
            }
        }
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let envelope = |_| envelopes().new_tree(&mut runner).unwrap().current().encode().unwrap();
    let envelopes: Vec<Bytes> = (0..6).map(envelope).collect();
    let mut samples: Vec<Vec<u8>> = envelopes.iter().map(|bytes| bytes.to_vec()).collect();
    let proposal = Proposal { time_us: -5, proposer: [3; 32], seen_height: 7, envelopes };
    let evidence = Bytes::from_static(b"term 3, index 9");
    samples.push(proposal.encode().to_vec());
    samples.push(Certificate { kind: CertificateKind::Raft, evidence }.encode().to_vec());
    samples
}

#[test]
fn proposals_and_certificates_come_back() {
    for envelopes in [vec![], vec![Bytes::from_static(b"one"), Bytes::new()]] {
        let proposal =
            Proposal { time_us: i64::MIN, proposer: [1; 32], seen_height: u64::MAX, envelopes };
        assert_eq!(Proposal::decode(&proposal.encode()).unwrap(), proposal);
    }
    use CertificateKind::{CometBft, Kafka, Model, Raft};
    for kind in [Raft, Kafka, CometBft, Model] {
        let certificate = Certificate { kind, evidence: Bytes::from_static(b"so it is") };
        assert_eq!(Certificate::decode(&certificate.encode()).unwrap(), certificate);
    }
    assert_eq!(Certificate::decode(&Certificate::solo().encode()).unwrap(), Certificate::solo());
    for bad in [&b"\x04\0"[..], b"\0\x01x", b"\x01\x02x", b"\x01\0x", b""] {
        assert!(Certificate::decode(&Bytes::copy_from_slice(bad)).is_err(), "{bad:?}");
    }
}

/// Every cut, every byte more, every bit: where the bytes are still read, they are another value.
#[test]
fn no_change_goes_unseen() {
    for bytes in samples().into_iter().take(6) {
        let id = id_of_encoded(&bytes).unwrap();
        let original = View::read(&bytes).unwrap();
        for length in 0..bytes.len() {
            if let Ok(cut) = View::read(&bytes[..length]) {
                assert!(cut.signatures.is_empty() && cut.approvals.is_empty());
                assert_eq!(cut.id().unwrap(), id, "only the tail can be missing");
            }
        }
        assert!(View::read(&[&bytes[..], &[0]].concat()).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(changed) = View::read(&changed) {
                assert_ne!(changed, original, "bit {bit}");
            }
        }
    }
}

#[test]
fn the_usual_envelope_is_small() {
    let request = [1; 100];
    let overhead = usual(&request).encode().unwrap().len() - request.len();
    assert!(overhead <= 60, "{overhead} bytes");
}

/// The second form of something that has a first one.
#[test]
fn second_forms_are_refused() {
    let plain = usual(b"request").encode().unwrap().to_vec();
    let seen_at = plain.len() - 1 - b"request".len() - 3;
    let refused = |what: &str, bytes: &[u8]| {
        assert!(View::read(bytes).is_err(), "{what}");
    };
    refused("an empty tail", &[&plain[..], &[0, 0]].concat());
    let mut other = plain.clone();
    other[0] |= 2;
    other.insert(seen_at + 3, 0);
    refused("an empty list of settings", &other);
    let mut other = plain.clone();
    other[0] |= 4;
    other.splice(seen_at + 3..seen_at + 3, [0; 16]);
    refused("a seed of zeros", &other);
    other[seen_at + 3] = 1;
    assert!(View::read(&other).is_ok(), "else the test looks at the wrong place");
    let mut other = plain.clone();
    other[seen_at + 2] |= 0x80;
    other.insert(seen_at + 3, 0);
    refused("an overlong height", &other);
    for form in [0, 0x18, 0x20, 0x90] {
        let mut other = plain.clone();
        other[0] = form;
        refused("another format", &other);
    }
}

#[test]
fn both_directions_refuse_what_is_out_of_bounds() {
    let long = "x".repeat(SETTING_BYTES_MAX + 1);
    let signature = |n: u8| Signature { key_id: [n; 32], bytes: &b"s"[..] };
    let names: Vec<String> = (0..=LIST_MAX).map(|n| format!("{n:03}")).collect();
    type Change<'c> = &'c dyn Fn(&mut View<'_>);
    let changes: [(&str, Change<'_>); 8] = [
        ("no principal", &|e| e.principal = ""),
        ("an empty key", &|e| e.submission = Submission::Key("")),
        ("settings out of order", &|e| e.settings = vec![("b", ""), ("a", "")]),
        ("a setting twice", &|e| e.settings = vec![("a", "1"), ("a", "2")]),
        ("a setting without a name", &|e| e.settings = vec![("", "")]),
        ("signatures out of order", &|e| e.signatures = vec![signature(2), signature(1)]),
        ("approvals twice", &|e| e.approvals = vec![signature(1), signature(1)]),
        ("seventy approvals", &|e| e.approvals = (0..=LIST_MAX as u8).map(signature).collect()),
    ];
    for (what, change) in changes {
        let mut envelope = usual(b"request");
        change(&mut envelope);
        assert!(envelope.encode().is_err() && envelope.id().is_err(), "{what}");
    }
    let name = &long[..NAME_BYTES_MAX + 1];
    let bytes = vec![0; SIGNATURE_BYTES_MAX + 1];
    let large = [
        View { principal: name, ..usual(b"") },
        View { submission: Submission::Key(name), ..usual(b"") },
        View { settings: vec![(name, "")], ..usual(b"") },
        View { settings: vec![("a", &long)], ..usual(b"") },
        View { settings: names.iter().map(|n| (n.as_str(), "")).collect(), ..usual(b"") },
        View { signatures: vec![Signature { key_id: [0; 32], bytes: &bytes }], ..usual(b"") },
    ];
    assert!(large.iter().all(|envelope| envelope.encode().is_err()));
    let longest = View { submission: Submission::Key(&name[1..]), ..usual(b"") };
    assert!(View::read(&longest.encode().unwrap()).is_ok());
}

/// What encoding refuses cannot be smuggled in as bytes.
#[test]
fn lists_out_of_order_are_refused_in_bytes() {
    let one = |n: u8| Signature { key_id: [n; 32], bytes: &b"s"[..] };
    let good = View { signatures: vec![one(1), one(2)], ..usual(b"r") }.encode().unwrap();
    let tail = good.len() - 1 - 2 * 34;
    let mut swapped = good.to_vec();
    swapped[tail..good.len() - 1].rotate_left(34);
    assert_ne!(&swapped[..], &good[..]);
    assert!(View::read(&swapped).is_err());
    swapped[tail..good.len() - 1].rotate_left(34);
    assert!(View::read(&swapped).is_ok());
}
