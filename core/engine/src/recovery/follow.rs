//! The blocks after a replica's head become its state.
//!
//! ```text
//!   thread "ahead"      read ─ check ─ compile │ read ─ check ─ compile │ …      (ahead)
//!   this thread, pool        execute by the protocol │ execute │ …
//!   thread "compare"                     outcomes, effects root │ …              (compare)
//! ```
//!
//! With one worker all of it is done in turns. Where a block need not be executed, it is gathered
//! into a [`part`](super::part) with its neighbours.
//!
//! # Cost
//!
//! Transactions a second with one worker, the load of the checkpoint taken off, under calvin; the
//! engine alone executes and seals the same blocks without a disk (`recovery`'s example
//! `startup_cost`, once each; a share of two cores):
//!
//! ```text
//!                     SmallBank, 150 × 1,000    YCSB, 50 × 500    TPC-C, 20 × 500
//! engine alone               285,000                 71,000            14,100
//! protocol                   286,000                 91,000            14,100
//! pacman                     227,000                 90,000            22,300
//! serial                     264,000                 80,000            22,300
//! rows, logical              392,000                112,000            18,900
//! rows, physical             521,000                105,000            20,600
//! ```
//!
//! The protocol is never behind its own rate, as sealing is spared. PACMAN saves what calvin's
//! locks cost where transactions are long, and loses where they are short; under most protocols the
//! ledger does not hold the order that it needs. The protocol alone tells outcomes again, so it is
//! the default, and the others are choices.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use kit::sync::lock;
use ledger::chain::ChainVerifier;
use ledger::{Batch, BlockReader, Record, TornTail};
use replica::Halt;
use replica::limits::{Limits, RAFT};

use types::Height;

use crate::client::{Replica, Request};
use crate::stopped::Stopped;
use crate::watchdog::panic_text;

use super::ahead::{Done, Item, Source};
use super::compare::{Comparer, Pair, compare_all};
use super::part::{PROGRAMS_MAX, Part, Refusal, ReplayMethod, programs};
use super::{Fault, Progress, Recovery, ReplayBy, ReplayCounts};

/// Blocks after which versions that no snapshot needs are freed.
const BLOCKS_PER_COLLECTION: Height = 8;

/// Blocks that are read ahead.
const AHEAD_MAX: usize = 8;

/// What following a ledger came to.
#[derive(Default)]
pub(super) struct Followed {
    pub torn_tail: Option<TornTail>,
    /// Orders that others have to confirm.
    pub unconfirmed: u64,
    pub stopped: Option<Stopped>,
    pub progress: Progress,
    pub counts: ReplayCounts,
    /// Results that the ledger did not hold: those of its last orders.
    pub unrecorded: Vec<Record>,
    /// What did not go as it was meant to, for people.
    pub notes: Vec<String>,
}

/// Who sees the replica after each block, or after several.
pub(super) type After<'a> = &'a mut dyn FnMut(&Replica, Progress);

/// Apply the ledger's blocks after a replica's head, up to its end. The replica, the chain and the
/// reader stand after the same block. `at_once`: each block is compared before `after` hears of
/// it.
pub(super) fn follow(
    replica: &mut Replica,
    chain: &mut ChainVerifier,
    reader: &mut BlockReader,
    recovery: &Recovery,
    at_once: bool,
    after: After<'_>,
) -> Result<Followed, Fault> {
    let reached = Done { height: replica.head().height.into(), ..Done::default() };
    let language = replica.language().clone();
    let watchdog = recovery.watchdog.as_deref();
    let mut source = Source::new(reader, chain, language, &reached).watched(watchdog);
    if let Some(folders) = &recovery.rows {
        source = source.with_rows(folders);
    }
    source.others_confirm = Limits::orderer(replica.parameters()) == Some(RAFT);
    let fault = Mutex::new(None);
    let workers = replica.pool().workers();
    let (comparer, compared) = match workers > 1 && !at_once {
        true => {
            let (comparer, compared) = Comparer::behind(&fault);
            (comparer, Some(compared))
        }
        false => (Comparer::AtOnce, None),
    };
    let follower = Follower {
        replica,
        recovery,
        comparer,
        reached: &reached,
        after,
        part: None,
        programs: BTreeSet::new(),
        done: Followed::default(),
    };
    let result = std::thread::scope(|scope| {
        if let Some(compared) = compared {
            scope.spawn(|| compare_all(compared, &fault));
        }
        // Both threads end when the other end of their channels is gone.
        if workers == 1 {
            return follower.follow(&mut || source.next());
        }
        let (to, from) = sync_channel(AHEAD_MAX);
        let source = &mut source;
        scope.spawn(move || source.run(&to));
        follower.follow(&mut move || from.recv().ok().transpose())
    });
    if let Some(fault) = lock(&fault).take() {
        return Err(fault);
    }
    let mut followed = result?;
    let height = replica.head().height;
    replica.check_root().map_err(|halt| Fault::Unusable(height, halt.0))?;
    followed.torn_tail = source.torn.take();
    followed.unconfirmed = source.unconfirmed;
    followed.stopped = source.stopped.take();
    if let Some(why) = source.rows_end.take() {
        followed.notes.insert(0, why);
    }
    Ok(followed)
}

struct Follower<'a> {
    replica: &'a mut Replica,
    recovery: &'a Recovery,
    comparer: Comparer<'a>,
    reached: &'a Done,
    after: After<'a>,
    /// Blocks that wait for more of their kind.
    part: Option<(ReplayMethod, Part)>,
    /// Of the part, by address.
    programs: BTreeSet<usize>,
    done: Followed,
}

impl Follower<'_> {
    fn follow(
        mut self,
        next: &mut dyn FnMut() -> Result<Option<Item>, Fault>,
    ) -> Result<Followed, Fault> {
        self.retain();
        while let Some(mut item) = next()? {
            let method = self.method(&mut item);
            if self.part.as_ref().map(|(method, _)| *method) != method {
                self.end_part()?;
            }
            let Some(method) = method else {
                self.execute(item)?;
                continue;
            };
            let (_, part) = self.part.get_or_insert_with(|| (method, Part::default()));
            part.push(item);
            if part.is_full() {
                self.end_part()?;
            }
        }
        self.end_part()?;
        Ok(self.done)
    }

    /// The block at the head, if it is wanted.
    fn retain(&self) {
        let head = self.replica.head();
        if self.recovery.retain.contains(&head) {
            self.replica.store().retain(head.height);
        }
    }

    /// How a block gets by without its protocol, if it does.
    fn method(&mut self, item: &mut Item) -> Option<ReplayMethod> {
        let protocol = Arc::clone(self.replica.protocol());
        // A part is one step for the store: the states within it cannot be read.
        let reads_the_past = protocol.history() > 1;
        let deferring = self.replica.has_deferred() || reads_the_past;
        let result = item.result.as_ref().filter(|result| result.carried().is_empty())?;
        let defers = result.header().carried_root != ledger::ZERO_HASH;
        let is_careful = self.recovery.watchdog.as_ref().is_some_and(|dog| dog.is_careful());
        if item.stops || deferring || defers || is_careful {
            return None;
        }
        let refused = self.reached.refused_rows.load(Ordering::Acquire);
        if let (Some(rows), Some(_), false) = (&self.recovery.rows, &item.frames, refused) {
            return Some(ReplayMethod::Rows(rows.scheme));
        }
        let method = match self.recovery.replay {
            ReplayBy::Protocol => return None,
            ReplayBy::Pacman => ReplayMethod::Pieces,
            ReplayBy::Serial => ReplayMethod::Serial,
        };
        if !protocol.keeps_block_order() {
            let name = protocol.info().name;
            let why = format!(
                "the ledger does not hold the serial order of \"{name}\", which therefore replays \
                 its own blocks"
            );
            self.note_once(why);
            return None;
        }
        // Reading ahead may have been ahead of the schema.
        self.replica.compile_requests(&mut item.requests);
        programs(item, &mut self.programs);
        if self.programs.len() > PROGRAMS_MAX {
            // The block goes by its protocol and ends the part, if there is one.
            self.programs.clear();
            return None;
        }
        Some(method)
    }

    fn note_once(&mut self, why: String) {
        if !self.done.notes.contains(&why) {
            self.done.notes.push(why);
        }
    }

    /// A panic or a halt is told, and kept for the next start.
    fn execute(&mut self, item: Item) -> Result<(), Fault> {
        let (height, hash) = (item.batch.height(), item.batch.hash());
        let running = self.recovery.watchdog.as_ref().map(|dog| dog.begin(height, hash));
        if let Some(dog) = &self.recovery.watchdog {
            dog.fault(&item.batch);
        }
        let executed = catch_unwind(AssertUnwindSafe(|| self.execute_unguarded(item)));
        let panicked =
            |panic: Box<dyn Any + Send>| Err(Fault::Halt(height, Halt(panic_text(&*panic))));
        let executed = executed.unwrap_or_else(panicked);
        if let (Some(running), Err(Fault::Halt(_, Halt(why)))) = (running, &executed) {
            running.died(why);
        }
        executed
    }

    fn execute_unguarded(&mut self, item: Item) -> Result<(), Fault> {
        let Item { batch, result, bytes, requests, skipped_by, .. } = item;
        let is_skipped = skipped_by.is_some_and(|by| self.replica.may_skip(&by));
        let height = batch.height();
        let halt = |halt| Fault::Halt(height, halt);
        let transactions = batch.envelopes().len() as u64;
        match result {
            Some(result) => {
                let again = match is_skipped {
                    true => self.replica.skip_again(&batch, &result, requests),
                    false => self.replica.execute_again(&batch, &result, requests),
                };
                let mut again = again.map_err(halt)?;
                self.replica.publish();
                if again.rooting.reads_state() {
                    again.rooting.pin = Some(self.replica.store().snapshot());
                }
                self.comparer.take(Pair { batch, result, again })?;
            }
            None => {
                // Sealing takes the state tree after the blocks before.
                self.comparer.wait()?;
                self.execute_ordered(&batch, requests, is_skipped).map_err(halt)?;
            }
        }
        self.retain();
        self.reached.height.store(height, Ordering::Release);
        if height.is_multiple_of(BLOCKS_PER_COLLECTION) {
            self.replica.store().collect();
        }
        self.done.counts.executed += 1;
        self.count(1, transactions, bytes);
        Ok(())
    }

    /// A crash has left its order alone, so its result is what this gives.
    fn execute_ordered(
        &mut self,
        batch: &Batch,
        requests: Vec<Request>,
        is_skipped: bool,
    ) -> Result<(), Halt> {
        let executed = match is_skipped {
            true => self.replica.skip_ordered(batch, requests)?,
            false => self.replica.execute_ordered(batch, requests)?,
        };
        if executed.batch.header() != batch.header() {
            let (ours, theirs) = (executed.batch.header(), batch.header());
            return Err(Halt(format!("its order is {theirs:?}, here it would be {ours:?}")));
        }
        self.done.unrecorded.push(executed.result.encode()?);
        self.replica.publish();
        Ok(())
    }

    fn count(&mut self, blocks: u64, transactions: u64, bytes: u64) {
        let progress = &mut self.done.progress;
        progress.blocks += blocks;
        progress.transactions += transactions;
        progress.bytes += bytes;
        (self.after)(self.replica, *progress);
    }

    fn end_part(&mut self) -> Result<(), Fault> {
        self.programs.clear();
        let Some((method, mut part)) = self.part.take() else {
            return Ok(());
        };
        let height = self.replica.head().height;
        let first = part.items.first().map(|item| (item.batch.height(), item.batch.hash()));
        let dog = self.recovery.watchdog.as_ref();
        let running = dog.zip(first).map(|(dog, (height, hash))| dog.begin_part(height, hash));
        let applied = part.apply(method, self.replica);
        drop(running);
        match applied {
            Ok(()) => self.part_done(method, &part),
            Err(Refusal::Untouched(why)) => {
                self.reached.refused_rows.store(true, Ordering::Release);
                self.note_once(format!("the row logs are not the ledger's: {why}"));
                part.items.into_iter().try_for_each(|item| self.execute(item))?;
            }
            Err(Refusal::Spoilt(why)) => return Err(Fault::Unusable(height, why)),
        }
        Ok(())
    }

    fn part_done(&mut self, method: ReplayMethod, part: &Part) {
        let blocks = part.items.len() as u64;
        let transactions = part.items.iter().map(|item| item.batch.envelopes().len() as u64).sum();
        let bytes = part.items.iter().map(|item| item.bytes).sum();
        let counts = &mut self.done.counts;
        match method {
            ReplayMethod::Rows(_) => counts.by_rows += blocks,
            ReplayMethod::Pieces => counts.by_pieces += blocks,
            ReplayMethod::Serial => counts.serially += blocks,
        }
        self.reached.height.store(self.replica.head().height, Ordering::Release);
        self.retain();
        self.replica.store().collect();
        self.count(blocks, transactions, bytes);
    }
}
