//! Driving the multi-version study: groups of threads on its tables for a while, and what came out.
//!
//! A group's threads all do the same kind of transactions, drawn beforehand and repeated in turns;
//! one more thread turns the epoch and visits what the background collector should, as the study's
//! collector thread does. Nothing is sealed or written to disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use concurrency::{Moment, Work};
use multiversion::prefetching::GROUP;
use multiversion::rules::{mv2pl::Mv2pl, mvocc::Mvocc, mvto::Mvto, si::Si, ssi::Ssi, ssn::Ssn};
use multiversion::{Database, Rule, Session, TableSpec};
use types::{Key, Stamp, TableId, TableSchema, Value};

use crate::run::cpu_time;

const EPOCH: Duration = Duration::from_millis(10);

/// Tables and the rows that are in them at first.
pub struct Data {
    pub schemas: Vec<Arc<TableSchema>>,
    pub rows: Vec<(TableId, Key, Vec<Value>)>,
}

/// Threads that do the same.
#[derive(Clone)]
pub struct Group {
    pub threads: usize,
    /// They declare that they only read.
    pub read_only: bool,
    /// What each thread repeats.
    pub works: Arc<Vec<Vec<Work>>>,
}

/// What is run.
pub struct Scene<'a> {
    pub rule: &'a str,
    pub spec: TableSpec,
    pub data: &'a Data,
    pub groups: &'a [Group],
    pub time: Duration,
}

/// What one group came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Share {
    pub committed: u64,
    pub conflicts: u64,
    /// Of all its threads, from begin to commit.
    pub busy: Duration,
}

#[derive(Clone, Default, Debug)]
pub struct Played {
    pub groups: Vec<Share>,
    pub wall: Duration,
    pub cpu: Duration,
    /// Version bytes at the end, above those at the beginning.
    pub grown_bytes: usize,
    /// Committed in the first half of the time, and in the second.
    pub halves: [u64; 2],
}

impl Share {
    pub fn conflicts_each(&self) -> f64 {
        self.conflicts as f64 / self.committed.max(1) as f64
    }

    pub fn latency_us(&self) -> f64 {
        self.busy.as_secs_f64() * 1e6 / self.committed.max(1) as f64
    }
}

impl Played {
    pub fn committed(&self) -> u64 {
        self.groups.iter().map(|group| group.committed).sum()
    }

    /// Neighbours on the machine do not show in it.
    pub fn per_cpu_second(&self) -> f64 {
        self.committed() as f64 / self.cpu.as_secs_f64()
    }

    /// Of one group, a second.
    pub fn rate(&self, group: usize) -> f64 {
        let share = self.groups.get(group).copied().unwrap_or_default();
        share.committed as f64 / self.wall.as_secs_f64()
    }

    pub fn bytes_each(&self) -> f64 {
        self.grown_bytes as f64 / self.committed().max(1) as f64
    }
}

impl Scene<'_> {
    pub fn play(&self) -> Result<Played> {
        match self.rule {
            Mvto::NAME => self.under::<Mvto>(),
            Mvocc::NAME => self.under::<Mvocc>(),
            Mv2pl::NAME => self.under::<Mv2pl>(),
            Si::NAME => self.under::<Si>(),
            Ssi::NAME => self.under::<Ssi>(),
            Ssn::NAME => self.under::<Ssn>(),
            other => bail!("no rule \"{other}\" in the study"),
        }
    }

    fn under<R: Rule>(&self) -> Result<Played> {
        let threads = self.groups.iter().map(|group| group.threads).sum();
        let schemas = self.data.schemas.iter().cloned();
        let db = Database::new(schemas, |_| self.spec, threads, R::STRIPED);
        for (table, key, row) in &self.data.rows {
            db.load(*table, key, row, Stamp::default()).expect("room for the rows");
        }
        let before = db.version_bytes();
        let stop = AtomicBool::new(false);
        let (began, cpu) = (Instant::now(), cpu_time());
        let shares = std::thread::scope(|scope| -> Result<Vec<(usize, Share, u64)>> {
            let (db, stop) = (&db, &stop);
            let mut workers = Vec::new();
            for (number, group) in self.groups.iter().enumerate() {
                for thread in 0..group.threads {
                    let worker = workers.len();
                    let half = began + self.time / 2;
                    workers.push(scope.spawn(move || {
                        let works = &group.works[thread % group.works.len()];
                        let share = repeat::<R>(db, worker, works, group.read_only, stop, half);
                        share.map(|(share, first)| (number, share, first))
                    }));
                }
            }
            while began.elapsed() < self.time {
                std::thread::sleep(EPOCH.min(self.time));
                db.clock.turn();
                db.vacuum(false);
            }
            stop.store(true, Ordering::Relaxed);
            let ended = workers.into_iter().map(|w| w.join().map_err(|_| anyhow!("a panic"))?);
            ended.collect()
        })?;
        let mut played = Played {
            groups: vec![Share::default(); self.groups.len()],
            wall: began.elapsed(),
            cpu: cpu_time() - cpu,
            grown_bytes: db.version_bytes().saturating_sub(before),
            halves: [0; 2],
        };
        for (group, share, first) in shares {
            let sum = &mut played.groups[group];
            sum.committed += share.committed;
            sum.conflicts += share.conflicts;
            sum.busy += share.busy;
            played.halves[0] += first;
            played.halves[1] += share.committed - first;
        }
        Ok(played)
    }
}

/// One thread; gives what it did, and how much of it before `half`.
fn repeat<R: Rule>(
    db: &Database,
    worker: usize,
    works: &[Work],
    read_only: bool,
    stop: &AtomicBool,
    half: Instant,
) -> Result<(Share, u64)> {
    let mut session = Session::<R>::open(db, worker);
    let (mut share, mut first, mut position) = (Share::default(), 0, 0);
    for (at, work) in works.iter().enumerate().cycle() {
        if at.is_multiple_of(GROUP) {
            session.foresee(works[at..].iter().take(GROUP));
        }
        let began = Instant::now();
        position = (position + 1) % Stamp::POSITIONS_MAX;
        // Of no block that loaded rows, whose hidden ids name theirs.
        let height = Stamp::HEIGHT_MAX - worker as u64;
        let moment = Moment { height, position, now_us: 0 };
        let mut met = 0;
        loop {
            if stop.load(Ordering::Relaxed) {
                share.busy += began.elapsed();
                return Ok((share, first));
            }
            let attempt = session.attempt(work, moment, read_only).map_err(|why| anyhow!(why))?;
            if let multiversion::Attempt::Ended(..) = attempt {
                break;
            }
            met += 1;
            session.rest(met);
        }
        share.conflicts += u64::from(met);
        share.committed += 1;
        share.busy += began.elapsed();
        first += u64::from(began < half);
    }
    Ok((share, first))
}
