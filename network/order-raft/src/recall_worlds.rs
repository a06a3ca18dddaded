//! Small worlds of a cluster, in which members crash, lose their data, and are put back from old
//! copies, in every order and by chance: what was acknowledged is in the log of each later leader.
//!
//! The members are a Raft of a few lines, with messages that may be late; what they ask and are
//! told, and which lead they answer, is decided by [`judge`] and [`Incarnations`]. Each rule that
//! is left out must cost something ([`Without`]).

mod orders;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use openraft::{CommittedLeaderId, LogId, Vote};

use crate::incarnations::{Incarnation, Incarnations};
use crate::recall::{Doubt, Recalled, judge, newer_incarnation};

/// Term and node.
type Ballot = (u64, u64);

/// The lead that wrote it, all that Raft compares beside its place; and what tells it from another
/// one of that lead.
type Entry = (Ballot, u64);

/// Mutants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Without {
    Nothing,
    /// A member answers a lead that counts for an incarnation which is over.
    Refusals,
    /// A campaign learns of newer incarnations, and goes on with what it has counted.
    FixedIncarnations,
    /// One witness fewer is enough.
    AWitness,
    /// A member in doubt is a witness.
    DoubtOfWitnesses,
    /// It votes for any candidate.
    TheLeast,
    /// It adopts no vote.
    Votes,
    /// A leader counts itself for what it has not synced.
    OwnSync,
    /// A leader that crashed goes on in its term.
    AnotherTerm,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Kept {
    vote: Ballot,
    log: Vec<Entry>,
    incarnation: Incarnation,
    incarnations: Incarnations,
    least: Option<(Ballot, u64)>,
    doubt: Option<Loss>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Loss {
    Lost,
    Copied,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Member {
    kept: Kept,
    lead: Option<Lead>,
    /// Entries at the end of the log that a crash takes.
    unsynced: usize,
    heard: BTreeMap<u64, Kept>,
    copy: Option<Box<Kept>>,
}

/// Or a campaign for one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Lead {
    ballot: Ballot,
    counted: Incarnations,
    voters: BTreeSet<u64>,
    is_elected: bool,
    has: BTreeMap<u64, usize>,
}

/// On its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Message {
    Vote { to: u64, ballot: Ballot, counted: Incarnations, last: Option<(Ballot, u64)> },
    Append { to: u64, ballot: Ballot, counted: Incarnations, log: Vec<Entry> },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Act {
    Campaign(u64),
    Solicit(u64, u64),
    Write(u64),
    Sync(u64),
    Send(u64, u64),
    Deliver(usize),
    Crash(u64),
    Copy(u64),
    PutBack(u64),
    /// With the log of another member, or an empty one.
    Lose(u64, Option<u64>),
    Ask(u64, u64),
    Recover(u64),
}

/// How much of each there may be yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Left {
    campaigns: u8,
    /// Members that stand, and that ask when they are in doubt.
    active: &'static [u64],
    entries: u8,
    losses: u8,
    copies: u8,
    crashes: u8,
    /// Messages; 0: each arrives at once.
    under_way: usize,
    /// Members that may be in doubt at once, or lack something.
    together: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    members: BTreeMap<u64, Rc<Member>>,
    messages: Vec<Message>,
    /// Entries that a majority has acknowledged, each with its place.
    acknowledged: BTreeSet<(Entry, usize)>,
    /// Logs of leaders when they were elected.
    elected: BTreeMap<Ballot, Vec<Entry>>,
    left: Left,
    salts: u64,
}

fn last_of(log: &[Entry]) -> Option<(Ballot, u64)> {
    log.last().map(|(ballot, _)| (*ballot, log.len() as u64 - 1))
}

/// As Raft does, which compares leads and places.
fn take(log: &mut Vec<Entry>, sent: &[Entry]) {
    let same = ballots(log).zip(ballots(sent)).take_while(|(a, b)| a == b).count();
    if same < sent.len() {
        log.truncate(same);
        log.extend_from_slice(&sent[same..]);
    }
}

fn ballots(log: &[Entry]) -> impl Iterator<Item = Ballot> {
    log.iter().map(|(ballot, _)| *ballot)
}

fn id_of((ballot, index): (Ballot, u64)) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(ballot.0, ballot.1), index)
}

impl World {
    /// All have begun, and know of one another.
    fn new(size: u64, left: Left) -> World {
        let incarnation = |member| Incarnation { number: 0, salt: member };
        let member = |id: u64| {
            let others = (1..=size).filter(|other| *other != id);
            let incarnations =
                Incarnations(others.map(|other| (other, incarnation(other))).collect());
            let kept = Kept { incarnation: incarnation(id), incarnations, ..Kept::default() };
            (id, Rc::new(Member { kept, ..Member::default() }))
        };
        World {
            members: (1..=size).map(member).collect(),
            messages: Vec::new(),
            acknowledged: BTreeSet::new(),
            elected: BTreeMap::new(),
            left,
            salts: size,
        }
    }

    fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    fn of(&mut self, id: u64) -> &mut Member {
        Rc::make_mut(self.members.get_mut(&id).unwrap())
    }

    fn is_shaky(member: &Member) -> bool {
        let Kept { doubt, log, least, .. } = &member.kept;
        doubt.is_some() || last_of(log) < *least
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        let ids = || self.members.keys().copied();
        let shaky = self.members.values().filter(|it| World::is_shaky(it)).count();
        let may_lose = self.left.losses > 0;
        for (id, member) in &self.members {
            let (id, Member { kept, lead, unsynced, heard, copy }) = (*id, &**member);
            let others = || ids().filter(move |other| *other != id);
            let more = usize::from(!World::is_shaky(member));
            let may_lose = may_lose && shaky + more <= self.left.together;
            if may_lose {
                acts.push(Act::Lose(id, None));
                acts.extend(others().map(|other| Act::Lose(id, Some(other))));
                acts.extend(copy.as_ref().map(|_| Act::PutBack(id)));
            }
            if kept.doubt.is_some() && !self.left.active.contains(&id) {
                continue;
            }
            if kept.doubt.is_some() {
                acts.extend(
                    others().filter(|it| !heard.contains_key(it)).map(|it| Act::Ask(id, it)),
                );
                if 2 * heard.len() + 2 >= self.members.len() {
                    acts.push(Act::Recover(id));
                }
                continue;
            }
            if self.left.copies > 0 {
                acts.push(Act::Copy(id));
            }
            if self.left.crashes > 0 && (lead.is_some() || *unsynced > 0) {
                acts.push(Act::Crash(id));
            }
            if *unsynced > 0 {
                acts.push(Act::Sync(id));
            }
            match lead {
                Some(lead) if lead.is_elected => {
                    if self.left.entries > 0 {
                        acts.push(Act::Write(id));
                    }
                    let has = |it: &u64| lead.has.get(it) == Some(&kept.log.len());
                    acts.extend(others().filter(|it| !has(it)).map(|it| Act::Send(id, it)));
                }
                Some(lead) => acts.extend(
                    others().filter(|it| !lead.voters.contains(it)).map(|it| Act::Solicit(id, it)),
                ),
                None => {}
            }
            let stands = self.left.active.contains(&id);
            if self.left.campaigns > 0 && stands && last_of(&kept.log) >= kept.least {
                acts.push(Act::Campaign(id));
            }
        }
        if self.messages.len() >= self.left.under_way.max(1) {
            acts.retain(|act| !matches!(act, Act::Solicit(..) | Act::Send(..)));
        }
        acts.extend((0..self.messages.len()).map(Act::Deliver));
        acts
    }

    /// Fails where what was acknowledged is lost.
    fn step(&mut self, act: Act, without: Without) -> Result<(), String> {
        match act {
            Act::Campaign(id) => {
                self.left.campaigns -= 1;
                let size = self.members.len();
                let member = self.of(id);
                member.unsynced = 0;
                let ballot = (member.kept.vote.0 + 1, id);
                member.kept.vote = ballot;
                let counted = member.kept.incarnations.with(id, member.kept.incarnation);
                let voters = BTreeSet::from([id]);
                let has = BTreeMap::new();
                member.lead = Some(Lead { ballot, counted, voters, is_elected: false, has });
                return if size == 1 { self.elect(id) } else { Ok(()) };
            }
            Act::Solicit(id, to) => {
                let Member { kept, lead, .. } = &*self.members[&id];
                let Lead { ballot, counted, .. } = lead.clone().unwrap();
                self.messages.push(Message::Vote { to, ballot, counted, last: last_of(&kept.log) });
                return self.sent(without);
            }
            Act::Write(id) => self.write(id, without),
            Act::Sync(id) => return self.sync(id),
            Act::Send(id, to) => {
                let Member { kept, lead, .. } = &*self.members[&id];
                let Lead { ballot, counted, .. } = lead.clone().unwrap();
                let log = kept.log.clone();
                self.messages.push(Message::Append { to, ballot, counted, log });
                return self.sent(without);
            }
            Act::Deliver(place) => return self.deliver(place, without),
            Act::Crash(id) => self.crash(id, without),
            Act::Copy(id) => {
                self.left.copies -= 1;
                let member = self.of(id);
                member.copy = Some(Box::new(member.kept.clone()));
            }
            Act::PutBack(id) => {
                let incarnation = self.begins_incarnation();
                let member = self.of(id);
                let copy = (**member.copy.as_ref().unwrap()).clone();
                let incarnation =
                    Incarnation { number: copy.incarnation.number + 1, ..incarnation };
                let doubt = Some(Loss::Copied);
                let kept = Kept { incarnation, doubt, ..copy };
                *member = Member { kept, copy: member.copy.clone(), ..Member::default() };
            }
            Act::Lose(id, from) => {
                let log = from.map(|from| self.members[&from].kept.log.clone());
                let incarnation = Incarnation { number: 1, ..self.begins_incarnation() };
                let (log, doubt) = (log.unwrap_or_default(), Some(Loss::Lost));
                let kept = Kept { log, incarnation, doubt, ..Kept::default() };
                let copy = self.of(id).copy.clone();
                *self.of(id) = Member { kept, copy, ..Member::default() };
            }
            Act::Ask(id, other) => self.ask(id, other),
            Act::Recover(id) => self.recover(id, without),
        }
        Ok(())
    }

    fn write(&mut self, id: u64, without: Without) {
        self.left.entries -= 1;
        self.salts += 1;
        let salt = self.salts;
        let member = self.of(id);
        let lead = member.lead.as_mut().unwrap();
        member.kept.log.push((lead.ballot, salt));
        member.unsynced += 1;
        if without == Without::OwnSync {
            lead.has.insert(id, member.kept.log.len());
        }
    }

    fn sync(&mut self, id: u64) -> Result<(), String> {
        let member = self.of(id);
        member.unsynced = 0;
        let Some(lead) = member.lead.as_mut().filter(|lead| lead.is_elected) else {
            return Ok(());
        };
        lead.has.insert(id, member.kept.log.len());
        let ballot = lead.ballot;
        self.advance(ballot)
    }

    fn crash(&mut self, id: u64, without: Without) {
        self.left.crashes -= 1;
        let member = self.of(id);
        let left = member.kept.log.len() - std::mem::take(&mut member.unsynced);
        member.kept.log.truncate(left);
        let mut lead = member.lead.take().filter(|lead| lead.is_elected);
        if let Some(lead) = &mut lead {
            lead.has = BTreeMap::from([(id, left)]);
            lead.counted = member.kept.incarnations.with(id, member.kept.incarnation);
        }
        let goes_on = without == Without::AnotherTerm;
        member.lead = lead.filter(|lead| goes_on && lead.ballot == member.kept.vote);
    }

    fn sent(&mut self, without: Without) -> Result<(), String> {
        if self.left.under_way == 0 { self.deliver(0, without) } else { Ok(()) }
    }

    fn begins_incarnation(&mut self) -> Incarnation {
        self.left.losses -= 1;
        self.salts += 1;
        Incarnation { number: 0, salt: self.salts }
    }

    fn deliver(&mut self, place: usize, without: Without) -> Result<(), String> {
        let message = self.messages.remove(place);
        let (Message::Vote { to, ballot, counted, .. }
        | Message::Append { to, ballot, counted, .. }) = &message;
        let (to, ballot) = (*to, *ballot);
        let member = self.of(to);
        if member.kept.doubt.is_some() {
            return Ok(());
        }
        let known = member.kept.incarnations.with(to, member.kept.incarnation);
        let is_allowed = counted.of(to) == Some(member.kept.incarnation)
            && member.kept.incarnations.allow(counted);
        if !is_allowed && without != Without::Refusals {
            let sender = self.of(ballot.1);
            if sender.kept.doubt.is_none() {
                let mut known = known;
                known.0.remove(&ballot.1);
                sender.kept.incarnations.learn(&known);
                if without == Without::FixedIncarnations
                    && let Some(lead) = &mut sender.lead
                {
                    lead.counted.learn(&known);
                }
            }
            return Ok(());
        }
        let mut others = counted.clone();
        others.0.remove(&to);
        member.kept.incarnations.learn(&others);
        let kept = &mut member.kept;
        match message {
            Message::Vote { last, .. } => {
                let has_least = last >= kept.least || without == Without::TheLeast;
                if ballot < kept.vote || last < last_of(&kept.log) || !has_least {
                    return Ok(());
                }
                kept.vote = ballot;
                if member.lead.as_ref().is_some_and(|lead| lead.ballot < ballot) {
                    member.lead = None;
                }
                let majority = self.majority();
                let Some(lead) = self.lead(ballot) else { return Ok(()) };
                lead.voters.insert(to);
                if lead.is_elected || lead.voters.len() < majority {
                    return Ok(());
                }
                self.elect(ballot.1)
            }
            Message::Append { log, .. } => {
                if ballot < kept.vote {
                    return Ok(());
                }
                kept.vote = ballot;
                if member.lead.as_ref().is_some_and(|lead| lead.ballot < ballot) {
                    member.lead = None;
                }
                member.unsynced = 0;
                take(&mut member.kept.log, &log);
                let Some(lead) = self.lead(ballot) else { return Ok(()) };
                let has = lead.has.entry(to).or_default();
                *has = log.len().max(*has);
                self.advance(ballot)
            }
        }
    }

    /// What a majority has by now is acknowledged.
    fn advance(&mut self, ballot: Ballot) -> Result<(), String> {
        let majority = self.majority();
        let member = &self.members[&ballot.1];
        let Some(lead) = &member.lead else { return Ok(()) };
        let log = &member.kept.log;
        let all = |end: usize| lead.has.values().filter(|has| **has >= end).count() >= majority;
        let end = (1..=log.len()).rev().find(|end| all(*end)).unwrap_or(0);
        // Of its own, and what comes before.
        match log[..end].last() {
            Some((of, _)) if *of == ballot => {
                let log = log[..end].to_vec();
                self.acknowledge(ballot, &log)
            }
            _ => Ok(()),
        }
    }

    /// The campaign or lead that a message is of, where that goes on.
    fn lead(&mut self, ballot: Ballot) -> Option<&mut Lead> {
        self.of(ballot.1).lead.as_mut().filter(|lead| lead.ballot == ballot)
    }

    fn elect(&mut self, id: u64) -> Result<(), String> {
        let member = self.of(id);
        let log = member.kept.log.clone();
        let lead = member.lead.as_mut().unwrap();
        lead.is_elected = true;
        lead.has.insert(id, log.len());
        let ballot = lead.ballot;
        let lost =
            |(entry, index): &&(Entry, usize)| entry.0 < ballot && log.get(*index) != Some(entry);
        if let Some(lost) = self.acknowledged.iter().find(lost) {
            return Err(format!("{ballot:?} is elected without {lost:?}"));
        }
        self.elected.insert(ballot, log);
        Ok(())
    }

    fn acknowledge(&mut self, ballot: Ballot, log: &[Entry]) -> Result<(), String> {
        for (index, entry) in log.iter().enumerate() {
            let lacks = |(later, of): &(&Ballot, &Vec<Entry>)| {
                **later > ballot && of.get(index) != Some(entry)
            };
            if let Some((later, _)) = self.elected.iter().find(lacks) {
                return Err(format!("{entry:?} is acknowledged, and {later:?} leads without it"));
            }
            self.acknowledged.insert((*entry, index));
        }
        Ok(())
    }

    fn ask(&mut self, id: u64, other: u64) {
        let (incarnation, size) = (self.members[&id].kept.incarnation, self.members.len() as u64);
        let asked = self.of(other);
        asked.unsynced = 0;
        asked.kept.incarnations.learn(&Incarnations::default().with(id, incarnation));
        let answer = asked.kept.clone();
        let member = self.of(id);
        member.heard.insert(other, answer);
        let heard = recalled_of(&member.heard, size);
        if let Some(number) = newer_incarnation(id, &recalled(&member.kept, size), &heard) {
            member.kept.incarnation.number = number;
            member.heard.clear();
        }
    }

    fn recover(&mut self, id: u64, without: Without) {
        let all: BTreeSet<u64> = self.members.keys().copied().collect();
        let Member { kept, heard, .. } = &*self.members[&id];
        let size = all.len() as u64;
        let mut heard = recalled_of(heard, size);
        if without == Without::DoubtOfWitnesses {
            heard.values_mut().for_each(|it| it.doubt = None);
        }
        let own = recalled(kept, size);
        if without == Without::AWitness {
            // One that has nothing joins in.
            let made_up = all.iter().find(|it| **it != id && !heard.contains_key(it)).copied();
            let incarnations = Incarnations::default().with(id, own.incarnation);
            let voters = own.voters.clone();
            let incarnation =
                made_up.map_or(own.incarnation, |it| self.members[&it].kept.incarnation);
            let empty = Recalled { incarnations, voters, incarnation, ..Recalled::default() };
            heard.extend(made_up.map(|made_up| (made_up, empty)));
        }
        let Ok(recovered) = judge(id, &own, &heard, &all) else { return };
        let member = self.of(id);
        let place = |id: LogId<u64>| ((id.leader_id.term, id.leader_id.node_id), id.index);
        let ballot = |vote: Vote<u64>| (vote.leader_id.term, vote.leader_id.node_id);
        let vote = recovered.vote.filter(|_| without != Without::Votes);
        member.kept.vote = vote.map_or(member.kept.vote, ballot);
        member.kept.least = recovered.least.map(place).max(member.kept.least);
        member.kept.incarnations.learn(&recovered.incarnations);
        member.kept.incarnations.0.remove(&id);
        member.kept.doubt = None;
        member.heard.clear();
    }
}

fn recalled(kept: &Kept, size: u64) -> Recalled {
    let lacks = last_of(&kept.log) < kept.least;
    let doubt = kept.doubt.map(|loss| match loss {
        Loss::Lost => Doubt::Lost,
        Loss::Copied => Doubt::Copied,
    });
    Recalled {
        vote: (kept.vote != (0, 0)).then(|| Vote::new(kept.vote.0, kept.vote.1)),
        last: last_of(&kept.log).map(id_of),
        least: kept.least.map(id_of),
        doubt: if lacks { Some(Doubt::Lost) } else { doubt },
        voters: vec![(1..=size).collect()],
        incarnation: kept.incarnation,
        incarnations: kept.incarnations.clone(),
        ..Recalled::default()
    }
}

fn recalled_of(heard: &BTreeMap<u64, Kept>, size: u64) -> BTreeMap<u64, Recalled> {
    heard.iter().map(|(member, kept)| (*member, recalled(kept, size))).collect()
}
