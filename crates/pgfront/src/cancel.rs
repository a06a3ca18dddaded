//! Interrupting sessions from outside: cancel requests, shutdown, idleness.
//!
//! A session runs on its own task, and a CancelRequest arrives on another connection. They meet in
//! the [`Registry`]: the process number finds the session's [`Control`], the secret proves that the
//! asker was told it. Nothing else is shared between connections.
//!
//! Cancelling is cooperative. A statement that has handed its commit to the log must not be told
//! "cancelled", so the front end never drops a running `execute`; the session itself wraps those
//! waits that may be given up in [`Cancel::interrupt`].
//!
//! Idleness costs no timer per statement: one housekeeper counts seconds, a session that goes idle
//! notes the count, and the housekeeper wakes those that noted too small a number.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use types::{Error, SqlState};

/// One session's cancel flag, which can also be waited for.
#[derive(Debug, Default)]
pub struct Cancel {
    requested: Arc<AtomicBool>,
    wake: Notify,
}

impl Cancel {
    /// The flag itself, for computations that know nothing of this crate.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// For loops that compute without waiting: look every few thousand steps.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// `57014` if the client asked to cancel.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_requested() {
            return Err(canceled());
        }
        Ok(())
    }

    /// Completes when the client asks to cancel.
    pub async fn requested(&self) {
        loop {
            let wake = self.wake.notified();
            if self.is_requested() {
                return;
            }
            wake.await;
        }
    }

    /// Waits for `wait`, or drops it and returns `57014` when the client asks to cancel.
    pub async fn interrupt<F: Future>(&self, wait: F) -> Result<F::Output, Error> {
        tokio::select! {
            biased;
            output = wait => Ok(output),
            () = self.requested() => Err(canceled()),
        }
    }

    /// A request that came between two statements cancels neither.
    pub(crate) fn clear(&self) {
        if self.requested.load(Ordering::Relaxed) {
            self.requested.store(false, Ordering::Relaxed);
        }
    }
}

pub(crate) fn canceled() -> Error {
    Error::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

/// Why a session has to end although its client did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Eviction {
    Shutdown = 1,
    IdleSession = 2,
    IdleInTransaction = 3,
}

impl Eviction {
    pub fn error(self) -> Error {
        match self {
            Eviction::Shutdown => Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ),
            Eviction::IdleSession => Error::new(
                SqlState(*b"57P05"),
                "terminating connection due to idle-session timeout",
            ),
            Eviction::IdleInTransaction => Error::new(
                SqlState(*b"25P03"),
                "terminating connection due to idle-in-transaction timeout",
            ),
        }
    }
}

/// What the rest of the server may do to one session.
#[derive(Debug)]
pub(crate) struct Control {
    pub process_id: i32,
    pub secret: Vec<u8>,
    pub cancel: Arc<Cancel>,
    eviction: AtomicU8,
    wake: Notify,
    /// `(second << 1) | in_transaction` since when the session waits for its client, or `BUSY`.
    idle: AtomicU64,
}

const BUSY: u64 = u64::MAX;

impl Control {
    pub fn evict(&self, reason: Eviction) {
        // The first reason stays.
        let _ =
            self.eviction.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Relaxed);
        self.wake.notify_one();
    }

    pub fn eviction(&self) -> Option<Eviction> {
        match self.eviction.load(Ordering::Acquire) {
            1 => Some(Eviction::Shutdown),
            2 => Some(Eviction::IdleSession),
            3 => Some(Eviction::IdleInTransaction),
            _ => None,
        }
    }

    /// Completes after [`Control::evict`], also when that came first.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    pub fn set_idle(&self, second: u64, in_transaction: bool) {
        self.idle.store(second << 1 | u64::from(in_transaction), Ordering::Relaxed);
    }

    /// The client is back. If that was in the very moment in which the housekeeper lost its
    /// patience, the client wins.
    pub fn set_busy(&self) {
        self.idle.store(BUSY, Ordering::Relaxed);
        let late = self.eviction.load(Ordering::Relaxed);
        if late > Eviction::Shutdown as u8 {
            let _ = self.eviction.compare_exchange(late, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Since which second the session is idle, and whether inside a transaction block.
    fn idle_since(&self) -> Option<(u64, bool)> {
        let idle = self.idle.load(Ordering::Relaxed);
        (idle != BUSY).then_some((idle >> 1, idle & 1 == 1))
    }
}

/// All sessions, by process number.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: Mutex<Sessions>,
    pub seconds: AtomicU64,
}

#[derive(Debug, Default)]
struct Sessions {
    controls: HashMap<i32, Arc<Control>>,
    last_process_id: i32,
    closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegistrationRefused {
    Full(usize),
    ShuttingDown,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // The map is consistent between any two statements, so a panic elsewhere spoils nothing.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session, unless `max` are there already.
    pub fn register(
        self: &Arc<Self>,
        secret: Vec<u8>,
        max: usize,
    ) -> Result<Registration, RegistrationRefused> {
        let mut sessions = self.lock();
        if sessions.closed {
            return Err(RegistrationRefused::ShuttingDown);
        }
        if sessions.controls.len() >= max {
            return Err(RegistrationRefused::Full(max));
        }
        let mut process_id = sessions.last_process_id;
        loop {
            process_id = process_id.checked_add(1).unwrap_or(1);
            if !sessions.controls.contains_key(&process_id) {
                break;
            }
        }
        sessions.last_process_id = process_id;
        let control = Arc::new(Control {
            process_id,
            secret,
            cancel: Arc::default(),
            eviction: AtomicU8::new(0),
            wake: Notify::new(),
            idle: AtomicU64::new(BUSY),
        });
        sessions.controls.insert(process_id, control.clone());
        Ok(Registration { registry: self.clone(), control })
    }

    /// Cancels the session with this number if the secret is its own; silent otherwise.
    pub fn cancel(&self, process_id: i32, secret: &[u8]) {
        let control = self.lock().controls.get(&process_id).cloned();
        if let Some(control) = control.filter(|c| equal_in_constant_time(&c.secret, secret)) {
            control.cancel.request();
        }
    }

    /// Lets nobody in any more, and turns everybody out.
    pub fn close(&self, reason: Eviction) {
        let mut sessions = self.lock();
        sessions.closed = true;
        for control in sessions.controls.values() {
            control.evict(reason);
        }
    }

    /// One more second has passed: evicts whoever has been idle for as long as its timeout.
    pub fn tick(&self, idle_s: Option<u64>, idle_in_transaction_s: Option<u64>) {
        let now = self.seconds.fetch_add(1, Ordering::Relaxed) + 1;
        if idle_s.is_none() && idle_in_transaction_s.is_none() {
            return;
        }
        for control in self.lock().controls.values() {
            let Some((since, in_transaction)) = control.idle_since() else {
                continue;
            };
            let (limit_s, reason) = if in_transaction {
                (idle_in_transaction_s, Eviction::IdleInTransaction)
            } else {
                (idle_s, Eviction::IdleSession)
            };
            // The first second is a partial one, so a timeout is never early.
            if limit_s.is_some_and(|limit_s| now.saturating_sub(since) > limit_s) {
                control.evict(reason);
            }
        }
    }
}

fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

/// A session's place in the registry, given up on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<Registry>,
    pub control: Arc<Control>,
}

impl Registration {
    pub fn now_s(&self) -> u64 {
        self.registry.seconds.load(Ordering::Relaxed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.lock().controls.remove(&self.control.process_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_registration(registry: &Arc<Registry>, in_transaction: bool) -> Registration {
        let registration = registry.register(vec![1, 2, 3, 4], 10).unwrap();
        let control = &registration.control;
        control.set_idle(registration.now_s(), in_transaction);
        registration
    }

    #[test]
    fn only_whoever_idles_long_enough_is_evicted() {
        let registry = Arc::new(Registry::default());
        let idle = idle_registration(&registry, false);
        let in_transaction = idle_registration(&registry, true);
        let busy = idle_registration(&registry, false);
        busy.control.set_busy();
        let evicted = |r: &Registration| r.control.eviction();
        registry.tick(Some(2), Some(1));
        assert_eq!(evicted(&in_transaction), None, "a whole second has not passed yet");
        registry.tick(Some(2), Some(1));
        assert_eq!(evicted(&in_transaction), Some(Eviction::IdleInTransaction));
        assert_eq!(evicted(&idle), None);
        registry.tick(Some(2), None);
        assert_eq!(evicted(&idle), Some(Eviction::IdleSession));
        assert_eq!(evicted(&busy), None);
    }

    #[test]
    fn a_client_that_comes_back_in_time_stays() {
        let registry = Arc::new(Registry::default());
        let session = idle_registration(&registry, false);
        session.control.evict(Eviction::IdleSession);
        session.control.set_busy();
        assert_eq!(session.control.eviction(), None);
        session.control.evict(Eviction::Shutdown);
        session.control.set_busy();
        assert_eq!(session.control.eviction(), Some(Eviction::Shutdown));
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let registry = Arc::new(Registry::default());
        let first = registry.register(Vec::new(), 1).unwrap();
        let refused = registry.register(Vec::new(), 1).unwrap_err();
        assert_eq!(refused, RegistrationRefused::Full(1));
        drop(first);
        let second = registry.register(Vec::new(), 1).unwrap();
        assert_eq!(second.control.process_id, 2, "numbers are not used again soon");
        registry.close(Eviction::Shutdown);
        assert_eq!(second.control.eviction(), Some(Eviction::Shutdown));
        let refused = registry.register(Vec::new(), 9).unwrap_err();
        assert_eq!(refused, RegistrationRefused::ShuttingDown);
    }

    #[tokio::test]
    async fn a_request_that_comes_first_is_not_missed() {
        let cancel = Cancel::default();
        assert_eq!(cancel.interrupt(async { 1 }).await.unwrap(), 1);
        cancel.request();
        let interrupted = cancel.interrupt(std::future::pending::<()>()).await;
        assert_eq!(interrupted.unwrap_err().code(), SqlState::QUERY_CANCELED);
        assert!(cancel.check().is_err());
        cancel.clear();
        assert!(cancel.check().is_ok());
    }
}
