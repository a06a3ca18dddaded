//! Interrupting sessions from outside: cancel requests and shutdown.
//!
//! A session runs on its own task, and a CancelRequest arrives on another connection. They meet in
//! the [`Registry`]: the process number finds the session's [`Control`], the secret proves that the
//! asker was told it. Nothing else is shared between connections.
//!
//! Cancelling is cooperative. A statement that has handed its commit to the log must not be told
//! "cancelled", so the front end never drops a running `execute`; the session itself wraps those
//! waits that may be given up in [`Cancel::interrupt`].

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use kit::sync::lock;
use tokio::sync::Notify;
use types::{Error, SqlState};

/// One session's cancel flag, which can also be waited for.
#[derive(Debug, Default)]
pub struct Cancel {
    requested: Arc<AtomicBool>,
    wake: Notify,
    /// For what waits to be ordered: the client gives it up, where it still can be.
    withdraw: Arc<Notify>,
}

impl Cancel {
    /// The flag itself, for computations that know nothing of this crate.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    pub fn request(&self) {
        self.end();
        self.withdraw.notify_waiters();
    }

    /// The server shuts down: what computes or waits for its client ends, what waits for the ledger
    /// is answered.
    pub(crate) fn end(&self) {
        self.requested.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// Told when the client asks to cancel, and not when the server shuts down.
    pub fn withdraw(&self) -> Arc<Notify> {
        Arc::clone(&self.withdraw)
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

/// What the rest of the server may do to one session.
#[derive(Debug)]
pub(crate) struct Control {
    pub process_id: i32,
    pub secret: Vec<u8>,
    pub cancel: Arc<Cancel>,
    evicted: AtomicBool,
    wake: Notify,
}

impl Control {
    /// The server shuts down.
    pub fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        self.cancel.end();
        self.wake.notify_waiters();
    }

    /// `57P01` after [`Control::evict`].
    pub fn check(&self) -> Result<(), Error> {
        match self.evicted.load(Ordering::Acquire) {
            true => Err(Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            )),
            false => Ok(()),
        }
    }

    /// Completes after [`Control::evict`], also when that came first.
    pub async fn woken(&self) {
        loop {
            let wake = self.wake.notified();
            if self.evicted.load(Ordering::Acquire) {
                return;
            }
            wake.await;
        }
    }
}

/// All sessions, by process number.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: Mutex<Sessions>,
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
    /// The places that are left are the operator's.
    Reserved(usize),
    ShuttingDown,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // The map is consistent between any two statements, so a panic elsewhere spoils nothing.
        lock(&self.sessions)
    }

    /// Enters a session, unless `max` are there already, or so many that only `reserved` places
    /// are left, which are not for this one.
    pub fn register(
        self: &Arc<Self>,
        secret: Vec<u8>,
        max: usize,
        reserved: usize,
    ) -> Result<Registration, RegistrationRefused> {
        let mut sessions = self.lock();
        if sessions.closed {
            return Err(RegistrationRefused::ShuttingDown);
        }
        if sessions.controls.len() >= max {
            return Err(RegistrationRefused::Full(max));
        }
        if sessions.controls.len() >= max.saturating_sub(reserved) {
            return Err(RegistrationRefused::Reserved(reserved));
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
            evicted: AtomicBool::new(false),
            wake: Notify::new(),
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

    /// Lets no client in any more, and ends every session, whatever it runs.
    pub fn close(&self) {
        let mut sessions = self.lock();
        sessions.closed = true;
        for control in sessions.controls.values() {
            control.evict();
        }
    }
}

/// The sessions of a server, which one of them may end.
#[derive(Clone, Default)]
pub struct Backends(pub(crate) Arc<Registry>);

/// Their secrets are not for logs.
impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backends")
    }
}

impl Backends {
    fn control(&self, process_id: i32) -> Option<Arc<Control>> {
        self.0.lock().controls.get(&process_id).cloned()
    }

    /// Ends what a session runs; false: there is none of that number.
    pub fn cancel(&self, process_id: i32) -> bool {
        let control = self.control(process_id);
        control.inspect(|control| control.cancel.request()).is_some()
    }

    /// Ends a session, and what it runs; false: there is none of that number.
    pub fn terminate(&self, process_id: i32) -> bool {
        let Some(control) = self.control(process_id) else { return false };
        control.evict();
        control.cancel.request();
        true
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

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.lock().controls.remove(&self.control.process_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_given_back() {
        let registry = Arc::new(Registry::default());
        let first = registry.register(Vec::new(), 1, 0).unwrap();
        let refused = registry.register(Vec::new(), 1, 0).unwrap_err();
        assert_eq!(refused, RegistrationRefused::Full(1));
        let refused = registry.register(Vec::new(), 3, 2).unwrap_err();
        assert_eq!(refused, RegistrationRefused::Reserved(2));
        assert!(registry.register(Vec::new(), 3, 0).is_ok(), "the operator gets in");
        drop(first);
        let second = registry.register(Vec::new(), 1, 0).unwrap();
        assert_eq!(second.control.process_id, 3, "numbers are not used again soon");
        assert!(second.control.check().is_ok());
        registry.close();
        assert_eq!(second.control.check().unwrap_err().code(), SqlState::ADMIN_SHUTDOWN);
        let refused = registry.register(Vec::new(), 9, 0).unwrap_err();
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
