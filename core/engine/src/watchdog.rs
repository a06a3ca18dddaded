//! Records which block a process died in, so that later starts do not die in the same block again.
//!
//! A batch is durable before it is executed. A batch that makes the executor panic or hang would do
//! so at every start and on every replica, and the ledger could never be opened again. Deaths are
//! therefore recorded on disk:
//!
//! ```text
//!   live node    … 16 │ 17 panics        read-only         deaths/0: block 17, reason
//!   next start   … 16 │ 17 panics        one more try      deaths/1: block 17, reason
//!                … 16 │ stops            read-only, and reports block 17
//! ```
//!
//! *Rule.* A block counts as failing once [`DEATHS_MAX`] deaths in it are on disk. A death is
//!
//! * a panic in the block, or a halt that it causes, during a start or on a live node: recorded at
//!   once;
//! * any end of the process while the block has been running for longer than
//!   [`WatchdogSettings::stuck_after`]: recorded when that time is exceeded, and removed if the
//!   block finishes after all;
//! * any end of the process during a *start* that runs the block, however soon: an abort for lack
//!   of memory or stack leaves no message. Removed when a later start gets past the block.
//!
//! Nothing else counts. If a live node dies suddenly, the block's order is left without a result,
//! so the next start executes the block again and detects the failure itself.
//!
//! *Marks.* A start overwrites one small file, `deaths/running`, with the blocks that it is about
//! to run, and removes it when the start is over. These writes are not synced. They survive the end
//! of the process; a crash of the machine leaves at most an outdated mark, of a block that the next
//! start gets past. A start that finds a mark runs one block at a time, through its protocol,
//! without compiling ahead, so that the next mark names a single block.
//!
//! *Kills* during a start cannot be told from a crash. A stop therefore takes two of them in a row
//! within the same block.
//!
//! A start that reaches the end of its ledger removes all deaths; so does a [skip](replica::skip).
//! Deaths belong to the node, not to the ledger: if the folder `deaths` is removed, the next starts
//! detect the failure again.
//!
//! ```text
//! deaths/<number>:  height: varint | order hash: 32 | why: length, UTF-8
//! ```
//!
//! Each file is written once and removed once. A file that a crash truncated is ignored.
//!
//! *Cost*: a lock and a clock reading for each block, and a thread that checks once a second;
//! during a start, two small writes to the page cache for each block.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kit::sync::lock;
use ledger::files::{StorageFile, read_all, write_new};
use ledger::{Batch, Files, Hash};
use types::codec::{decode_bytes, decode_str, decode_u64, encode_bytes, encode_str, encode_u64};
use types::{Error, Height, Result, SqlState};

const FOLDER: &str = "deaths";

/// What a start is running.
const MARK: &str = "running";

/// A height and an order hash for each block.
const MARKED_BYTES: usize = 8 + 32;

/// Blocks that a start has under way: one is executed, another compiled meanwhile.
const MARKED_MAX: usize = 4;

/// Why, where nothing else is known.
const ENDED: &str = "the process ended within it";

/// Deaths in one block that are no accident.
pub const DEATHS_MAX: usize = 2;
const _: () = assert!(DEATHS_MAX > 1, "one kill says nothing of a block");

/// Bytes of a reason that are kept.
const WHY_BYTES_MAX: usize = 1024;

/// How often the thread looks, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchdogSettings {
    /// The end of a process counts as a death in a block that has been running for longer.
    pub stuck_after: Duration,
    /// A fault for tests: the process aborts in a block with a request that holds this text. There
    /// is none in a release build.
    pub aborts_on: Option<&'static str>,
    /// The same: after such a block a row in memory is not what the block has made of it.
    pub tampers_on: Option<&'static str>,
}

impl Default for WatchdogSettings {
    fn default() -> Self {
        WatchdogSettings { stuck_after: Duration::from_secs(10), aborts_on: None, tampers_on: None }
    }
}

/// A block that starts stop before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failing {
    pub height: Height,
    pub order: Hash,
    pub deaths: usize,
    /// Of the last death.
    pub why: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Death {
    height: Height,
    order: Hash,
    why: String,
}

pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    files: Arc<dyn Files>,
    settings: WatchdogSettings,
    state: Mutex<State>,
    ends: Condvar,
}

#[derive(Default)]
struct State {
    deaths: BTreeMap<u64, Death>,
    next_file: u64,
    running: BTreeMap<u64, RunningBlock>,
    next_running: u64,
    /// Where blocks are marked, while a start is under way.
    mark: Option<Box<dyn StorageFile>>,
    ends: bool,
}

struct RunningBlock {
    height: Height,
    order: Hash,
    /// `None`: it is one of several that run together, which take their time.
    since: Option<Instant>,
    died: bool,
    /// Of the death that it would be if the process ended now.
    file: Option<u64>,
}

/// A block is running as long as this lives.
pub struct Running {
    shared: Arc<Shared>,
    number: u64,
}

impl Watchdog {
    /// Finds the deaths of earlier processes, and watches from now on.
    pub fn open(files: Arc<dyn Files>, settings: WatchdogSettings) -> io::Result<Watchdog> {
        let mut state = State::default();
        for name in files.list(FOLDER)? {
            let Ok(number) = name.parse::<u64>() else { continue };
            state.next_file = state.next_file.max(number + 1);
            match decode(&read_all(&*files.open(&path(number))?)?) {
                Ok(death) => drop(state.deaths.insert(number, death)),
                Err(_) => files.remove(&path(number))?,
            }
        }
        let marked = take_marked(&*files)?;
        let (state, ends) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { files, settings, state, ends });
        for (height, order) in marked {
            let death = Death { height, order, why: ENDED.to_owned() };
            shared.keep(&mut shared.lock(), death);
        }
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("watchdog".into());
        let thread = Some(thread.spawn(move || own.look())?);
        Ok(Watchdog { shared, thread })
    }

    /// The first block that starts must stop before.
    pub fn failing(&self) -> Option<Failing> {
        let state = self.shared.lock();
        let mut counts = BTreeMap::<(Height, Hash), (usize, &str)>::new();
        for Death { height, order, why } in state.deaths.values() {
            let (count, last) = counts.entry((*height, *order)).or_default();
            (*count, *last) = (*count + 1, why);
        }
        let failing = counts.into_iter().find(|(_, (count, _))| *count >= DEATHS_MAX);
        failing.map(|((height, order), (deaths, why))| {
            let why = why.to_owned();
            Failing { height, order, deaths, why }
        })
    }

    /// A start is under way from now on, until [`Watchdog::started`]: its blocks are marked.
    pub fn start(&self) {
        let files = &self.shared.files;
        let made = files.create_folder(FOLDER).and_then(|()| files.create(&mark_path()));
        match made {
            Ok(file) => self.shared.lock().mark = Some(file),
            Err(error) => tracing::warn!(%error, "blocks of the start cannot be marked"),
        }
    }

    /// It has come to its end, good or bad.
    pub fn started(&self) {
        if self.shared.lock().mark.take().is_some()
            && let Err(error) = self.shared.files.remove(&mark_path())
        {
            tracing::warn!(%error, "the marks of the start cannot be removed");
        }
    }

    /// Whether an earlier start ended at once, in a block that this one has not got past.
    pub fn is_careful(&self) -> bool {
        self.shared.lock().deaths.values().any(|death| death.why == ENDED)
    }

    /// From now on a block is running, on the thread that holds what this returns or on others.
    pub fn begin(&self, height: Height, order: Hash) -> Running {
        self.begin_since(height, order, Some(Instant::now()))
    }

    /// The same of several blocks at once, of which this is the first.
    pub fn begin_part(&self, height: Height, order: Hash) -> Running {
        self.begin_since(height, order, None)
    }

    fn begin_since(&self, height: Height, order: Hash, since: Option<Instant>) -> Running {
        let mut state = self.shared.lock();
        let number = state.next_running;
        state.next_running += 1;
        let block = RunningBlock { height, order, since, died: false, file: None };
        state.running.insert(number, block);
        state.write_mark();
        Running { shared: Arc::clone(&self.shared), number }
    }

    /// Where tests have a block end the process.
    pub(crate) fn fault(&self, batch: &Batch) {
        if holds(batch, self.shared.settings.aborts_on) {
            std::process::abort();
        }
    }

    /// Whether a row is to be changed behind the ledger's back.
    pub(crate) fn tampers(&self, batch: &Batch) -> bool {
        holds(batch, self.shared.settings.tampers_on)
    }

    /// All blocks run: there is nothing to remember.
    pub fn forget(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        let deaths = std::mem::take(&mut state.deaths);
        if deaths.is_empty() {
            return Ok(());
        }
        for number in deaths.keys() {
            self.shared.files.remove(&path(*number))?;
        }
        self.shared.files.sync_folder(FOLDER)
    }
}

/// Whether a request of a block holds a test's text, which a release build takes from none.
fn holds(batch: &Batch, text: Option<&str>) -> bool {
    let Some(text) = text else { return false };
    let has = |envelope: &[u8]| envelope.windows(text.len()).any(|part| part == text.as_bytes());
    batch.envelopes().iter().any(|envelope| has(envelope))
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.ends.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Running {
    /// The block has failed by itself: it panicked, or it led to a halt.
    pub fn died(&self, why: &str) {
        let mut state = self.shared.lock();
        let Some(running) = state.running.get_mut(&self.number) else { return };
        running.died = true;
        let (height, order, file) = (running.height, running.order, running.file.take());
        if let Some(file) = file {
            // It has been stuck first: one death.
            self.shared.take_back(&mut state, file);
        }
        self.shared.keep(&mut state, Death { height, order, why: cut(why) });
        state.write_mark();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let Some(running) = state.running.remove(&self.number) else { return };
        state.write_mark();
        if let Some(file) = running.file {
            self.shared.take_back(&mut state, file);
        }
        if state.mark.is_some() && !running.died {
            let survived = state.ended_in(running.height, running.order);
            survived.into_iter().for_each(|file| self.shared.take_back(&mut state, file));
        }
    }
}

impl State {
    /// What runs and is not kept as a death already.
    fn write_mark(&self) {
        let Some(file) = &self.mark else { return };
        let unkept =
            self.running.values().filter(|running| !running.died && running.file.is_none());
        let mut bytes = [0; MARKED_MAX * MARKED_BYTES];
        for (place, running) in bytes.chunks_exact_mut(MARKED_BYTES).zip(unkept) {
            let (height, order) = place.split_at_mut(8);
            height.copy_from_slice(&running.height.to_be_bytes());
            order.copy_from_slice(&running.order);
        }
        if let Err(error) = file.write_at(&bytes, 0) {
            tracing::warn!(%error, "a block of the start cannot be marked");
        }
    }

    /// The deaths in a block of which nothing is known but that the process ended.
    fn ended_in(&self, height: Height, order: Hash) -> Vec<u64> {
        let is_it =
            |death: &Death| death.height == height && death.order == order && death.why == ENDED;
        self.deaths.iter().filter(|(_, death)| is_it(death)).map(|(number, _)| *number).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Keeps a death for each block that has been running for too long, until there is to be an
    /// end.
    fn look(&self) {
        let every = LOOK_EVERY.min(self.settings.stuck_after);
        let mut state = self.lock();
        while !state.ends {
            state = self.ends.wait_timeout(state, every).unwrap_or_else(PoisonError::into_inner).0;
            let stuck = state.running.iter().filter(|(_, running)| {
                let over = |since: Instant| since.elapsed() >= self.settings.stuck_after;
                running.file.is_none() && !running.died && running.since.is_some_and(over)
            });
            for number in stuck.map(|(number, _)| *number).collect::<Vec<_>>() {
                self.is_stuck(&mut state, number);
            }
        }
    }

    fn is_stuck(&self, state: &mut State, number: u64) {
        let Some(running) = state.running.get(&number) else { return };
        let (height, order) = (running.height, running.order);
        let seconds = running.since.map_or(0.0, |since| since.elapsed().as_secs_f32());
        let why = format!("it had been running for {seconds} seconds");
        tracing::warn!(height, why, "a block takes long");
        // One end of a process in between is to count once, or not at all, but never twice.
        let kept_as = Some(state.next_file);
        if let Some(running) = state.running.get_mut(&number) {
            running.file = kept_as;
        }
        state.write_mark();
        let file = self.keep(state, Death { height, order, why });
        if let Some(running) = state.running.get_mut(&number) {
            running.file = file;
        }
        if file.is_none() {
            state.write_mark();
        }
    }

    /// Durable when it returns the file's number.
    fn keep(&self, state: &mut State, death: Death) -> Option<u64> {
        let number = state.next_file;
        state.next_file += 1;
        match write_new(&*self.files, FOLDER, &path(number), &encode(&death)) {
            Ok(()) => {
                state.deaths.insert(number, death);
                Some(number)
            }
            Err(error) => {
                tracing::warn!(%error, "that a block fails cannot be written down");
                None
            }
        }
    }

    fn take_back(&self, state: &mut State, file: u64) {
        state.deaths.remove(&file);
        let removed = self.files.remove(&path(file));
        if let Err(error) = removed.and_then(|()| self.files.sync_folder(FOLDER)) {
            tracing::warn!(%error, "that a block did not fail cannot be written down");
        }
    }
}

impl Failing {
    /// Why a node serves reads only.
    pub fn cause(&self) -> Error {
        let Failing { height, deaths, why, .. } = self;
        let perhaps = match why == ENDED {
            true => {
                "If the starts were killed, remove the folder `deaths` and start again. Otherwise: "
            }
            false => "",
        };
        Error::new(SqlState::INTERNAL_ERROR, format!("block {height} cannot be executed"))
            .with_detail(format!("{deaths} attempts died in block {height}; the last: {why}."))
            .with_hint(format!(
                "{perhaps}Start a version of the program that can execute it, or stop the node and \
                 record the block as rejected: tally skip {height} --help."
            ))
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    cut(&format!("it panicked: {}", text.unwrap_or("without a message")))
}

fn cut(why: &str) -> String {
    why[..why.floor_char_boundary(WHY_BYTES_MAX)].to_owned()
}

fn path(number: u64) -> String {
    format!("{FOLDER}/{number:08}")
}

fn mark_path() -> String {
    format!("{FOLDER}/{MARK}")
}

/// Takes away what a start that did not end has marked, and returns it.
fn take_marked(files: &dyn Files) -> io::Result<Vec<(Height, Hash)>> {
    if !files.list(FOLDER)?.iter().any(|name| name == MARK) {
        return Ok(Vec::new());
    }
    let bytes = read_all(&*files.open(&mark_path())?)?;
    files.remove(&mark_path())?;
    files.sync_folder(FOLDER)?;
    let marked = bytes.chunks_exact(MARKED_BYTES).filter_map(|place| {
        let (height, order) = place.split_first_chunk()?;
        Some((u64::from_be_bytes(*height), Hash::try_from(order).ok()?))
    });
    Ok(marked.filter(|(height, _)| *height > 0).collect())
}

fn encode(Death { height, order, why }: &Death) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_u64(*height, &mut bytes);
    encode_bytes(order, &mut bytes);
    encode_str(why, &mut bytes);
    bytes
}

fn decode(mut bytes: &[u8]) -> Result<Death> {
    let damaged = || Error::new(SqlState::DATA_CORRUPTED, "it holds something else");
    let input = &mut bytes;
    let height = decode_u64(input)?;
    let order = decode_bytes(input)?.try_into().map_err(|_| damaged())?;
    let why = decode_str(input)?.to_owned();
    match input.is_empty() {
        true => Ok(Death { height, order, why }),
        false => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use ledger::MemoryFiles;

    use super::*;

    const ORDER: Hash = [7; 32];

    fn open(files: &MemoryFiles, stuck_after: Duration) -> Watchdog {
        let settings = WatchdogSettings { stuck_after, ..WatchdogSettings::default() };
        Watchdog::open(Arc::new(files.clone()), settings).unwrap()
    }

    fn kept(files: &MemoryFiles) -> usize {
        files.list(FOLDER).unwrap().len()
    }

    const NEVER: Duration = Duration::from_secs(3600);

    #[test]
    fn two_panics_in_one_block_are_needed_and_kept() {
        let files = MemoryFiles::new();
        for (death, height) in [17, 18, 17].into_iter().enumerate() {
            let watchdog = open(&files, NEVER);
            assert_eq!(watchdog.failing(), None, "before death {death}");
            watchdog.begin(height, ORDER).died("it panicked: no");
        }
        let failing = open(&files, NEVER).failing().unwrap();
        assert_eq!((failing.height, failing.order, failing.deaths), (17, ORDER, 2));
        assert!(failing.cause().to_string().contains("it panicked: no"));
        open(&files, NEVER).forget().unwrap();
        assert_eq!((open(&files, NEVER).failing(), kept(&files)), (None, 0));
    }

    #[test]
    fn a_block_of_the_same_height_in_another_chain_is_another_one() {
        let files = MemoryFiles::new();
        for order in [[1; 32], [2; 32]] {
            open(&files, NEVER).begin(17, order).died("why");
        }
        assert_eq!(open(&files, NEVER).failing(), None);
    }

    /// What a kill leaves of a block is what is on disk at that moment.
    #[test]
    fn only_a_block_that_takes_long_leaves_something_when_it_is_killed() {
        let files = MemoryFiles::new();
        let quick = open(&files, NEVER);
        let running = quick.begin(17, ORDER);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(kept(&files), 0);
        drop(running);
        let watchdog = open(&files, Duration::from_millis(1));
        let running = watchdog.begin(17, ORDER);
        while kept(&files) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(running);
        assert_eq!(kept(&files), 0, "it has ended");
    }

    #[test]
    fn a_stuck_block_that_panics_in_the_end_is_one_death() {
        let files = MemoryFiles::new();
        let watchdog = open(&files, Duration::from_millis(1));
        let running = watchdog.begin(17, ORDER);
        while kept(&files) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        running.died("it panicked");
        drop(running);
        assert_eq!((kept(&files), watchdog.failing()), (1, None));
    }

    /// A start that ends within a block, as far as files tell.
    fn ends_in(files: &MemoryFiles, heights: &[Height]) {
        let watchdog = open(files, NEVER);
        watchdog.start();
        heights.iter().for_each(|height| std::mem::forget(watchdog.begin(*height, ORDER)));
    }

    #[test]
    fn two_starts_that_end_in_one_block_are_two_deaths_however_soon_they_end() {
        let files = MemoryFiles::new();
        ends_in(&files, &[17]);
        let second = open(&files, NEVER);
        assert!(second.is_careful() && second.failing().is_none());
        drop(second);
        assert!(open(&files, NEVER).failing().is_none(), "a mark counts once");
        ends_in(&files, &[17]);
        let failing = open(&files, NEVER).failing().unwrap();
        assert_eq!((failing.height, failing.deaths, &*failing.why), (17, 2, ENDED));
    }

    #[test]
    fn a_start_that_gets_past_a_block_takes_its_death_back() {
        let files = MemoryFiles::new();
        // It executes one and compiles the other: either may have been the reason.
        ends_in(&files, &[17, 20]);
        let watchdog = open(&files, NEVER);
        watchdog.start();
        drop(watchdog.begin(17, ORDER));
        assert!(watchdog.is_careful());
        std::mem::forget(watchdog.begin(20, ORDER));
        drop(watchdog);
        let failing = open(&files, NEVER).failing().unwrap();
        assert_eq!(failing.height, 20);
        assert_eq!(kept(&files), 2, "nothing is held against block 17");
    }

    #[test]
    fn a_start_that_is_over_leaves_no_mark_and_a_live_node_makes_none() {
        let files = MemoryFiles::new();
        let watchdog = open(&files, NEVER);
        watchdog.start();
        drop(watchdog.begin(17, ORDER));
        watchdog.started();
        std::mem::forget(watchdog.begin(18, ORDER));
        drop(watchdog);
        let watchdog = open(&files, NEVER);
        assert!(!watchdog.is_careful() && kept(&files) == 0);
    }

    #[test]
    fn a_start_that_was_stuck_before_it_ended_is_one_death() {
        let files = MemoryFiles::new();
        let watchdog = open(&files, Duration::from_millis(1));
        watchdog.start();
        std::mem::forget(watchdog.begin(17, ORDER));
        while kept(&files) < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(watchdog);
        assert_eq!((open(&files, NEVER).failing(), kept(&files)), (None, 1));
    }

    #[test]
    fn what_a_crash_has_cut_counts_for_nothing() {
        let files = MemoryFiles::new();
        let bytes = encode(&Death { height: 17, order: ORDER, why: "why".into() });
        assert!((0..bytes.len()).all(|length| decode(&bytes[..length]).is_err()));
        for number in 0..2 {
            files.plant(&path(number), bytes[..bytes.len() - 1].to_vec());
        }
        let watchdog = open(&files, NEVER);
        assert_eq!((watchdog.failing(), kept(&files)), (None, 0));
        watchdog.begin(17, ORDER).died(&"é".repeat(WHY_BYTES_MAX));
        assert_eq!(files.list(FOLDER).unwrap(), ["00000002"], "a number is used once");
    }
}
