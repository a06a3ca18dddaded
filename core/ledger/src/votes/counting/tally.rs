//! The tally: counts the members' votes until enough of them certify a result.
//!
//! ```text
//! a vote ─► of an elector? ─► signature, height ─► counted ─► enough for one result: a certificate
//!             └─ of a future one: a few kept             └─► most differ from here: a divergence
//! this node's results ─► compared with what is certified, at once or when they are computed
//! ```
//!
//! Memory is bounded whatever the members send: the tally keeps the newest votes of each member,
//! the newest results of this node, and a limited number of certified results that this node has
//! not computed yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kit::mutant::mutated;
use types::{Error, Height, SqlState};

use crate::hash::to_hex;
use crate::votes::{Said, Vote, holds};
use crate::{Certificate, Electors, Hash};

/// Votes that are kept of a member, the newest.
pub const VOTES_MAX: usize = 256;

/// Results of this node that are kept, the newest.
const RESULTS_MAX: usize = 1 << 16;

/// Votes that are kept of a member whose key is none of an elector's, the newest, and of how many
/// members.
const EARLY_MAX: usize = 16;
const EARLY_MEMBERS_MAX: usize = 64;

/// Certified results of blocks that this node has not executed.
const AWAITED_MAX: usize = 4096;

pub struct Tally {
    electors: Electors,
    electors_hash: Hash,
    /// Who voted before, and who will, as far as the ledger says so here.
    before: Option<Electors>,
    next: Option<Electors>,
    /// Votes of those that may become electors.
    early: BTreeMap<u64, VecDeque<Vote>>,
    /// This node's, without gaps, from `first` on.
    results: VecDeque<Hash>,
    first: Height,
    members: BTreeMap<u64, Member>,
    certified: Option<Said>,
    awaited: BTreeSet<(Height, Hash)>,
    /// Members whose votes count for nothing, as what they sign contradicts itself.
    distrusted: BTreeSet<u64>,
}

#[derive(Default)]
struct Member {
    votes: BTreeMap<Height, Vote>,
    newest: Option<Said>,
    counts: Counts,
    deviates: Option<Height>,
}

/// What a member has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub counted: u64,
    /// Votes whose signature is not its own.
    pub refused: u64,
    /// Votes for another result than it had signed for the same block.
    pub contradicting: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    Certificate(Certificate),
    Divergence(Divergence),
}

/// This node has come to another result than others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    pub height: Height,
    pub here: Hash,
    pub there: Hash,
    /// Those who signed the other one.
    pub members: Vec<u64>,
    pub certified: bool,
}

impl Tally {
    /// `certified`: what was certified last, as it was kept.
    pub fn new(electors: Electors, certified: Option<Said>) -> Tally {
        let members = electors.keys.keys().map(|id| (*id, Member::default())).collect();
        Tally {
            electors_hash: electors.hash(),
            electors,
            before: None,
            next: None,
            early: BTreeMap::new(),
            results: VecDeque::new(),
            first: 0,
            members,
            certified,
            awaited: BTreeSet::new(),
            distrusted: BTreeSet::new(),
        }
    }

    /// Votes of these members count no more in what is certified here.
    pub fn distrust(&mut self, members: BTreeSet<u64>) {
        self.distrusted = members;
    }

    /// Who will vote, when the electors have said so.
    pub fn expect(&mut self, next: Electors) {
        self.next = Some(next);
    }

    /// Others vote from now on, on what is above `certified`. What members have signed that go on
    /// stays, and what others have signed early is counted.
    pub fn follow(&mut self, electors: Electors, certified: Option<Said>) -> Vec<Found> {
        self.certified = certified;
        let mut members = std::mem::take(&mut self.members);
        let goes_on = |(id, key): (&u64, &Hash)| {
            let member = members.remove(id).filter(|_| self.electors.keys.get(id) == Some(key));
            (*id, member.unwrap_or_default())
        };
        self.members = electors.keys.iter().map(goes_on).collect();
        self.electors_hash = electors.hash();
        self.before = Some(std::mem::replace(&mut self.electors, electors));
        let early = std::mem::take(&mut self.early).into_values().flatten();
        let mut found: Vec<Found> = early.flat_map(|vote| self.count(vote)).collect();
        let votes = self.members.values().flat_map(|member| member.votes.values());
        let theirs = votes.filter(|vote| vote.said.electors == self.electors_hash);
        let heights: BTreeSet<Height> = theirs.map(|vote| vote.said.height).collect();
        for height in heights {
            if self.certified.is_none_or(|last| last.height < height) {
                found.extend(self.judge(height));
            }
        }
        found
    }

    /// What was certified last.
    pub fn certified(&self) -> Option<Said> {
        self.certified
    }

    /// What a member signed last.
    pub fn newest_of(&self, member: u64) -> Option<Said> {
        self.members.get(&member)?.newest
    }

    pub fn counts_of(&self, member: u64) -> Counts {
        self.members.get(&member).map(|member| member.counts).unwrap_or_default()
    }

    /// The block of its newest vote, if that is for another result than this node's.
    pub fn deviates(&self, member: u64) -> Option<Height> {
        self.members.get(&member)?.deviates
    }

    /// This node has executed a block, which follows the last one.
    pub fn executed(&mut self, said: Said) -> Vec<Found> {
        if self.results.is_empty() || self.first + self.results.len() as u64 != said.height {
            self.results.clear();
            self.first = said.height;
        }
        self.results.push_back(said.result_hash);
        if self.results.len() > RESULTS_MAX {
            self.results.pop_front();
            self.first += 1;
        }
        let mut found = self.judge(said.height);
        let above = self.awaited.split_off(&(said.height + 1, Hash::default()));
        for (height, there) in std::mem::replace(&mut self.awaited, above) {
            if height == said.height && there != said.result_hash {
                found.push(self.divergence(said, there, true));
            }
        }
        found
    }

    /// A vote that came from its member, or this node's own.
    pub fn count(&mut self, vote: Vote) -> Vec<Found> {
        let Some(&key) = self.electors.keys.get(&vote.member) else {
            self.keep_early(vote);
            return Vec::new();
        };
        let (ledger_id, is_by) = (self.electors.ledger_id, is_by(&vote, &key));
        if self.next.as_ref().is_some_and(is_by) {
            self.keep_early(vote);
            return Vec::new();
        }
        let Some(member) = self.members.get_mut(&vote.member) else { return Vec::new() };
        let Said { height, .. } = vote.said;
        let known = member.votes.get(&height).map(|known| known.said);
        if known == Some(vote.said) {
            return Vec::new();
        }
        // Votes ascend: an older one that is not known was passed over, or is a lie.
        if known.is_none() && member.newest.is_some_and(|newest| newest.height >= height) {
            return Vec::new();
        }
        if !holds(&vote, ledger_id, &key) && !mutated("votes_unchecked") {
            // By the key that it had is no lie.
            let by_old_key = self.before.as_ref().is_some_and(is_by);
            member.counts.refused += u64::from(!by_old_key);
            return Vec::new();
        }
        if known.is_some() {
            member.counts.contradicting += 1;
            if !mutated("votes_taken_back") {
                return Vec::new();
            }
        }
        member.counts.counted += 1;
        member.newest = Some(vote.said);
        member.votes.insert(height, vote);
        if member.votes.len() > VOTES_MAX {
            member.votes.pop_first();
        }
        self.compare(vote);
        self.judge(height)
    }

    /// It may become an elector, or the elector's key that of this vote.
    fn keep_early(&mut self, vote: Vote) {
        if self.early.len() >= EARLY_MEMBERS_MAX && !self.early.contains_key(&vote.member) {
            return;
        }
        let votes = self.early.entry(vote.member).or_default();
        votes.push_back(vote);
        if votes.len() > EARLY_MAX {
            votes.pop_front();
        }
    }

    /// A certificate that another member keeps, which may be older than the last. Whether it holds
    /// is checked here.
    pub fn believe(&mut self, certificate: &Certificate) -> Result<Vec<Found>, Error> {
        certificate.verify(&self.electors)?;
        let said = certificate.said;
        if self.certified.is_none_or(|last| last.height < said.height) {
            self.certified = Some(said);
        }
        let mut found = vec![Found::Certificate(certificate.clone())];
        found.extend(self.hold_against(said));
        Ok(found)
    }

    fn result_of(&self, height: Height) -> Option<Hash> {
        let place = height.checked_sub(self.first)?;
        self.results.get(usize::try_from(place).ok()?).copied()
    }

    /// Whether a member's newest vote is for this node's result.
    fn compare(&mut self, vote: Vote) {
        let Said { height, result_hash, .. } = vote.said;
        let here = self.result_of(height);
        if let (Some(here), Some(member)) = (here, self.members.get_mut(&vote.member)) {
            member.deviates = (here != result_hash).then_some(height);
        }
    }

    /// What the votes for one block come to.
    fn judge(&mut self, height: Height) -> Vec<Found> {
        let trusted = self.members.iter().filter(|(id, _)| !self.distrusted.contains(id));
        let votes = trusted.filter_map(|(_, member)| member.votes.get(&height));
        let votes: Vec<Vote> = votes.copied().collect();
        if self.result_of(height).is_some() {
            votes.iter().for_each(|vote| self.compare_newest(vote));
        }
        let mut by_result: BTreeMap<(Hash, Hash), Vec<&Vote>> = BTreeMap::new();
        for vote in &votes {
            let Said { result_hash, electors, .. } =
                if mutated("votes_of_all_counted") { votes[0].said } else { vote.said };
            by_result.entry((result_hash, electors)).or_default().push(vote);
        }
        let is_above = self.certified.is_none_or(|last| last.height < height);
        // What those before have said of their blocks does not lead back to them.
        let counts = |electors: &Hash| {
            *electors == self.electors_hash
                || self.electors.above.is_none_or(|above| above < height)
        };
        let enough = by_result
            .iter()
            .find(|((_, electors), votes)| votes.len() >= self.electors.votes && counts(electors));
        if let Some(((result_hash, electors), votes)) = enough.filter(|_| is_above) {
            let said = Said { height, result_hash: *result_hash, electors: *electors };
            let mut votes: Vec<_> = votes.iter().map(|it| (it.member, it.signature)).collect();
            votes.sort_unstable_by_key(|vote| vote.0);
            let ledger_id = self.electors.ledger_id;
            self.certified = Some(said);
            let certificate = Found::Certificate(Certificate { ledger_id, said, votes });
            return std::iter::once(certificate).chain(self.hold_against(said)).collect();
        }
        let Some(here) = self.result_of(height) else { return Vec::new() };
        let majority = self.electors.majority();
        let other =
            by_result.iter().find(|((there, _), votes)| *there != here && votes.len() >= majority);
        let other = other.map(|((there, _), _)| *there);
        let said = Said { height, result_hash: here, electors: self.electors_hash };
        other.map(|there| self.divergence(said, there, false)).into_iter().collect()
    }

    fn compare_newest(&mut self, vote: &Vote) {
        let newest = self.newest_of(vote.member);
        if newest.is_some_and(|newest| newest.height == vote.said.height) {
            self.compare(*vote);
        }
    }

    /// This node's result, or what it will be, against a certified one.
    fn hold_against(&mut self, certified: Said) -> Option<Found> {
        let Said { height, result_hash: there, .. } = certified;
        match self.result_of(height) {
            Some(here) if here == there => None,
            Some(here) => {
                Some(self.divergence(Said { result_hash: here, ..certified }, there, true))
            }
            // Before what this run has executed: it will show above.
            None if !self.results.is_empty() && height < self.first => None,
            None => {
                self.awaited.insert((height, there));
                if self.awaited.len() > AWAITED_MAX {
                    self.awaited.pop_first();
                }
                None
            }
        }
    }

    fn divergence(&self, here: Said, there: Hash, certified: bool) -> Found {
        let signed = |(id, member): (&u64, &Member)| {
            let vote = member.votes.get(&here.height)?;
            (vote.said.result_hash == there).then_some(*id)
        };
        Found::Divergence(Divergence {
            height: here.height,
            here: here.result_hash,
            there,
            members: self.members.iter().filter_map(signed).collect(),
            certified,
        })
    }
}

/// Whether a vote is by the key that some electors name for its member, where that is another one
/// than `key`.
fn is_by(vote: &Vote, key: &Hash) -> impl Fn(&Electors) -> bool + Copy {
    let (vote, key) = (*vote, *key);
    move |electors| {
        let other = electors.keys.get(&vote.member).filter(|other| **other != key);
        other.is_some_and(|other| holds(&vote, electors.ledger_id, other))
    }
}

impl Divergence {
    /// Why this node stops, and what to do.
    pub fn cause(&self) -> Error {
        let Divergence { height, here, there, members, certified } = self;
        let (here, there) = (to_hex(here), to_hex(there));
        let members: Vec<String> = members.iter().map(u64::to_string).collect();
        let who = match (certified, members.join(", ")) {
            (true, _) => "is certified".to_owned(),
            (false, members) => format!("was signed by members {members}"),
        };
        let what =
            format!("this node has come to another result of block {height} than the others");
        Error::new(SqlState::DATA_CORRUPTED, what)
            .with_detail(format!("Here it is {here}, and {there} {who}."))
            .with_hint(
                "Memory, files or program of this node are not as the others'. Stop it, and see \
                 what `tally verify` says of its folder; then `tally cluster rejoin` has it take \
                 the ledger anew.",
            )
    }
}
