//! Admits calls to an open epoch (a block in which calls run as they arrive), and closes it.
//!
//! ```text
//!   push ─► waiting ─► [ entry ] ─► runners ─┐
//!              ▲          ▲                 ├─► no thread is in ─► closed
//!   53300 if it is        └─ the sequencer ─┘
//!   full                     when it is free
//! ```
//!
//! A call first waits in the usual bounded queue. It *enters* when a thread is free to run it and
//! the block has room; only then is it decided whether it may run at all. A thread that has taken a
//! call is *in* until everything that it took is done. Schema and parameter changes do not enter:
//! the block is closed for them.
//!
//! *Closing.* When the previous block is durable, the sequencer admits the calls that wait at that
//! moment, runs those of them that it can, and closes the block when no thread is in. Later calls
//! go to the next block. But if closing takes longer than [`SLOW`], some thread runs a slow call;
//! so that short calls need not wait for it, those waiting by then are admitted as well.
//!
//! *Wake-ups.* Handing a call to another thread takes longer than a short call. So a runner is
//! woken if no thread is working. If some are, one sleeping runner checks every [`SLOW`] whether a
//! call waits behind a slow one, and is woken at once if many wait. If nothing runs, all runners
//! sleep without a timeout.
//!
//! *Invariant.* A thread that is in keeps its epoch open; every call taken is recorded in the epoch
//! or answered.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use order::Proposer;

use crate::open_epoch::{EpochEntry, OpenEpoch, Shut, Taken};
use crate::queue::{Queue, State};

/// A call that runs for longer is slow: others do not wait for it.
pub(crate) const SLOW: Duration = Duration::from_millis(1);

/// Looks, each some ten nanoseconds, before the sequencer sleeps until no thread is in.
const LOOKS: u32 = 1_000;

/// What the sequencer finds when it wants to close.
pub(crate) enum Closing {
    /// A call for which it can do something.
    Run(Taken),
    Shut(Shut),
}

/// What the sequencer is woken for.
pub(crate) enum Woken {
    Calls,
    Errand,
    /// Closed and drained.
    End,
}

/// For threads that run calls.
impl Queue {
    /// Waits for a call that a thread may run, which is then in; `None`: there will be none.
    pub fn enter(&self) -> Option<(Arc<OpenEpoch>, Taken)> {
        let mut state = self.lock();
        while !state.ended {
            let State { entry, solo, .. } = &mut *state;
            if let Some(entry) = entry
                && let Some(taken) = entry.take(solo)
            {
                entry.busy += 1;
                self.at_work.store(true, Ordering::Release);
                return Some((Arc::clone(&entry.epoch), taken));
            }
            let at_work = entry.as_ref().is_some_and(|entry| entry.busy > 0);
            let looks = at_work && state.looking == 0;
            state.asleep += 1;
            state.looking += usize::from(looks);
            state = match looks {
                true => {
                    let waited = self.runners.wait_timeout(state, SLOW);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                false => self.runners.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.asleep -= 1;
            state.looking -= usize::from(looks);
            if looks {
                state.let_in();
            }
        }
        None
    }

    /// Another call for a thread that is in.
    pub fn take(&self) -> Option<Taken> {
        let mut state = self.lock();
        let State { entry, solo, .. } = &mut *state;
        entry.as_mut()?.take(solo)
    }

    /// A thread is no longer in; what it had it has handed in.
    pub fn leave(&self) {
        let mut state = self.lock();
        let Some(entry) = &mut state.entry else { return };
        assert!(entry.busy > 0, "a thread that leaves was in");
        entry.busy -= 1;
        let is_empty = entry.busy == 0;
        drop(state);
        if is_empty {
            self.at_work.store(false, Ordering::Release);
            self.emptied.notify_one();
        }
    }

    /// There will be no more blocks that are open.
    pub fn end(&self) {
        self.lock().ended = true;
        self.runners.notify_all();
    }
}

/// For the sequencer.
impl Queue {
    /// Waits until something waits.
    pub fn wait(&self) -> Woken {
        let mut state = self.lock();
        let woken = loop {
            if state.solo.waiting() > 0 {
                break Woken::Calls;
            }
            if std::mem::take(&mut state.errand) {
                break Woken::Errand;
            }
            if state.solo.closed().is_some() {
                break Woken::End;
            }
            state.wanted = 1;
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.wanted = 0;
        woken
    }

    /// The time of a block that opens now, and its proposer.
    pub fn draw(&self, now_us: i64) -> (i64, Proposer) {
        self.lock().solo.open(now_us)
    }

    /// From now on calls enter.
    pub fn open(&self, entry: EpochEntry) {
        let mut state = self.lock();
        assert!(state.entry.is_none(), "one block is open at a time");
        state.entry = Some(entry);
        let wake = state.wakes_runner();
        drop(state);
        if wake {
            self.runners.notify_one();
        }
    }

    /// Takes the entry away from a block that no call has entered, if none waits to.
    pub fn withdraw(&self) -> Option<OpenEpoch> {
        let mut state = self.lock();
        let is_idle = state.solo.waiting() == 0;
        let unused = |entry: &mut EpochEntry| is_idle && entry.count() + entry.busy == 0;
        let entry = state.entry.take_if(unused)?;
        Arc::into_inner(entry.epoch)
    }

    /// The block that is open.
    pub fn epoch(&self) -> Option<Arc<OpenEpoch>> {
        self.lock().entry.as_ref().map(|entry| Arc::clone(&entry.epoch))
    }

    /// No call enters any more.
    pub fn refuse_entry(&self) {
        if let Some(entry) = &mut self.lock().entry {
            (entry.quota, entry.closing) = (Some(0), None);
        }
    }

    /// Waits for as many calls as the last block released, where its sync was slow; then no call
    /// enters any more but those that wait.
    pub fn begin_close(&self, expected: usize, sync: Duration) {
        let mut state = self.lock();
        if let Some(patience) = self.patience(sync) {
            let expected = expected.min(self.transactions_max);
            state = self.gather(state, expected, Instant::now() + patience);
        }
        state.wanted = 0;
        let waiting = state.solo.waiting();
        let Some(entry) = &mut state.entry else { return };
        (entry.quota, entry.closing) = (Some(waiting), Some(Instant::now()));
        let wake = waiting > 1 && entry.busy == 0 && state.asleep > 0;
        drop(state);
        if wake {
            self.runners.notify_one();
        }
    }

    /// Waits until no thread is in the block, or for a call that the sequencer can run itself.
    pub fn close_or_run(&self) -> Option<Closing> {
        let is_at_work = || self.at_work.load(Ordering::Acquire);
        let mut state = self.lock();
        let mut looked = false;
        loop {
            let State { entry, solo, .. } = &mut *state;
            let open = entry.as_mut()?;
            if let Some(taken) = open.take(solo) {
                open.busy += 1;
                self.at_work.store(true, Ordering::Release);
                return Some(Closing::Run(taken));
            }
            if open.busy == 0 {
                let barriers = open.take_barriers(solo);
                let EpochEntry { epoch, refused, .. } = entry.take()?;
                return Some(Closing::Shut(Shut { epoch, refused, barriers }));
            }
            if !std::mem::replace(&mut looked, true) && self.looks {
                drop(state);
                (0..LOOKS).take_while(|_| is_at_work()).for_each(|_| std::hint::spin_loop());
                state = self.lock();
                continue;
            }
            let waited = self.emptied.wait_timeout(state, SLOW);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.let_in();
        }
    }

    /// Whether a block is open.
    pub fn is_open(&self) -> bool {
        self.lock().entry.is_some()
    }
}

impl State {
    /// Where a thread runs a slow call, what waits enters beside it.
    fn let_in(&mut self) {
        let waiting = self.solo.waiting();
        if let Some(entry) = &mut self.entry
            && entry.busy > 0
            && entry.closing.is_some_and(|since| since.elapsed() >= SLOW)
        {
            (entry.quota, entry.closing) = (Some(waiting), Some(Instant::now()));
        }
    }
}
