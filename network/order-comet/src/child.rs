//! CometBFT as a child process of the node: started, restarted when it ends, stopped.
//!
//! When the node ends, however it does, the sockets on which CometBFT calls it are closed, and
//! CometBFT then ends itself. There is one exception: if it was fetching blocks from its peers at
//! that moment, it waits for itself for ever, and keeps its port and its files. So before a node
//! starts CometBFT, it kills any that an earlier run left behind. The node holds the data folder
//! exclusively, so whatever CometBFT runs in the home below it is such a leftover.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tracing::{info, warn};

use crate::node::Shared;

const LOG: &str = "cometbft.log";
/// Larger than that at a start it becomes the old one.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Of its end that is looked at for a cause.
const TAIL_BYTES: u64 = 16 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// One that ran for so long was well.
const WELL: Duration = Duration::from_secs(30);
/// Between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(5);

/// Runs CometBFT until the node ends.
pub(crate) fn keep(shared: &Shared, home: &Path, program: &Path) {
    let mut pause = PAUSE_MIN;
    while !shared.has_ended() {
        let began = Instant::now();
        end_left_behind(home);
        match start(home, program) {
            Ok(mut child) => {
                info!(id = child.id(), "CometBFT is started");
                let ended = wait(shared, &mut child);
                if shared.has_ended() {
                    return;
                }
                if shared.takes_restart() {
                    info!("CometBFT was ended, to begin anew by its files");
                    continue;
                }
                let status = ended.map_or_else(|error| error.to_string(), |it| it.to_string());
                let why = cause(&tail(home));
                warn!(status, "CometBFT has ended, and is started again: {why}");
                shared.complain(&format!("CometBFT has ended: {why}"));
            }
            Err(error) => {
                let program = program.display();
                let what = format!(
                    "{program} cannot be started: {error}; CometBFT 0.39.4 is installed by `go \
                     install github.com/cometbft/cometbft/cmd/cometbft@v0.39.4`, and the setting \
                     `cometbft` says where it is"
                );
                warn!("{what}");
                shared.complain(&what);
            }
        }
        if began.elapsed() >= WELL {
            pause = PAUSE_MIN;
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !shared.has_ended() {
            sleep(LOOK_EVERY);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn start(home: &Path, program: &Path) -> io::Result<Child> {
    match fs::remove_file(home.join("rpc.sock")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let log = home.join(LOG);
    if fs::metadata(&log).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
        fs::rename(&log, home.join("cometbft.log.old"))?;
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
    // In a group of its own: a terminal's interrupt is for the node, which ends it in order.
    Command::new(program)
        .args(["start", "--home"])
        .arg(home)
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
}

/// Kills every CometBFT that runs in this home, and waits until it is gone.
fn end_left_behind(home: &Path) {
    // Where the system does not tell what runs there is nothing to be done.
    let found = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = found.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry)));
    for (id, entry) in found {
        let process = entry.path();
        if !runs_in(&process, home) {
            continue;
        }
        warn!(id, "a CometBFT that an earlier start has left behind is ended");
        let _ = Pid::from_raw(id).map(|id| kill_process(id, Signal::KILL));
        let since = Instant::now();
        while runs_in(&process, home) && since.elapsed() < GRACE {
            sleep(LOOK_EVERY);
        }
    }
}

/// By its last words and by where it works.
fn runs_in(process: &Path, home: &Path) -> bool {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let last = [b"\0start\0--home\0", home.as_os_str().as_bytes(), b"\0"].concat();
    let place = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    words.ends_with(&last) && place(&process.join("cwd")).is_some_and(|it| Some(it) == place(home))
}

fn wait(shared: &Shared, child: &mut Child) -> io::Result<std::process::ExitStatus> {
    let mut asked = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if shared.has_ended() || shared.wants_restart() {
            let since = *asked.get_or_insert_with(|| {
                signal(child);
                Instant::now()
            });
            if since.elapsed() > GRACE {
                child.kill()?;
                return child.wait();
            }
        }
        sleep(LOOK_EVERY);
    }
}

fn signal(child: &Child) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = id.map(|id| kill_process(id, Signal::TERM));
}

fn tail(home: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(home.join(LOG))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

/// What CometBFT's last words mean for a node, and what to do.
fn cause(tail: &str) -> String {
    let known = [
        (
            "wrong Block.Header.AppHash",
            "the others have executed a block to another result than this node: see `tally \
             cluster status`, stop the node, and take its ledger from another member's copy",
        ),
        (
            "AppHash does not match",
            "its blocks were executed to another result than this ledger holds: put the folders \
             of the ledger and `cometbft` back from one copy",
        ),
        (
            "is higher than core",
            "its blocks end before this ledger's: put the folders of the ledger and `cometbft` \
             back from one copy",
        ),
        ("address already in use", "its port is taken: see `laddr` in cometbft/config/config.toml"),
        (
            "resource temporarily unavailable",
            "another CometBFT, of an earlier start, holds its files: it is waited for",
        ),
    ];
    let said = |words: &str| tail.rfind(words);
    let newest = known.iter().filter_map(|(words, means)| Some((said(words)?, means))).max();
    match newest {
        Some((_, means)) => (*means).to_owned(),
        None => {
            let last = tail.lines().rev().find(|line| !line.trim().is_empty());
            format!("its log ends with {:?}", last.unwrap_or_default())
        }
    }
}

/// Where a program is found: a path as it is, a name in PATH. It is started in another folder, so
/// the path that is found begins at the root.
pub fn find(program: &Path) -> Option<PathBuf> {
    let is_name = program.components().count() == 1;
    let found = match is_name {
        false => Some(program.to_owned()),
        true => {
            let path = std::env::var_os("PATH")?;
            let all = std::env::split_paths(&path).map(|folder| folder.join(program));
            all.into_iter().find(|it| it.is_file())
        }
    };
    fs::canonicalize(found?).ok().filter(|it| it.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_node_has_left_behind_is_ended_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (home, elsewhere) = (folder.path().join("home"), folder.path().join("elsewhere"));
        let program = folder.path().join("cometbft");
        fs::write(&program, "sleep 600\n").unwrap();
        let run = |named: &Path, place: &Path| {
            fs::create_dir_all(place).unwrap();
            let mut command = Command::new("sh");
            command.arg(&program).args(["start", "--home"]).arg(named).current_dir(place);
            command.process_group(0).spawn().unwrap()
        };
        let ends = |child: &mut Child| {
            let since = Instant::now();
            while child.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(1) {
                sleep(LOOK_EVERY);
            }
            child.try_wait().unwrap().is_some()
        };
        let mut left = run(&home, &home);
        let mut others = [run(&home, &elsewhere), run(&elsewhere, &elsewhere)];
        end_left_behind(&home);
        assert!(ends(&mut left));
        for other in &mut others {
            assert!(!ends(other));
        }
        for child in [&left, &others[0], &others[1]] {
            let group = Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        for child in &mut others {
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_newest_cause_is_told() {
        let tail = "panic: bind: address already in use\nE[..] wrong Block.Header.AppHash. ...\n";
        assert!(cause(tail).contains("another result than this node"));
        let tail = "wrong Block.Header.AppHash\nbind: address already in use\n";
        assert!(cause(tail).contains("its port is taken"));
        assert!(cause("one\ntwo \n\n").contains("\"two \""));
    }
}
