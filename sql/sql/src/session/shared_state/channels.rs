//! LISTEN and NOTIFY: names on which sessions of the node call one another.
//!
//! ```text
//!   NOTIFY … COMMIT ─► room for each listener's copy ─► commit answered ─► inboxes ─► clients
//!                      none: 54000, nothing commits
//! ```
//!
//! A transaction's notifications are sent when its COMMIT has been answered, each once, in their
//! order; a rollback sends none. They are the node's: no block holds them, and a crash between the
//! answer and the delivery loses them, so a listener looks at the tables when it begins to listen.
//!
//! *Bounds.* Notifications that were not fetched yet take at most [`QUEUED_BYTES_MAX`] together.
//! The room for a transaction's own is taken before it commits, so that a listener which does not
//! fetch makes notifiers fail and never loses a notification.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use types::{Error, Result, SqlState};

/// What notifications may take that wait to be fetched.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// As PostgreSQL bounds them.
const PAYLOAD_BYTES_MAX: usize = 8000 - 1;
const CHANNEL_BYTES_MAX: usize = 64 - 1;
/// What one takes beside its texts.
const NOTIFICATION_BYTES: usize = 96;
/// Channels that one session may listen on.
const CHANNELS_MAX: usize = 1 << 16;

/// A channel and a payload.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Note {
    pub channel: Arc<str>,
    pub payload: Arc<str>,
}

impl Note {
    /// # Errors
    /// 22023 for a name or a payload that PostgreSQL would not take.
    pub fn new(channel: &str, payload: &str) -> Result<Note> {
        let invalid = |what: &str| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        match (channel.len(), payload.len()) {
            (0, _) => invalid("channel name cannot be empty"),
            (CHANNEL_BYTES_MAX.., _) if channel.len() > CHANNEL_BYTES_MAX => {
                invalid("channel name too long")
            }
            (_, bytes) if bytes > PAYLOAD_BYTES_MAX => invalid("payload string too long"),
            _ => Ok(Note { channel: channel.into(), payload: payload.into() }),
        }
    }

    pub fn bytes(&self) -> usize {
        NOTIFICATION_BYTES + self.channel.len() + self.payload.len()
    }
}

/// What a listener is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// The session that notified.
    pub process: i32,
    pub note: Note,
}

/// What LISTEN and UNLISTEN change, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Listen(String),
    /// `None`: all.
    Unlisten(Option<String>),
}

/// Where a session's notifications wait for it.
#[derive(Debug, Default)]
pub struct Inbox {
    queue: Mutex<VecDeque<Notification>>,
    arrived: Notify,
}

impl Inbox {
    /// Completes when there is something to fetch.
    pub async fn filled(&self) {
        loop {
            let arrived = self.arrived.notified();
            if !self.queue.lock().is_empty() {
                return;
            }
            arrived.await;
        }
    }
}

#[derive(Debug, Default)]
struct State {
    listeners: BTreeMap<Arc<str>, Vec<Arc<Inbox>>>,
    /// Queued, and promised to those about to commit.
    bytes: usize,
}

/// The channels of a node.
#[derive(Debug, Default)]
pub struct Channels {
    state: Mutex<State>,
}

impl Channels {
    pub fn listener(self: &Arc<Self>, process: i32) -> Listener {
        let (inbox, channels) = Default::default();
        Listener { all: Arc::clone(self), process, inbox, channels }
    }

    /// How full the queue is, from 0 to 1.
    pub fn usage(&self) -> f64 {
        self.state.lock().bytes as f64 / QUEUED_BYTES_MAX as f64
    }

    fn give_back(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
    }
}

/// Room for notifications that are about to be sent.
pub struct Promise {
    all: Arc<Channels>,
    process: i32,
    notes: Vec<Note>,
    bytes: usize,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.all.give_back(self.bytes);
    }
}

impl Promise {
    /// To the sessions that listen now.
    pub fn send(self) {
        let mut state = self.all.state.lock();
        let mut sent = 0;
        for note in &self.notes {
            for inbox in state.listeners.get(&note.channel).into_iter().flatten() {
                sent += note.bytes();
                let notification = Notification { process: self.process, note: note.clone() };
                inbox.queue.lock().push_back(notification);
                inbox.arrived.notify_one();
            }
        }
        state.bytes += sent;
    }
}

/// A session's channels, which it leaves when it ends.
#[derive(Debug)]
pub struct Listener {
    all: Arc<Channels>,
    process: i32,
    inbox: Arc<Inbox>,
    channels: BTreeSet<Arc<str>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unlisten(None);
        self.fetch();
    }
}

impl Listener {
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(|channel| &**channel)
    }

    /// # Errors
    /// 54000: too many channels.
    pub fn check(&self, changes: &[Change]) -> Result<()> {
        let listens = changes.iter().filter(|change| matches!(change, Change::Listen(_)));
        match self.channels.len() + listens.count() <= CHANNELS_MAX {
            true => Ok(()),
            false => Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a session can listen on at most {CHANNELS_MAX} channels"),
            )),
        }
    }

    pub fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Listen(channel) => self.listen(channel.into()),
                Change::Unlisten(channel) => self.unlisten(channel.as_deref()),
            }
        }
    }

    fn listen(&mut self, channel: Arc<str>) {
        if self.channels.insert(Arc::clone(&channel)) {
            let mut state = self.all.state.lock();
            state.listeners.entry(channel).or_default().push(Arc::clone(&self.inbox));
        }
    }

    fn unlisten(&mut self, channel: Option<&str>) {
        let left: Vec<_> = match channel {
            None => std::mem::take(&mut self.channels).into_iter().collect(),
            Some(channel) => self.channels.take(channel).into_iter().collect(),
        };
        let mut state = self.all.state.lock();
        for channel in left {
            if let Some(inboxes) = state.listeners.get_mut(&channel) {
                inboxes.retain(|inbox| !Arc::ptr_eq(inbox, &self.inbox));
                if inboxes.is_empty() {
                    state.listeners.remove(&channel);
                }
            }
        }
    }

    /// Room for notifications of this session; of two that are the same the first counts.
    ///
    /// # Errors
    /// 54000: those that listeners have not fetched yet leave no room.
    pub fn promise(&self, notes: Vec<Note>) -> Result<Promise> {
        let mut seen = HashSet::new();
        let once = notes.into_iter().filter(|note| seen.insert(note.clone()));
        let notes: Vec<Note> = once.collect();
        let mut state = self.all.state.lock();
        let copies = |note: &Note| state.listeners.get(&note.channel).map_or(0, Vec::len);
        let bytes: usize = notes.iter().map(|note| copies(note) * note.bytes()).sum();
        if state.bytes + bytes > QUEUED_BYTES_MAX {
            let what = "too many notifications in the NOTIFY queue";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what).with_hint(
                "Sessions that listen and do not fetch hold it: end them, or let them read.",
            ));
        }
        state.bytes += bytes;
        drop(state);
        Ok(Promise { all: Arc::clone(&self.all), process: self.process, notes, bytes })
    }

    pub fn fetch(&self) -> Vec<Notification> {
        let fetched: Vec<_> = self.inbox.queue.lock().drain(..).collect();
        if !fetched.is_empty() {
            self.all.give_back(fetched.iter().map(|notification| notification.note.bytes()).sum());
        }
        fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(channel: &str, payload: &str) -> Note {
        Note::new(channel, payload).unwrap()
    }

    fn fetched(listener: &Listener) -> Vec<String> {
        let reported =
            |n: Notification| format!("{}:{}:{}", n.process, n.note.channel, n.note.payload);
        listener.fetch().into_iter().map(reported).collect()
    }

    #[test]
    fn those_who_listen_are_told_once_in_order() {
        let all = Arc::new(Channels::default());
        let [mut a, mut b, c] = [1, 2, 3].map(|process| all.listener(process));
        a.apply(vec![Change::Listen("x".into()), Change::Listen("x".into())]);
        b.apply(vec![Change::Listen("x".into()), Change::Listen("y".into())]);
        let notes = vec![note("x", "1"), note("y", ""), note("x", "1"), note("x", "2")];
        a.promise(notes.clone()).unwrap().send();
        drop(c.promise(notes).unwrap());
        assert_eq!(fetched(&a), ["1:x:1", "1:x:2"]);
        assert_eq!(fetched(&b), ["1:x:1", "1:y:", "1:x:2"]);
        b.apply(vec![Change::Unlisten(Some("x".into()))]);
        c.promise(vec![note("x", "3")]).unwrap().send();
        assert_eq!((fetched(&a).len(), fetched(&b).len()), (1, 0));
        drop((a, b));
        assert!(all.state.lock().listeners.is_empty());
        assert_eq!(all.usage(), 0.0, "what no session fetches any more takes no room");
    }

    #[test]
    fn a_full_queue_refuses_and_loses_nothing() {
        let all = Arc::new(Channels::default());
        let (mut slow, busy) = (all.listener(1), all.listener(2));
        slow.apply(vec![Change::Listen("x".into())]);
        let mut sent = 0;
        let error = loop {
            let payload = format!("{sent:07999}");
            match busy.promise(vec![note("x", &payload)]) {
                Ok(promise) => promise.send(),
                Err(error) => break error,
            }
            sent += 1;
        };
        assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert!(all.usage() > 0.99 && all.usage() <= 1.0);
        assert_eq!(slow.fetch().len(), sent);
        assert!(busy.promise(vec![note("x", "")]).is_ok());
        assert_eq!(all.usage(), 0.0);
    }

    #[test]
    fn names_and_payloads_are_bounded() {
        for (channel, payload) in [("", ""), (&*"c".repeat(64), ""), ("c", &"p".repeat(8000))] {
            let error = Note::new(channel, payload).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
        }
        assert!(Note::new(&"c".repeat(63), &"p".repeat(7999)).is_ok());
    }
}
