//! At most once: which submissions a ledger has run, as a part of its state.
//!
//! Orderers deliver copies, and clients that lost a connection ask again. So each envelope names
//! itself ([`Submission`]) within its principal, and the ledger remembers the names that could
//! still come again. That is bounded by time: an envelope says until when it may be ordered, at
//! most [`Remembered::expiry_us_max`] ahead, and what has expired is refused without being known.
//!
//! ```text
//! for each block, on every replica in the same order:
//!   advance(time_us) ─► admit(envelope, id, place) each ─► … run … ─► decide(envelope, place, how)
//!
//!                    ┌─ sequence   window of 1024 below the highest ── ends with its last expiry
//! principal, name ───┤
//!                    └─ key        pending ─► final ── a copy is told where it stands, till expiry
//!                                         └─► retry ── the next envelope may take its place
//! ```
//!
//! **Sequences** are for drivers and nodes, which count. A number is used up when it is admitted,
//! however it ends; a copy is `Repeated`. More than a window below the highest, whether one was
//! run is not known any more, and the refusal says so (08007).
//!
//! **Keys** are named by a client that wants to find its outcome again. The first envelope is run;
//! a copy of it, in the same batch or later, is a `Repeat` of its place, whether it is pending (a
//! protocol may put it off to a later block) or has ended. Other bytes under the same key are
//! refused, unless the last ones ended with *retry* and expire no later: then they are run, and the
//! key speaks of them from then on, for as long as any envelope that had the key could come again.
//! So no late copy of an attempt follows the one after it.
//!
//! **Refusals** by order: another ledger; expired; expiry too far ahead; the name's own. They are
//! not remembered, as they changed nothing: a copy may fare better later (its expiry is no longer
//! too far ahead), so a client that corrects a refused request does so *under the same name*, and
//! one of the two is run at most while the other is remembered: until it expires.
//!
//! **Invariants.** A function of the calls alone: nothing depends on time, on threads, on the order
//! of a hash map. The caller has authenticated the principal: else others could use up its names.
//! What lies in memory is bounded for each principal. An entry that is pending does not end.
//!
//! **Cost.** A sequence: two searches in B-trees, no allocation but for a new submitter. 136 bytes
//! for a submitter, about 300 for a key. `encode` is canonical: equal states, equal bytes.

mod encoding;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::LedgerId;
use ledger::hash::Hash;
use types::{Error, Origin, Result, SqlState};

use crate::envelope::{Envelope, Submission};
use window::{Taken, Window};

pub use window::WINDOW;

/// How much is remembered, and for how long: parameters of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// How far after its block's time an envelope may expire.
    pub expiry_us_max: i64,
    /// Submitters of one principal.
    pub submitters_max: usize,
    /// Keys of one principal.
    pub keys_max: usize,
}

impl Default for Remembered {
    fn default() -> Self {
        Remembered {
            expiry_us_max: 24 * 3600 * 1_000_000,
            submitters_max: 10_000,
            keys_max: 1_000_000,
        }
    }
}

/// What becomes of an envelope in a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    Run,
    /// The key's envelope stands there: its outcome is this one's too.
    Repeat(Origin),
    /// The sequence was used before.
    Repeated,
    /// Not run, and nothing remembered.
    Refused(Error),
}

/// How what ran under a key stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Running, or deferred to a later block.
    Pending,
    /// A conflict; other bytes may follow under the key.
    Retry,
    Committed,
    /// For good, with this SQLSTATE.
    Rejected([u8; 5]),
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Retry,
    Committed,
    /// With this SQLSTATE.
    Rejected([u8; 5]),
}

impl Ended {
    pub fn status(self) -> Status {
        match self {
            Ended::Retry => Status::Retry,
            Ended::Committed => Status::Committed,
            Ended::Rejected(code) => Status::Rejected(code),
        }
    }
}

/// What is known of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Of the envelope that the key speaks of.
    pub id: Hash,
    pub place: Origin,
    pub status: Status,
    /// The latest expiry of all envelopes that were run under the key.
    pub expires_us: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Submitter {
    window: Window,
    /// The latest expiry of what was admitted.
    expires_us: i64,
}

#[derive(Default)]
struct Principal {
    submitters: BTreeMap<[u8; 16], Submitter>,
    keys: BTreeMap<Arc<str>, Entry>,
}

/// What ends when time passes, by when to look at it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// Once for each, at its expiry or before: that moves on with every envelope.
    Submitter([u8; 16]),
    /// Once for each that is not pending, at its expiry.
    Key(Arc<str>),
}

/// See the module.
pub struct Submissions {
    ledger_id: LedgerId,
    remembered: Remembered,
    /// Of the block that is being run.
    time_us: i64,
    principals: BTreeMap<Arc<str>, Principal>,
    endings: BTreeSet<(i64, Arc<str>, Ending)>,
}

impl Submissions {
    pub fn new(ledger_id: LedgerId, remembered: Remembered) -> Self {
        Submissions {
            ledger_id,
            remembered,
            time_us: i64::MIN,
            principals: BTreeMap::new(),
            endings: BTreeSet::new(),
        }
    }

    /// The bounds for what is admitted from now on.
    pub fn set_remembered(&mut self, remembered: Remembered) {
        self.remembered = remembered;
    }

    pub fn time_us(&self) -> i64 {
        self.time_us
    }

    /// The next block's time: what expired before it ends. Time that runs back is not followed.
    pub fn advance(&mut self, time_us: i64) {
        self.time_us = self.time_us.max(time_us);
        while self.endings.first().is_some_and(|(at_us, ..)| *at_us < self.time_us) {
            if let Some((_, principal, ending)) = self.endings.pop_first() {
                self.end(principal, ending);
            }
        }
    }

    fn end(&mut self, name: Arc<str>, ending: Ending) {
        let Some(principal) = self.principals.get_mut(&name) else {
            return;
        };
        match &ending {
            Ending::Submitter(id) => {
                let expires_us = principal.submitters.get(id).map_or(i64::MIN, |s| s.expires_us);
                if expires_us >= self.time_us {
                    self.endings.insert((expires_us, name, ending));
                    return;
                }
                principal.submitters.remove(id);
            }
            Ending::Key(key) => drop(principal.keys.remove(key)),
        }
        if principal.submitters.is_empty() && principal.keys.is_empty() {
            self.principals.remove(&name);
        }
    }

    /// What becomes of the envelope at `place`, in the block whose time was given last.
    pub fn admit<S, B>(&mut self, envelope: &Envelope<S, B>, id: &Hash, place: Origin) -> Admission
    where
        S: AsRef<str>,
    {
        if let Err(refused) = self.check(envelope) {
            return Admission::Refused(refused);
        }
        let name = envelope.principal.as_ref();
        match &envelope.submission {
            Submission::Sequence { submitter, sequence } => {
                self.admit_sequence(name, *submitter, *sequence, envelope.expires_us)
            }
            Submission::Key(key) => {
                let entry = Entry {
                    id: *id,
                    place,
                    status: Status::Pending,
                    expires_us: envelope.expires_us,
                };
                self.admit_key(name, key.as_ref(), entry)
            }
        }
    }

    fn check<S, B>(&self, envelope: &Envelope<S, B>) -> Result<()> {
        if envelope.ledger_id != self.ledger_id {
            return Err(Error::new(
                SqlState::INVALID_CATALOG_NAME,
                "the transaction is meant for another ledger",
            ));
        }
        let (expires_us, time_us) = (envelope.expires_us, self.time_us);
        if expires_us < time_us {
            return Err(Error::new(
                SqlState::QUERY_CANCELED,
                "the transaction expired before it was ordered",
            )
            .with_detail(format!(
                "It expired at {expires_us} us; the block's time is {time_us}."
            )));
        }
        let expiry_us_max = self.remembered.expiry_us_max;
        if expires_us > time_us.saturating_add(expiry_us_max) {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the transaction expires too far in the future",
            )
            .with_detail(format!(
                "It expires at {expires_us} us; the block's time is {time_us}, and at most \
                 {expiry_us_max} us may lie between them."
            ))
            .with_hint("Give it an earlier expiry under the same key or sequence."));
        }
        Ok(())
    }

    fn admit_sequence(
        &mut self,
        name: &str,
        id: [u8; 16],
        sequence: u64,
        expires_us: i64,
    ) -> Admission {
        let Some(principal) = self.principals.get_mut(name) else {
            return self.first_of_submitter(name, id, sequence, expires_us);
        };
        let Some(submitter) = principal.submitters.get_mut(&id) else {
            if principal.submitters.len() >= self.remembered.submitters_max {
                return Admission::Refused(too_many("submitters"));
            }
            return self.first_of_submitter(name, id, sequence, expires_us);
        };
        match submitter.window.take(sequence) {
            Taken::Fresh => {
                submitter.expires_us = submitter.expires_us.max(expires_us);
                Admission::Run
            }
            Taken::Used => Admission::Repeated,
            Taken::Below => Admission::Refused(below(sequence, submitter.window.highest())),
        }
    }

    fn first_of_submitter(
        &mut self,
        name: &str,
        id: [u8; 16],
        sequence: u64,
        expires_us: i64,
    ) -> Admission {
        let window = Window::starting_with(sequence);
        self.put_submitter(name, id, Submitter { window, expires_us });
        Admission::Run
    }

    fn put_submitter(&mut self, name: &str, id: [u8; 16], submitter: Submitter) {
        let name = self.principal(name);
        self.endings.insert((submitter.expires_us, name.clone(), Ending::Submitter(id)));
        self.principals.entry(name).or_default().submitters.insert(id, submitter);
    }

    fn admit_key(&mut self, name: &str, key: &str, entry: Entry) -> Admission {
        let principal = self.principals.get(name);
        let Some(known) = principal.and_then(|principal| principal.keys.get(key)) else {
            if principal.map_or(0, |p| p.keys.len()) >= self.remembered.keys_max {
                return Admission::Refused(too_many("keys"));
            }
            self.put_key(name, key.into(), entry);
            return Admission::Run;
        };
        if known.id == entry.id {
            return Admission::Repeat(known.place);
        }
        if known.status != Status::Retry {
            return Admission::Refused(other_bytes(known));
        }
        let known_expires_us = known.expires_us;
        // What expires earlier may be a late copy of an attempt before the last one. Attempts that
        // expire in the same microsecond are not distinguished.
        if entry.expires_us < known_expires_us {
            return Admission::Refused(expires_before(known));
        }
        let (name, key) = (self.principal(name), Arc::from(key));
        self.endings.remove(&(known_expires_us, name.clone(), Ending::Key(Arc::clone(&key))));
        self.put_key(&name, key, entry);
        Admission::Run
    }

    fn put_key(&mut self, name: &str, key: Arc<str>, entry: Entry) {
        let name = self.principal(name);
        if entry.status != Status::Pending {
            self.endings.insert((entry.expires_us, name.clone(), Ending::Key(Arc::clone(&key))));
        }
        self.principals.entry(name).or_default().keys.insert(key, entry);
    }

    /// The one copy of a principal's name.
    fn principal(&self, name: &str) -> Arc<str> {
        match self.principals.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => name.into(),
        }
    }

    /// Says how the envelope ended that was admitted at `place`. Fails if none is pending there:
    /// then this replica has lost count.
    pub fn decide<S, B>(
        &mut self,
        envelope: &Envelope<S, B>,
        place: Origin,
        ended: Ended,
    ) -> Result<()>
    where
        S: AsRef<str>,
    {
        let Submission::Key(key) = &envelope.submission else {
            return Ok(());
        };
        let (name, key) = (self.principal(envelope.principal.as_ref()), key.as_ref());
        let keys = self.principals.get_mut(&name).map(|principal| &mut principal.keys);
        let entry = keys.and_then(|keys| keys.get_mut(key));
        let pending = |e: &&mut Entry| e.place == place && e.status == Status::Pending;
        let Some(entry) = entry.filter(pending) else {
            return Err(Error::new(
                SqlState::INTERNAL_ERROR,
                "no transaction is pending under this key",
            ));
        };
        entry.status = ended.status();
        self.endings.insert((entry.expires_us, name, Ending::Key(key.into())));
        Ok(())
    }

    /// Says where the envelope stands that was admitted in this block before that was known.
    pub fn place<S, B>(&mut self, envelope: &Envelope<S, B>, place: Origin)
    where
        S: AsRef<str>,
    {
        let Submission::Key(key) = &envelope.submission else {
            return;
        };
        let principal = self.principals.get_mut(envelope.principal.as_ref());
        if let Some(entry) = principal.and_then(|p| p.keys.get_mut(key.as_ref())) {
            entry.place = place;
        }
    }

    pub fn lookup(&self, principal: &str, key: &str) -> Option<&Entry> {
        self.principals.get(principal)?.keys.get(key)
    }
}

fn too_many(what: &str) -> Error {
    Error::new(
        SqlState::TOO_MANY_CONNECTIONS,
        format!("too many {what} of this principal are remembered"),
    )
    .with_hint("They end when they expire: let transactions expire earlier, or try again later.")
}

fn below(sequence: u64, highest: u64) -> Error {
    Error::new(
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        "whether this sequence was used is not known any more",
    )
    .with_detail(format!(
        "Sequence {sequence} is {WINDOW} or more below {highest}, its submitter's highest."
    ))
}

fn expires_before(known: &Entry) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "the transaction expires before an earlier one under its key",
    )
    .with_detail(format!("That one expires at {} us.", known.expires_us))
    .with_hint("An attempt that follows another one must not expire before it.")
}

const OTHER_BYTES: &str = "another transaction was submitted under this key";

/// Whether a transaction was refused because other bytes stand under its key.
pub fn is_of_another(error: &Error) -> bool {
    error.code() == SqlState::INVALID_PARAMETER_VALUE && error.message() == OTHER_BYTES
}

fn other_bytes(known: &Entry) -> Error {
    let Origin { height, index } = known.place;
    Error::new(SqlState::INVALID_PARAMETER_VALUE, OTHER_BYTES)
        .with_detail(format!("It is transaction {index} of block {height}."))
        .with_hint("Ask for its outcome, or use another key.")
}
