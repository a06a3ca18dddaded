//! `tally failover`: how long writes are away when the member that leads is killed.
//!
//! ```text
//! a writer at another member   INSERT ─ INSERT ─ ─ ─ ─ ─ ─ ─ ─ ─ INSERT
//!                                         ▲ SIGKILL for the leader  ▲ answered, and sent after it
//!                                         └────────── away ─────────┘
//! ```
//!
//! The one that was killed starts again and catches up before the next kill. At the end each row
//! that was acknowledged has to be there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use node::cli::{Exit, Output};
use node::progress::Progress;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::arguments;
use crate::demo::pgbench::Target;
use crate::members::Members;
use crate::node_process::path;

/// Between two statements.
const PAUSE: Duration = Duration::from_millis(5);
/// Under load before each kill.
const CALM: Duration = Duration::from_millis(500);
const AWAY_MAX: Duration = Duration::from_secs(60);

pub fn run(arguments: &arguments::Failover, output: Output) -> Result<Exit> {
    let arguments::Failover { order, nodes, kills, cometbft } = arguments;
    let folder = tempfile::Builder::new().prefix("tally-failover-").tempdir()?;
    let program = format!("cometbft={}", path(cometbft)?);
    let of_order = match &**order {
        "cometbft" => vec!["--order", "cometbft", "--set", &program],
        other => vec!["--order", other],
    };
    let mut members = Members::start(folder.path(), *nodes, *nodes, &of_order)?;
    let runtime = Runtime::new()?;
    let table = "CREATE TABLE probes (id bigint PRIMARY KEY)";
    let client = runtime.block_on(members.target(1).connect())?;
    runtime.block_on(client.batch_execute(table))?;

    let step = Progress::begin(&format!("killing the leader of {nodes} members by {order}"));
    let (mut away, mut acknowledged) = (Vec::new(), BTreeSet::new());
    for kill in 0..*kills {
        step.advance(f64::from(kill) / f64::from(*kills));
        let (waited, reported) = kill_once(&mut members, &runtime, kill)?;
        away.push(waited);
        acknowledged.extend(reported);
    }
    step.end("");
    let client = runtime.block_on(members.target(1).connect())?;
    let rows = runtime.block_on(client.query("SELECT id FROM probes", &[]))?;
    let there: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
    let lost = acknowledged.difference(&there).count();
    away.sort_unstable();
    let at = |percent: usize| away.get((away.len() * percent / 100).min(away.len() - 1)).copied();
    let ms = |time: Option<Duration>| time.map_or(0, |time| time.as_millis() as u64);
    let (median, p90, worst) = (ms(at(50)), ms(at(90)), ms(away.last().copied()));
    let written = acknowledged.len();
    match output {
        Output::Text => println!(
            "{order}, {nodes} members, {kills} kills: writes away {median} ms in the median, {p90} ms \
             in nine of ten, {worst} ms at worst; {lost} of {written} acknowledged rows lost"
        ),
        Output::Json => println!(
            "{}",
            json!({
                "order": order, "nodes": nodes, "kills": kills, "away_ms_p50": median,
                "away_ms_p90": p90, "away_ms_max": worst, "acknowledged": written, "lost": lost,
            })
        ),
    }
    Ok(if lost == 0 { Exit::Ok } else { Exit::Failed })
}

/// How long writes were away, and what was acknowledged meanwhile.
fn kill_once(members: &mut Members, runtime: &Runtime, kill: u32) -> Result<(Duration, Vec<i64>)> {
    members.settle_heights()?;
    let leader = members.leader()?.context("no member leads")?;
    let other = members.running().into_iter().find(|it| *it != leader).context("it is alone")?;
    let mut writer = Writer::start(runtime, &members.target(other), i64::from(kill) << 32);
    writer.wait(CALM)?;
    // Another one may lead by now.
    let leader = members.leader()?.filter(|it| *it != other).unwrap_or(leader);
    let killed = Instant::now();
    members.kill(leader)?;
    let away = writer.answered_after(killed)?;
    let acknowledged = writer.end(runtime)?;
    members.launch(leader, &[])?;
    members.wait_until_ready(leader)?;
    Ok((away, acknowledged))
}

/// One client that writes row after row.
struct Writer {
    ends: Arc<AtomicBool>,
    /// When a row was sent that is acknowledged.
    answers: UnboundedReceiver<Instant>,
    task: tokio::task::JoinHandle<Result<Vec<i64>>>,
}

impl Writer {
    fn start(runtime: &Runtime, target: &Target, from: i64) -> Writer {
        let (tell, answers) = unbounded_channel();
        let (ends, target) = (Arc::new(AtomicBool::new(false)), target.clone());
        let stop = Arc::clone(&ends);
        let task = runtime.spawn(async move {
            let client = target.connect().await?;
            let insert = client.prepare("INSERT INTO probes VALUES ($1)").await?;
            let (mut reported, mut id) = (Vec::new(), from);
            while !stop.load(Ordering::Relaxed) {
                let sent = Instant::now();
                if client.execute(&insert, &[&id]).await.is_ok() {
                    reported.push(id);
                    let _ = tell.send(sent);
                }
                id += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Ok(reported)
        });
        Writer { ends, answers, task }
    }

    /// It has written for so long.
    fn wait(&mut self, time: Duration) -> Result<()> {
        let since = Instant::now();
        self.answered_after(since)?;
        std::thread::sleep(time);
        Ok(())
    }

    /// How long it took until a row was answered that was sent after this moment.
    fn answered_after(&mut self, moment: Instant) -> Result<Duration> {
        loop {
            while let Ok(sent) = self.answers.try_recv() {
                if sent >= moment {
                    return Ok(moment.elapsed());
                }
            }
            ensure!(moment.elapsed() < AWAY_MAX, "nothing is written after {AWAY_MAX:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(self, runtime: &Runtime) -> Result<Vec<i64>> {
        self.ends.store(true, Ordering::Relaxed);
        runtime.block_on(self.task)?
    }
}
