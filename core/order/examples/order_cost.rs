//! What an envelope costs on this machine, from its encoding to its admission.
//!
//!     cargo run --release -p order --example order_cost

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::Hash;
use ledger::approvals::LEAVES_MAX;
use ledger::signatures::{Claim, SecretKey, check_anew};
use order::signed::{approve_all, are_approved, message};
use order::{
    Ended, Envelope, Limits, Proposal, Remembered, Signature, Solo, Submission, Submissions, View,
    id_of_encoded,
};
use types::Origin;

const ENVELOPES: u64 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let request = [1; 100];
    let views: Vec<View<'_>> = (0..ENVELOPES).map(|number| usual(number, &request)).collect();
    let encoded = views.iter().map(View::encode).collect::<types::Result<Vec<Bytes>>>()?;
    println!(
        "an envelope around {} bytes has {}",
        request.len(),
        encoded[ENVELOPES as usize - 1].len()
    );

    report("encode", measure(|| views.iter().for_each(|view| drop(black_box(view.encode())))));
    report("id of encoded bytes", each(&encoded, |bytes| id_of_encoded(bytes).is_ok()));
    report("read borrowed", each(&encoded, |bytes| View::read(bytes).is_ok()));
    report("decode with id", each(&encoded, |bytes| Envelope::decode_with_id(bytes).is_ok()));
    report("submit and cut", measure(|| solo(&encoded)));
    let proposal = Proposal { time_us: 0, proposer: [0; 32], seen_height: 0, envelopes: encoded };
    report("encode and decode in a proposal", measure(|| Proposal::decode(&proposal.encode())));
    report("admit by sequence, one submitter", measure(|| admit(&views)));
    let many: Vec<View<'_>> = (0..ENVELOPES).map(|n| of_many(n, &request)).collect();
    report("admit by sequence, 1000 submitters", measure(|| admit(&many)));
    let names: Vec<String> = (0..ENVELOPES).map(|number| format!("order {number}")).collect();
    let keyed = |name| View { submission: Submission::Key(name), ..usual(0, &request) };
    let keyed: Vec<View<'_>> = names.iter().map(|name| keyed(name.as_str())).collect();
    report("admit and decide by key", measure(|| admit(&keyed)));
    report("the same, and encode the state", measure(|| admit(&keyed).encode()));
    report_signatures();
    report_approvals();
    Ok(())
}

fn usual(number: u64, request: &[u8]) -> View<'_> {
    View {
        ledger_id: [7; 16],
        principal: "tally",
        submission: Submission::Sequence { submitter: [1; 16], sequence: number },
        expires_us: 849_000_000_000_000,
        seen_height: number * 100,
        settings: Vec::new(),
        seed: [0; 16],
        request,
        signatures: Vec::new(),
        approvals: Vec::new(),
    }
}

fn of_many(number: u64, request: &[u8]) -> View<'_> {
    let mut submitter = [0; 16];
    submitter[8..].copy_from_slice(&(number % 1000 * 0x9e37_79b9).to_be_bytes());
    let submission = Submission::Sequence { submitter, sequence: number / 1000 };
    View { submission, ..usual(number, request) }
}

fn solo(encoded: &[Bytes]) -> usize {
    let mut solo = Solo::new(Limits::default(), [0; 32]);
    for (number, envelope) in encoded.iter().enumerate() {
        black_box(solo.submit(envelope.clone(), number)).ok();
    }
    std::iter::from_fn(|| solo.cut(0)).map(|(_, attached)| attached.len()).sum()
}

fn admit(views: &[View<'_>]) -> Submissions {
    let mut submissions = Submissions::new([7; 16], Remembered::default());
    submissions.advance(848_999_999_000_000);
    for (index, view) in views.iter().enumerate() {
        let place = Origin { height: 1, index: index as u32 };
        black_box(submissions.admit(view, &[index as u8; 32], place));
        black_box(submissions.decide(view, place, Ended::Committed)).ok();
    }
    submissions
}

fn each(encoded: &[Bytes], of: impl Fn(&Bytes) -> bool) -> Duration {
    measure(|| encoded.iter().filter(|bytes| of(bytes)).count())
}

fn report(what: &str, time: Duration) {
    println!("{what:<38} {:>8.1} ns each", time.as_nanos() as f64 / ENVELOPES as f64);
}

/// The fastest of some runs.
fn measure<T>(mut run: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let start = Instant::now();
        drop(black_box(run()));
        start.elapsed()
    };
    (0..30).map(time).min().unwrap_or_default()
}

/// A key, what it has signed, its signature.
type Signed = ([u8; 32], [u8; 48], [u8; 64]);

/// Signatures by as many keys as there are users.
fn signed(users: usize) -> Vec<Signed> {
    let keys: Vec<SecretKey> = (0..users)
        .map(|user| {
            let mut seed = [7; 32];
            seed[..8].copy_from_slice(&(user as u64).to_be_bytes());
            SecretKey::of_seed(seed)
        })
        .collect();
    let one = |number: u64| {
        let message = message(&id_of(number));
        let key = &keys[number as usize % users];
        (key.public(), message, key.sign(&message))
    };
    (0..1_000).map(one).collect()
}

fn id_of(number: u64) -> Hash {
    usual(number, &[1; 100]).id().expect("an envelope")
}

fn claims(signed: &[Signed]) -> Vec<Claim<'_>> {
    signed.iter().map(|(key, message, signature)| Claim { key, message, signature }).collect()
}

fn report_signatures() {
    for users in [1, 1_000] {
        let signed = signed(users);
        let claims = claims(&signed);
        let begun = Instant::now();
        assert!(claims.iter().all(Claim::holds));
        per_signature(&format!("check a signature alone, {users} keys"), begun, claims.len());
        for size in [16, 100, 1_000] {
            let begun = Instant::now();
            assert!(claims.chunks(size).flat_map(check_anew).all(|held| held));
            let what = format!("check signatures {size} together, {users} keys");
            per_signature(&what, begun, claims.len());
        }
    }
    let key = SecretKey::of_seed([7; 32]);
    let begun = Instant::now();
    for _ in 0..1_000 {
        black_box(key.sign(&[3; 48]));
    }
    per_signature("sign", begun, 1_000);
}

/// Approvals of many transactions by one signature, which is known after the first.
fn report_approvals() {
    let key = SecretKey::of_seed([7; 32]);
    let ids: Vec<Hash> = (0..LEAVES_MAX as u64).map(id_of).collect();
    for count in [1, 16, 64, 256, LEAVES_MAX] {
        let begun = Instant::now();
        let approvals: Vec<_> = ids.chunks(count).flat_map(|ids| approve_all(&key, ids)).collect();
        per_signature(&format!("approve {count} together, an approval"), begun, ids.len());
        let key_id = key.public();
        let all: Vec<_> = ids
            .iter()
            .zip(&approvals)
            .map(|(id, bytes)| (*id, Signature { key_id, bytes: &bytes[..] }))
            .collect();
        let begun = Instant::now();
        assert!(are_approved(&all).iter().all(|right| *right));
        per_signature(&format!("check {count} approved together, an approval"), begun, ids.len());
    }
}

fn per_signature(what: &str, begun: Instant, count: usize) {
    println!("{what}: {:.1} us", begun.elapsed().as_secs_f64() * 1e6 / count as f64);
}
