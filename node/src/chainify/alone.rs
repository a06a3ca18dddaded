//! `tally chainify alone`: the transactions of a file on one database that is not chained, over
//! connections that run beside each other under the database's own concurrency control. What
//! chained databases are compared with.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chainify::{Alone as Ended, Database, Isolation};
use futures::future::try_join_all;
use serde_json::json;

use super::arguments::{Alone, Level};
use super::transactions::Transactions;
use crate::cli::{Exit, Output};

/// Before one is sent again that others were in the way of.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Counts {
    committed: u64,
    refused: u64,
    again: u64,
}

pub async fn alone(arguments: &Alone, output: Output) -> Result<Exit> {
    let Alone { database: url, file, connections, seconds, isolation, chained } = arguments;
    let transactions = Transactions::open(file)?;
    let isolation = match isolation {
        Level::Serializable => Isolation::Serializable,
        Level::ReadCommitted => Isolation::ReadCommitted,
    };
    let connected = (0..connections.get()).map(|_| Database::connect(url));
    let mut connected = try_join_all(connected).await?;
    if let Some(first) = connected.first_mut()
        && !chained
        && first.ledger().await?.is_some()
    {
        let name = first.name();
        bail!("{name} is chained: these would be edits behind the ledger's back (--chained)");
    }
    let began = Instant::now();
    let until = seconds.map(|seconds| began + Duration::from_secs_f64(seconds.max(0.0)));
    let working = connected.iter_mut().map(|it| worked(it, &transactions, isolation, until));
    let all = try_join_all(working).await?;
    let seconds = began.elapsed().as_secs_f64();
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    let (committed, refused) = (sum(|it| it.committed), sum(|it| it.refused));
    let again = sum(|it| it.again);
    match output {
        Output::Text => println!(
            "{committed} transactions committed, {refused} were refused, {again} were sent again, \
             in {seconds:.1} s"
        ),
        Output::Json => println!(
            "{}",
            json!({
                "committed": committed, "refused": refused, "again": again, "seconds": seconds,
            })
        ),
    }
    Ok(Exit::Ok)
}

/// One after the other, until there are no more or the time is up.
async fn worked(
    database: &mut Database,
    transactions: &Transactions,
    isolation: Isolation,
    until: Option<Instant>,
) -> Result<Counts> {
    let mut counts = Counts::default();
    let is_over = || until.is_some_and(|until| Instant::now() >= until);
    while !is_over()
        && let Some(statements) = transactions.next()?
    {
        loop {
            match database.alone(&statements, isolation).await? {
                Ended::Committed => counts.committed += 1,
                Ended::Refused => counts.refused += 1,
                Ended::Again => {
                    counts.again += 1;
                    if !is_over() {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                }
            }
            break;
        }
    }
    Ok(counts)
}
