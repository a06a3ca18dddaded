//! A gateway's proposals on their way to the other members, which endorse them.
//!
//! ```text
//!   sessions ─► line of member 2 ─► as many as wait, in one request ─► an answer each
//!          └──► line of member 3 ─► …
//!          └──► this node's own  ─► signed together, whenever a request leaves
//! ```
//!
//! *How many go together* is no setting: a request leaves at once where none is under way; beside
//! others as soon as as much waits as the last one held, and [`TOGETHER`] at least, or when
//! something has waited for [`BESIDE`], so that a proposal that takes long holds up no others. So
//! one that comes alone is asked about alone, and under load requests grow until members are busy.
//! Few are not sent beside others, since a request costs as much as ten simulations: messages,
//! wake-ups, two signatures that are made and four that are checked.
//!
//! *A member that lies* costs its own approvals: each proposal has its own answer, which is judged
//! by itself. An honest answer bears one signature; one with more than [`SIGNED_MAX`] is none, so
//! that wrong ones do not cost the time of others.
//!
//! *A member that is busy* says that it has not looked at a proposal yet, and is asked again: after
//! [`BESIDE`], then twice as long each time, up to [`PAUSE_MAX`]. So one that says nothing else
//! does not have this node send as fast as it answers.
//!
//! *Bounds.* [`AT_A_TIME_MAX`] requests to a member at a time: the calls that the order needs find
//! room beside them; one, after it was silent. Of [`PROPOSALS_MAX`] proposals each, or a first one
//! and others of [`REQUEST_BYTES_MAX`]. A proposal waits for a member that answers something, which
//! is busy, for [`WAITS_MAX`] from when it came, however often it was asked about; for one that
//! answers nothing for [`PATIENCE`]; then for an answer for [`ANSWERED_IN`]. As many wait as
//! sessions do, each as long as its client lets it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Members, Peers};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use ledger::Hash;
use ledger::approvals::Approved;
use order::signed::are_approved;
use order::{Network, Signature};
use parking_lot::Mutex;
use sql::session::Database;
use sql::session::shared_state::{Endorsers, THIS_NODE};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::timeout;
use types::Result;

use super::endorsement_messages::{
    AT_A_TIME_MAX, PATIENCE, PROPOSALS_MAX, Said, answers_of, request_of, silent,
};

const REQUEST_BYTES_MAX: usize = 1 << 20;

/// A transaction as long as it may run, behind others of its request, and the way.
const ANSWERED_IN: Duration = Duration::from_secs(6);

/// For a member that is busy.
const WAITS_MAX: Duration = Duration::from_secs(30);

/// Signatures that an answer is looked at for.
const SIGNED_MAX: usize = 4;

/// After so long a proposal no longer waits for what is under way.
const BESIDE: Duration = Duration::from_millis(10);

/// The longest time until one is asked about again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// So many no longer do.
const TOGETHER: usize = 64;

type Reply = Sender<(String, Result<Signature>)>;

/// A proposal that waits to be asked about.
struct Asked {
    envelope: Bytes,
    id: Hash,
    reply: Reply,
    since: Instant,
    /// It is not asked about before.
    from: Instant,
    /// How often it was not looked at.
    put_off: u32,
}

impl Asked {
    fn new((envelope, id): (Bytes, Hash), reply: Reply, since: Instant) -> Asked {
        Asked { envelope, id, reply, since, from: since, put_off: 0 }
    }

    fn again_after(self, now: Instant) -> Asked {
        let pause = BESIDE.saturating_mul(1 << self.put_off.min(16)).min(PAUSE_MAX);
        Asked { from: now + pause, put_off: self.put_off + 1, ..self }
    }
}

/// What waits for one member, and what is under way to it.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Asked>,
    /// What was not looked at, until it is asked about again.
    put_off: Vec<Asked>,
    under_way: usize,
    /// Proposals of the last request.
    last: usize,
    /// Something looks after what waits.
    watched: bool,
    /// The last request was not answered.
    silent: bool,
    /// When one was last.
    answered: Option<Instant>,
}

impl Line {
    /// The next request, if one may leave.
    fn take(&mut self, now: Instant) -> Vec<Asked> {
        // Before what came later.
        let due: Vec<_> = self.put_off.extract_if(.., |asked| asked.from <= now).collect();
        due.into_iter().rev().for_each(|asked| self.waiting.push_front(asked));
        let has_waited =
            self.waiting.front().is_some_and(|it| now.duration_since(it.since) >= BESIDE);
        let many = self.waiting.len() >= self.last.max(TOGETHER);
        let enough = self.under_way == 0 || has_waited || many;
        let at_a_time = if self.silent { 1 } else { AT_A_TIME_MAX };
        if self.waiting.is_empty() || !enough || self.under_way >= at_a_time {
            return Vec::new();
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(asked) = self.waiting.pop_front_if(|asked| {
            bytes += asked.envelope.len();
            taken.len() < PROPOSALS_MAX && (taken.is_empty() || bytes <= REQUEST_BYTES_MAX)
        }) {
            // Of some none waits for the answer any more.
            if !asked.reply.is_closed() {
                taken.push(asked);
            }
        }
        if !taken.is_empty() {
            (self.under_way, self.last) = (self.under_way + 1, taken.len());
        }
        taken
    }

    /// What was not looked at.
    fn put_back(&mut self, later: Vec<Asked>, now: Instant) {
        self.put_off.extend(later.into_iter().map(|asked| asked.again_after(now)));
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.put_off.is_empty()
    }

    /// Those that have waited too long.
    fn expired(&mut self, now: Instant) -> Vec<Asked> {
        let is_dead = self.answered.is_none_or(|last| now.duration_since(last) >= PATIENCE);
        let patience = if is_dead { PATIENCE } else { WAITS_MAX };
        let is_old = |asked: &Asked| now.duration_since(asked.since) >= patience;
        if !self.waiting.iter().chain(&self.put_off).any(is_old) {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (mut expired, waiting): (Vec<_>, Vec<_>) = waiting.partition(is_old);
        self.waiting = waiting.into();
        expired.extend(self.put_off.extract_if(.., |asked| is_old(asked)));
        expired
    }
}

/// Asks all other members.
pub struct Gathering(Arc<Lines>);

struct Lines {
    id: u64,
    members: Arc<Members>,
    /// The way to them.
    network: Arc<dyn Network>,
    /// Which has this.
    database: OnceLock<Weak<Database>>,
    /// By member.
    lines: Mutex<HashMap<u64, Line>>,
    /// What this node has yet to sign.
    own: Mutex<Vec<(Hash, Reply)>>,
}

impl Gathering {
    pub fn new(id: u64, peers: Arc<Peers>) -> Gathering {
        Gathering(Lines::new(id, Arc::clone(peers.members()), peers))
    }

    pub fn begin(&self, database: &Arc<Database>) {
        let Gathering(lines) = self;
        let _ = lines.database.set(Arc::downgrade(database));
    }
}

impl Endorsers for Gathering {
    fn ask(
        &self,
        (envelope, id): (Bytes, Hash),
        approves: bool,
    ) -> BoxStream<'static, (String, Result<Signature>)> {
        let Gathering(lines) = self;
        let members: Vec<u64> =
            lines.members.now().0.into_keys().filter(|it| *it != lines.id).collect();
        let (reply, mut gathered) = mpsc::channel(members.len() + 1);
        if approves {
            lines.own.lock().push((id, reply.clone()));
        }
        if members.is_empty() {
            lines.sign_own();
        }
        for member in members {
            let asked = Asked::new((envelope.clone(), id), reply.clone(), Instant::now());
            lines.lines.lock().entry(member).or_default().waiting.push_back(asked);
            lines.send(member);
        }
        stream::poll_fn(move |context| gathered.poll_recv(context)).boxed()
    }
}

impl Lines {
    fn new(id: u64, members: Arc<Members>, network: Arc<dyn Network>) -> Arc<Lines> {
        let (database, lines, own) = (OnceLock::new(), Mutex::default(), Mutex::default());
        Arc::new(Lines { id, members, network, database, lines, own })
    }

    /// Sends what may leave, and sees to it that the rest will.
    fn send(self: &Arc<Self>, member: u64) {
        let mut lines = self.lines.lock();
        let line = lines.entry(member).or_default();
        let taken = line.take(Instant::now());
        let watch = !line.is_empty() && !line.watched;
        line.watched |= watch;
        drop(lines);
        if !taken.is_empty() {
            tokio::spawn(Arc::clone(self).call(member, taken));
        }
        if watch {
            tokio::spawn(Arc::clone(self).watch(member));
        }
    }

    async fn call(self: Arc<Self>, member: u64, mut taken: Vec<Asked>) {
        let name = format!("member {member}");
        while !taken.is_empty() {
            let mut ended = Ended { lines: &self, member, silent: true };
            self.sign_own();
            let request = request_of(taken.iter().map(|asked| &asked.envelope));
            let answer = timeout(ANSWERED_IN, self.network.call(member, request)).await;
            let answer = answer.unwrap_or_else(|late| Err(io::Error::other(late)));
            ended.silent = answer.is_err();
            let later = hand_out(&name, taken, answer);
            drop(ended);
            let mut lines = self.lines.lock();
            let line = lines.entry(member).or_default();
            let now = Instant::now();
            line.put_back(later, now);
            let expired = line.expired(now);
            taken = line.take(now);
            drop(lines);
            give_up(&name, &expired);
        }
        // What was put back and may not leave yet is looked after.
        self.send(member);
    }

    /// As long as something waits.
    async fn watch(self: Arc<Self>, member: u64) {
        let _watching = Watching { lines: &self, member };
        loop {
            tokio::time::sleep(BESIDE).await;
            self.sign_own();
            let mut lines = self.lines.lock();
            let line = lines.entry(member).or_default();
            let expired = line.expired(Instant::now());
            let taken = line.take(Instant::now());
            let watched = !line.is_empty();
            line.watched = watched;
            drop(lines);
            let name = format!("member {member}");
            give_up(&name, &expired);
            if !taken.is_empty() {
                tokio::spawn(Arc::clone(&self).call(member, taken));
            }
            if !watched {
                return;
            }
        }
    }

    /// What this node approves, by one signature.
    fn sign_own(&self) {
        let own = std::mem::take(&mut *self.own.lock());
        let (ids, replies): (Vec<Hash>, Vec<Reply>) = own.into_iter().unzip();
        if ids.is_empty() {
            return;
        }
        let database = self.database.get().and_then(Weak::upgrade);
        let database = database.ok_or_else(|| silent(&"it has not started"));
        let approvals = database.and_then(|database| database.engine.approve_all(&ids));
        match approvals {
            Ok(approvals) => {
                let answers = replies.into_iter().zip(approvals.into_iter().map(Ok));
                answers.for_each(|(reply, answer)| tell(&reply, THIS_NODE, answer));
            }
            Err(why) => {
                replies.iter().for_each(|reply| tell(reply, THIS_NODE, Err(why.clone())));
            }
        }
    }
}

/// A request that is under way, until this is dropped, whatever becomes of it.
struct Ended<'a> {
    lines: &'a Lines,
    member: u64,
    silent: bool,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.lines.lines.lock().get_mut(&self.member) {
            debug_assert!(line.under_way > 0, "each request ends once");
            (line.under_way, line.silent) = (line.under_way.saturating_sub(1), self.silent);
            line.answered = if self.silent { line.answered } else { Some(Instant::now()) };
        }
    }
}

/// What waits is looked after by nothing else, until this is dropped by a panic.
struct Watching<'a> {
    lines: &'a Lines,
    member: u64,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(line) = self.lines.lines.lock().get_mut(&self.member)
        {
            line.watched = false;
        }
    }
}

fn give_up(name: &str, expired: &[Asked]) {
    let late = || silent(&"it is busy, or behind");
    expired.iter().for_each(|asked| tell(&asked.reply, name, Err(late())));
}

/// There is room for an answer of each.
fn tell(reply: &Reply, name: &str, answer: Result<Signature>) {
    let _ = reply.try_send((name.to_owned(), answer));
}

/// Tells the sessions, and gives back what was not looked at.
fn hand_out(name: &str, taken: Vec<Asked>, answer: io::Result<Bytes>) -> Vec<Asked> {
    let said = answers_of(answer, taken.len());
    let approvals: Vec<(Hash, Signature<&[u8]>)> = taken
        .iter()
        .zip(&said)
        .filter_map(|(asked, said)| match said {
            Said::Endorsed(Signature { key_id, bytes }) => {
                Some((asked.id, Signature { key_id: *key_id, bytes: &bytes[..] }))
            }
            _ => None,
        })
        .collect();
    let is_one = signatures_in(&approvals) <= SIGNED_MAX;
    // The sessions judge each; what is signed for all of them is looked at once, here.
    let right = if is_one { are_approved(&approvals) } else { Vec::new() };
    debug_assert!(!is_one || right.len() == approvals.len(), "each is judged");
    let mut later = Vec::new();
    for (asked, said) in taken.into_iter().zip(said) {
        match said {
            Said::Endorsed(approval) if is_one => tell(&asked.reply, name, Ok(approval)),
            Said::Endorsed(_) => {
                let why = silent(&"its approvals are of too many signatures");
                tell(&asked.reply, name, Err(why));
            }
            Said::Refused(why) => tell(&asked.reply, name, Err(why)),
            Said::Later => later.push(asked),
        }
    }
    later
}

/// Of different keys, over different roots, or others.
fn signatures_in(approvals: &[(Hash, Signature<&[u8]>)]) -> usize {
    let signed = approvals.iter().map(|(id, approval)| {
        let read = Approved::of(id, approval.bytes);
        (approval.key_id, read.map(|(approved, bytes)| (approved.message().to_vec(), bytes)))
    });
    signed.collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use ledger::signatures::SecretKey;
    use order::signed::approve_all;

    use super::*;

    type Answers = mpsc::Receiver<(String, Result<Signature>)>;

    fn asked(bytes: usize, since: Instant) -> (Asked, Answers) {
        let (reply, answers) = mpsc::channel(1);
        (Asked::new((vec![0; bytes].into(), [0; 32]), reply, since), answers)
    }

    fn line(sizes: &[usize], now: Instant) -> (Line, Vec<Answers>) {
        let (waiting, answers): (VecDeque<_>, Vec<_>) =
            sizes.iter().map(|bytes| asked(*bytes, now)).unzip();
        (Line { waiting, ..Line::default() }, answers)
    }

    #[test]
    fn one_goes_at_once_and_others_gather_behind_it() {
        let now = Instant::now();
        let (mut line, _kept) = line(&[1], now);
        assert_eq!(line.take(now).len(), 1);
        assert!(line.take(now).is_empty(), "nothing waits");
        let mut kept = Vec::new();
        let mut wait = |line: &mut Line| {
            let (asked, answers) = asked(1, now);
            line.waiting.push_back(asked);
            kept.push(answers);
        };
        for last in [1, TOGETHER + 3] {
            line.last = last;
            for _ in 1..last.max(TOGETHER) {
                wait(&mut line);
                assert!(line.take(now).is_empty(), "less than is under way, or few");
            }
            wait(&mut line);
            assert_eq!(line.take(now).len(), last.max(TOGETHER), "as much as that");
        }
        wait(&mut line);
        assert!(line.take(now).is_empty());
        assert_eq!(line.take(now + BESIDE).len(), 1, "it has waited");
        wait(&mut line);
        line.under_way = AT_A_TIME_MAX;
        assert!(line.take(now + BESIDE).is_empty(), "so many are under way at most");
        assert!(line.expired(now + BESIDE).is_empty());
        assert_eq!(line.expired(now + PATIENCE).len(), 1);
        wait(&mut line);
        line.under_way = 0;
        assert_eq!(line.take(now).len(), 1);
    }

    /// It is not lost to those that it waits behind, as long as these are answered.
    #[test]
    fn a_busy_member_is_waited_for_and_a_dead_one_is_not() {
        let now = Instant::now();
        let (mut line, _kept) = line(&[1], now);
        line.under_way = AT_A_TIME_MAX;
        for seconds in 1..WAITS_MAX.as_secs() {
            let then = now + Duration::from_secs(seconds);
            line.answered = Some(then);
            assert!(line.expired(then).is_empty(), "after {seconds} s");
        }
        line.answered = Some(now + WAITS_MAX);
        assert_eq!(line.expired(now + WAITS_MAX).len(), 1, "but not for ever");
        let (asked, _answers) = asked(1, now);
        line.waiting.push_back(asked);
        line.answered = Some(now + BESIDE);
        assert!(line.expired(now + PATIENCE).is_empty());
        assert_eq!(line.expired(now + BESIDE + PATIENCE).len(), 1, "it answers nothing any more");
    }

    /// Says of each proposal that it was not looked at.
    #[derive(Default)]
    struct Busy(AtomicUsize);

    impl Network for Busy {
        fn call(&self, _: u64, mut request: Bytes) -> order::Call {
            self.0.fetch_add(1, Ordering::Relaxed);
            let count = super::super::endorsement_messages::envelopes_of(request.split_off(1));
            let said: Vec<_> = (0..count.unwrap().len()).map(|_| (2, Vec::new())).collect();
            async move { answer(&said) }.boxed()
        }
    }

    /// However fast it answers.
    #[test]
    fn a_member_that_only_puts_off_is_asked_seldom_and_not_for_ever() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let busy = Arc::new(Busy::default());
            let members = Arc::new(Members::default());
            let lines = Lines::new(1, members, busy.clone());
            let left = Duration::from_millis(400);
            let (asked, mut answers): (Vec<_>, Vec<_>) =
                (0..3).map(|_| asked(1, Instant::now() - (WAITS_MAX - left))).unzip();
            lines.lines.lock().entry(2).or_default().waiting.extend(asked);
            lines.send(2);
            for answers in &mut answers {
                let (name, told) = answers.recv().await.unwrap();
                assert_eq!(name, "member 2");
                assert_eq!(told.unwrap_err().code().as_str(), "08006");
            }
            // After 0, 10, 30, 70, 150 and 310 ms.
            let calls = busy.0.load(Ordering::Relaxed);
            assert!((2..=6).contains(&calls), "it was called {calls} times");
            let nothing_left = |lines: &Lines| lines.lines.lock()[&2].is_empty();
            assert!(nothing_left(&lines) && lines.lines.lock()[&2].under_way == 0);
        });
    }

    #[test]
    fn a_request_is_bounded_and_holds_what_someone_waits_for() {
        let now = Instant::now();
        let (mut many, _kept) = line(&[1; PROPOSALS_MAX + 7], now);
        assert_eq!(many.take(now).len(), PROPOSALS_MAX);
        assert_eq!(many.take(now + BESIDE).len(), 7);
        let (mut large, _kept) = line(&[2 * REQUEST_BYTES_MAX, 1, REQUEST_BYTES_MAX], now);
        for _ in 0..3 {
            assert_eq!(large.take(now + BESIDE).len(), 1);
        }
        let (mut left, mut kept) = line(&[1, 1, 1], now);
        kept.remove(1);
        assert_eq!(left.take(now).len(), 2);
        assert_eq!(left.under_way, 1);
        let (mut left, kept) = line(&[1], now);
        drop(kept);
        assert!(left.take(now).is_empty() && left.under_way == 0);
    }

    #[test]
    fn a_member_that_was_silent_is_asked_once_at_a_time() {
        let now = Instant::now();
        let (mut line, _kept) = line(&[1; PROPOSALS_MAX + 1], now);
        line.silent = true;
        assert_eq!(line.take(now).len(), PROPOSALS_MAX);
        assert!(line.take(now + BESIDE).is_empty());
        line.silent = false;
        assert_eq!(line.take(now + BESIDE).len(), 1);
    }

    fn answer(said: &[(u8, Vec<u8>)]) -> io::Result<Bytes> {
        let mut answer = Vec::new();
        for (kind, part) in said {
            answer.push(*kind);
            answer.extend((part.len() as u32).to_be_bytes());
            answer.extend(part);
        }
        Ok(answer.into())
    }

    /// Each proposal of a request has its own answer, whatever others have.
    #[test]
    fn a_wrong_answer_costs_the_proposal_that_it_is_to() {
        let now = Instant::now();
        let key = SecretKey::of_seed([7; 32]);
        let ids: Vec<Hash> = (0..8).map(|n| [n; 32]).collect();
        let approvals = approve_all(&key, &ids);
        let part = |at: usize| [&key.public()[..], &approvals[at]].concat();
        let mut wrong = part(2);
        *wrong.last_mut().unwrap() ^= 1;
        let refusal = br#"{"code":"42501","message":"no","detail":null}"#.to_vec();
        let said = [(0, part(0)), (1, refusal), (0, wrong), (2, Vec::new()), (0, part(4))];
        let ask = |count: usize| -> (Vec<Asked>, Vec<Answers>) {
            let asked = ids[..count].iter().map(|id| {
                let (asked, answers) = asked(1, now);
                (Asked { id: *id, ..asked }, answers)
            });
            asked.unzip()
        };
        let (taken, mut answers) = ask(5);
        let later = hand_out("member 2", taken, answer(&said));
        assert_eq!(later.iter().map(|asked| asked.id).collect::<Vec<_>>(), [ids[3]]);
        let mut told = answers.iter_mut().map(|it| it.try_recv().ok().map(|(_, said)| said));
        for (at, is_right) in [(0, true), (1, false), (2, false), (3, false), (4, true)] {
            let said = told.next().unwrap();
            let approval = said.clone().and_then(Result::ok);
            let right = approval.is_some_and(|it| {
                let it = Signature { key_id: it.key_id, bytes: &it.bytes[..] };
                are_approved(&[(ids[at], it)]) == [true]
            });
            assert_eq!((right, said.is_none()), (is_right, at == 3), "{at}");
        }
        // Of another signature each: none is looked at.
        let each = |at: usize| [&key.public()[..], &approve_all(&key, &ids[at..=at])[0]].concat();
        let (taken, mut answers) = ask(5);
        let said: Vec<_> = (0..5).map(|at| (0, each(at))).collect();
        assert!(hand_out("member 2", taken, answer(&said)).is_empty());
        assert!(answers.iter_mut().all(|it| it.try_recv().unwrap().1.is_err()));
        let (taken, mut answers) = ask(4);
        hand_out("member 2", taken, answer(&said[..4]));
        assert!(answers.iter_mut().all(|it| it.try_recv().unwrap().1.is_ok()));
    }
}
