//! The queue of requests before the orderer, and the rule for when the sequencer cuts a batch.
//!
//! Protocols that run transactions as they arrive cut no batches: see
//! [`epoch_entry`](crate::epoch_entry).
//!
//! *No delay when idle, batching under load.* As soon as the sequencer is free it takes all waiting
//! requests. A lone request therefore becomes a block of its own without waiting for a timer; under
//! load, requests collect while a block is executed and synced, and form the next one. The orderer
//! ([`order::Solo`]) decides what a batch holds. When to cut it is decided here, as that needs a
//! clock.
//!
//! *Slow syncs.* Under this rule the clients split into two groups: one submits requests while the
//! other's block is synced. With a fast sync that keeps the cores busy. With a slow one, each
//! client waits for two syncs. The sequencer then waits for as many requests as there are active
//! clients (those whose results the last block released, and those that were waiting then), most of
//! which return within a round trip. It waits for at most an eighth of the sync time, so that both
//! groups merge into one. SmallBank, 16 clients, two cores, a sync of 0.1 ms: 43,000 transactions
//! per second when it waits for all of them, 60,000 when it does not.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use kit::sync::lock;
use order::{EnvelopeBytes, Limits, Solo};
use replica::transaction::outcome::OUTCOME_BYTES_MAX;
use types::{Error, Height};

use crate::client::{Cut, Ticket, Waiting, request_of};
use crate::open_epoch::EpochEntry;
use crate::remote_orders::RemoteOrders;

/// What a sleep takes at least: a shorter wait is not worth beginning.
const PATIENCE_MIN: Duration = Duration::from_micros(50);

/// Calls that wait for each thread at work before another one is woken for them.
const CROWD: usize = 4;

/// How long a node that stops waits for others to order what it has accepted.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// After which a sequencer that waits for others looks whether it was to stop, and asks for a batch
/// if it needs one.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const _: () = assert!(LOOK_AGAIN.as_millis() < LAST_ANSWERS.as_millis());

#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    pub transactions_max: usize,
    pub bytes_max: usize,
    pub wait_max: Duration,
    /// Requests that may wait; more are refused with 53300.
    pub queued_max: usize,
    /// Where the protocol allows it, a block is prepared beside the one before it, if the shorter
    /// of preparing and finishing what is asked at a time takes so long: below, handing blocks to
    /// other threads costs more than it hides, and two small blocks cost more than a large one.
    pub overlap_min: Duration,
}

impl Default for BlockLimits {
    fn default() -> Self {
        BlockLimits {
            transactions_max: 10_000,
            bytes_max: 16 << 20,
            wait_max: Duration::from_micros(1000),
            queued_max: 100_000,
            overlap_min: Duration::from_micros(200),
        }
    }
}

impl BlockLimits {
    /// What an orderer has to know of them.
    pub fn of_batches(&self) -> Limits {
        let BlockLimits { transactions_max, bytes_max, queued_max, .. } = *self;
        let outcome_bytes_max = OUTCOME_BYTES_MAX + 16;
        let others = Limits::default();
        Limits { transactions_max, bytes_max, queued_max, outcome_bytes_max, ..others }
    }
}

/// What the sequencer does next.
pub(crate) enum Next {
    Batch(Cut),
    /// It was woken for something else.
    Errand,
    /// Closed and drained.
    End,
}

pub(crate) struct State {
    pub solo: Solo<Ticket>,
    /// The sequencer sleeps until this many wait, or have entered.
    pub wanted: usize,
    /// It is wanted for something else than a batch.
    pub errand: bool,
    /// Of a block that is open.
    pub entry: Option<EpochEntry>,
    /// Runners that sleep; those of them that wake up by themselves.
    pub asleep: usize,
    pub looking: usize,
    /// Runners shall end.
    pub ended: bool,
}

pub(crate) struct Queue {
    /// Who orders, if that is not this node alone.
    pub remote: Option<RemoteOrders>,
    closed_at: OnceLock<Instant>,
    wait_max: Duration,
    pub transactions_max: usize,
    state: Mutex<State>,
    pub arrived: Condvar,
    /// For those who run calls in a block that is open.
    pub runners: Condvar,
    /// For the sequencer: no call is in it.
    pub emptied: Condvar,
    /// False as soon as that is so.
    pub at_work: AtomicBool,
    /// Whether there are processors to look for it.
    pub looks: bool,
}

impl Queue {
    pub fn new(
        limits: BlockLimits,
        height: Height,
        time_us: i64,
        remote: Option<RemoteOrders>,
    ) -> Self {
        let BlockLimits { transactions_max, wait_max, .. } = limits;
        let mut solo = Solo::new(limits.of_batches(), [0; 32]);
        solo.resume(0, time_us);
        solo.released(height);
        let state = State {
            solo,
            wanted: 0,
            errand: false,
            entry: None,
            asleep: 0,
            looking: 0,
            ended: false,
        };
        Queue {
            remote,
            closed_at: OnceLock::new(),
            wait_max,
            transactions_max,
            state: Mutex::new(state),
            arrived: Condvar::new(),
            runners: Condvar::new(),
            emptied: Condvar::new(),
            at_work: AtomicBool::new(false),
            looks: std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
        }
    }

    /// `in_time`: looks at the envelope once more when nothing can come between it and the queue.
    pub fn push(
        &self,
        mut ticket: Ticket,
        in_time: impl FnOnce(EnvelopeBytes) -> Result<EnvelopeBytes, Error>,
    ) -> Result<(), Error> {
        if let Some(remote) = &self.remote {
            ticket.envelope = in_time(ticket.envelope)?;
            return Ok(remote.push(ticket)?);
        }
        let mut state = self.lock();
        ticket.envelope = in_time(ticket.envelope)?;
        state.solo.submit(ticket.envelope.bytes().clone(), ticket)?;
        let wake = state.wanted > 0 && state.gathered() == state.wanted;
        let wake_runner = state.wakes_runner();
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        if wake_runner {
            self.runners.notify_one();
        }
        Ok(())
    }

    /// Takes back what is in no batch yet, and in no block that is open. False: it is, or was
    /// answered.
    pub fn revoke(&self, number: u64) -> bool {
        self.lock().solo.withdraw(|ticket| ticket.number == number).is_some()
    }

    /// Refuse everything from now on. What waits is still taken.
    pub fn close(&self, why: Error) {
        if let Some(remote) = &self.remote {
            remote.close(why.clone());
            let _ = self.closed_at.set(Instant::now());
        }
        let mut state = self.lock();
        if state.solo.closed().is_none() {
            state.solo.close(why);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.lock().solo.waiting()
    }

    /// A block was published: later batches have seen it.
    pub fn released(&self, height: Height) {
        self.lock().solo.released(height);
    }

    /// Wakes the sequencer for something else than a batch.
    pub fn errand(&self) {
        self.lock().errand = true;
        self.arrived.notify_one();
    }

    /// The next batch, which holds `carried` transactions of earlier blocks beside its own, and is
    /// cut for their sake if nothing else waits. `expected` is how many clients there were when the
    /// last block released its own, after a sync that took `sync`. `halves`: what waits makes two
    /// batches.
    pub fn next(
        &self,
        clock: &dyn Fn() -> i64,
        carried: usize,
        expected: usize,
        sync: Duration,
        halves: bool,
    ) -> Next {
        let mut state = self.lock();
        while state.solo.waiting() == 0 && carried == 0 {
            if std::mem::take(&mut state.errand) {
                return Next::Errand;
            }
            if state.solo.closed().is_some() {
                return Next::End;
            }
            state.wanted = 1;
            state = self.arrived.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        if let Some(patience) = self.patience(sync) {
            let deadline = Instant::now() + patience;
            state = self.gather(state, expected.min(self.transactions_max), deadline);
        }
        state.wanted = 0;
        drop(state);
        self.cut(clock, carried, halves.then_some(0))
    }

    /// While blocks of `under_way` requests are under way: the next batch, when `enough` wait for
    /// it, if it may be cut at all. It takes half of all these, so that two batches become equal.
    /// Whatever else the sequencer is woken for ends the wait.
    pub fn next_while_running(
        &self,
        clock: &dyn Fn() -> i64,
        carried: usize,
        enough: Option<usize>,
        under_way: usize,
    ) -> Next {
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.errand) {
                return Next::Errand;
            }
            if enough.is_some_and(|enough| state.solo.waiting() >= enough) {
                break;
            }
            state.wanted = enough.unwrap_or(0);
            state = self.arrived.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state.wanted = 0;
        drop(state);
        self.cut(clock, carried, Some(under_way))
    }

    /// The next batch that others have ordered, if it `may` be taken now. `carried`: transactions
    /// that wait for one; if none comes, one is asked for. Whatever else the sequencer is woken for
    /// ends the wait.
    pub fn delivered(
        &self,
        remote: &RemoteOrders,
        clock: &dyn Fn() -> i64,
        carried: usize,
        may: bool,
        ends: bool,
    ) -> Next {
        loop {
            let mut state = self.lock();
            let woken = std::mem::take(&mut state.errand);
            drop(state);
            remote.answer_given_up();
            // Others order on: what no client here waits for is for the next start.
            let all_answered = || carried == 0 && remote.waiting() == 0;
            let ended = |at: &Instant| all_answered() || at.elapsed() >= LAST_ANSWERS;
            if ends && self.closed_at.get().is_some_and(ended) {
                return Next::End;
            }
            if let Some(cut) = may.then(|| remote.next(clock())).flatten() {
                return Next::Batch(cut);
            }
            if woken {
                return Next::Errand;
            }
            let state = self.lock();
            let waited = self.arrived.wait_timeout_while(state, LOOK_AGAIN, |it| !it.errand);
            let timed_out = waited.is_ok_and(|(_, timeout)| timeout.timed_out());
            if timed_out && may && carried > 0 {
                remote.nudge();
            }
        }
    }

    /// `half_of`: half of so many and what waits, instead of all.
    fn cut(&self, clock: &dyn Fn() -> i64, carried: usize, half_of: Option<usize>) -> Next {
        // Not under the lock, where a slow clock would hold up the clients.
        let now_us = clock();
        let mut state = self.lock();
        let half = |under_way: usize| (under_way + state.solo.waiting()).div_ceil(2);
        let most = half_of.map_or(usize::MAX, half);
        let batch = state.solo.cut_at_most(now_us, carried, most);
        let left = state.solo.waiting();
        drop(state);
        match batch {
            Some((proposal, tickets)) => Next::Batch(joined(proposal, tickets, left)),
            None => Next::Errand,
        }
    }

    /// Takes all that waits, to refuse it.
    pub fn drain(&self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        while let Some((_, tickets)) = self.lock().solo.cut(i64::MIN) {
            waiting.extend(tickets.into_iter().map(|ticket| ticket.waiting));
        }
        waiting
    }

    /// How long a sync is worth waiting for more; `None`: not at all.
    pub(crate) fn patience(&self, sync: Duration) -> Option<Duration> {
        let patience = (sync / 8).min(self.wait_max);
        (patience >= PATIENCE_MIN).then_some(patience)
    }

    pub(crate) fn gather<'q>(
        &self,
        mut state: MutexGuard<'q, State>,
        expected: usize,
        deadline: Instant,
    ) -> MutexGuard<'q, State> {
        while state.gathered() < expected && state.solo.closed().is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.wanted = expected;
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        state
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Whether a runner that sleeps should look.
    pub(crate) fn wakes_runner(&self) -> bool {
        let Some(entry) = &self.entry else { return false };
        let waiting = self.solo.waiting();
        let wanted = match (entry.quota, entry.busy) {
            (Some(0), busy) => busy > 0 && self.looking == 0,
            (_, 0) => true,
            (_, busy) => self.looking == 0 || waiting > CROWD * busy,
        };
        waiting > 0 && self.asleep > 0 && wanted
    }

    /// Calls that wait, and those that have entered.
    pub(crate) fn gathered(&self) -> usize {
        self.solo.waiting() + self.entry.as_ref().map_or(0, EpochEntry::count)
    }
}

fn joined(proposal: order::Proposal, tickets: Vec<Ticket>, left: usize) -> Cut {
    let order::Proposal { time_us, proposer, seen_height, envelopes } = proposal;
    assert_eq!(envelopes.len(), tickets.len(), "each client finds its envelope");
    let requests = tickets.into_iter().map(request_of).collect();
    Cut { time_us, proposer, seen_height, requests, left }
}

#[cfg(test)]
mod tests {
    use pipeline::Barrier;
    use tokio::sync::oneshot;
    use types::SqlState;

    use super::*;

    fn queue(limits: BlockLimits) -> Queue {
        Queue::new(limits, 0, 0, None)
    }

    fn push(queue: &Queue, bytes: usize) -> Result<(), Error> {
        let (reply, _) = oneshot::channel();
        let waiting = Waiting { arrived: Instant::now(), reply };
        let envelope = EnvelopeBytes::read(vec![0; bytes].into());
        let (number, barrier) = (bytes as u64, Barrier::None);
        queue.push(Ticket { number, envelope, compiled: None, barrier, waiting }, Ok)
    }

    fn size(next: Next) -> Option<usize> {
        match next {
            Next::Batch(cut) => Some(cut.requests.len()),
            Next::Errand | Next::End => None,
        }
    }

    fn next(queue: &Queue, expected: usize, sync: Duration) -> Option<usize> {
        size(queue.next(&|| 1, 0, expected, sync, false))
    }

    #[test]
    fn only_a_slow_sync_is_worth_waiting_for_more() {
        let limits = BlockLimits { wait_max: Duration::from_secs(60), ..BlockLimits::default() };
        let queue = queue(limits);
        push(&queue, 1).unwrap();
        let quick = Duration::from_micros(100);
        assert_eq!(next(&queue, 9, quick), Some(1));

        let slow = Duration::from_secs(480);
        push(&queue, 1).unwrap();
        std::thread::scope(|threads| {
            let block = threads.spawn(|| next(&queue, 3, slow).unwrap());
            push(&queue, 1).unwrap();
            push(&queue, 1).unwrap();
            assert_eq!(block.join().unwrap(), 3);
        });

        push(&queue, 1).unwrap();
        let some = Duration::from_millis(80);
        assert_eq!(next(&queue, 9, some), Some(1), "patience ends");
    }

    #[test]
    fn a_batch_is_cut_for_what_is_carried_over_even_if_nothing_waits() {
        let queue = queue(BlockLimits::default());
        assert_eq!(size(queue.next(&|| 1, 2, 0, Duration::ZERO, false)), Some(0));
        queue.errand();
        assert!(matches!(queue.next(&|| 1, 0, 0, Duration::ZERO, false), Next::Errand));
    }

    #[test]
    fn beside_a_block_a_batch_is_cut_when_enough_wait() {
        let queue = queue(BlockLimits::default());
        queue.released(7);
        push(&queue, 1).unwrap();
        queue.errand();
        assert!(
            matches!(queue.next_while_running(&|| 1, 0, Some(1), 0), Next::Errand),
            "what happened first"
        );
        std::thread::scope(|threads| {
            let next = threads.spawn(|| queue.next_while_running(&|| 1, 0, Some(2), 2));
            push(&queue, 1).unwrap();
            let Next::Batch(cut) = next.join().unwrap() else { panic!("no batch") };
            assert_eq!((cut.requests.len(), cut.seen_height), (2, 7));
        });
        (0..5).for_each(|_| push(&queue, 1).unwrap());
        let next = queue.next(&|| 1, 0, 0, Duration::ZERO, true);
        assert_eq!(size(next), Some(3), "half of what waits, where blocks overlap");
        std::thread::scope(|threads| {
            let next = threads.spawn(|| queue.next_while_running(&|| 1, 0, None, 2));
            queue.errand();
            assert!(matches!(next.join().unwrap(), Next::Errand), "it may not be cut");
        });
    }

    #[test]
    fn what_waits_can_be_withdrawn_until_it_is_cut() {
        let queue = queue(BlockLimits::default());
        (1..=3).for_each(|bytes| push(&queue, bytes).unwrap());
        assert!(queue.revoke(2) && !queue.revoke(2));
        assert_eq!(queue.waiting(), 2);
        assert_eq!(next(&queue, 0, Duration::ZERO), Some(2));
        assert!(!queue.revoke(1) && !queue.revoke(3));
    }

    #[test]
    fn a_closed_queue_is_drained_and_then_ends() {
        let queue = queue(BlockLimits::default());
        push(&queue, 1).unwrap();
        queue.close(Error::new(SqlState::ADMIN_SHUTDOWN, "stopping"));
        assert!(push(&queue, 1).is_err());
        assert_eq!(next(&queue, 5, Duration::ZERO), Some(1));
        assert!(matches!(queue.next(&|| 1, 0, 5, Duration::ZERO, false), Next::End));
    }
}
