//! What the database holds, against what the clients were told.

use anyhow::{Context, Result, bail};
use tokio_postgres::Client;
use workloads::smallbank;

use super::clients::Reported;
use super::model::{CUSTOMERS, Model, Owned, PURSE_CENTS, PURSES};
use crate::demo::bank::Bank;
use crate::demo::pgbench::Target;

/// Between which two numbers of operations each client may be found.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub least: i64,
    pub most: i64,
}

impl Range {
    /// Where nothing was done since a model was settled.
    pub fn exactly(model: &Model) -> Range {
        Range { least: model.sequence, most: model.sequence }
    }
}

impl From<&Reported> for Range {
    fn from(reported: &Reported) -> Range {
        Range { least: reported.acknowledged, most: reported.most() }
    }
}

/// Takes each model to what the database holds; an error says what is lost, half or made up.
pub async fn resolve(target: &Target, models: &mut [Model], ranges: &[Range]) -> Result<()> {
    let client = target.connect().await?;
    let found = owned_rows(&client, models.len()).await?;
    let shown = client.simple_query("SHOW ledger.protocol").await?;
    let protocol = shown.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let protocol = protocol.context("no protocol is shown")?;
    // Client 0 alone sets it.
    let protocols = std::iter::once(Some(protocol)).chain(std::iter::repeat(None));
    for (((model, range), found), protocol) in
        models.iter_mut().zip(ranges).zip(&found).zip(protocols)
    {
        let resolved = model.resolve(found, protocol, range.least, range.most);
        resolved.map_err(anyhow::Error::msg)?;
    }
    check_purses(&client, models).await?;
    let bank = Bank { customers: CUSTOMERS };
    let total = bank.total_cents(target).await?;
    let expected = smallbank::initial_total_cents(CUSTOMERS);
    if total != expected {
        bail!("the bank holds {total} cents, {expected} were loaded");
    }
    Ok(())
}

async fn owned_rows(client: &Client, clients: usize) -> Result<Vec<Owned>> {
    let mut all = vec![Owned::default(); clients];
    for (table, value) in [
        ("journal", "amount"),
        ("left_half", "amount"),
        ("right_half", "amount"),
        ("steps", "amount"),
        ("loaded", "line"),
    ] {
        let text = format!("SELECT client, sequence, {value} FROM {table} ORDER BY 1, 2, 3");
        for row in client.query(&text, &[]).await? {
            let (sequence, value): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
            let owned = of_client(&mut all, row.try_get(0)?)?;
            let rows = match table {
                "journal" => &mut owned.journal,
                "left_half" => &mut owned.left,
                "right_half" => &mut owned.right,
                "steps" => &mut owned.steps,
                _ => {
                    owned.loaded.entry(sequence).or_default().push(value);
                    continue;
                }
            };
            if rows.insert(sequence, value).is_some() {
                bail!("{table} has sequence {sequence} twice");
            }
        }
    }
    for row in client.query("SELECT client, total FROM counters", &[]).await? {
        of_client(&mut all, row.try_get(0)?)?.counter = row.try_get(1)?;
    }
    for (id, owned) in all.iter_mut().enumerate() {
        owned.stage = match client.prepare(&format!("SELECT * FROM made_{id}")).await {
            Ok(statement) => statement.columns().len() - 1,
            Err(error) if error.code().is_some_and(|code| code.code() == "42P01") => 0,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(all)
}

fn of_client(all: &mut [Owned], client: i64) -> Result<&mut Owned> {
    let index = usize::try_from(client).ok();
    index
        .and_then(|index| all.get_mut(index))
        .with_context(|| format!("rows of an unknown client {client}"))
}

/// Every transfer is in both purses or in neither.
async fn check_purses(client: &Client, models: &[Model]) -> Result<()> {
    let rows = client.query("SELECT id, cents FROM purses ORDER BY id", &[]).await?;
    if rows.len() != PURSES {
        bail!("{} purses of {PURSES} are there", rows.len());
    }
    for (purse, row) in rows.iter().enumerate() {
        let cents: i64 = row.try_get(1)?;
        let changes: i64 = models.iter().map(|model| model.purse_changes[purse]).sum();
        if cents != PURSE_CENTS + changes {
            let expected = PURSE_CENTS + changes;
            bail!("purse {purse} holds {cents} cents instead of {expected}");
        }
    }
    Ok(())
}
