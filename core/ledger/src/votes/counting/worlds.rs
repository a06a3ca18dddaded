//! Small worlds of members, by chance: the tally beside a twin that remembers everything and
//! counts anew, and whole members with disks that crash, one of which comes to other results.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kit::mutant;
use kit::random::Random;
use types::Height;

use crate::signatures::SecretKey;
use crate::votes::{Said, Vote};
use crate::{Certificate, Electors, Files, Hash, MemoryFiles, Parameters, hash::to_hex};

use super::{Found, Signer, Tally};

const LEDGER: [u8; 16] = [7; 16];

fn key(member: u64) -> SecretKey {
    SecretKey::of_seed([member as u8; 32])
}

fn electors(members: u64) -> Electors {
    let mut parameters = Parameters::new("serial");
    let one = |id| format!("{id} {} host:1", to_hex(&key(id).public()));
    let all: Vec<String> = (1..=members).map(one).collect();
    parameters.others.insert("electors".to_owned(), all.join(", "));
    Electors::of(LEDGER, &parameters).unwrap().unwrap()
}

/// Of a block that is for some electors.
fn said_for(electors: &Electors, height: Height, result: u8) -> Said {
    Said { height, result_hash: [result; 32], electors: electors.hash() }
}

fn said(height: Height, result: u8) -> Said {
    said_for(&electors(4), height, result)
}

/// Counts from all that has happened, each time.
struct Twin {
    electors: Electors,
    accepted: Vec<Vote>,
    results: BTreeMap<Height, Said>,
    certified: Vec<Said>,
    /// By what others kept, also below the last.
    believed: Vec<Said>,
    refused: BTreeMap<u64, u64>,
    contradicting: BTreeMap<u64, u64>,
}

impl Twin {
    fn vote(&mut self, vote: Vote, is_valid: bool) {
        let of_it = |other: &&Vote| other.member == vote.member;
        let same_height =
            self.accepted.iter().filter(of_it).find(|other| other.said.height == vote.said.height);
        let is_new =
            self.accepted.iter().filter(of_it).all(|other| other.said.height < vote.said.height);
        match same_height {
            Some(other) if other.said == vote.said => {}
            None if !is_new => {}
            _ if !is_valid => *self.refused.entry(vote.member).or_default() += 1,
            Some(_) => *self.contradicting.entry(vote.member).or_default() += 1,
            None => self.accepted.push(vote),
        }
    }

    fn signers(&self, said: Said) -> BTreeSet<u64> {
        self.accepted.iter().filter(|vote| vote.said == said).map(|vote| vote.member).collect()
    }

    /// What has become certified, above the last.
    fn certify(&mut self) -> Option<Said> {
        let last = self.certified.last().map(|said| said.height);
        let enough = |said: &&Said| {
            Some(said.height) > last && self.signers(**said).len() >= self.electors.votes
        };
        let all: Vec<Said> = self.accepted.iter().map(|vote| vote.said).collect();
        let new = all.iter().find(enough).copied();
        self.certified.extend(new);
        new
    }

    fn diverged(&self) -> BTreeSet<Height> {
        let wrong = |here: &&Said| {
            let other = |said: &Said| said.height == here.height && said != *here;
            let outvoted = self.accepted.iter().any(|vote| {
                other(&vote.said) && self.signers(vote.said).len() > self.electors.keys.len() / 2
            });
            outvoted || self.certified.iter().chain(&self.believed).any(other)
        };
        self.results.values().filter(wrong).map(|said| said.height).collect()
    }
}

/// A tally beside its twin.
struct Pair {
    electors: Electors,
    tally: Tally,
    twin: Twin,
    diverged: BTreeSet<Height>,
}

impl Pair {
    fn new(electors: Electors) -> Pair {
        let twin = Twin {
            electors: electors.clone(),
            accepted: Vec::new(),
            results: BTreeMap::new(),
            certified: Vec::new(),
            believed: Vec::new(),
            refused: BTreeMap::new(),
            contradicting: BTreeMap::new(),
        };
        let tally = Tally::new(electors.clone(), None);
        Pair { electors, tally, twin, diverged: BTreeSet::new() }
    }

    /// Something happens to both: what the one found, and what the other says is certified.
    fn event(&mut self, random: &mut Random) -> Result<(Vec<Found>, Option<Said>), String> {
        let members = self.electors.keys.len() as u64;
        let electors = self.electors.clone();
        let said = |height, result| said_for(&electors, height, result);
        let height = 1 + random.below(4);
        let result = 1 + (random.below(4) == 0) as u8;
        match random.below(12) {
            0 => {
                let next = said(self.twin.results.len() as u64 + 1, result);
                self.twin.results.insert(next.height, next);
                Ok((self.tally.executed(next), None))
            }
            1 => {
                let voters = (1..=members).filter(|_| random.below(8) > 0).collect();
                self.believe(said(height, result), voters)
            }
            _ => {
                let member = 1 + random.below(members);
                let signer = if random.below(6) == 0 { 1 + random.below(members) } else { member };
                let vote = key(signer).vote(LEDGER, member, said(height, result));
                self.twin.vote(vote, signer == member);
                Ok((self.tally.count(vote), self.twin.certify()))
            }
        }
    }

    fn believe(
        &mut self,
        says: Said,
        voters: Vec<u64>,
    ) -> Result<(Vec<Found>, Option<Said>), String> {
        let holds = voters.len() >= self.electors.votes;
        let votes = voters.into_iter().map(|id| (id, key(id).vote(LEDGER, id, says).signature));
        let certificate = Certificate { ledger_id: LEDGER, said: says, votes: votes.collect() };
        let found = self.tally.believe(&certificate);
        if found.is_ok() != holds {
            return Err(format!("believed: {}", found.is_ok()));
        }
        let last = self.twin.certified.last().map(|said| said.height);
        let is_above = Some(says.height) > last;
        self.twin.believed.extend(holds.then_some(says));
        self.twin.certified.extend((holds && is_above).then_some(says));
        Ok((found.unwrap_or_default(), holds.then_some(says)))
    }

    fn compare(&mut self, found: Vec<Found>, certified: Option<Said>) -> Result<(), String> {
        let mut new = None;
        for found in found {
            match found {
                Found::Certificate(certificate) => {
                    certificate.verify(&self.electors).map_err(|error| error.to_string())?;
                    new = Some(certificate.said);
                }
                Found::Divergence(divergence) => drop(self.diverged.insert(divergence.height)),
            }
        }
        if new != certified {
            return Err(format!("certified {new:?} instead of {certified:?}"));
        }
        if self.diverged != self.twin.diverged() {
            return Err(format!("{:?} instead of {:?}", self.diverged, self.twin.diverged()));
        }
        for member in self.electors.keys.keys() {
            let counts = self.tally.counts_of(*member);
            let refused = self.twin.refused.get(member).copied().unwrap_or(0);
            let contradicting = self.twin.contradicting.get(member).copied().unwrap_or(0);
            if (counts.refused, counts.contradicting) != (refused, contradicting) {
                return Err(format!("member {member} has {counts:?}"));
            }
        }
        Ok(())
    }
}

/// One world, event by event; what differs, if something does.
fn compare(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(electors(3 + random.below(2)));
    (0..30).try_for_each(|step| {
        let (found, certified) = pair.event(&mut random)?;
        pair.compare(found, certified).map_err(|why| format!("step {step}: {why}"))
    })
}

#[test]
fn the_tally_is_what_its_twin_counts() {
    for seed in 0..200 {
        compare(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn the_twin_finds_a_tally_that_is_wrong() {
    for bug in ["votes_unchecked", "votes_taken_back", "votes_of_all_counted"] {
        let _guard = mutant::enter(Some(bug));
        assert!((0..200).any(|seed| compare(seed).is_err()), "{bug}");
    }
}

struct Node {
    id: u64,
    files: MemoryFiles,
    signer: Signer,
    tally: Tally,
    height: Height,
    is_faulty: bool,
    diverged: bool,
}

impl Node {
    fn start(id: u64, files: MemoryFiles, electors: &Electors, is_faulty: bool) -> Node {
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let mut signer = Signer::open(&shared, LEDGER, id).unwrap();
        signer.use_keys(vec![key(id)]);
        let mut tally = Tally::new(electors.clone(), None);
        signer.again().into_iter().for_each(|vote| drop(tally.count(vote)));
        Node { id, files, signer, tally, height: 0, is_faulty, diverged: false }
    }

    fn execute(&mut self) -> Vec<Found> {
        self.height += 1;
        // A fault of memory: from its fifth block on the node comes to something else.
        let wrong = self.is_faulty && self.height >= 5;
        let said = said(self.height, self.height as u8 + if wrong { 100 } else { 0 });
        self.signer.executed(said, self.height as i64 * 20_000);
        self.tally.executed(said)
    }
}

struct World {
    electors: Electors,
    nodes: Vec<Node>,
    /// By sender and receiver.
    wires: BTreeMap<(u64, u64), VecDeque<Vote>>,
    signed: BTreeMap<(u64, Height), Said>,
    sent: BTreeMap<u64, VecDeque<Vote>>,
    certified: BTreeMap<Height, Certificate>,
}

impl World {
    fn new(members: u64, faulty: u64) -> World {
        let electors = electors(members);
        let start = |id| Node::start(id, MemoryFiles::new(), &electors, id == faulty);
        let nodes = (1..=members).map(start).collect();
        let (wires, signed, sent, certified) = Default::default();
        World { electors, nodes, wires, signed, sent, certified }
    }

    fn note(&mut self, at: usize, found: Vec<Found>) -> Result<(), String> {
        for found in found {
            match found {
                Found::Certificate(certificate) => {
                    certificate.verify(&self.electors).map_err(|error| error.to_string())?;
                    let said = certificate.said;
                    let other = self.certified.insert(said.height, certificate);
                    if other.is_some_and(|other| other.said != said) {
                        return Err(format!("two certificates of block {}", said.height));
                    }
                }
                Found::Divergence(_) if self.nodes[at].is_faulty => self.nodes[at].diverged = true,
                Found::Divergence(it) => return Err(format!("an honest node is stopped: {it:?}")),
            }
        }
        Ok(())
    }

    fn sign(&mut self, at: usize, quiet: bool) -> Result<(), String> {
        for vote in self.nodes[at].signer.sign(quiet).map_err(|error| error.to_string())? {
            let before = self.signed.insert((vote.member, vote.said.height), vote.said);
            if before.is_some_and(|before| before != vote.said) {
                return Err(format!("member {} signed twice", vote.member));
            }
            self.sent.entry(vote.member).or_default().push_back(vote);
            let found = self.nodes[at].tally.count(vote);
            self.note(at, found)?;
            for to in 1..=self.electors.keys.len() as u64 {
                self.wires.entry((vote.member, to)).or_default().push_back(vote);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, from: u64, to: u64, again: bool) -> Result<(), String> {
        let wire = self.wires.entry((from, to)).or_default();
        let Some(vote) = wire.pop_front() else { return Ok(()) };
        if again {
            wire.push_front(vote);
        }
        let found = self.nodes[to as usize - 1].tally.count(vote);
        self.note(to as usize - 1, found)
    }

    fn restart(&mut self, at: usize, random: &mut Random, heals: bool) {
        let Node { id, is_faulty, diverged, .. } = self.nodes[at];
        let files = self.nodes[at].files.crash(random);
        // Its memory is new: until then faulty, it comes to what the others do, or the other way.
        let is_faulty = is_faulty && !heals;
        self.nodes[at] = Node { diverged, ..Node::start(id, files, &self.electors, is_faulty) };
        // Members send a newcomer what they have signed.
        for (from, sent) in &self.sent {
            self.wires.insert((*from, id), sent.clone());
        }
    }
}

/// Whether the world holds what it must, and whether the faulty node was found.
fn live(seed: u64, heals: bool) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let members = 4;
    let mut world = World::new(members, 2);
    let mut faulty_voted = false;
    for _ in 0..400 {
        let at = random.below(members) as usize;
        let (from, to) = (1 + random.below(members), 1 + random.below(members));
        match random.below(16) {
            0..5 if world.nodes[at].height < 12 => {
                let found = world.nodes[at].execute();
                world.note(at, found)?;
            }
            5..8 => world.sign(at, random.below(4) == 0)?,
            8 if random.below(6) == 0 => world.restart(at, &mut random, heals),
            _ => world.deliver(from, to, random.below(8) == 0)?,
        }
    }
    // The end: all have executed everything, signed it, and heard of one another.
    for at in 0..members as usize {
        while world.nodes[at].height < 12 {
            let found = world.nodes[at].execute();
            world.note(at, found)?;
        }
        faulty_voted |= world.nodes[at].is_faulty && world.nodes[at].signer.lacks_newest();
        world.sign(at, true)?;
    }
    while world.wires.values().any(|wire| !wire.is_empty()) {
        for pair in world.wires.keys().copied().collect::<Vec<_>>() {
            world.deliver(pair.0, pair.1, false)?;
        }
    }
    let Some((_, last)) = world.certified.last_key_value() else {
        return Err("nothing is certified".to_owned());
    };
    let last = last.clone();
    for at in 0..members as usize {
        let found = world.nodes[at].tally.believe(&last).map_err(|error| error.to_string())?;
        world.note(at, found)?;
    }
    let found = world.nodes.iter().any(|node| node.is_faulty && node.diverged);
    Ok(found || !faulty_voted)
}

#[test]
fn members_agree_over_crashes_and_find_the_one_that_differs() {
    for seed in 0..40 {
        let found = live(seed, false).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert!(found, "seed {seed}: the faulty node goes on");
        live(seed, true).unwrap_or_else(|why| panic!("seed {seed}, healed: {why}"));
    }
}

#[test]
fn a_member_that_signs_twice_is_found() {
    let _guard = mutant::enter(Some("votes_signed_twice"));
    let twice = (0..40).filter_map(|seed| live(seed, true).err());
    assert!(twice.into_iter().any(|why| why.contains("signed twice")));
}

fn vote_for(electors: &Electors, member: u64, height: Height) -> Vote {
    key(member).vote(LEDGER, member, said_for(electors, height, 1))
}

fn certificate_in(found: &[Found]) -> (Height, Hash, Vec<u64>) {
    let [Found::Certificate(certificate)] = found else { panic!("{found:?}") };
    let Said { height, electors, .. } = certificate.said;
    (height, electors, certificate.votes.iter().map(|vote| vote.0).collect())
}

/// Four electors, of whom 4 goes and 5 comes: the first ones say so, by votes that count for the
/// others, too.
#[test]
fn votes_stay_when_electors_change() {
    let (first, mut others) = (electors(4), electors(5));
    others.keys.remove(&4);
    (others.votes, others.liars) = (3, 1);
    let mut tally = Tally::new(first.clone(), None);
    for (electors, member, height) in
        [(&first, 4, 5), (&others, 1, 6), (&others, 4, 6), (&others, 5, 6), (&first, 4, 7)]
    {
        assert!(tally.count(vote_for(electors, member, height)).is_empty());
    }
    assert_eq!(tally.counts_of(5).counted, 0, "it is none yet");
    let found = tally.count(vote_for(&others, 2, 6));
    assert_eq!(certificate_in(&found), (6, others.hash(), vec![1, 2, 4]));
    let next = Electors { above: Some(6), ..others.clone() };
    // With what 5 had signed early that is a certificate of theirs, too, and of no one else's.
    let found = tally.follow(next, None);
    assert_eq!(certificate_in(&found), (6, others.hash(), vec![1, 2, 5]));
    assert_eq!([1, 2, 4, 5].map(|member| tally.counts_of(member).counted), [1, 1, 0, 1]);
    assert!(tally.count(vote_for(&others, 4, 8)).is_empty());
    assert_eq!(tally.counts_of(4).refused, 0);
    // What the first ones have said of a block that was theirs leads nowhere.
    let mut late = Tally::new(Electors { above: Some(6), ..others.clone() }, None);
    for member in [1, 2, 3] {
        assert!(late.count(vote_for(&first, member, 5)).is_empty());
    }
    for (member, is_last) in [(1, false), (2, false), (3, true)] {
        assert_eq!(late.count(vote_for(&others, member, 7)).is_empty(), !is_last);
    }
}

/// A member signs by its old key until the electors have said that it has another one, and by both
/// meanwhile; where others are ahead or behind in that, nothing is held against it.
#[test]
fn a_key_that_changes_counts_from_then_on() {
    let other_key = SecretKey::of_seed([77; 32]);
    let first = Electors { votes: 3, liars: 0, ..electors(3) };
    let mut others = first.clone();
    others.keys.insert(2, other_key.public());
    let mut tally = Tally::new(first.clone(), None);
    tally.expect(others.clone());
    let by_new = |height| other_key.vote(LEDGER, 2, said_for(&others, height, 1));
    let by_old = |height| vote_for(&others, 2, height);
    assert!(tally.count(vote_for(&others, 1, 6)).is_empty());
    assert!(tally.count(by_new(6)).is_empty() && tally.count(by_new(7)).is_empty());
    assert!(tally.count(vote_for(&others, 3, 6)).is_empty());
    let found = tally.count(by_old(6));
    assert_eq!(certificate_in(&found), (6, others.hash(), vec![1, 2, 3]));
    let found = tally.follow(Electors { above: Some(6), ..others.clone() }, None);
    assert_eq!(certificate_in(&found), (6, others.hash(), vec![1, 2, 3]));
    // The old key's votes do not count any more; they are no lies either.
    for member in [1, 3] {
        assert!(tally.count(vote_for(&others, member, 8)).is_empty());
    }
    assert!(tally.count(by_old(8)).is_empty());
    assert_eq!((tally.counts_of(2).refused, tally.counts_of(2).counted), (0, 2));
    let found = tally.count(by_new(8));
    assert_eq!(certificate_in(&found), (8, others.hash(), vec![1, 2, 3]));
    let forged = SecretKey::of_seed([78; 32]).vote(LEDGER, 2, said_for(&others, 9, 1));
    assert!(tally.count(forged).is_empty());
    assert_eq!(tally.counts_of(2).refused, 1);
}

/// What the order has convicted a member of says nothing about its results; it has no say in them.
#[test]
fn votes_of_a_convicted_member_count_no_more() {
    let all = Electors { votes: 3, liars: 1, ..electors(4) };
    let mut tally = Tally::new(all.clone(), None);
    tally.distrust(BTreeSet::from([4]));
    for member in [1, 2, 4] {
        assert!(tally.count(vote_for(&all, member, 6)).is_empty());
    }
    let found = tally.count(vote_for(&all, 3, 6));
    assert_eq!(certificate_in(&found), (6, all.hash(), vec![1, 2, 3]));
    // Others may have counted it: what has enough votes holds.
    let votes = [1, 2, 4].map(|member| (member, vote_for(&all, member, 7).signature));
    let said = said_for(&all, 7, 1);
    let certificate = Certificate { ledger_id: LEDGER, said, votes: votes.to_vec() };
    assert!(!tally.believe(&certificate).unwrap().is_empty());
}
