//! The conformance suite of orderers: each promise of the seam [`Orderer`](crate::Orderer) is one
//! function, which any orderer's tests run.

use bytes::Bytes;
use kit::random::Random;
use types::{Error, SqlState};

use super::bed::{Bed, Outcome, refusal};
use crate::orderer::{Limits, Refused};

type Step = fn(&mut Bed<'_>) -> Outcome;

pub const STEPS: &[(&str, Step)] = &[
    ("order", order),
    ("nodes", nodes),
    ("idle", idle),
    ("nudge", nudge),
    ("count", count),
    ("bytes", bytes),
    ("large", large),
    ("closed", closed),
    ("time", time),
    ("restart", restart),
    ("empty entries", empty_entries),
    ("copies", copies),
    ("disturbed", disturbed),
];

fn small() -> Limits {
    Limits { transactions_max: 4, bytes_max: 1000, ..Limits::default() }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, not {expected:?}"))
}

fn given_exactly(bed: &Bed<'_>, expected: &[Bytes]) -> Outcome {
    for node in 0..bed.given.len() {
        if bed.envelopes(node) != expected {
            return Err(format!("node {node} is given something else than what was submitted"));
        }
    }
    Ok(())
}

/// What one node submits is delivered once, in order, to every node.
fn order(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let mut submitted = Vec::new();
    for burst in [1, 3, 20, 0, 7, 1, 40] {
        submitted.extend(bed.submit_some(0, burst)?);
        bed.pass()?;
    }
    bed.until_given(&submitted)?;
    (0..20).try_for_each(|_| bed.pass())?;
    given_exactly(bed, &submitted)
}

/// What all submit at once: each node's in order, all of it once.
fn nodes(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let mut submitted = vec![Vec::new(); bed.given.len()];
    for round in 0..30 {
        for (node, submitted) in submitted.iter_mut().enumerate() {
            submitted.extend(bed.submit_some(node, (round + node) % 4)?);
        }
        bed.pass()?;
    }
    let all = submitted.concat();
    bed.until_given(&all)?;
    (0..20).try_for_each(|_| bed.pass())?;
    for node in 0..bed.given.len() {
        let given = bed.envelopes(node);
        equal("envelopes delivered", given.len(), all.len())?;
        for submitted in &submitted {
            let own: Vec<&Bytes> = given.iter().filter(|e| submitted.contains(e)).collect();
            if !own.into_iter().eq(submitted) {
                return Err("a node's envelopes are delivered in another order".to_owned());
            }
        }
    }
    Ok(())
}

/// Without envelopes there are no batches.
fn idle(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let submitted = bed.submit_some(0, 1)?;
    bed.until_given(&submitted)?;
    let batches = |bed: &Bed<'_>| bed.given[0].iter().filter(|d| d.content.is_some()).count();
    (0..50).try_for_each(|_| bed.pass())?;
    equal("batches for one envelope", batches(bed), 1)
}

/// But where one is asked for.
fn nudge(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    bed.harness.nudge(0);
    bed.until("a batch that was asked for", |bed, node| {
        bed.given[node].iter().any(|delivery| {
            delivery.content.as_ref().is_some_and(|proposal| proposal.envelopes.is_empty())
        })
    })
}

/// So many wait and no more; when they are gone there is room again.
fn count(bed: &mut Bed<'_>) -> Outcome {
    bed.start(Limits { queued_max: 5, ..small() });
    for _ in 0..3 {
        let submitted = bed.submit_some(0, 5)?;
        let further = bed.envelope(100);
        let refused = refusal(bed, 0, &further)?;
        equal("the refusal of a sixth", &refused, &Refused::Full)?;
        equal("its code", Error::from(refused).code(), SqlState::TOO_MANY_CONNECTIONS)?;
        bed.until_given(&submitted)?;
    }
    Ok(())
}

/// So many bytes wait and no more, but for a lone envelope.
fn bytes(bed: &mut Bed<'_>) -> Outcome {
    bed.start(Limits { queued_bytes_max: 1000, ..small() });
    let mut all = Vec::new();
    for sizes in [&[400, 400][..], &[5000], &[100, 800]] {
        for size in sizes {
            all.push(bed.envelope(*size));
            bed.submit(0, &all[all.len() - 1])?;
        }
        let further = bed.envelope(300);
        equal("the refusal of more bytes", refusal(bed, 0, &further)?, Refused::Full)?;
        bed.until_given(&all)?;
    }
    given_exactly(bed, &all)
}

/// What no block has room for is refused for good, what just fits is delivered; many small ones
/// share a block with their outcomes. (Each batch is checked.)
fn large(bed: &mut Bed<'_>) -> Outcome {
    bed.start(Limits { block_bytes_max: 20_000, outcome_bytes_max: 5_000, ..small() });
    let room = 15_000;
    let mut largest = bed.envelope(room);
    while largest.len() > room {
        largest = bed.envelope(room - 1);
    }
    let larger = bed.envelope(room + 1_000);
    let refused = refusal(bed, 0, &larger)?;
    let expected = Refused::TooLarge { bytes: larger.len(), bytes_max: room };
    equal("the refusal of the largest", &refused, &expected)?;
    equal("its code", Error::from(refused).code(), SqlState::PROGRAM_LIMIT_EXCEEDED)?;
    bed.submit(0, &largest)?;
    let mut all = bed.submit_some(0, 12)?;
    all.insert(0, largest);
    bed.until_given(&all)?;
    given_exactly(bed, &all)
}

/// A closed orderer takes nothing and delivers what it took.
fn closed(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let submitted = bed.submit_some(0, 10)?;
    let why = Error::new(SqlState::ADMIN_SHUTDOWN, "stopping");
    bed.harness.close(0, why.clone());
    bed.harness.close(0, Error::new(SqlState::IO_ERROR, "a later cause"));
    let further = bed.envelope(100);
    equal("the refusal", refusal(bed, 0, &further)?, Refused::Closed(why))?;
    bed.until_given(&submitted)?;
    given_exactly(bed, &submitted)
}

/// A clock that is set back does not take the ledger along. (Each delivery's time is checked.)
fn time(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let mut submitted = Vec::new();
    for now_us in [5_000_000, 2_000_000, 2_000_000, 9_000_000, 0, 9_500_000] {
        bed.now_us = now_us;
        bed.pass()?;
        submitted.extend(bed.submit_some(0, 6)?);
        bed.until_given(&submitted)?;
    }
    let last_us = bed.time_us(0);
    if last_us < 9_500_000 {
        return Err(format!("the last batch bears {last_us}, as if time stood still"));
    }
    Ok(())
}

/// A node that was away goes on after the delivery that it names.
fn restart(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let mut submitted = Vec::new();
    for round in 0..4 {
        submitted.extend(bed.submit_some(0, 10)?);
        bed.until_given(&submitted)?;
        let given = bed.given[0].clone();
        let kept = [given.len(), given.len() / 2, 0, given.len() - 1][round];
        let after = if bed.harness.keeps_deliveries() { kept } else { given.len() };
        if round == 3 {
            bed.now_us = 0;
        }
        bed.restart(0, after)?;
        bed.until("a node is given again what it did not keep", |bed, _| {
            bed.given[0].len() >= given.len()
        })?;
        if bed.given[0][..given.len()] != given[..] {
            return Err("a node is given something else after a restart".to_owned());
        }
    }
    submitted.extend(bed.submit_some(0, 10)?);
    bed.until_given(&submitted)?;
    given_exactly(bed, &submitted)
}

/// The orderer's own entries are numbered and have no batch.
fn empty_entries(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let mut submitted = Vec::new();
    for round in 1..4 {
        submitted.extend(bed.submit_some(0, 5)?);
        bed.until_given(&submitted)?;
        if !bed.harness.make_empty_entry() {
            return Ok(());
        }
        bed.until("an entry without a batch is delivered", |bed, node| {
            bed.given[node].iter().filter(|delivery| delivery.content.is_none()).count() >= round
        })?;
    }
    submitted.extend(bed.submit_some(0, 5)?);
    bed.until_given(&submitted)?;
    given_exactly(bed, &submitted)
}

/// Copies may be delivered; what a ledger makes of them is run once, the same everywhere.
fn copies(bed: &mut Bed<'_>) -> Outcome {
    bed.start(small());
    let mut submitted = Vec::new();
    for _ in 0..10 {
        let envelope = bed.envelope(100);
        for node in 0..bed.given.len() {
            bed.submit(node, &envelope)?;
            bed.submit(node, &envelope)?;
        }
        submitted.push(envelope);
        bed.pass()?;
    }
    bed.until_given(&submitted)?;
    (0..20).try_for_each(|_| bed.pass())?;
    runs_once(bed, &submitted)
}

/// Every node runs these, each once, and nothing else.
fn runs_once(bed: &Bed<'_>, expected: &[Bytes]) -> Outcome {
    let mut expected = expected.to_vec();
    expected.sort();
    for node in 0..bed.given.len() {
        let mut runs = bed.runs(node)?;
        runs.sort();
        equal("envelopes run", runs.len(), expected.len())?;
        if runs != expected {
            return Err(format!("node {node} runs something else than what was submitted"));
        }
    }
    Ok(())
}

/// Whatever messages suffer, and nodes that stop: the same for all, nothing lost that was accepted
/// by a node which stayed.
fn disturbed(bed: &mut Bed<'_>) -> Outcome {
    for seed in 0..6 {
        let random = &mut Random::new(seed);
        bed.start(Limits { queued_max: 20, ..small() });
        bed.harness.disturb(true);
        let (kept, at_risk) = disturb(bed, random)?;
        bed.harness.disturb(false);
        bed.until_given(&kept)?;
        let length = bed.given.iter().map(Vec::len).max().unwrap_or(0);
        bed.until("all nodes come equally far", |bed, node| bed.given[node].len() >= length)?;
        for node in 0..bed.given.len() {
            let runs = bed.runs(node)?;
            let mut own: Vec<&Bytes> = runs.iter().collect();
            own.sort();
            own.dedup();
            equal("envelopes run, without copies", own.len(), runs.len())?;
            if !runs.iter().all(|run| kept.contains(run) || at_risk.contains(run)) {
                return Err(format!("node {node} runs what was not submitted"));
            }
        }
    }
    Ok(())
}

/// Envelopes that must be delivered, and such as were accepted by a node that stopped since.
fn disturb(bed: &mut Bed<'_>, random: &mut Random) -> Outcome<(Vec<Bytes>, Vec<Bytes>)> {
    let nodes = bed.given.len();
    let mut accepted: Vec<Vec<Bytes>> = vec![Vec::new(); nodes];
    let mut at_risk = Vec::new();
    for _ in 0..300 {
        let node = random.below(nodes as u64) as usize;
        let envelope = bed.envelope(50 + random.below(400) as usize);
        match bed.harness.submit(node, envelope.clone()) {
            Ok(()) => accepted[node].push(envelope),
            Err(Refused::Full) => {}
            Err(refused) => return Err(format!("a refusal without a reason: {refused:?}")),
        }
        if random.chance(40) {
            at_risk.append(&mut accepted[node]);
            let given = bed.given[node].len() as u64;
            let kept = if bed.harness.keeps_deliveries() { random.below(given + 1) } else { given };
            bed.restart(node, kept as usize)?;
        }
        if random.chance(2) {
            bed.pass()?;
        }
    }
    Ok((accepted.concat(), at_risk))
}
