//! Requests on their way into blocks, and the rule that cuts blocks.
//!
//! *Idle means at once, load means batches.* The sequencer takes whatever waits the moment it is
//! free, so a lone request is a block of its own and meets no timer; while a block is executed and
//! synced, requests gather and make the next one.
//!
//! So clients fall into two halves, one on its way while the other is being synced. Where a sync is
//! quick that keeps the cores busy. Where it is slow, everybody waits for two of them: the
//! sequencer then waits for as many requests as it released, most of which will be back within a
//! round trip, for an eighth of the sync at most. SmallBank, 16 clients, two cores, a sync of
//! 0.1 ms: waiting for everybody brings 43,000 per second, not waiting 60,000.
//!
//! What a protocol puts off goes back to the front and needs no room: it stands first in the next
//! block, ahead of whatever its session or any other may have sent since.
//!
//! A request that must be alone (a schema change) ends the block before it and makes its own. A
//! block always fits the ledger's bound: whatever its transactions come to, with the longest
//! outcomes that they can have; what would not fit alone is refused at the door.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use concurrency::Outcome;
use ledger::block::BLOCK_BYTES_MAX;
use tokio::sync::oneshot;
use types::{Error, Height, SqlState};

use crate::replica::Compiled;
use crate::transaction::OUTCOME_BYTES_MAX;

/// What a sleep takes at least: a shorter wait is not worth beginning.
const PATIENCE_MIN: Duration = Duration::from_micros(50);

/// A transaction that waits for its block.
pub struct Request {
    pub payload: Bytes,
    pub compiled: Option<Compiled>,
    pub alone: bool,
    pub arrived: Instant,
    /// How often a protocol has put it off.
    pub deferrals: u32,
    pub reply: oneshot::Sender<Result<Completion, Error>>,
}

/// Where a transaction stands in the ledger, and how it ended. Sent only when its block is durable.
#[derive(Clone, Debug)]
pub struct Completion {
    pub height: Height,
    /// Index in the block: with the height, the transaction's address for receipts.
    pub index: u32,
    pub outcome: Outcome,
}

/// A block's bound less its header.
const BLOCK_WEIGHT_MAX: usize = BLOCK_BYTES_MAX - (1 << 20);

/// What a transaction may add to a block: its bytes, its outcome's, and their lengths.
fn weight(payload: &[u8]) -> usize {
    payload.len() + OUTCOME_BYTES_MAX + 8
}

/// What a block of these transactions may hold beside them. Each is framed once more where it
/// stands beside something.
pub(crate) fn room_beside(payloads: &[Bytes]) -> usize {
    let weights = payloads.iter().map(|payload| weight(payload) + 16);
    BLOCK_WEIGHT_MAX.saturating_sub(weights.sum())
}

#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    pub transactions_max: usize,
    pub bytes_max: usize,
    pub wait_max: Duration,
    /// Requests that may wait; more are refused with 53300.
    pub queued_max: usize,
}

impl Default for BlockLimits {
    fn default() -> Self {
        BlockLimits {
            transactions_max: 10_000,
            bytes_max: 16 << 20,
            wait_max: Duration::from_micros(1000),
            queued_max: 100_000,
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    closed: Option<Error>,
    /// The sequencer sleeps until this many wait.
    wanted: usize,
}

pub struct Queue {
    limits: BlockLimits,
    state: Mutex<State>,
    arrived: Condvar,
}

impl Queue {
    pub fn new(limits: BlockLimits) -> Self {
        Queue { limits, state: Mutex::default(), arrived: Condvar::new() }
    }

    pub fn push(&self, request: Request) -> Result<(), Error> {
        if weight(&request.payload) > BLOCK_WEIGHT_MAX {
            let bytes = request.payload.len();
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "the transaction is too large",
            )
            .with_detail(format!("It has {bytes} bytes; a block holds {BLOCK_BYTES_MAX}."))
            .with_hint("Split it into several transactions."));
        }
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        if state.waiting.len() >= self.limits.queued_max {
            return Err(Error::new(
                SqlState::TOO_MANY_CONNECTIONS,
                "too many transactions are waiting",
            )
            .with_hint("Try again, or lower the number of concurrent clients."));
        }
        state.waiting.push_back(request);
        let wake = state.waiting.len() == state.wanted;
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Requests of the last block that stand first in the next one, in this order. They are taken
    /// even when nothing new is: they were accepted once.
    pub fn put_back(&self, requests: Vec<Request>) {
        let mut state = self.lock();
        for request in requests.into_iter().rev() {
            state.waiting.push_front(request);
        }
    }

    /// Refuse everything from now on. What waits is still taken.
    pub fn close(&self, why: Error) {
        let mut state = self.lock();
        state.closed.get_or_insert(why);
        drop(state);
        self.arrived.notify_one();
    }

    /// The next block's requests, in order of arrival; `None` when closed and drained. `expected`
    /// is how many clients the last block released, after a sync that took `sync`.
    pub fn cut(&self, expected: usize, sync: Duration) -> Option<Vec<Request>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed.is_some() {
                return None;
            }
            state.wanted = 1;
            state = self.arrived.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        let patience = (sync / 8).min(self.limits.wait_max);
        if patience >= PATIENCE_MIN {
            let deadline = Instant::now() + patience;
            state = self.gather(state, expected.min(self.limits.transactions_max), deadline);
        }
        state.wanted = 0;
        Some(take(&mut state.waiting, &self.limits))
    }

    fn gather<'q>(
        &self,
        mut state: MutexGuard<'q, State>,
        expected: usize,
        deadline: Instant,
    ) -> MutexGuard<'q, State> {
        while state.waiting.len() < expected && state.closed.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.wanted = expected;
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn take(waiting: &mut VecDeque<Request>, limits: &BlockLimits) -> Vec<Request> {
    let (mut bytes, mut weights) = (0, 0);
    let mut count = 0;
    for request in waiting.iter() {
        bytes += request.payload.len();
        weights += weight(&request.payload);
        let too_large = bytes > limits.bytes_max || weights > BLOCK_WEIGHT_MAX;
        let full = count == limits.transactions_max || too_large;
        if count > 0 && (request.alone || full) {
            break;
        }
        count += 1;
        if request.alone {
            break;
        }
    }
    waiting.drain(..count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: usize, alone: bool) -> Request {
        let (reply, _) = oneshot::channel();
        Request {
            payload: vec![0; bytes].into(),
            compiled: None,
            alone,
            arrived: Instant::now(),
            deferrals: 0,
            reply,
        }
    }

    fn sizes(queue: &Queue, count: usize) -> Vec<usize> {
        (0..count).map(|_| queue.cut(0, Duration::ZERO).unwrap().len()).collect()
    }

    #[test]
    fn a_schema_change_has_a_block_of_its_own() {
        let queue = Queue::new(BlockLimits::default());
        for alone in [false, false, true, false, true, true] {
            queue.push(request(10, alone)).unwrap();
        }
        assert_eq!(sizes(&queue, 5), [2, 1, 1, 1, 1]);
    }

    #[test]
    fn blocks_are_bounded_in_transactions_and_bytes_but_take_one_of_any_size() {
        let limits = BlockLimits { transactions_max: 3, bytes_max: 100, ..BlockLimits::default() };
        let queue = Queue::new(limits);
        for bytes in [1, 1, 1, 1, 60, 60, 500, 1] {
            queue.push(request(bytes, false)).unwrap();
        }
        assert_eq!(sizes(&queue, 5), [3, 2, 1, 1, 1]);
    }

    #[test]
    fn only_a_slow_sync_is_worth_waiting_for_more() {
        let limits = BlockLimits { wait_max: Duration::from_secs(60), ..BlockLimits::default() };
        let queue = Queue::new(limits);
        queue.push(request(1, false)).unwrap();
        let quick = Duration::from_micros(100);
        assert_eq!(queue.cut(9, quick).unwrap().len(), 1);

        let slow = Duration::from_secs(480);
        queue.push(request(1, false)).unwrap();
        std::thread::scope(|threads| {
            let block = threads.spawn(|| queue.cut(3, slow).unwrap().len());
            queue.push(request(1, false)).unwrap();
            queue.push(request(1, false)).unwrap();
            assert_eq!(block.join().unwrap(), 3);
        });

        queue.push(request(1, false)).unwrap();
        let some = Duration::from_millis(80);
        assert_eq!(queue.cut(9, some).unwrap().len(), 1, "patience ends");
    }

    #[test]
    fn a_block_has_room_for_the_longest_outcomes_and_what_cannot_fit_is_refused() {
        let limits = BlockLimits {
            transactions_max: usize::MAX,
            bytes_max: usize::MAX,
            queued_max: usize::MAX,
            ..BlockLimits::default()
        };
        let queue = Queue::new(limits);
        let error = queue.push(request(BLOCK_WEIGHT_MAX - OUTCOME_BYTES_MAX, false)).unwrap_err();
        assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        let most = BLOCK_WEIGHT_MAX / (OUTCOME_BYTES_MAX + 9);
        for _ in 0..=most {
            queue.push(request(1, false)).unwrap();
        }
        assert_eq!(sizes(&queue, 2), [most, 1]);
    }

    #[test]
    fn what_is_put_back_comes_first_and_is_a_block_if_nothing_else_waits() {
        let limits = BlockLimits { queued_max: 2, ..BlockLimits::default() };
        let queue = Queue::new(limits);
        queue.push(request(5, true)).unwrap();
        queue.push(request(6, false)).unwrap();
        queue.put_back(vec![request(1, false), request(2, false)]);
        assert!(queue.push(request(7, false)).is_err(), "there is no room for new ones");
        queue.close(Error::new(SqlState::ADMIN_SHUTDOWN, "stopping"));
        let cut = |queue: &Queue| -> Option<Vec<usize>> {
            let block = queue.cut(0, Duration::ZERO)?;
            Some(block.iter().map(|request| request.payload.len()).collect())
        };
        assert_eq!(cut(&queue), Some(vec![1, 2]), "the one that must be alone waits");
        queue.put_back(vec![request(2, false)]);
        assert_eq!(cut(&queue), Some(vec![2]));
        assert_eq!((cut(&queue), cut(&queue), cut(&queue)), (Some(vec![5]), Some(vec![6]), None));
    }

    #[test]
    fn a_closed_queue_is_drained_and_then_ends() {
        let queue = Queue::new(BlockLimits::default());
        queue.push(request(1, false)).unwrap();
        queue.close(Error::new(SqlState::ADMIN_SHUTDOWN, "stopping"));
        assert!(queue.push(request(1, false)).is_err());
        assert_eq!(queue.cut(5, Duration::ZERO).unwrap().len(), 1);
        assert!(queue.cut(5, Duration::ZERO).is_none());
    }
}
