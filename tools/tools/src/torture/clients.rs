//! Clients that work until the node dies under them, and know exactly what they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use bytes::Bytes;
use futures::SinkExt;
use kit::random::Random;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error};

use super::model::{CUSTOMERS, Cursor, Kind, Model, Operation, Step, delete_below, schema_change};
use crate::demo::pgbench::Target;

/// What one client was told.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reported {
    /// The last operation that was confirmed.
    pub acknowledged: i64,
    /// The next one was sent whole, and its answer never came.
    pub under_way: bool,
    /// Interactive transactions that were told 40001, and were sent again.
    pub retried: u64,
}

impl Reported {
    /// The last operation that may have taken effect.
    pub fn most(&self) -> i64 {
        self.acknowledged + i64::from(self.under_way)
    }
}

/// The clients between two deaths of a node.
pub struct Round {
    recording: Vec<JoinHandle<Result<Reported>>>,
    banking: Vec<JoinHandle<Result<u64>>>,
    stop: Arc<AtomicBool>,
}

/// What all clients were told in a round.
pub struct Ended {
    /// By recording client.
    pub reported: Vec<Reported>,
    /// SmallBank calls that were answered; what is known of them is the sum of the money.
    pub calls: u64,
}

impl Round {
    pub fn start(
        runtime: &Runtime,
        target: &Target,
        models: &[Model],
        banking: u64,
        seed: u64,
    ) -> Round {
        let stop = Arc::new(AtomicBool::new(false));
        let record =
            |model: &Model| runtime.spawn(record(target.clone(), model.cursor(), stop.clone()));
        let bank = |i| runtime.spawn(bank(target.clone(), seed.wrapping_add(i), stop.clone()));
        Round {
            recording: models.iter().map(record).collect(),
            banking: (0..banking).map(bank).collect(),
            stop,
        }
    }

    /// The same over all nodes of a cluster; the first recording client is idle.
    pub fn spread(
        runtime: &Runtime,
        targets: &[Target],
        models: &[Model],
        banking: u64,
        seed: u64,
    ) -> Round {
        let stop = Arc::new(AtomicBool::new(false));
        let target = |i: usize| targets[i % targets.len()].clone();
        let record = |(i, model): (usize, &Model)| match i {
            0 => {
                let idle = Reported { acknowledged: model.sequence, ..Reported::default() };
                runtime.spawn(std::future::ready(Ok(idle)))
            }
            i => runtime.spawn(record(target(i), model.cursor(), stop.clone())),
        };
        let bank = |i| runtime.spawn(bank(target(i as usize), seed.wrapping_add(i), stop.clone()));
        Round {
            recording: models.iter().enumerate().map(record).collect(),
            banking: (0..banking).map(bank).collect(),
            stop,
        }
    }

    /// Waits for all of them: they end with the node, or after the operation at hand.
    pub fn end(self, runtime: &Runtime) -> Result<Ended> {
        self.stop.store(true, Ordering::Relaxed);
        let mut reported = Vec::new();
        for client in runtime.block_on(futures::future::join_all(self.recording)) {
            reported.push(client??);
        }
        let mut calls = 0;
        for client in runtime.block_on(futures::future::join_all(self.banking)) {
            calls += client??;
        }
        Ok(Ended { reported, calls })
    }
}

/// How an operation's attempt ended, when it did not succeed.
enum Failure {
    /// 40001, or 40P01 where sessions lock: nothing of it took effect.
    Retry,
    /// The node is gone, or on its way out.
    Gone,
    Wrong(anyhow::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let Some(said) = error.as_db_error() else {
            return Failure::Gone;
        };
        match said.code().code() {
            "40001" | "40P01" => Failure::Retry,
            // Stopping, starting, a disk that fails, a node that lost its cluster, or whose clock
            // is far behind the ledger's.
            "57P01" | "57P02" | "57P03" | "58030" | "53100" | "25006" | "08007" | "55000" => {
                Failure::Gone
            }
            code => Failure::Wrong(anyhow::anyhow!("{code}: {}", said.message())),
        }
    }
}

async fn record(target: Target, mut cursor: Cursor, stop: Arc<AtomicBool>) -> Result<Reported> {
    let mut reported = Reported { acknowledged: cursor.sequence, ..Reported::default() };
    // The node may be gone before the client has come.
    let Ok(connection) = target.connect().await else {
        return Ok(reported);
    };
    while !stop.load(Ordering::Relaxed) {
        let operation = cursor.next();
        let mut attempt = Attempt {
            connection: &connection,
            operation,
            stage: cursor.stage,
            under_way: &mut reported.under_way,
        };
        match attempt.run().await {
            Ok(()) => {
                cursor.advance();
                reported.acknowledged = cursor.sequence;
            }
            Err(Failure::Retry) => {
                reported.retried += 1;
                // What a failed block leaves open; without one this is a warning.
                if connection.batch_execute("ROLLBACK").await.is_err() {
                    break;
                }
            }
            Err(Failure::Gone) => break,
            Err(Failure::Wrong(error)) => bail!("{operation:?}: {error}"),
        }
        // Nothing is under way after an answer.
        reported.under_way = false;
    }
    Ok(reported)
}

/// One operation, sent once.
struct Attempt<'a> {
    connection: &'a Client,
    operation: Operation,
    stage: usize,
    /// Set when what could commit it is about to be sent.
    under_way: &'a mut bool,
}

impl Attempt<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let Operation { client, sequence, amount, payer, payee, .. } = self.operation;
        match self.operation.kind {
            Kind::Payment => {
                *self.under_way = true;
                let text = "SELECT sb_recorded_payment($1, $2, $3, $4, $5)";
                let arguments = [client, sequence, payer, payee, amount];
                let row =
                    self.connection.query_one(text, &arguments.each_ref().map(|a| a as _)).await?;
                match row.try_get::<_, i64>(0)? == sequence {
                    true => Ok(()),
                    false => Err(Failure::Wrong(anyhow::anyhow!("another payment's answer"))),
                }
            }
            Kind::Step(step) => self.commit(&step_text(&self.operation, step)).await,
            Kind::Transfer { reads } => self.transfer(reads).await,
            Kind::Load { lines } => self.load(lines).await,
            Kind::Schema => self.commit(&schema_change(client, self.stage)).await,
            Kind::Protocol => {
                let protocol = self.operation.protocol();
                let text = format!("SET ledger.protocol = '{protocol}'");
                self.commit(&text).await
            }
        }
    }

    /// A statement that takes effect by itself.
    async fn commit(&mut self, text: &str) -> Result<(), Failure> {
        *self.under_way = true;
        Ok(self.connection.batch_execute(text).await?)
    }

    /// Two tables and two purses in one interactive transaction.
    async fn transfer(&mut self, reads: bool) -> Result<(), Failure> {
        let Operation { client, sequence, amount, from, to, .. } = self.operation;
        let connection = self.connection;
        let half = |table| format!("INSERT INTO {table} VALUES ({client}, {sequence}, {amount})");
        connection.batch_execute("BEGIN").await?;
        connection.batch_execute(&half("left_half")).await?;
        if reads {
            for (purse, change) in [(from, -amount), (to, amount)] {
                let text = format!("SELECT cents FROM purses WHERE id = {purse}");
                let cents: i64 = connection.query_one(&text, &[]).await?.try_get(0)?;
                let cents = cents + change;
                let text = format!("UPDATE purses SET cents = {cents} WHERE id = {purse}");
                connection.batch_execute(&text).await?;
            }
        } else {
            let text = format!(
                "UPDATE purses SET cents = cents - {amount} WHERE id = {from};
                 UPDATE purses SET cents = cents + {amount} WHERE id = {to}"
            );
            connection.batch_execute(&text).await?;
        }
        connection.batch_execute(&half("right_half")).await?;
        self.commit("COMMIT").await
    }

    async fn load(&mut self, lines: i64) -> Result<(), Failure> {
        let (client, sequence) = (self.operation.client, self.operation.sequence);
        let sink = self.connection.copy_in::<_, Bytes>("COPY loaded FROM STDIN").await?;
        let mut sink = std::pin::pin!(sink);
        for line in 1..=lines {
            let row = format!("{client}\t{sequence}\t{line}\n");
            sink.send(Bytes::from(row)).await?;
        }
        *self.under_way = true;
        sink.finish().await?;
        Ok(())
    }
}

fn step_text(operation: &Operation, step: Step) -> String {
    let Operation { client, sequence, amount, .. } = operation;
    match step {
        Step::Insert => format!("INSERT INTO steps VALUES ({client}, {sequence}, {amount})"),
        Step::UpdateAll => {
            format!("UPDATE steps SET amount = amount + {amount} WHERE client = {client}")
        }
        Step::Count => {
            format!("UPDATE counters SET total = total + {amount} WHERE client = {client}")
        }
        Step::DeleteOld => format!(
            "DELETE FROM steps WHERE client = {client} AND sequence < {}",
            delete_below(*sequence)
        ),
    }
}

/// SmallBank's procedures at random. They keep the sum of all the money.
async fn bank(target: Target, seed: u64, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut random = Random::new(seed);
    let mut calls = 0;
    let Ok(connection) = target.connect().await else {
        return Ok(calls);
    };
    while !stop.load(Ordering::Relaxed) {
        let one = 1 + random.below(CUSTOMERS);
        let other = 1 + (one + random.below(CUSTOMERS - 1)) % CUSTOMERS;
        let text = match random.below(6) {
            0 => format!("SELECT sb_amalgamate({one}, {other})"),
            1 => format!("SELECT sb_balance({one})"),
            2 => format!("SELECT sb_deposit_checking({one}, 130)"),
            3 => format!("SELECT sb_transact_savings({one}, 2020)"),
            4 => format!("SELECT sb_write_check({one}, 500)"),
            _ => format!("SELECT sb_send_payment({one}, {other}, 500)"),
        };
        match connection.batch_execute(&text).await.map_err(Failure::from) {
            Ok(()) => calls += 1,
            Err(Failure::Gone) => break,
            // Other clients change the protocol, to those too that may say so.
            Err(Failure::Retry) => {}
            Err(Failure::Wrong(error)) => bail!("{text}: {error}"),
        }
    }
    Ok(calls)
}
