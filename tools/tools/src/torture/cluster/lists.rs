//! Clients that append to lists and read them, each transaction under a key, at whichever node
//! answers.
//!
//! ```text
//! SET tally.transaction_key = …      BEGIN; SELECT …; UPDATE …; COMMIT       one message each
//! answered        what it read and appended is kept
//! 08007, no answer, a node that is gone      open: the client goes on at another node
//! all up again    each that is open is asked for by its key
//! ```
//!
//! A key that is not known when it is asked for is taken by a write that changes nothing, so that
//! the transaction which it named can never run. Otherwise a message that a frozen node had not
//! read by then could still be ordered later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::history::{Fate, Lists, Step, Transaction, check};
use crate::demo::pgbench::Target;

pub const TABLE: &str = "CREATE TABLE lists (id bigint PRIMARY KEY, items text NOT NULL)";
const CLIENTS: u64 = 4;
const LISTS: u64 = 5;
const STEPS_MAX: u64 = 4;
/// A client believes no longer that an answer will come.
const PATIENCE: Duration = Duration::from_millis(1_500);
const SETTINGS: &str = "SET tally.linearizable_reads = on; SET tally.commit_timeout = '600ms';
    SET tally.catch_up_timeout = '1s'";
/// Between two tries at nodes that do not answer.
const AGAIN: Duration = Duration::from_millis(50);
const DECIDED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Counts {
    pub answered: u64,
    pub refused: u64,
    /// Told 08007.
    pub undecided: u64,
    /// Not told anything.
    pub unanswered: u64,
    pub found_committed: u64,
    pub found_without_effect: u64,
}

/// How an attempt ended.
enum Reported {
    Answered(Vec<Step>),
    Refused,
    Undecided,
    Nothing,
}

/// One client's transactions, and those of them that are open.
#[derive(Default)]
struct Diary {
    closed: Vec<Transaction>,
    open: Vec<Transaction>,
    counts: Counts,
}

/// The clients of a round.
pub struct Appending {
    round: u64,
    clients: Vec<JoinHandle<Diary>>,
    stop: Arc<AtomicBool>,
}

impl Appending {
    /// The lists of a round are its own.
    pub fn start(
        runtime: &Runtime,
        targets: &[Target],
        first: &Target,
        round: u64,
        seed: u64,
    ) -> Result<Appending> {
        runtime.block_on(async {
            let rows: Vec<String> = ids(round).map(|id| format!("({id}, '')")).collect();
            let text = format!("INSERT INTO lists VALUES {}", rows.join(", "));
            first.connect().await?.batch_execute(&text).await.context("no list can be made")
        })?;
        let (stop, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let client = |client: u64| {
            let random = Random::new(seed.wrapping_add(client));
            let (targets, stop) = (targets.to_vec(), Arc::clone(&stop));
            runtime.spawn(Writer { round, client, began, targets, random }.run(stop))
        };
        Ok(Appending { round, clients: (0..CLIENTS).map(client).collect(), stop })
    }

    /// All nodes are up again: what became of all that was sent.
    pub fn end(self, runtime: &Runtime, target: &Target) -> Result<Counts> {
        self.stop.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            let (mut history, mut counts) = (Vec::new(), Counts::default());
            let diaries = futures::future::join_all(self.clients).await;
            // A session sees what was acknowledged before it came, and they are told no more.
            let client = target.connect().await?;
            for diary in diaries {
                let Diary { closed, open, counts: more } = diary?;
                history.extend(closed);
                counts.answered += more.answered;
                counts.refused += more.refused;
                counts.undecided += more.undecided;
                counts.unanswered += more.unanswered;
                for transaction in open {
                    let fate = fate_of(&client, &transaction.key, self.round).await?;
                    match fate {
                        Fate::Committed => counts.found_committed += 1,
                        Fate::Refused => counts.found_without_effect += 1,
                    }
                    history.push(Transaction { fate, ..transaction });
                }
            }
            let mut lists = Lists::new();
            for id in ids(self.round) {
                let text = format!("SELECT items FROM lists WHERE id = {id}");
                let items: String = client.query_one(&text, &[]).await?.try_get(0)?;
                lists.insert(id, elements(&items)?);
            }
            check(&history, &lists).map_err(anyhow::Error::msg)?;
            Ok(counts)
        })
    }
}

fn ids(round: u64) -> std::ops::Range<u64> {
    round * LISTS..(round + 1) * LISTS
}

fn elements(items: &str) -> Result<Vec<u64>> {
    items.split_whitespace().map(|item| Ok(item.parse()?)).collect()
}

struct Writer {
    round: u64,
    client: u64,
    began: Instant,
    targets: Vec<Target>,
    random: Random,
}

impl Writer {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Diary {
        let (mut diary, mut number, mut at) = (Diary::default(), 0, self.client);
        while !stop.load(Ordering::Relaxed) {
            let target = &self.targets[at as usize % self.targets.len()];
            at += 1;
            let begun = async {
                let client = target.connect().await.ok()?;
                client.batch_execute(SETTINGS).await.ok()?;
                Some(client)
            };
            let Ok(Some(connection)) = timeout(PATIENCE, begun).await else {
                sleep(AGAIN).await;
                continue;
            };
            while !stop.load(Ordering::Relaxed) && !connection.is_closed() {
                number += 1;
                let is_open = self.attempt(&connection, number, &mut diary).await;
                if is_open {
                    break;
                }
            }
        }
        diary
    }

    /// Whether the client is to go to another node.
    async fn attempt(&mut self, connection: &Client, number: u64, diary: &mut Diary) -> bool {
        let key = format!("list {} {} {number}", self.round, self.client);
        let named = format!("SET tally.transaction_key = '{key}'");
        let sent = timeout(PATIENCE, connection.batch_execute(&named)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return true;
        }
        let planned = self.plan(number);
        let sent_us = self.elapsed_us();
        let reported = match timeout(PATIENCE, connection.simple_query(&text_of(&planned))).await {
            Ok(Ok(messages)) => match answered(&planned, &messages) {
                Ok(steps) => Reported::Answered(steps),
                Err(_) => Reported::Nothing,
            },
            Ok(Err(error)) => reported(&error),
            Err(_) => Reported::Nothing,
        };
        let (fate, answered_us) = (Fate::Committed, Some(self.elapsed_us()));
        let appends = planned.into_iter().filter(|step| matches!(step, Step::Append { .. }));
        let transaction = Transaction { key, steps: appends.collect(), fate, sent_us, answered_us };
        match reported {
            Reported::Answered(steps) => {
                diary.counts.answered += 1;
                diary.closed.push(Transaction { steps, ..transaction });
                return false;
            }
            Reported::Refused => {
                diary.counts.refused += 1;
                diary.closed.push(Transaction { fate: Fate::Refused, ..transaction });
                return connection.batch_execute("ROLLBACK").await.is_err();
            }
            Reported::Undecided => diary.counts.undecided += 1,
            Reported::Nothing => diary.counts.unanswered += 1,
        }
        // One that appends nothing is of no account.
        if !transaction.steps.is_empty() {
            diary.open.push(Transaction { answered_us: None, ..transaction });
        }
        true
    }

    fn elapsed_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn plan(&mut self, number: u64) -> Vec<Step> {
        let steps = 1 + self.random.below(STEPS_MAX);
        let element = |step| ((self.round * CLIENTS + self.client) << 32 | number) * 8 + step;
        (0..steps)
            .map(|step| {
                let list = ids(self.round).start + self.random.below(LISTS);
                match self.random.chance(2) {
                    true => Step::Append { list, element: element(step) },
                    false => Step::Read { list, seen: Vec::new() },
                }
            })
            .collect()
    }
}

fn text_of(planned: &[Step]) -> String {
    let mut text = "BEGIN; ".to_owned();
    for step in planned {
        text += &match step {
            Step::Append { list, element } => {
                format!("UPDATE lists SET items = items || '{element} ' WHERE id = {list}; ")
            }
            Step::Read { list, .. } => format!("SELECT items FROM lists WHERE id = {list}; "),
        };
    }
    text + "COMMIT"
}

/// The same steps, with what was read.
fn answered(planned: &[Step], messages: &[SimpleQueryMessage]) -> Result<Vec<Step>> {
    let mut rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let read = |step: &Step| match step {
        Step::Append { .. } => Ok(step.clone()),
        Step::Read { list, .. } => {
            let seen = elements(rows.next().context("a read has no answer")?)?;
            Ok(Step::Read { list: *list, seen })
        }
    };
    planned.iter().map(read).collect()
}

fn reported(error: &Error) -> Reported {
    let Some(said) = error.as_db_error() else { return Reported::Nothing };
    match said.code().code() {
        // A conflict; too long a wait for what others have ordered; in no block.
        "40001" | "40P01" | "55000" | "57014" | "25006" => Reported::Refused,
        "08007" => Reported::Undecided,
        _ => Reported::Nothing,
    }
}

/// What became of the transaction of a key, for good.
async fn fate_of(client: &Client, key: &str, round: u64) -> Result<Fate> {
    let began = Instant::now();
    while began.elapsed() < DECIDED_WITHIN {
        let text = format!("SELECT * FROM tally_outcome('{key}')");
        let found = client.query(&text, &[]).await.context("no outcome can be asked for")?;
        let outcome = found.first().map(|row| row.try_get::<_, String>("outcome")).transpose()?;
        match outcome.as_deref() {
            Some("committed") => return Ok(Fate::Committed),
            Some("rejected") => return Ok(Fate::Refused),
            Some("pending") => {}
            Some("retry") | None => {
                client.batch_execute(&format!("SET tally.transaction_key = '{key}'")).await?;
                let nothing = ids(round).start;
                let text = format!("UPDATE lists SET items = items || '' WHERE id = {nothing}");
                match client.batch_execute(&text).await {
                    Ok(()) => return Ok(Fate::Refused),
                    Err(error) => {
                        let code = error.code().map(|code| code.code());
                        // It came meanwhile.
                        let is_taken = matches!(code, Some("22023" | "40001"));
                        ensure!(is_taken, "{key} cannot be sent again: {error:?}");
                    }
                }
            }
            Some(other) => bail!("{key} is {other}"),
        }
        sleep(AGAIN).await;
    }
    bail!("{key} is not decided")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_plans_is_its_own() {
        let writer = |client| Writer {
            round: 3,
            client,
            began: Instant::now(),
            targets: Vec::new(),
            random: Random::new(client),
        };
        let mut seen = std::collections::BTreeSet::new();
        for client in 0..CLIENTS {
            let mut writer = writer(client);
            for number in 1..200 {
                for step in writer.plan(number) {
                    let (Step::Append { list, .. } | Step::Read { list, .. }) = &step;
                    assert!(ids(3).contains(list));
                    if let Step::Append { element, .. } = step {
                        assert!(seen.insert(element) && i64::try_from(element).is_ok());
                    }
                }
            }
        }
        assert!(seen.len() > 500);
    }
}
