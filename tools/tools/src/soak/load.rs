//! What the clients of a soak do, for ever, on as many rows as they began with.
//!
//! | kind | what | what it would leave |
//! |---|---|---|
//! | `hot` | one row's text of 40 bytes, many updates under way at once | versions, strings |
//! | `text` | texts of 1 to 4,000 bytes in 2,000 rows, some deleted and made again | strings |
//! | `queue` | a row under a new long key goes in, the oldest goes out | keys, index nodes, slots |
//! | `pay` | two rows by a procedure, one in eight refused | versions, outcomes |
//! | `read` | a transaction that stays on its snapshot for a second | versions it holds back |
//! | `schema` | a table comes, is filled and goes | tables, plans, catalogs |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use crate::arguments;
use crate::demo::pgbench::Target;

const ACCOUNTS: u64 = 1000;
const TEXTS: u64 = 2000;
/// Rows of one client's queue.
const QUEUE: u64 = 500;
/// Updates of the hot row that one client has under way.
const HOT_AT_ONCE: usize = 32;

const KINDS: [&str; 6] = ["hot", "text", "queue", "pay", "read", "schema"];

const TABLES: &str = "
    CREATE TABLE hot (id bigint PRIMARY KEY, note text);
    INSERT INTO hot VALUES (1, '');
    CREATE TABLE texts (id bigint PRIMARY KEY, body text);
    CREATE INDEX texts_by_body ON texts (body);
    CREATE TABLE queue (name text PRIMARY KEY, owner bigint, at bigint);
    CREATE INDEX queue_by_owner ON queue (owner, at);
    CREATE TABLE accounts (id bigint PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
    INSERT INTO accounts SELECT n, 1000 FROM generate_series(1, 1000) AS g(n);
    CREATE FUNCTION soak_pay(giver bigint, receiver bigint, amount bigint) RETURNS bigint
    LANGUAGE plpgsql AS $$
    BEGIN
        IF amount = 0 THEN
            RAISE EXCEPTION 'nothing to pay' USING ERRCODE = 'SK001';
        END IF;
        UPDATE accounts SET cents = cents - amount WHERE id = giver;
        UPDATE accounts SET cents = cents + amount WHERE id = receiver;
        RETURN amount;
    END;
    $$;";

/// The tables, with all the rows that there will be.
pub async fn prepare(target: &Target, clients: u32) -> Result<()> {
    let client = target.connect().await?;
    client.batch_execute(TABLES).await?;
    for owner in 0..u64::from(clients) {
        let rows = (0..QUEUE).map(|at| format!("('{}', {owner}, {at})", queue_name(owner, at)));
        let rows = rows.collect::<Vec<_>>().join(", ");
        client.batch_execute(&format!("INSERT INTO queue VALUES {rows}")).await?;
    }
    Ok(())
}

/// What must hold however much was done.
pub async fn check(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let row = client.query_one("SELECT sum(cents)::bigint FROM accounts", &[]).await?;
    let cents: i64 = row.try_get(0)?;
    ensure!(cents == 1000 * ACCOUNTS as i64, "the accounts hold {cents} cents");
    let row = client.query_one("SELECT count(*) FROM queue GROUP BY owner LIMIT 1", &[]).await?;
    let queued: i64 = row.try_get(0)?;
    ensure!((queued - QUEUE as i64).abs() <= 1, "a queue holds {queued} rows");
    Ok(())
}

/// `tally_memory` by part.
pub async fn parts(target: &Target) -> Result<BTreeMap<String, u64>> {
    let client = target.connect().await?;
    let query = "SELECT part, sum(bytes)::bigint FROM tally_memory GROUP BY part";
    let rows = client.query(query, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get::<_, i64>(1)? as u64))).collect()
}

/// The clients at work.
pub struct Load {
    clients: Vec<JoinHandle<Result<()>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicBool,
    retried: AtomicU64,
    done: [AtomicU64; KINDS.len()],
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Counts an answer; conflicts are to be sent again, and refusals were asked for.
    fn count<T>(&self, kind: usize, answer: Result<T, Error>) -> Result<()> {
        if let Err(error) = answer {
            match error.code().map(|code| code.code()) {
                Some("40001" | "40P01") => {
                    self.retried.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Some("SK001" | "23514") => {}
                _ => return Err(error).with_context(|| format!("a client of {}", KINDS[kind])),
            }
        }
        self.done[kind].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Load {
    /// Half of the clients are for the hot row, the texts and the payments alike; one reads, and
    /// one changes the schema.
    pub fn start(runtime: &Runtime, target: &Target, arguments: &arguments::Soak) -> Load {
        let shared = Arc::new(Shared::default());
        let spawn = |number: u32, kind: usize| {
            let (target, shared) = (target.clone(), shared.clone());
            let seed = arguments.seed.wrapping_add(u64::from(number));
            runtime.spawn(async move {
                let done = work(&target, &shared, kind, u64::from(number), seed).await;
                shared.failed.fetch_or(done.is_err(), Ordering::Relaxed);
                done
            })
        };
        let writers = (0..arguments.clients).map(|number| match arguments.only_hot {
            true => (number, 0),
            false => (number, number as usize % 4),
        });
        let others = (!arguments.only_hot).then_some([(0, 4), (0, 5)]);
        let clients = writers.chain(others.into_iter().flatten());
        Load { clients: clients.map(|(number, kind)| spawn(number, kind)).collect(), shared }
    }

    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.shared.done.iter().map(|count| count.load(Ordering::Relaxed));
        KINDS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    /// How many operations were told to try again.
    pub fn end(self, runtime: &Runtime) -> Result<u64> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in runtime.block_on(futures::future::join_all(self.clients)) {
            client??;
        }
        Ok(self.shared.retried.load(Ordering::Relaxed))
    }
}

async fn work(target: &Target, shared: &Shared, kind: usize, number: u64, seed: u64) -> Result<()> {
    let client = target.connect().await?;
    let mut random = Random::new(seed);
    match KINDS[kind] {
        "hot" => hot(&client, shared, &mut random).await,
        "text" => texts(&client, shared, &mut random).await,
        "queue" => queue(&client, shared, number).await,
        "pay" => pay(&client, shared, &mut random).await,
        "read" => read(&client, shared).await,
        "schema" => schema(&client, shared).await,
        other => bail!("there is no client of {other}"),
    }
}

async fn hot(client: &Client, shared: &Shared, random: &mut Random) -> Result<()> {
    let update = client.prepare("UPDATE hot SET note = $1 WHERE id = 1").await?;
    while shared.goes_on() {
        let note = format!("{:040x}", random.next_u64());
        let arguments: [&(dyn ToSql + Sync); 1] = [&note];
        let updates = (0..HOT_AT_ONCE).map(|_| client.execute(&update, &arguments));
        for answer in futures::future::join_all(updates).await {
            shared.count(0, answer)?;
        }
    }
    Ok(())
}

async fn texts(client: &Client, shared: &Shared, random: &mut Random) -> Result<()> {
    let put = "INSERT INTO texts VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = $2";
    let put = client.prepare(put).await?;
    let delete = client.prepare("DELETE FROM texts WHERE id = $1").await?;
    while shared.goes_on() {
        let id = random.below(TEXTS) as i64;
        let answer = if random.below(8) == 0 {
            client.execute(&delete, &[&id]).await
        } else {
            // Indexed keys have a bound; most texts are short.
            let bytes = 1usize << random.below(12);
            let filler = char::from(b'a' + random.below(26) as u8);
            let text = format!("{:016x}{}", random.next_u64(), filler.to_string().repeat(bytes));
            client.execute(&put, &[&id, &text]).await
        };
        shared.count(1, answer)?;
    }
    Ok(())
}

fn queue_name(owner: u64, at: u64) -> String {
    format!("an entry of a queue has a name that does not fit a view: {owner:08}/{at:016}")
}

async fn queue(client: &Client, shared: &Shared, owner: u64) -> Result<()> {
    let push = client.prepare("INSERT INTO queue VALUES ($1, $2, $3)").await?;
    let pop = client.prepare("DELETE FROM queue WHERE name = $1").await?;
    for at in QUEUE.. {
        if !shared.goes_on() {
            break;
        }
        let (name, oldest) = (queue_name(owner, at), queue_name(owner, at - QUEUE));
        let (owner, at) = (owner as i64, at as i64);
        let (row, key): ([&(dyn ToSql + Sync); 3], [_; 1]) = ([&name, &owner, &at], [&oldest as _]);
        let (pushed, popped) = (client.execute(&push, &row), client.execute(&pop, &key));
        let (pushed, popped) = futures::future::join(pushed, popped).await;
        shared.count(2, pushed)?;
        shared.count(2, popped)?;
    }
    Ok(())
}

async fn pay(client: &Client, shared: &Shared, random: &mut Random) -> Result<()> {
    let pay = client.prepare("SELECT soak_pay($1, $2, $3)").await?;
    while shared.goes_on() {
        let giver = random.below(ACCOUNTS) as i64 + 1;
        let receiver = (giver + random.below(ACCOUNTS - 1) as i64) % ACCOUNTS as i64 + 1;
        let amount = random.below(8) as i64;
        shared.count(3, client.query_one(&pay, &[&giver, &receiver, &amount]).await)?;
    }
    Ok(())
}

async fn read(client: &Client, shared: &Shared) -> Result<()> {
    while shared.goes_on() {
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let sum = "SELECT sum(cents)::bigint FROM accounts";
        let before: i64 = client.query_one(sum, &[]).await?.try_get(0)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let count = client.query("SELECT count(*), max(length(body)) FROM texts", &[]).await;
        shared.count(4, count)?;
        let after: i64 = client.query_one(sum, &[]).await?.try_get(0)?;
        ensure!(before == after, "a snapshot changed: {before}, then {after}");
        client.batch_execute("COMMIT").await?;
    }
    Ok(())
}

async fn schema(client: &Client, shared: &Shared) -> Result<()> {
    let fill = "CREATE TABLE passing (id bigint PRIMARY KEY, body text);
        INSERT INTO passing SELECT n, repeat('x', 50) FROM generate_series(1, 1000) AS g(n);
        DROP TABLE passing;";
    while shared.goes_on() {
        for statement in fill.split_inclusive(';').filter(|text| !text.trim().is_empty()) {
            shared.count(5, client.batch_execute(statement).await)?;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    Ok(())
}
