//! The ABCI application that CometBFT drives and the orderer that a node drives, as one state
//! machine without I/O.
//!
//! ```text
//!  submit ─► outbox ─ next ─► bundle ─► CometBFT's mempool ─► check ─► prepare ─► process
//!                 ▲ it was not taken, or not ordered for long ◄─┘                    │
//!  poll ◄─ deliveries ◄─ finalize ◄───────────────────────────────── a block of 2/3 ─┘
//!  released(n, result hash) ─► the app hash that finalize answers with, when it is known
//! ```
//!
//! There are no threads, clocks or sockets in it: [`crate::Comet`] has those. A *bundle* is one
//! CometBFT transaction with envelopes of one node; a *nudge* is one that only asks for a block.
//!
//! **A delivery's sequence is CometBFT's height.** A CometBFT block with envelopes or a nudge is a
//! ledger block; any other one is delivered without content. The `proposer` of a ledger block holds
//! the validator's address and CometBFT's height, so the ledger alone tells where to go on:
//!
//! ```text
//! proposer  [ address: 20 | 0: 4 | CometBFT's height: 8, big-endian ]
//! ```
//!
//! **The app hash** after ledger block n is the result hash of ledger block n - lag (early on, of
//! the first block), so CometBFT blocks that are no ledger block leave it unchanged.
//! [`App::finalize`] takes a block at once, and answers when that result is known. So with lag 1 a
//! block is executed while the next one is agreed on, and at most `lag` blocks wait to be executed.
//!
//! **The validators** follow the ledger's members, with the same lag: those after ledger block
//! n - lag. The answer to block h determines the validators that sign from block h + 2 on. A member
//! that evidence in a CometBFT block convicts is left out from that block on. After a change of the
//! members a node asks for one more block by a nudge: with the lag, an idle ledger would otherwise
//! never put the change into force.
//!
//! **Restarts.** A block counts as committed once CometBFT says so, one step after it was
//! finalized. [`App::info`] reports the last committed block: CometBFT has kept no answer for a
//! block whose finalization was never answered, and sends it again. Such a block is compared with
//! the one that is known, and not delivered a second time. The ledger may hold its newest block
//! before CometBFT has the answer to it; so a node that starts reports the block before its last.
//!
//! **Invariants.** Sequences of deliveries count up without a gap. Outbox, deliveries and bundles
//! in flight are bounded. What is decided about a block follows from its bytes alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{BufMut, Bytes};
use kit::mutant::mutated;
use ledger::Hash;
use order::{
    Certificate, CertificateKind, Delivery, Filling, Limits, Orderer, Outbox, Proposal, Proposer,
    Refused, Released, Tell,
};
use types::{Error, Height, Result, SqlState};

use crate::bundle::{BUNDLE_BYTES_MAX, Bundle, Kind, Name, OVERHEAD_BYTES};
use crate::validators::{Keys, Update, Validators};

/// Bundles of envelopes of this node that are under way: one is being agreed on while what comes
/// meanwhile gathers.
const UNDER_WAY_MAX: usize = 2;
/// Bytes of a bundle, but one envelope of any size that there is room for.
const BUNDLE_BYTES: usize = 1 << 20;
/// Deliveries that wait to be polled.
const DELIVERIES_MAX: usize = 64;

/// The address of a validator.
pub type Address = [u8; 20];

#[derive(Clone, Debug)]
pub struct Config {
    pub limits: Limits,
    /// Ledger blocks that the app hash is behind.
    pub lag: u64,
    /// Drawn anew at each start.
    pub instance: u64,
    /// A bundle that was not ordered for so long is given up, and its envelopes are sent again.
    pub patience_ms: u64,
}

/// Where a node goes on: after the last block of its ledger.
#[derive(Clone, Debug)]
pub struct Start {
    /// CometBFT's height of it; 0 before the first.
    pub sequence: u64,
    pub height: Height,
    pub time_us: i64,
    /// The block itself, if CometBFT ordered it.
    pub last: Option<Proposal>,
    /// Result hashes of the last blocks: `lag` + 2 of them, or all.
    pub results: BTreeMap<Height, Hash>,
    pub validators: Validators,
}

/// A block that CometBFT has decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub height: u64,
    pub hash: Bytes,
    pub time_us: i64,
    pub proposer: Address,
    pub txs: Vec<Bytes>,
    /// Validators that evidence in it convicts.
    pub convicted: Vec<Address>,
}

/// What a block comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub app_hash: Hash,
    /// Who validates, and who does not any more, from the block after the next one on.
    pub updates: Vec<Update>,
}

/// An answer, if it is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<T> {
    Now(T),
    /// Ask again when more was released, or polled.
    Later,
}

struct UnderWay {
    kind: Kind,
    since_ms: u64,
    /// Those who wait for a marker.
    tells: Vec<Tell>,
}

/// The last block that was finalized.
struct Finalized {
    sequence: u64,
    height: Height,
    time_us: i64,
    /// `None`: before this start.
    hash: Option<Bytes>,
    content: Option<Proposal>,
}

/// See the module.
pub struct App {
    config: Config,
    finalized: Finalized,
    /// Sequence and ledger height of the last block that CometBFT has committed.
    committed: (u64, Height),
    results: BTreeMap<Height, Hash>,
    validators: Validators,
    deliveries: VecDeque<Delivery>,
    carried: usize,
    /// Marked with the bundle that it was sent in.
    outbox: Outbox<u64>,
    under_way: BTreeMap<u64, UnderWay>,
    number: u64,
    nudged: bool,
    tells: Vec<Tell>,
    closed: Option<Error>,
    /// The last proposer.
    proposer: Option<Address>,
    /// Since when envelopes wait and none of them was delivered, by the clock of [`App::next`].
    stalled_ms: Option<u64>,
}

impl App {
    pub fn new(config: Config, start: Start) -> App {
        let Start { sequence, height, time_us, last, results, validators } = start;
        // A change that is not in force yet.
        let nudged = validators.newest() > Some(height.saturating_sub(config.lag));
        let before = if last.is_some() { height - 1 } else { height };
        let finalized = Finalized { sequence, height, time_us, hash: None, content: last };
        App {
            config,
            finalized,
            committed: (sequence.saturating_sub(1), before),
            results,
            validators,
            deliveries: VecDeque::new(),
            carried: 0,
            outbox: Outbox::default(),
            under_way: BTreeMap::new(),
            number: 0,
            nudged,
            tells: Vec::new(),
            closed: None,
            proposer: None,
            stalled_ms: None,
        }
    }

    /// CometBFT's height, and the address of whom its last block is from.
    pub fn standing(&self) -> (u64, Option<Address>) {
        (self.finalized.sequence, self.proposer)
    }

    /// Height and app hash to go on after.
    pub fn info(&self) -> Answer<(u64, Hash)> {
        let (sequence, height) = match mutated("comet_info_ahead") {
            true => (self.finalized.sequence, self.finalized.height),
            false => self.committed,
        };
        match self.hash_behind(height) {
            Some(hash) => Answer::Now((sequence, hash)),
            None => Answer::Later,
        }
    }

    /// The app hash before the first block.
    pub fn first_hash(&self) -> Result<Hash, String> {
        match self.results.get(&0) {
            Some(hash) if self.committed.0 == 0 => Ok(*hash),
            _ => Err(format!(
                "CometBFT begins anew, and the ledger has blocks up to CometBFT's height {}",
                self.finalized.sequence
            )),
        }
    }

    fn hash_behind(&self, height: Height) -> Option<Hash> {
        self.results.get(&height.saturating_sub(self.config.lag)).copied()
    }

    /// Whether this may wait to be ordered.
    pub fn check(&self, tx: &Bytes) -> Result<()> {
        let bundle = Bundle::decode(tx)?;
        let room = self.room_bytes();
        match bundle.envelopes.iter().find(|envelope| envelope.len() > room) {
            Some(envelope) => {
                Err(Refused::TooLarge { bytes: envelope.len(), bytes_max: room }.into())
            }
            None => Ok(()),
        }
    }

    fn room_bytes(&self) -> usize {
        self.config.limits.room_bytes().min(BUNDLE_BYTES_MAX - OVERHEAD_BYTES)
    }

    /// What a block is made of that this node proposes: the first of what waits that fit, whole
    /// bundles only, so that what a node submits stays in order.
    pub fn prepare(&self, txs: &[Bytes], bytes_max: usize) -> Vec<Bytes> {
        let limits = &self.config.limits;
        let mut filling = Filling::beside(self.carried, limits);
        let (mut bytes, mut names, mut taken) = (0, BTreeSet::new(), Vec::new());
        let (mut is_alone, mut is_full) = (self.carried == 0, false);
        for tx in txs {
            let Ok(bundle) = Bundle::decode(tx) else { continue };
            let holds_envelopes = !bundle.envelopes.is_empty();
            // A nudge is for what was deferred, which may leave room for nothing else.
            if is_full && holds_envelopes || !names.insert(bundle.name) {
                continue;
            }
            // Beside each transaction there is its tag and its length.
            let more = bytes + tx.len() + 16;
            let mut filled = filling;
            let fits = bundle.envelopes.iter().all(|it| filled.takes(it.len(), limits));
            if more > bytes_max || !(fits || is_alone || mutated("comet_overfilled")) {
                is_full = true;
                continue;
            }
            is_alone &= !holds_envelopes;
            (bytes, filling) = (more, filled);
            taken.push(tx.clone());
        }
        debug_assert!(bytes <= bytes_max && taken.len() <= names.len(), "each bundle once");
        taken
    }

    /// Whether a block that another node proposes is to be voted for: all of it can be read. How
    /// much it may hold is CometBFT's to bound, alike for all; what fits is the proposer's to say.
    pub fn process(&self, txs: &[Bytes]) -> Result<()> {
        let mut names = BTreeSet::new();
        for tx in txs {
            let bundle = Bundle::decode(tx)?;
            if !names.insert(bundle.name) {
                let what = "a bundle stands twice in a block";
                return Err(Error::new(SqlState::DATA_CORRUPTED, what));
            }
        }
        Ok(())
    }

    /// A block that is decided: its app hash, as soon as that is known. Asked again it is the same
    /// block.
    ///
    /// # Errors
    ///
    /// A block of another chain, or one that does not follow.
    pub fn finalize(&mut self, block: &Block) -> Result<Answer<Outcome>, String> {
        let last = self.finalized.sequence;
        if block.height == last + 1 {
            if self.deliveries.len() >= DELIVERIES_MAX {
                return Ok(Answer::Later);
            }
            self.take(block);
        } else if block.height == last && !mutated("comet_replays_run") {
            self.compare(block)?;
        } else if block.height == last {
            self.take(block);
        } else {
            return Err(format!("CometBFT's block {} follows its block {last}", block.height));
        }
        let outcome = self.hash_behind(self.finalized.height).map(|app_hash| {
            let updates = self.updates();
            Outcome { app_hash, updates }
        });
        Ok(outcome.map_or(Answer::Later, Answer::Now))
    }

    /// Whether blocks from the next one on are signed by this key: what the block before the last
    /// one came to is in force then.
    pub fn validates(&self, key: &[u8; 32]) -> bool {
        self.validators.behind(self.before_last()).contains(key)
    }

    fn executed(&self, height: Height) -> Height {
        height.saturating_sub(self.config.lag)
    }

    /// The block before the last one, and the ledger's block that it goes by.
    fn before_last(&self) -> (u64, Height) {
        let Finalized { sequence, height, content, .. } = &self.finalized;
        let before = height.saturating_sub(u64::from(content.is_some()));
        (sequence.saturating_sub(1), self.executed(before))
    }

    /// What the last block changes about who validates.
    fn updates(&self) -> Vec<Update> {
        let Finalized { sequence, height, .. } = self.finalized;
        self.validators.updates(self.before_last(), (sequence, self.executed(height)))
    }

    /// The ledger names these members from after a block on, of which the result comes next.
    pub fn validate(&mut self, height: Height, keys: Keys) {
        self.nudged |= self.validators.change(height, keys);
    }

    /// CometBFT has kept the answer to the last block.
    pub fn commit(&mut self) {
        let finalized = (self.finalized.sequence, self.finalized.height);
        debug_assert!(self.committed <= finalized, "what was committed stays committed");
        self.committed = finalized;
    }

    fn take(&mut self, block: &Block) {
        self.proposer = Some(block.proposer);
        self.validators.convict(block.height, &block.convicted);
        let (content, names) = content(block);
        let content = content.map(|mut content| {
            if !mutated("comet_time_as_given") {
                content.time_us = content.time_us.max(self.finalized.time_us);
            }
            self.finalized.height += 1;
            self.finalized.time_us = content.time_us;
            content
        });
        self.finalized.sequence = block.height;
        self.finalized.hash = Some(block.hash.clone());
        self.finalized.content = content.clone();
        let height = self.finalized.height;
        for name in names.iter().filter(|name| name.instance == self.config.instance) {
            let ordered = self.under_way.remove(&name.number);
            ordered.into_iter().flat_map(|it| it.tells).for_each(|tell| tell(height));
        }
        self.forget_results();
        let mut evidence = Vec::with_capacity(8 + block.hash.len());
        evidence.put_u64(block.height);
        evidence.put_slice(&block.hash);
        let certificate =
            Certificate { kind: CertificateKind::CometBft, evidence: evidence.into() };
        let sequence = block.height;
        let newest = self.deliveries.back().map(|newest| newest.sequence);
        assert!(newest.is_none_or(|newest| newest < sequence || mutated("comet_replays_run")));
        debug_assert!(self.deliveries.len() <= DELIVERIES_MAX, "deliveries are bounded");
        self.deliveries.push_back(Delivery { sequence, content, certificate });
    }

    /// The block that came last, once more.
    fn compare(&self, block: &Block) -> Result<(), String> {
        let known = &self.finalized;
        let same = match &known.hash {
            Some(hash) => *hash == block.hash,
            None => match (&content(block).0, &known.content) {
                (Some(given), Some(known)) => {
                    given.proposer == known.proposer && given.envelopes == known.envelopes
                }
                (given, known) => given.is_none() && known.is_none(),
            },
        };
        if same {
            return Ok(());
        }
        let (sequence, height) = (known.sequence, known.height);
        Err(format!("CometBFT's block {sequence} is not what block {height} of the ledger holds"))
    }

    /// Those that no app hash is made of any more.
    fn forget_results(&mut self) {
        let needed = self.committed.1.saturating_sub(self.config.lag);
        debug_assert!(self.committed.1 <= self.finalized.height, "committed is finalized");
        self.results.retain(|height, _| *height >= needed);
        self.validators.forget(needed.saturating_sub(1));
    }

    /// The next transaction to send, with its number. `now_ms`: of a clock that does not run back.
    pub fn next(&mut self, now_ms: u64) -> Option<(u64, Bytes)> {
        self.give_up(now_ms);
        self.stalled_ms = match self.outbox.is_empty() {
            true => None,
            false => self.stalled_ms.or(Some(now_ms)),
        };
        let is_under_way = |kind| self.under_way.values().filter(|it| it.kind == kind).count();
        let (kind, tells) = if !self.tells.is_empty() && is_under_way(Kind::Marker) == 0 {
            (Kind::Marker, std::mem::take(&mut self.tells))
        } else if self.nudged && is_under_way(Kind::Nudge) == 0 {
            self.nudged = false;
            (Kind::Nudge, Vec::new())
        } else if is_under_way(Kind::Envelopes) < UNDER_WAY_MAX {
            (Kind::Envelopes, Vec::new())
        } else {
            return None;
        };
        let number = self.number + 1;
        let envelopes = if kind == Kind::Envelopes { self.unsent(number) } else { Vec::new() };
        if kind == Kind::Envelopes && envelopes.is_empty() {
            return None;
        }
        debug_assert!(self.under_way.keys().all(|known| *known < number), "numbers ascend");
        self.number = number;
        self.under_way.insert(number, UnderWay { kind, since_ms: now_ms, tells });
        let name = Name { instance: self.config.instance, number };
        Some((number, Bundle { kind, name, envelopes }.encode()))
    }

    /// As much of what was not sent as a bundle takes.
    fn unsent(&mut self, number: u64) -> Vec<Bytes> {
        let limits = &self.config.limits;
        let (mut filling, mut bytes) = (Filling::default(), 0);
        let taken = self.outbox.take(number, |envelope| {
            let is_first = bytes == 0;
            bytes += envelope.len() + 10;
            (bytes <= BUNDLE_BYTES || is_first) && filling.takes(envelope.len(), limits)
        });
        taken.envelopes.iter().for_each(|envelope| self.outbox.tries(envelope));
        taken.envelopes
    }

    fn give_up(&mut self, now_ms: u64) {
        let late = |it: &UnderWay| now_ms.saturating_sub(it.since_ms) >= self.config.patience_ms;
        let late: Vec<u64> =
            self.under_way.iter().filter(|(_, it)| late(it)).map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.not_taken(number));
    }

    /// What was in this bundle is to be sent again.
    pub fn not_taken(&mut self, number: u64) {
        let Some(lost) = self.under_way.remove(&number) else { return };
        self.tells.extend(lost.tells);
        self.nudged |= lost.kind == Kind::Nudge;
        self.outbox.resend(|sent| *sent == number);
    }

    /// How long envelopes of this node have waited without one being ordered.
    pub fn stalled_for_ms(&self, now_ms: u64) -> u64 {
        self.stalled_ms.map_or(0, |since| now_ms.saturating_sub(since))
    }
}

/// What a block comes to, and the bundles in it. What cannot be read counts for nothing: more than
/// two thirds would have to be liars for that.
fn content(block: &Block) -> (Option<Proposal>, Vec<Name>) {
    let (mut names, mut envelopes, mut is_batch) = (Vec::new(), Vec::new(), false);
    for bundle in block.txs.iter().filter_map(|tx| Bundle::decode(tx).ok()) {
        is_batch |= bundle.kind != Kind::Marker;
        names.push(bundle.name);
        envelopes.extend(bundle.envelopes);
    }
    let proposer = proposer(&block.proposer, block.height);
    let proposal = Proposal { time_us: block.time_us, proposer, seen_height: 0, envelopes };
    (is_batch.then_some(proposal), names)
}

fn proposer(address: &Address, height: u64) -> Proposer {
    let mut proposer = [0; 32];
    proposer[..20].copy_from_slice(address);
    proposer[24..].copy_from_slice(&height.to_be_bytes());
    proposer
}

/// CometBFT's height of a block of the ledger, of what its order header says; 0 of the first.
pub fn height_of(proposer: &Proposer) -> u64 {
    let mut height = [0; 8];
    height.copy_from_slice(&proposer[24..]);
    u64::from_be_bytes(height)
}

impl Orderer for App {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        if let Some(why) = &self.closed {
            return Err(Refused::Closed(why.clone()));
        }
        let (bytes, bytes_max) = (envelope.len(), self.room_bytes());
        if bytes > bytes_max {
            return Err(Refused::TooLarge { bytes, bytes_max });
        }
        self.outbox.admit(envelope, &self.config.limits)
    }

    fn nudge(&mut self) {
        self.nudged = true;
    }

    fn withdraw(&mut self, envelope: &Bytes) -> bool {
        self.outbox.withdraw(envelope)
    }

    fn poll(&mut self, _now_us: i64) -> Option<Delivery> {
        let delivery = self.deliveries.pop_front()?;
        let waited = self.outbox.len();
        self.outbox.delivered(&delivery);
        if self.outbox.len() < waited {
            self.stalled_ms = None;
        }
        Some(delivery)
    }

    /// CometBFT goes on where this was started, and nowhere else.
    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        let next = self.deliveries.front().map_or(self.finalized.sequence + 1, |it| it.sequence);
        if next == after + 1 {
            return Ok(());
        }
        let what = format!("delivery {next} comes next, and not the one behind {after}");
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what))
    }

    fn close(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }

    fn released(&mut self, released: Released) {
        self.results.insert(released.height, released.result_hash);
        self.carried = released.carried;
    }

    fn confirm(&mut self, tell: Tell) -> bool {
        self.tells.push(tell);
        true
    }
}
