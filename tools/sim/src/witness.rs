//! What the ledger says, and whether it may: every block that any node released, in order.
//!
//! The witness is a replica that never stops, has no disk, and is fed from bytes alone. To each
//! block it holds the specification, transaction by transaction in the serial order that the
//! protocol claims, and counts what ran under which name. What it has seen it never forgets, so a
//! block that a node acknowledged and lost, or has otherwise than another node, is found when that
//! node comes up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use concurrency::{Isolation, Outcome};
use engine::transaction::outcome::Reported;
use engine::{Body, Executed, KeyStanding, KeyStatus, Member, Replica, Request};
use ledger::{Batch, BlockResult, Genesis, Hash};
use order::{Submission, View};
use pipeline::{Decided, Decision};
use storage::Store;
use types::{Height, Origin, Position, SqlState};

use crate::language::Calls;
use crate::model::State;
use crate::operation::Call;
use crate::reader::read_tables;
use crate::{Wrong, wrong};

/// Codes of what was not even run, and is not remembered.
const REFUSALS: [SqlState; 6] = [
    SqlState::INVALID_PARAMETER_VALUE,
    SqlState::QUERY_CANCELED,
    SqlState::PROTOCOL_VIOLATION,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
    SqlState::INTERNAL_ERROR,
];

pub fn is_refusal(code: [u8; 5]) -> bool {
    REFUSALS.contains(&SqlState(code))
}

/// A block that was released.
pub struct Seen {
    pub head: Hash,
    pub time_us: i64,
    /// What readers after it see.
    pub state: State,
    /// To a reader.
    shown: bool,
    /// A transaction of the next block precedes one of this.
    reordered: bool,
}

/// What a name came to at a height.
#[derive(Clone, Debug)]
struct Run {
    height: Height,
    place: Origin,
    status: KeyStatus,
    /// The latest of all envelopes that ran under the name.
    expires_us: i64,
}

/// A principal with a key or a sequence.
type Name = (String, Submission);

pub struct Witness {
    replica: Replica,
    seen: Vec<Seen>,
    /// The newest block, and the state before it with what of the newest comes before it.
    newest: Option<(Executed, State)>,
    names: BTreeMap<String, Vec<Run>>,
    /// Where each was ordered, and how it was decided.
    decided: BTreeMap<(Height, u32), (Height, Bytes)>,
    deferred: BTreeMap<(Height, u32), Bytes>,
}

fn place(origin: Origin) -> (Height, u32) {
    (origin.height, origin.index)
}

fn label((principal, submission): &Name) -> String {
    format!("{principal} {submission:?}")
}

fn name_of(envelope: &[u8]) -> Result<(Name, i64), Wrong> {
    let view = View::read(envelope).map_err(|error| wrong("encoding", error))?;
    let submission = match view.submission {
        Submission::Sequence { submitter, sequence } => {
            Submission::Sequence { submitter, sequence }
        }
        Submission::Key(key) => Submission::Key(key.to_owned()),
    };
    Ok(((view.principal.to_owned(), submission), view.expires_us))
}

impl Witness {
    pub fn new(genesis: &Genesis) -> Result<Witness, Wrong> {
        let store = Arc::new(Store::new());
        let replica = Replica::new(genesis, store, Arc::new(Calls::default()), 1)
            .map_err(|halt| wrong("start", halt))?;
        let head = replica.head();
        let first = Seen::new(head.hash, head.time_us, State::default());
        let (names, decided, deferred) = Default::default();
        Ok(Witness { replica, seen: vec![first], newest: None, names, decided, deferred })
    }

    pub fn height(&self) -> Height {
        self.seen.len() as Height - 1
    }

    pub fn at(&self, height: Height) -> Option<&Seen> {
        self.seen.get(height as usize)
    }

    /// A reader is shown the state after a block.
    pub fn show(&mut self, height: Height) -> Result<&Seen, Wrong> {
        let Some(seen) = self.seen.get_mut(height as usize) else {
            return Err(wrong("own past", format!("block {height} is read before it is released")));
        };
        seen.shown = true;
        seen.check_shown(height)?;
        Ok(seen)
    }

    /// Transactions that were ordered and wait for a later block.
    pub fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// A node has released a block, or found it in its ledger.
    pub fn observe(&mut self, batch: &Batch, result: &BlockResult) -> Result<(), Wrong> {
        let height = batch.height();
        if let Some(seen) = self.at(height) {
            return match seen.head == result.hash() {
                true => Ok(()),
                false => Err(wrong("one ledger", format!("block {height} is another"))),
            };
        }
        if height != self.height() + 1 {
            let what = format!("block {height} was released behind block {}", self.height());
            return Err(wrong("one ledger", what));
        }
        self.execute(batch, result)?;
        self.count(batch, result)
    }

    fn execute(&mut self, batch: &Batch, result: &BlockResult) -> Result<(), Wrong> {
        let height = batch.height();
        let requests: Vec<Request> =
            batch.envelopes().iter().cloned().map(Request::of_bytes).collect();
        let state = if self.holds_images(result) {
            let again = self.replica.execute_again(batch, result, requests);
            let again = again.map_err(|halt| wrong("replay", halt))?;
            let digest = again.effects.digest().map_err(|error| wrong("replay", error))?;
            ledger::chain::check_effects(result.header(), &digest)
                .map_err(|fault| wrong("replay", fault))?;
            self.replica.publish();
            self.newest = None;
            read_tables(self.replica.store(), None)?
        } else {
            let executed = self.replica.execute_ordered(batch, requests);
            let executed = executed.map_err(|halt| wrong("replay", halt))?;
            compare(batch, result, &executed)?;
            self.replica.publish();
            let before = self.reorder_blocks(&executed)?;
            let state = replay(&executed, before.clone(), None)?;
            self.newest = Some((executed, before));
            let found = read_tables(self.replica.store(), None)?;
            if found != state {
                let what = format!("block {height} leaves {found:?}, specified is {state:?}");
                return Err(wrong("serial replay", what));
            }
            state
        };
        if height.is_multiple_of(8) {
            self.replica.store().collect();
        }
        let time_us = batch.header().time_us;
        self.seen.push(Seen::new(result.hash(), time_us, state));
        Ok(())
    }

    fn holds_images(&self, result: &BlockResult) -> bool {
        let info = self.replica.protocol().info();
        let has_no_order = info.isolation == Isolation::Snapshot && !info.deterministic;
        has_no_order && result.outcomes().iter().all(|outcome| outcome.first() == Some(&5))
    }

    /// The state before a block, with those of its transactions that precede some of the block
    /// before: the serial order is one sequence across blocks.
    fn reorder_blocks(&mut self, executed: &Executed) -> Result<State, Wrong> {
        let height = self.height();
        let seen = self.seen.last_mut().ok_or_else(|| wrong("start", "no genesis"))?;
        if executed.inter_block_reorderings.is_empty() {
            return Ok(seen.state.clone());
        }
        seen.reordered = true;
        seen.check_shown(height)?;
        match &self.newest {
            Some((newest, before)) => replay(newest, before.clone(), Some(executed)),
            None => Err(wrong("serial replay", "what holds rows was overtaken")),
        }
    }

    /// What ran under which name, and what was decided.
    fn count(&mut self, batch: &Batch, result: &BlockResult) -> Result<(), Wrong> {
        let height = batch.height();
        for carried in result.carried() {
            let origin = Origin { height: carried.height, index: carried.index };
            let envelope = self.deferred.remove(&place(origin));
            let envelope = envelope.ok_or_else(|| {
                wrong("carried over", format!("{origin:?} was decided and did not wait"))
            })?;
            self.decide(height, origin, &envelope, &carried.outcome)?;
        }
        for (index, (envelope, outcome)) in
            (0..).zip(batch.envelopes().iter().zip(result.outcomes()))
        {
            self.decide(height, Origin { height, index }, envelope, outcome)?;
        }
        Ok(())
    }

    fn decide(
        &mut self,
        height: Height,
        origin: Origin,
        envelope: &Bytes,
        outcome: &Bytes,
    ) -> Result<(), Wrong> {
        let reported = Reported::decode(outcome).map_err(|error| wrong("encoding", error))?;
        let (name, expires_us) = name_of(envelope)?;
        let status = match &reported {
            Reported::Committed { .. } => KeyStatus::Committed,
            Reported::Rejected(it) if is_refusal(it.code) => {
                self.decided.insert(place(origin), (height, outcome.clone()));
                return self.check_refusal(SqlState(it.code), expires_us, height);
            }
            Reported::Rejected(it) => KeyStatus::Rejected(it.code),
            Reported::Retry(_) => KeyStatus::Retry,
            Reported::Deferred => {
                self.deferred.insert(place(origin), envelope.clone());
                KeyStatus::Pending
            }
            Reported::Repeat(first) => {
                self.decided.insert(place(origin), (height, outcome.clone()));
                return self.check_repeat(&name, *first);
            }
        };
        if reported != Reported::Deferred
            && self.decided.insert(place(origin), (height, outcome.clone())).is_some()
        {
            return Err(wrong("at most once", format!("{origin:?} was decided twice")));
        }
        self.run(height, origin, &name, status, expires_us)
    }

    fn run(
        &mut self,
        height: Height,
        origin: Origin,
        name: &Name,
        status: KeyStatus,
        expires_us: i64,
    ) -> Result<(), Wrong> {
        let runs = self.names.entry(label(name)).or_default();
        let is_sequence = matches!(name.1, Submission::Sequence { .. });
        let expires_us = runs.last().map_or(expires_us, |last| last.expires_us.max(expires_us));
        if let Some(last) = runs.last()
            && last.place != origin
            && (is_sequence || last.status != KeyStatus::Retry)
        {
            let what = format!("{} ran at {last:?} and at {origin:?}", label(name));
            return Err(wrong("at most once", what));
        }
        runs.push(Run { height, place: origin, status, expires_us });
        Ok(())
    }

    fn check_refusal(&self, code: SqlState, expires_us: i64, height: Height) -> Result<(), Wrong> {
        let time_us = self.at(height).map_or(i64::MAX, |seen| seen.time_us);
        if code == SqlState::QUERY_CANCELED && expires_us >= time_us {
            let what = format!("expiry {expires_us} was refused at {time_us}");
            return Err(wrong("expiry", what));
        }
        Ok(())
    }

    fn check_repeat(&self, name: &Name, first: Origin) -> Result<(), Wrong> {
        let runs = self.names.get(&label(name));
        match runs.is_some_and(|runs| runs.iter().any(|run| run.place == first)) {
            true => Ok(()),
            false => Err(wrong("at most once", format!("nothing ran at {first:?}"))),
        }
    }

    /// What a client is told must be what the ledger says.
    pub fn check_answer(
        &self,
        height: Height,
        origin: Origin,
        outcome: &Outcome,
    ) -> Result<(), Wrong> {
        let Some((decided, recorded)) = self.decided.get(&place(origin)) else {
            let what = format!("{origin:?} was answered and is not in the ledger");
            return Err(wrong("acknowledged", what));
        };
        let reported = Reported::decode(recorded).map_err(|error| wrong("encoding", error))?;
        let agrees = match (&reported, outcome) {
            (Reported::Committed { count }, Outcome::Committed(result)) => *count == result.count,
            (Reported::Rejected(it), Outcome::Rejected(error)) => it.code == error.code().0,
            (Reported::Retry(_), Outcome::Retry(_)) => true,
            (Reported::Repeat(_), Outcome::Rejected(error)) => {
                error.code() == SqlState::DUPLICATE_OBJECT
            }
            _ => false,
        };
        if *decided == height && agrees {
            return Ok(());
        }
        let what = format!("{origin:?}: {reported:?} in block {decided}, answered {outcome:?}");
        Err(wrong("acknowledged", what))
    }

    /// What a node at `height` says of a key must be what the ledger says up to there, as long as
    /// the name could come again.
    pub fn check_standing(
        &self,
        height: Height,
        principal: &str,
        key: &str,
        found: Option<KeyStanding>,
    ) -> Result<(), Wrong> {
        let name = (principal.to_owned(), Submission::Key(key.to_owned()));
        let runs = self.names.get(&label(&name));
        let known =
            runs.and_then(|runs| runs.iter().rev().find(|run| run.height <= height)).cloned();
        let time_us = self.at(height).map_or(i64::MIN, |seen| seen.time_us);
        let agrees = match (&known, found) {
            (None, None) => true,
            (Some(run), None) => run.expires_us < time_us,
            (Some(run), Some(found)) => run.place == found.place && run.status == found.status,
            (None, Some(_)) => false,
        };
        match agrees {
            true => Ok(()),
            false => {
                let what = format!(
                    "{key} behind block {height} at {time_us}: {found:?}, in truth {known:?}"
                );
                Err(wrong("outcome of a key", what))
            }
        }
    }

    /// All keys that were named.
    pub fn keys(&self) -> BTreeSet<(String, String)> {
        let of = |label: &String| {
            let (principal, key) = label.split_once(" Key(\"")?;
            Some((principal.to_owned(), key.trim_end_matches("\")").to_owned()))
        };
        self.names.keys().filter_map(of).collect()
    }
}

impl Seen {
    fn new(head: Hash, time_us: i64, state: State) -> Seen {
        Seen { head, time_us, state, shown: false, reordered: false }
    }

    fn check_shown(&self, height: Height) -> Result<(), Wrong> {
        match self.shown && self.reordered {
            true => Err(wrong("own past", format!("block {height} was shown and is overtaken"))),
            false => Ok(()),
        }
    }
}

/// What a block makes of a state by the specification, each transaction's answer compared: without
/// those that overtake, and with those of the `next` block that overtake into it.
fn replay(this: &Executed, mut state: State, next: Option<&Executed>) -> Result<State, Wrong> {
    let reorders_previous =
        |block: &Executed, position| block.inter_block_reorderings.iter().any(|o| o.0 == position);
    let by_protocol = this.serial_order.len() as Position;
    let tail = by_protocol..this.decided.len() as Position;
    for position in this.serial_order.iter().copied().chain(tail) {
        if reorders_previous(this, position) {
            continue;
        }
        if let Some(next) = next {
            let pass = |t: &&Position| next.inter_block_reorderings.contains(&(**t, position));
            for &reordered in next.serial_order.iter().filter(pass) {
                specify(&mut state, next, reordered)?;
            }
        }
        specify(&mut state, this, position)?;
    }
    Ok(state)
}

fn specify(state: &mut State, block: &Executed, position: Position) -> Result<(), Wrong> {
    let decided = &block.decided[position as usize];
    match &decided.decision {
        Decision::Now(member) if member.verdict.runs() => specify_one(state, decided, member),
        _ => Ok(()),
    }
}

fn compare(batch: &Batch, result: &BlockResult, executed: &Executed) -> Result<(), Wrong> {
    if executed.batch.hash() != batch.hash() {
        let (ours, theirs) = (executed.batch.header(), batch.header());
        return Err(wrong("replay", format!("order {theirs:?}, here {ours:?}")));
    }
    if executed.result.hash() != result.hash() {
        let (ours, theirs) = (&executed.result, result);
        let differing = ours.outcomes().iter().zip(theirs.outcomes());
        let differing = (0..).zip(differing).find(|(_, (a, b))| a != b);
        let effects = (ours.header().effect_count, theirs.header().effect_count);
        let what = format!(
            "block {}: computed again, its first other outcome (index, new, old) is {differing:?}; \
             effects {effects:?}, carried {:?} and {:?}",
            batch.height(),
            ours.carried(),
            theirs.carried()
        );
        return Err(wrong("replay", what));
    }
    Ok(())
}

fn specify_one(state: &mut State, decided: &Decided<Member>, member: &Member) -> Result<(), Wrong> {
    let view = member.request.envelope.view().map_err(|error| wrong("encoding", error))?;
    let request = view.request;
    let body = Body::from_request(request).map_err(|error| wrong("encoding", error))?;
    let specified = match (&body, &decided.outcome) {
        (_, Outcome::Retry(_)) | (Body::Parameter { .. } | Body::Checkpoint { .. }, _) => {
            return Ok(());
        }
        (Body::Schema { text }, _) => state.change(text).map(|()| Vec::new()),
        _ => match Call::of(&body) {
            Some(call) => state.call(&call),
            None => Err(SqlState::UNDEFINED_FUNCTION),
        },
    };
    let agrees = match (&specified, &decided.outcome) {
        (Ok(rows), Outcome::Committed(result)) => {
            rows.len() == result.rows.len()
                && rows.iter().zip(&result.rows).all(|(ours, theirs)| ours[..] == theirs[..])
        }
        (Err(code), Outcome::Rejected(error)) => *code == error.code(),
        _ => false,
    };
    match agrees {
        true => Ok(()),
        false => {
            let what = format!(
                "{:?} {body:?} answered {:?}, specified is {specified:?}",
                decided.origin, decided.outcome
            );
            Err(wrong("serial replay", what))
        }
    }
}
