//! One transaction test through tokio-postgres: extended protocol, binary both ways, pipelining.
//!
//! `tests/clients/run.sh` starts it beside the other drivers' tests.

use anyhow::{Context, Result, ensure};
use futures::SinkExt;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

fn main() -> Result<()> {
    let url = std::env::args().nth(1).context("a URL is needed")?;
    tokio::runtime::Runtime::new()?.block_on(run(&url))
}

async fn run(url: &str) -> Result<()> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    create(&client).await?;
    commit(&mut client).await?;
    roll_back(&mut client).await?;
    fail(&mut client).await?;
    call(&client).await?;
    copy(&client).await
}

async fn create(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "DROP TABLE IF EXISTS tokio_accounts;
             CREATE TABLE tokio_accounts (
                 id bigint PRIMARY KEY, owner text NOT NULL, cents bigint NOT NULL,
                 rate double precision, payload bytea, note varchar(20));
             CREATE OR REPLACE FUNCTION tokio_move(giver bigint, receiver bigint, amount bigint)
             RETURNS bigint LANGUAGE plpgsql AS $$
             DECLARE
                 held bigint;
             BEGIN
                 SELECT cents INTO held FROM tokio_accounts WHERE id = giver;
                 IF held < amount THEN
                     RAISE EXCEPTION 'insufficient funds' USING ERRCODE = 'SB001';
                 END IF;
                 UPDATE tokio_accounts SET cents = cents - amount WHERE id = giver;
                 UPDATE tokio_accounts SET cents = cents + amount WHERE id = receiver;
                 RETURN held - amount;
             END;
             $$;",
        )
        .await?;
    Ok(())
}

type Row<'a> = [&'a (dyn ToSql + Sync); 6];

const INSERT: &str = "INSERT INTO tokio_accounts VALUES ($1, $2, $3, $4, $5, $6)";

async fn commit(client: &mut Client) -> Result<()> {
    let payload: &[u8] = &[0, 255, 16];
    let none: Option<&str> = None;
    let transaction = client.transaction().await?;
    let insert = transaction.prepare(INSERT).await?;
    let (no_rate, no_payload): (Option<f64>, Option<&[u8]>) = (None, None);
    let ada: Row<'_> = [&1i64, &"ada", &10_050i64, &0.125f64, &payload, &none];
    let bob: Row<'_> = [&2i64, &"bob", &700i64, &no_rate, &no_payload, &"empty"];
    // Both are on their way before either is answered.
    let (ada, bob) =
        futures::join!(transaction.execute(&insert, &ada), transaction.execute(&insert, &bob));
    ensure!(ada? == 1 && bob? == 1, "two rows are inserted");
    transaction.commit().await?;
    let row = client.query_one("SELECT * FROM tokio_accounts WHERE id = $1", &[&1i64]).await?;
    ensure!(row.try_get::<_, &str>("owner")? == "ada", "text");
    ensure!(row.try_get::<_, i64>("cents")? == 10_050, "bigint");
    ensure!(row.try_get::<_, f64>("rate")? == 0.125, "double precision");
    ensure!(row.try_get::<_, &[u8]>("payload")? == payload, "bytea");
    ensure!(row.try_get::<_, Option<&str>>("note")?.is_none(), "null");
    Ok(())
}

async fn roll_back(client: &mut Client) -> Result<()> {
    let transaction = client.transaction().await?;
    let deleted = transaction.execute("DELETE FROM tokio_accounts", &[]).await?;
    ensure!(deleted == 2, "two rows go");
    transaction.rollback().await?;
    let row = client.query_one("SELECT count(*) FROM tokio_accounts", &[]).await?;
    ensure!(row.try_get::<_, i64>(0)? == 2, "rollback brings them back");
    Ok(())
}

async fn fail(client: &mut Client) -> Result<()> {
    let transaction = client.transaction().await?;
    let twice = "INSERT INTO tokio_accounts (id, owner, cents) VALUES (1, 'eve', 0)";
    let refused = transaction.execute(twice, &[]).await;
    ensure!(code(refused) == Some(SqlState::UNIQUE_VIOLATION), "23505");
    let after = transaction.execute("SELECT 1", &[]).await;
    ensure!(code(after) == Some(SqlState::IN_FAILED_SQL_TRANSACTION), "25P02");
    transaction.rollback().await?;
    Ok(())
}

fn code(result: Result<u64, tokio_postgres::Error>) -> Option<SqlState> {
    result.err()?.code().cloned()
}

async fn call(client: &Client) -> Result<()> {
    let call = client.prepare("SELECT tokio_move($1, $2, $3)").await?;
    let row = client.query_one(&call, &[&1i64, &2i64, &50i64]).await?;
    ensure!(row.try_get::<_, i64>(0)? == 10_000, "the function's result");
    let refused = client.execute(&call, &[&1i64, &2i64, &99_999i64]).await;
    ensure!(code(refused) == Some(SqlState::from_code("SB001")), "the function's own SQLSTATE");
    Ok(())
}

async fn copy(client: &Client) -> Result<()> {
    let text = "COPY tokio_accounts (id, owner, cents) FROM STDIN";
    let sink = client.copy_in::<_, bytes::Bytes>(text).await?;
    let mut sink = std::pin::pin!(sink);
    sink.send(bytes::Bytes::from_static(b"10\tcarl\t1\n11\tdora\t2\n")).await?;
    ensure!(sink.finish().await? == 2, "two rows by COPY");
    Ok(())
}
