//! Batches follow from the records alone: a node that begins at a position cuts what the others
//! cut.

use bytes::Bytes;
use kit::random::Random;
use order::{Delivery, Limits, Proposal};
use order_kafka::cutter::{Cutter, Position};
use order_kafka::record::{Bundle, Cuts, Marker};

const LOG: [u8; 16] = [9; 16];

fn limits() -> Limits {
    Limits { transactions_max: 6, bytes_max: 60, ..Limits::default() }
}

fn marker(limits: &Limits) -> Marker {
    Marker { log: LOG, ledger_id: [8; 16], cuts: Cuts::of(limits) }
}

/// Bundles of three incarnations with copies, late copies, requests to cut, garbage, records of
/// another log, and one that would fit no batch.
fn records(random: &mut Random, count: usize) -> Vec<Bytes> {
    let mut records: Vec<Bytes> = Vec::new();
    let mut numbers = [0; 3];
    for at in 0..count {
        if random.chance(5) && !records.is_empty() {
            let before = records.len().min(6) as u64;
            let copy = records[records.len() - 1 - random.below(before) as usize].clone();
            records.push(copy);
            continue;
        }
        if random.chance(15) {
            records.push(vec![random.below(256) as u8; random.below(60) as usize].into());
            continue;
        }
        let incarnation = random.below(3) as usize;
        numbers[incarnation] += 1;
        let envelopes = if random.chance(15) { 7 } else { random.below(4) };
        let envelopes = (0..envelopes).map(|place| format!("{at}.{place}").into()).collect();
        let bundle = Bundle {
            log: if random.chance(20) { [1; 16] } else { LOG },
            incarnation: [incarnation as u8; 16],
            number: numbers[incarnation],
            cut: random.below(2 + at as u64 / 3),
            forced: random.chance(30),
            carried: random.below(5),
            proposal: Proposal {
                time_us: random.below(1000) as i64,
                proposer: [incarnation as u8; 32],
                seen_height: random.below(9),
                envelopes,
            },
        };
        records.push(bundle.encode());
    }
    records
}

/// Steps them from a position on.
fn cut(position: &Position, records: &[Bytes]) -> Vec<(Delivery, Position)> {
    let mut cutter = Cutter::at(position.clone());
    let from = position.next as usize - 1;
    let steps = records[from..].iter().zip(position.next..);
    steps.flat_map(|(record, offset)| cutter.step(offset, record).unwrap().cut).collect()
}

fn beginning(limits: &Limits) -> Position {
    let marker = marker(limits);
    Position::behind(&marker, &marker.encode())
}

#[test]
fn whoever_begins_at_a_position_cuts_alike() {
    for seed in 0..200 {
        let records = records(&mut Random::new(seed), 120);
        let all = cut(&beginning(&limits()), &records);
        assert!(all.len() > 10, "seed {seed}: {} batches", all.len());
        for (place, (_, position)) in all.iter().enumerate() {
            let read = Position::decode(&position.encode()).unwrap();
            assert_eq!(&read, position);
            assert_eq!(cut(&read, &records), all[place + 1..], "seed {seed}, behind {place}");
        }
    }
}

/// A model that knows no positions: batches are whole records, in order, each once.
#[test]
fn batches_hold_each_record_once_in_order_and_within_limits() {
    for seed in 0..200 {
        let records = records(&mut Random::new(seed), 120);
        let all = cut(&beginning(&limits()), &records);
        let (mut given, mut time_us) = (Vec::new(), i64::MIN);
        for (sequence, (delivery, _)) in (1..).zip(&all) {
            let content = delivery.content.as_ref().unwrap();
            assert_eq!(delivery.sequence, sequence);
            assert!(content.time_us >= time_us && content.envelopes.len() <= 6);
            let bytes: usize = content.envelopes.iter().map(Bytes::len).sum();
            assert!(bytes <= 60 || content.envelopes.len() == 1, "{bytes} bytes");
            time_us = content.time_us;
            given.extend(content.envelopes.clone());
        }
        let wanted = model(&records);
        assert_eq!(given[..], wanted[..given.len()], "seed {seed}");
    }
}

/// What of the records counts: the first of each incarnation's number, unless a higher one was
/// there.
fn model(records: &[Bytes]) -> Vec<Bytes> {
    use order_kafka::record::Record;
    let mut last = std::collections::BTreeMap::new();
    let mut wanted = Vec::new();
    for record in records {
        let Ok(Record::Bundle(bundle)) = Record::decode(record) else { continue };
        let newest = last.get(&bundle.incarnation).copied().unwrap_or(0);
        let bytes: usize = bundle.proposal.envelopes.iter().map(Bytes::len).sum();
        let fits = bundle.proposal.envelopes.len() <= 6 && bytes <= 60;
        if bundle.log == LOG && fits && bundle.number > newest {
            last.insert(bundle.incarnation, bundle.number);
            wanted.extend(bundle.proposal.envelopes);
        }
    }
    wanted
}

/// Mutants: a node that forgets whom it has heard, or cuts by its own settings, is found.
#[test]
fn a_node_that_forgets_lives_or_has_limits_of_its_own_cuts_otherwise() {
    let (mut forgetful, mut willful) = (0, 0);
    for seed in 0..200 {
        let records = records(&mut Random::new(seed), 120);
        let all = cut(&beginning(&limits()), &records);
        let without_incarnations =
            |position: &Position| Position { incarnations: Default::default(), ..position.clone() };
        let differs = |(place, (_, position)): (usize, &(Delivery, Position))| {
            cut(&without_incarnations(position), &records) != all[place + 1..]
        };
        forgetful += usize::from(all.iter().enumerate().any(differs));
        let own = Limits { transactions_max: 5, ..limits() };
        willful += usize::from(cut(&beginning(&own), &records) != all);
    }
    assert!(forgetful > 150 && willful > 150, "{forgetful} and {willful} of 200 seeds");
}
