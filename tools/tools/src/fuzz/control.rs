//! What the machine itself makes threads wait, measured beside the node.
//!
//! On a machine with more to do than cores a thread that is ready waits its turn, and that is
//! no fault of the node. Two probes in this process, at its priority, see it: one sleeps and looks
//! how much longer that took, one sends a byte over a socket to a thread that sends it back, as a
//! client and a server do. Whatever holds those two up while an answer is awaited would have held
//! up the answer, too.
//!
//! They see what happens to threads that mostly sleep. A thread that has just run waits longer for
//! its next turn, so the kernel is asked as well how long the node's threads have stood in line
//! ([`Turns`]): those that had little to do, which it is that answer. A thread that computes waits
//! for its turn all the time, and excuses nothing.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// How long they rest between two looks.
const REST: Duration = Duration::from_millis(5);

/// Less is no stall.
const LEAST: Duration = Duration::from_millis(2);

/// Time in which the machine let a thread wait.
#[derive(Clone, Copy, Debug)]
struct Stall {
    from: Instant,
    to: Instant,
    waited: Duration,
}

#[derive(Default)]
pub struct Control {
    stalls: Mutex<Vec<Stall>>,
    over: AtomicBool,
}

impl Control {
    /// # Panics
    /// There is no socket to be had.
    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let near = TcpStream::connect(address).expect("a connection to ourselves");
        let (far, _) = listener.accept().expect("the connection");
        near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("a socket");
        scope.spawn(move || echo(far));
        scope.spawn(move || self.watch(|| send_and_receive(&near)));
        scope.spawn(|| self.watch(|| {}));
    }

    /// The threads end soon.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn watch(&self, work: impl Fn()) {
        while !self.over.load(Ordering::Relaxed) {
            let from = Instant::now();
            thread::sleep(REST);
            work();
            let to = Instant::now();
            let waited = (to - from).saturating_sub(REST);
            if waited >= LEAST {
                self.stalls.lock().expect("no panic").push(Stall { from, to, waited });
            }
        }
    }

    /// The longest that either was held up by the machine at some time between two instants. A
    /// stall is known when it is over: to be asked after the end of the run.
    pub fn waited(&self, from: Instant, to: Instant) -> Duration {
        let stalls = self.stalls.lock().expect("no panic");
        let meanwhile = stalls.iter().filter(|stall| stall.from <= to && stall.to >= from);
        meanwhile.map(|stall| stall.waited).max().unwrap_or_default()
    }

    /// The longest at all.
    pub fn waited_max(&self) -> Duration {
        let stalls = self.stalls.lock().expect("no panic");
        stalls.iter().map(|stall| stall.waited).max().unwrap_or_default()
    }
}

/// What the kernel has told of a process's threads: how long each has run, and how long it stood in
/// line. Nothing where it does not tell.
#[derive(Default)]
pub struct Turns(BTreeMap<u32, (Duration, Duration)>);

impl Turns {
    /// A thread that has run for longer meanwhile had more to do than to answer.
    const LITTLE: Duration = Duration::from_millis(10);

    pub fn of(process: u32) -> Turns {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
        let turns = threads.filter_map(|thread| {
            let path = thread.ok()?.path();
            let number = path.file_name()?.to_str()?.parse().ok()?;
            let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
            let mut times = text.split_whitespace().map_while(|ns| ns.parse().ok());
            let mut next = || times.next().map(Duration::from_nanos);
            Some((number, (next()?, next()?)))
        });
        Turns(turns.collect())
    }

    /// The longest that a thread with little to do stood in line since then.
    pub fn waited_since(&self, before: &Turns) -> Duration {
        let since = |(thread, (ran, waited)): (&u32, &(Duration, Duration))| {
            let (ran_before, waited_before) = before.0.get(thread).copied().unwrap_or_default();
            let had_little = ran.saturating_sub(ran_before) < Turns::LITTLE;
            had_little.then_some(waited.saturating_sub(waited_before))
        };
        self.0.iter().filter_map(since).max().unwrap_or_default()
    }
}

fn send_and_receive(mut near: &TcpStream) {
    let mut byte = [7];
    near.write_all(&byte).and_then(|()| near.read_exact(&mut byte)).expect("an echo");
}

/// Until the other end is closed.
fn echo(mut far: TcpStream) {
    let mut byte = [0];
    while far.read_exact(&mut byte).is_ok() && far.write_all(&byte).is_ok() {}
}
