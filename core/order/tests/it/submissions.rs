//! Submissions beside a twin that forgets nothing.

use std::collections::BTreeMap;

use kit::mutation::mutate;
use kit::random::Random;
use ledger::hash::Hash;
use order::submissions::WINDOW;
use order::{Admission, Ended, Remembered, Status, Submission, Submissions, View};
use types::{Origin, SqlState};

use crate::samples::{LEDGER, usual};

const REMEMBERED: Remembered =
    Remembered { expiry_us_max: 100, submitters_max: 1000, keys_max: 1000 };

fn id(number: u64) -> Hash {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id
}

fn place(height: u64, index: u32) -> Origin {
    Origin { height, index }
}

fn keyed(key: &str, expires_us: i64) -> View<'_> {
    View { submission: Submission::Key(key), expires_us, ..usual(b"") }
}

fn sequenced(sequence: u64, expires_us: i64) -> View<'static> {
    let submission = Submission::Sequence { submitter: [1; 16], sequence };
    View { submission, expires_us, ..usual(b"") }
}

fn at(time_us: i64) -> Submissions {
    let mut submissions = Submissions::new(LEDGER, REMEMBERED);
    submissions.advance(time_us);
    submissions
}

fn code(admission: Admission) -> Option<SqlState> {
    match admission {
        Admission::Refused(error) => Some(error.code()),
        _ => None,
    }
}

#[test]
fn copies_are_told_where_the_first_stands() {
    let mut submissions = at(0);
    let (envelope, first) = (keyed("rent", 50), place(1, 4));
    assert_eq!(submissions.admit(&envelope, &id(1), first), Admission::Run);
    assert_eq!(submissions.admit(&envelope, &id(1), place(1, 5)), Admission::Repeat(first));
    assert_eq!(submissions.lookup("tally", "rent").unwrap().status, Status::Pending);
    submissions.advance(10);
    assert_eq!(submissions.admit(&envelope, &id(1), place(2, 0)), Admission::Repeat(first));
    assert!(submissions.decide(&envelope, place(2, 0), Ended::Committed).is_err());
    submissions.decide(&envelope, first, Ended::Committed).unwrap();
    assert!(submissions.decide(&envelope, first, Ended::Committed).is_err(), "twice");
    submissions.advance(50);
    assert_eq!(submissions.admit(&envelope, &id(1), place(3, 0)), Admission::Repeat(first));
    let other = View { principal: "another", ..envelope.clone() };
    assert_eq!(submissions.admit(&other, &id(9), place(3, 1)), Admission::Run);
    submissions.advance(51);
    assert_eq!(submissions.lookup("tally", "rent"), None);
    assert_eq!(
        code(submissions.admit(&envelope, &id(1), place(4, 0))),
        Some(SqlState::QUERY_CANCELED)
    );
}

#[test]
fn other_bytes_may_follow_a_retry_and_nothing_else() {
    let mut submissions = at(0);
    let refused = Some(SqlState::INVALID_PARAMETER_VALUE);
    let key = |expires_us| keyed("rent", expires_us);
    assert_eq!(submissions.admit(&key(90), &id(1), place(1, 0)), Admission::Run);
    assert_eq!(code(submissions.admit(&key(90), &id(2), place(1, 1))), refused);
    submissions.decide(&key(90), place(1, 0), Ended::Retry).unwrap();
    assert_eq!(submissions.admit(&key(90), &id(1), place(2, 0)), Admission::Repeat(place(1, 0)));
    assert_eq!(code(submissions.admit(&key(89), &id(2), place(2, 1))), refused);
    assert_eq!(submissions.admit(&key(95), &id(2), place(2, 1)), Admission::Run);
    assert_eq!(code(submissions.admit(&key(90), &id(1), place(2, 2))), refused);
    submissions.decide(&key(95), place(2, 1), Ended::Retry).unwrap();
    assert_eq!(code(submissions.admit(&key(90), &id(1), place(2, 2))), refused, "a late copy");
    assert_eq!(submissions.admit(&key(95), &id(3), place(2, 3)), Admission::Run);
    submissions.decide(&key(95), place(2, 3), Ended::Committed).unwrap();
    assert_eq!(code(submissions.admit(&key(95), &id(4), place(2, 4))), refused);
    submissions.advance(60);
    assert_eq!(code(submissions.admit(&key(90), &id(1), place(3, 0))), refused, "its own expiry");
    let entry = submissions.lookup("tally", "rent").unwrap();
    assert_eq!((entry.place, entry.expires_us), (place(2, 3), 95));
}

#[test]
fn what_is_pending_does_not_end() {
    let mut submissions = at(0);
    assert_eq!(submissions.admit(&keyed("k", 5), &id(1), place(1, 0)), Admission::Run);
    submissions.advance(1000);
    assert_eq!(submissions.lookup("tally", "k").unwrap().status, Status::Pending);
    let expired = Some(SqlState::QUERY_CANCELED);
    assert_eq!(code(submissions.admit(&keyed("k", 5), &id(1), place(2, 0))), expired);
    let refused = Some(SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(code(submissions.admit(&keyed("k", 1050), &id(2), place(2, 1))), refused);
    submissions.decide(&keyed("k", 5), place(1, 0), Ended::Committed).unwrap();
    submissions.advance(1001);
    assert_eq!(submissions.lookup("tally", "k"), None);
}

#[test]
fn refusals_have_their_causes() {
    let mut submissions = at(1000);
    let mut refusal = |envelope: View<'_>| {
        let before = submissions.encode();
        let code = code(submissions.admit(&envelope, &id(1), place(1, 0)));
        assert!(code.is_none() || submissions.encode() == before, "refusals leave nothing");
        code
    };
    let foreign = View { ledger_id: [0; 16], ..keyed("k", 1000) };
    assert_eq!(refusal(foreign), Some(SqlState::INVALID_CATALOG_NAME));
    assert_eq!(refusal(keyed("k", 999)), Some(SqlState::QUERY_CANCELED));
    assert_eq!(refusal(keyed("k", 1101)), Some(SqlState::INVALID_PARAMETER_VALUE));
    assert_eq!(refusal(keyed("k", 1000)), None);
    assert_eq!(refusal(sequenced(WINDOW, 1100)), None);
    assert_eq!(refusal(sequenced(1, 1100)), None);
    assert_eq!(refusal(sequenced(0, 1100)), Some(SqlState::TRANSACTION_RESOLUTION_UNKNOWN));
    assert_eq!(refusal(sequenced(u64::MAX, 1100)), None);
    assert_eq!(refusal(sequenced(1, 1100)), Some(SqlState::TRANSACTION_RESOLUTION_UNKNOWN));
}

#[test]
fn a_principal_has_its_own_room_and_gets_it_back() {
    let remembered = Remembered { submitters_max: 2, keys_max: 2, ..REMEMBERED };
    let mut submissions = Submissions::new(LEDGER, remembered);
    submissions.advance(0);
    let names = ["a", "b", "c"];
    let submitter = |n: u8| {
        let submission = Submission::Sequence { submitter: [n; 16], sequence: 1 };
        View { submission, expires_us: 10, ..usual(b"") }
    };
    let full = Some(SqlState::TOO_MANY_CONNECTIONS);
    for time_us in [0, 11] {
        let mut codes = Vec::new();
        submissions.advance(time_us);
        for (n, name) in names.iter().enumerate() {
            let key = keyed(name, time_us + 10);
            codes.push(code(submissions.admit(&key, &id(1), place(1, n as u32))));
            let submitter = View { expires_us: time_us + 10, ..submitter(n as u8) };
            codes.push(code(submissions.admit(&submitter, &id(2), place(1, 3 + n as u32))));
        }
        assert_eq!(codes, [None, None, None, None, full, full], "time {time_us}");
        let other = View { principal: "other", ..keyed("c", time_us + 10) };
        assert_eq!(code(submissions.admit(&other, &id(1), place(1, 9))), None);
        for (n, name) in names.iter().enumerate().take(2) {
            let key = keyed(name, time_us + 10);
            submissions.decide(&key, place(1, n as u32), Ended::Committed).unwrap();
        }
        submissions.decide(&other, place(1, 9), Ended::Retry).unwrap();
    }
    submissions.advance(1000);
    let mut empty = Submissions::new(LEDGER, remembered);
    empty.advance(1000);
    assert_eq!(submissions.encode(), empty.encode(), "nothing is left");
}

/// What the page says, without windows or endings: everything is kept for ever.
#[derive(Default)]
struct Twin {
    time_us: i64,
    /// Expiry of what was admitted, for each sequence of each submitter.
    sequences: BTreeMap<(String, [u8; 16]), BTreeMap<u64, i64>>,
    /// All envelopes that were run under a key.
    keys: BTreeMap<(String, String), Vec<Run>>,
}

/// Id, place, expiry and how it ended.
type Run = (Hash, Origin, i64, Option<Ended>);

#[derive(PartialEq, Debug)]
enum Short {
    Run,
    Repeat(Origin),
    Repeated,
    Refused(SqlState),
}

impl Twin {
    fn admit(&mut self, envelope: &View<'_>, id: Hash, place: Origin) -> Short {
        let (time_us, expires_us) = (self.time_us, envelope.expires_us);
        if expires_us < time_us {
            return Short::Refused(SqlState::QUERY_CANCELED);
        }
        if expires_us > time_us + REMEMBERED.expiry_us_max {
            return Short::Refused(SqlState::INVALID_PARAMETER_VALUE);
        }
        let principal = envelope.principal.to_owned();
        match envelope.submission {
            Submission::Sequence { submitter, sequence } => {
                let used = self.sequences.entry((principal, submitter)).or_default();
                if used.values().all(|expires_us| *expires_us < time_us) {
                    used.clear();
                }
                let highest = used.keys().max().copied();
                if highest.is_some_and(|highest| highest >= WINDOW && sequence <= highest - WINDOW)
                {
                    return Short::Refused(SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
                }
                if used.contains_key(&sequence) {
                    return Short::Repeated;
                }
                used.insert(sequence, expires_us);
                Short::Run
            }
            Submission::Key(key) => {
                let runs = self.keys.entry((principal, key.to_owned())).or_default();
                let alive =
                    |(_, _, expires_us, ended): &Run| ended.is_none() || *expires_us >= time_us;
                // A key speaks of its last envelope while any of its envelopes could come again.
                if !runs.iter().any(alive) {
                    runs.clear();
                }
                match runs.last() {
                    Some((last, place, ..)) if *last == id => return Short::Repeat(*place),
                    Some((.., ended)) if *ended != Some(Ended::Retry) => {
                        return Short::Refused(SqlState::INVALID_PARAMETER_VALUE);
                    }
                    Some((.., latest, _)) if expires_us < *latest => {
                        return Short::Refused(SqlState::INVALID_PARAMETER_VALUE);
                    }
                    _ => runs.push((id, place, expires_us, None)),
                }
                Short::Run
            }
        }
    }
}

fn short(admission: Admission) -> Short {
    match admission {
        Admission::Run => Short::Run,
        Admission::Repeat(place) => Short::Repeat(place),
        Admission::Repeated => Short::Repeated,
        Admission::Refused(error) => Short::Refused(error.code()),
    }
}

const NAMES: [&str; 3] = ["a", "bc", "d"];

/// An envelope that resembles earlier ones; its id follows from what it says, as it would.
fn draw(random: &mut Random, time_us: i64, highest: &mut u64) -> (View<'static>, Hash) {
    let name = |random: &mut Random| NAMES[random.below(3) as usize];
    let expires_us = time_us - 3 + random.below(110) as i64;
    let principal = name(random);
    let (submission, id) = if random.chance(2) {
        let bytes = random.below(3);
        (Submission::Key(name(random)), id(bytes * 1000 + expires_us as u64 % 3))
    } else {
        let step = [1, 1, 1, 1, 2, 60, 1023, 3000][random.below(8) as usize];
        *highest += step * random.below(2);
        let back = [0, 1, 1, 2, 3, 64, 1023, 1024][random.below(8) as usize];
        let sequence = highest.saturating_sub(back);
        let submitter = [random.below(2) as u8; 16];
        (Submission::Sequence { submitter, sequence }, id(7))
    };
    (View { principal, submission, expires_us, ..usual(b"") }, id)
}

#[test]
fn as_one_that_forgets_nothing() {
    let (mut runs, mut repeats, mut refusals) = (0, 0, 0);
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let (mut submissions, mut twin) = (at(0), Twin::default());
        let (mut highest, mut pending) = (0, Vec::new());
        for height in 0..60 {
            let time_us = twin.time_us + [0, 1, 5, 40, 150][random.below(5) as usize];
            twin.time_us = time_us;
            submissions.advance(time_us);
            for index in 0..random.below(12) as u32 {
                let (envelope, id) = draw(random, time_us, &mut highest);
                let place = place(height, index);
                let expected = twin.admit(&envelope, id, place);
                let found = short(submissions.admit(&envelope, &id, place));
                assert_eq!(found, expected, "seed {seed}, {place:?}, {envelope:?}");
                match found {
                    Short::Run => runs += 1,
                    Short::Repeat(_) | Short::Repeated => repeats += 1,
                    Short::Refused(_) => refusals += 1,
                }
                if found == Short::Run && matches!(envelope.submission, Submission::Key(_)) {
                    pending.push((envelope, place));
                }
            }
            decide_some(random, &mut submissions, &mut twin, &mut pending);
            if random.chance(8) {
                submissions = reread(&submissions);
            }
        }
    }
    assert!(runs > 10_000 && repeats > 3_000 && refusals > 5_000, "{runs} {repeats} {refusals}");
}

/// Most end in their block; some are deferred.
fn decide_some(
    random: &mut Random,
    submissions: &mut Submissions,
    twin: &mut Twin,
    pending: &mut Vec<(View<'static>, Origin)>,
) {
    pending.retain(|(envelope, place)| {
        if random.chance(3) {
            return true;
        }
        let ended = if random.chance(2) { Ended::Retry } else { Ended::Committed };
        submissions.decide(envelope, *place, ended).unwrap();
        let Submission::Key(key) = envelope.submission else { unreachable!() };
        let runs = twin.keys.get_mut(&(envelope.principal.to_owned(), key.to_owned())).unwrap();
        let run = runs.iter_mut().find(|run| run.1 == *place).unwrap();
        run.3 = Some(ended);
        false
    });
}

fn reread(submissions: &Submissions) -> Submissions {
    let bytes = submissions.encode();
    let read = Submissions::decode(&bytes, LEDGER, REMEMBERED).unwrap();
    assert_eq!(read.encode(), bytes);
    read
}

#[test]
fn hostile_bytes_are_refused_or_are_the_one_encoding() {
    let random = &mut Random::new(1);
    let mut submissions = at(0);
    let mut highest = 0;
    let mut samples = vec![submissions.encode()];
    for height in 0..8 {
        for index in 0..4 {
            let (envelope, id) = draw(random, 0, &mut highest);
            let place = place(height, index);
            let admission = submissions.admit(&envelope, &id, place);
            if admission == Admission::Run && random.chance(2) {
                submissions.decide(&envelope, place, Ended::Retry).unwrap();
            }
        }
        samples.push(submissions.encode());
    }
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = samples[random.below(samples.len() as u64) as usize].clone();
        mutate(&mut bytes, &samples, random);
        if let Ok(read) = Submissions::decode(&bytes, LEDGER, REMEMBERED) {
            assert_eq!(read.encode(), bytes);
            accepted += 1;
        }
    }
    assert!(accepted > 100, "{accepted}");
    for sample in &samples {
        for length in 0..sample.len() {
            assert!(Submissions::decode(&sample[..length], LEDGER, REMEMBERED).is_err());
        }
        assert!(Submissions::decode(sample, [0; 16], REMEMBERED).is_err(), "another ledger's");
    }
}

/// One principal with one submitter, byte by byte.
fn submitter_bytes(expires_us: u8, highest: u8, bitmap: [u8; 2], keys: &[u8]) -> Vec<u8> {
    let mut bytes = [&[2][..], &LEDGER, &[20, 1, 1, b'p', 1], &[4; 16]].concat();
    bytes.extend([expires_us, highest]);
    bytes.extend(bitmap);
    bytes.extend([0; 126]);
    bytes.extend(keys);
    bytes
}

#[test]
fn states_that_cannot_be_are_refused() {
    let read = |bytes: &[u8]| Submissions::decode(bytes, LEDGER, REMEMBERED);
    let good = submitter_bytes(20, 9, [0x80, 0x40], &[0]);
    assert_eq!(read(&good).unwrap().encode(), good);
    let nobody = [&[2][..], &LEDGER, &[20, 1, 1, b'p', 0, 0]].concat();
    let unnamed = [&[2][..], &LEDGER, &[20, 1, 0, 0, 0]].concat();
    for (what, bytes) in [
        ("a submitter that has ended", submitter_bytes(18, 9, [0x80, 0], &[0])),
        ("a highest that is not used", submitter_bytes(20, 9, [0x40, 0], &[0])),
        ("a sequence below zero", submitter_bytes(20, 8, [0x80, 0x40], &[0])),
        ("keys that are missing", submitter_bytes(20, 9, [0x80, 0], &[1])),
        ("a byte too many", submitter_bytes(20, 9, [0x80, 0], &[0, 0])),
        ("a principal of whom nothing is known", nobody),
        ("a principal without a name", unnamed),
    ] {
        assert!(read(&bytes).is_err(), "{what}");
    }
}

#[test]
fn time_does_not_run_back() {
    let mut submissions = at(1000);
    submissions.advance(500);
    assert_eq!(submissions.time_us(), 1000);
    let expired = Some(SqlState::QUERY_CANCELED);
    assert_eq!(code(submissions.admit(&keyed("k", 700), &id(1), place(1, 0))), expired);
}
