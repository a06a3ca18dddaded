//! Envelopes, small and large.

use order::{Envelope, Signature, Submission, View};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

pub const LEDGER: [u8; 16] = *b"a ledger's own i";

/// As most are: a sequence, nothing else.
pub fn usual(request: &[u8]) -> View<'_> {
    View {
        ledger_id: LEDGER,
        principal: "tally",
        submission: Submission::Sequence { submitter: [7; 16], sequence: 70_000 },
        expires_us: 849_000_000_000_000,
        seen_height: 1_000_000,
        settings: Vec::new(),
        seed: [0; 16],
        request,
        signatures: Vec::new(),
        approvals: Vec::new(),
    }
}

fn submissions() -> impl Strategy<Value = Submission> {
    prop_oneof![
        (any::<[u8; 16]>(), any::<u64>())
            .prop_map(|(submitter, sequence)| Submission::Sequence { submitter, sequence }),
        "\\PC{1,40}".prop_map(Submission::Key),
    ]
}

fn signatures() -> impl Strategy<Value = Vec<Signature>> {
    let one = |(key_id, bytes): ([u8; 32], Vec<u8>)| Signature { key_id, bytes: bytes.into() };
    btree_map(any::<[u8; 32]>(), vec(any::<u8>(), 0..70), 0..3)
        .prop_map(move |list| list.into_iter().map(one).collect())
}

pub fn envelopes() -> impl Strategy<Value = Envelope> {
    let seeds = prop_oneof![Just([0; 16]), any::<[u8; 16]>()];
    let settings = btree_map("[a-z_]{1,12}", "\\PC{0,12}", 0..3);
    let who = (any::<[u8; 16]>(), "\\PC{1,20}", submissions(), any::<i64>(), any::<u64>());
    let what = (settings, seeds, vec(any::<u8>(), 0..200), signatures(), signatures());
    (who, what).prop_map(|(who, what)| {
        let (ledger_id, principal, submission, expires_us, seen_height) = who;
        let (settings, seed, request, signatures, approvals) = what;
        Envelope {
            ledger_id,
            principal,
            submission,
            expires_us,
            seen_height,
            settings: settings.into_iter().collect(),
            seed,
            request: request.into(),
            signatures,
            approvals,
        }
    })
}
