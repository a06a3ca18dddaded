//! SmallBank in the database: create it, load it, count it.

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, SimpleQueryMessage};
use workloads::smallbank::{self, OUTSIDE_ROWS, TABLES, Variant};

use super::pgbench::Target;

/// Customers whose rows travel in one message of a COPY.
const ROWS_PER_MESSAGE: u64 = 2_000;

pub struct Bank {
    pub customers: u64,
}

impl Bank {
    pub async fn create(&self, target: &Target) -> Result<()> {
        let client = target.connect().await?;
        let procedures = smallbank::procedures(Variant { audited: true, raising: false });
        for text in [smallbank::SCHEMA, smallbank::AUDIT, &procedures] {
            client.batch_execute(text).await.context("SmallBank's schema")?;
        }
        Ok(())
    }

    /// Loads every table; `advance` hears which part is done, from 0 to 1. Returns the rows.
    pub async fn load(&self, target: &Target, advance: impl Fn(f64)) -> Result<u64> {
        let client = target.connect().await?;
        let mut rows = 0;
        for (index, table) in TABLES.iter().enumerate() {
            let statement = format!("COPY {} FROM STDIN", table.name());
            let sink = client.copy_in::<_, Bytes>(&statement).await?;
            let mut sink = std::pin::pin!(sink);
            let mut first = 1;
            while first <= self.customers {
                let last = self.customers.min(first + ROWS_PER_MESSAGE - 1);
                let mut message = Vec::new();
                table.write_rows(first, last, &mut message)?;
                sink.send(Bytes::from(message)).await?;
                let part = last as f64 / self.customers as f64;
                advance((index as f64 + part) / TABLES.len() as f64);
                first = last + 1;
            }
            rows += sink.finish().await?;
        }
        let sink = client.copy_in::<_, Bytes>("COPY outside FROM STDIN").await?;
        let mut sink = std::pin::pin!(sink);
        let message: String = (0..OUTSIDE_ROWS).map(|id| format!("{id}\t0\n")).collect();
        sink.send(Bytes::from(message)).await?;
        rows += sink.finish().await?;
        Ok(rows)
    }

    /// All the money: in the accounts, and what left or entered the bank.
    pub async fn total_cents(&self, target: &Target) -> Result<i64> {
        let client = target.connect().await?;
        let mut total = 0;
        for table in ["savings", "checking", "outside"] {
            total += sum(&client, table).await?;
        }
        Ok(total)
    }

    /// The journal's sequence numbers, by client.
    pub async fn journal(&self, target: &Target, clients: usize) -> Result<Vec<Vec<u64>>> {
        let client = target.connect().await?;
        let mut journal = vec![Vec::new(); clients];
        let text = "SELECT client, sequence FROM journal ORDER BY client, sequence";
        for row in client.query(text, &[]).await? {
            let (client, sequence): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let of_client = usize::try_from(client).ok().and_then(|c| journal.get_mut(c));
            let of_client = of_client.context("the journal names an unknown client")?;
            of_client.push(u64::try_from(sequence)?);
        }
        Ok(journal)
    }
}

/// As text, since the sum of bigints is a numeric.
async fn sum(client: &Client, table: &str) -> Result<i64> {
    let messages = client.simple_query(&format!("SELECT sum(bal) FROM {table}")).await?;
    let text = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(text.unwrap_or("0").parse()?)
}
