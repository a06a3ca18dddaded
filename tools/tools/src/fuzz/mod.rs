//! What a fuzzer does to a node, and what another session sees of it meanwhile.
//!
//! An answer to the other session is *late* by what it took beyond what the machine made threads of
//! this process wait at that time ([`control`]): that is the node's own doing. Beside each that was
//! slow stands what the node had been given to do.

pub mod command;
mod control;
mod session;
mod text;
mod wire;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kit::random::Random;
use serde_json::{Value, json};

use control::{Control, Turns};
use session::Wire;

pub use session::Kind;

/// Sessions that send what a seed says, beside the one that watches.
const SESSIONS: u64 = 3;

/// How often the other session asks.
const PAUSE: Duration = Duration::from_millis(5);

/// What it asks, in turns: nothing of the tables, and one row.
const QUESTIONS: [&str; 2] = ["SELECT 1", "SELECT v FROM fuzzed WHERE id = 1"];

/// Answers that took longer are looked into.
const SLOW: Duration = Duration::from_millis(25);

/// So much of a statement is shown.
const SHOWN_LETTERS: usize = 300;

pub struct Plan {
    pub address: String,
    /// The node's, if it is known.
    pub process: Option<u32>,
    pub kind: Kind,
    pub seed: u64,
    pub time: Duration,
    /// Of each session; the run ends with them, if the time has not come before.
    pub turns_max: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    kind: Kind,
    pub turns: u64,
    pub errors: u64,
    /// The slowest answers to another session, the one first that was latest.
    pub slow: Vec<Slow>,
    pub asked: u64,
    /// The longest that the machine made a thread wait.
    pub machine_max: Duration,
    /// How much larger the process was at most than in the beginning.
    pub grown_bytes: i64,
    /// Answers that no statement may have: XX000, or none at all.
    pub faults: Vec<String>,
}

/// An answer that took a while.
#[derive(Clone, Debug)]
pub struct Slow {
    pub waited: Duration,
    /// What the machine made threads wait at that time.
    pub machine: Duration,
    pub question: &'static str,
    /// What other sessions had sent last.
    beside: Vec<String>,
}

impl Slow {
    /// What the node itself made the client wait.
    pub fn late(&self) -> Duration {
        self.waited.saturating_sub(self.machine)
    }
}

impl Report {
    /// Of all answers.
    pub fn late_max(&self) -> Duration {
        self.slow.first().map(Slow::late).unwrap_or_default()
    }

    fn json(&self) -> Value {
        let Report { turns, errors, asked, grown_bytes, faults, .. } = self;
        json!({
            "kind": self.kind.name(), "turns": turns, "errors": errors, "asked": asked,
            "late_ms_max": self.late_max().as_secs_f64() * 1e3,
            "machine_ms_max": self.machine_max.as_secs_f64() * 1e3,
            "grown_bytes": grown_bytes, "faults": faults,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { turns, errors, asked, grown_bytes, machine_max, .. } = self;
        let kind = self.kind.name();
        let waited_max = self.slow.iter().map(|slow| slow.waited).max().unwrap_or_default();
        write!(f, "{kind}: {turns} turns, {errors} errors; {asked} answers to another session, ")?;
        write!(
            f,
            "the slowest after {waited_max:.1?}, the machine up to {machine_max:.1?} late, "
        )?;
        write!(f, "the node {:.1?}; ", self.late_max())?;
        write!(f, "{} MB more at most", grown_bytes / 1_000_000)?;
        for slow in self.slow.iter().take(5) {
            let Slow { waited, machine, question, beside } = slow;
            write!(f, "\n  {waited:.1?}, the machine {machine:.1?}: {question}")?;
            beside.iter().try_for_each(|statement| write!(f, "\n    beside {statement}"))?;
        }
        self.faults.iter().try_for_each(|fault| write!(f, "\nFAULT {fault}"))
    }
}

/// What each session has sent last, and when.
type Sent = [Mutex<(Option<Instant>, String)>; SESSIONS as usize];

fn beside(sent: &Sent) -> Vec<String> {
    let shown = |last: &Mutex<(Option<Instant>, String)>| {
        let (at, text) = &*last.lock().expect("no panic");
        let shown: String = text.chars().take(SHOWN_LETTERS).collect();
        at.map(|at| format!("{:.0?} before: {shown}", at.elapsed()))
    };
    sent.iter().filter_map(shown).collect()
}

/// # Panics
/// The node cannot be reached, or has died.
pub fn run(plan: &Plan) -> Report {
    set_up(&plan.address);
    let (turns, errors, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (control, sent) = (Control::default(), Sent::default());
    let until = Instant::now() + plan.time;
    let (watched, faults) = std::thread::scope(|scope| {
        control.start(scope);
        let watch = scope.spawn(|| watch(plan, &over, &sent));
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let (turns, errors, last) = (&turns, &errors, &sent[number as usize]);
                scope.spawn(move || {
                    let mut random = Random::new(plan.seed.wrapping_mul(1000) + number);
                    let mut faults = Vec::new();
                    let mut left = plan.turns_max;
                    let mut tell = |text: &str| {
                        *last.lock().expect("no panic") = (Some(Instant::now()), text.to_owned());
                    };
                    while Instant::now() < until && left > 0 {
                        left -= 1;
                        turns.fetch_add(1, Ordering::Relaxed);
                        let found = match plan.kind {
                            Kind::Wire => wire::turn(&plan.address, &mut random, &mut tell),
                            kind => {
                                text::turn(&plan.address, kind, &mut random, (until, &mut tell))
                            }
                        };
                        errors.fetch_add(found.errors, Ordering::Relaxed);
                        faults.extend(found.fault);
                    }
                    faults
                })
            })
            .collect();
        let faults = sessions.into_iter().flat_map(|session| session.join().expect("a session"));
        let faults = faults.collect();
        over.store(true, Ordering::Relaxed);
        let watched = watch.join().expect("the node answers");
        control.stop();
        (watched, faults)
    });
    let Watched { answers, asked, grown_bytes } = watched;
    let (turns, errors) = (turns.into_inner(), errors.into_inner());
    let machine_max = control.waited_max();
    let looked_into = |Answered { from, to, in_line, question, beside }| {
        let machine = control.waited(from, to).max(in_line);
        Slow { waited: to - from, machine, question, beside }
    };
    let mut slow: Vec<Slow> = answers.into_iter().map(looked_into).collect();
    slow.sort_by_key(|slow| std::cmp::Reverse(slow.late()));
    Report { kind: plan.kind, turns, errors, slow, asked, machine_max, grown_bytes, faults }
}

fn set_up(address: &str) {
    let mut session = Wire::connect(address).expect("a node");
    let rows =
        "INSERT INTO fuzzed SELECT n, 'v' FROM generate_series(1, 100) n ON CONFLICT DO NOTHING";
    for statement in ["CREATE TABLE IF NOT EXISTS fuzzed (id int PRIMARY KEY, v text)", rows] {
        session.query(statement).expect("an answer");
    }
}

/// What the other session has seen.
struct Watched {
    /// Those that were slow.
    answers: Vec<Answered>,
    asked: u64,
    grown_bytes: i64,
}

struct Answered {
    from: Instant,
    to: Instant,
    /// What threads of the node have waited for their turn meanwhile.
    in_line: Duration,
    question: &'static str,
    beside: Vec<String>,
}

/// Asks again and again, and how much the process has grown at most.
fn watch(plan: &Plan, over: &AtomicBool, sent: &Sent) -> Watched {
    let mut session = Wire::connect(&plan.address).expect("a node");
    let turns = || plan.process.map(Turns::of).unwrap_or_default();
    let process = "SELECT bytes FROM tally_memory WHERE part = 'process'";
    let size = |session: &mut Wire| {
        let answer = session.query(process).expect("an answer");
        answer.first_value.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
    };
    let bytes_before = size(&mut session);
    let mut watched = Watched { answers: Vec::new(), asked: 0, grown_bytes: 0 };
    while !over.load(Ordering::Relaxed) {
        let question = QUESTIONS[watched.asked as usize % QUESTIONS.len()];
        let before = turns();
        let from = Instant::now();
        let answer = session.query(question).expect("the node lives");
        let to = Instant::now();
        assert!(answer.error.is_none(), "{:?}", answer.error);
        if to - from >= SLOW {
            let in_line = turns().waited_since(&before);
            let beside = beside(sent);
            watched.answers.push(Answered { from, to, in_line, question, beside });
        }
        watched.asked += 1;
        if watched.asked.is_multiple_of(50) {
            watched.grown_bytes = watched.grown_bytes.max(size(&mut session) - bytes_before);
        }
        std::thread::sleep(PAUSE);
    }
    watched
}
