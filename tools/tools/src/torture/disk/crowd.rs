//! Clients side by side, checkpoints in the background, and power cuts at any moment.
//!
//! Blocks hold many transactions here, checkpoints come while blocks do, and no two runs are the
//! same. Each client numbers its transactions; each adds a row of its own and one to a hot account.
//! So an image must hold the rows of each client from 1 to at least what it had been answered when
//! the power went, without a gap, and as much in the accounts as there are rows. Its state must be
//! that of the re-execution from genesis, whichever checkpoint it began with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use engine::checkpoint::ServiceSettings;
use engine::replay;
use kit::random::Random;
use ledger::{Files, MemoryFiles};
use types::{SqlState, Value};

use super::count::{Count, Until};
use super::world::{CHECKPOINTS, Running, begin, language, runtime, seen_of};

const CLIENTS: i64 = 4;
const ROWS_PER_CLIENT_MAX: i64 = 1_000_000;
const HOT_ACCOUNTS: u64 = 3;
const OFTEN: ServiceSettings = ServiceSettings { interval_blocks: 9, ..CHECKPOINTS };

const SCHEMA: [&str; 4] = [
    "CREATE TABLE accounts (id bigint PRIMARY KEY, cents bigint NOT NULL)",
    "CREATE TABLE journal (id bigint PRIMARY KEY, account bigint)",
    "INSERT INTO accounts VALUES (0, 0), (1, 0), (2, 0)",
    "CREATE PROCEDURE note(own bigint, hot bigint) LANGUAGE plpgsql AS $$ BEGIN \
     INSERT INTO journal VALUES (own, hot); \
     UPDATE accounts SET cents = cents + 1 WHERE id = hot; END $$",
];

/// An image, and what each client had been answered before it was made.
type Moment = (MemoryFiles, Vec<i64>);

/// One run with so many images.
pub fn run(
    protocol: &'static str,
    images: usize,
    random: &mut Random,
    until: &Until,
    count: &mut Count,
) -> Result<()> {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    begin(&shared, protocol)?;
    let mut first = Running::open_with(&shared, protocol, OFTEN)?;
    for text in SCHEMA {
        runtime()?.block_on(first.run(text))?;
    }
    let answered: Vec<AtomicI64> = (0..CLIENTS).map(|_| AtomicI64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let taking = until.part(50);
    let moments = std::thread::scope(|scope| -> Result<Vec<Moment>> {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (session, seed) = (first.another(), random.next_u64());
                let (answered, stop) = (&answered[client as usize], &stop);
                scope.spawn(move || work(session, client, seed, answered, stop))
            })
            .collect();
        let mut moments = Vec::new();
        while moments.len() < images && (moments.is_empty() || !taking.is_over()) {
            std::thread::sleep(Duration::from_micros(random.below(3_000)));
            let known = answered.iter().map(|reported| reported.load(Ordering::Acquire)).collect();
            moments.push((files.crash(random), known));
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok(moments)
    })?;
    drop(first);
    let sent: Vec<i64> = answered.iter().map(|reported| reported.load(Ordering::Acquire)).collect();
    for (number, (image, known)) in moments.into_iter().enumerate() {
        if number > 0 && until.is_over() {
            break;
        }
        look(protocol, &image, &known, &sent).with_context(|| format!("image {number}"))?;
        count.images += 1;
        count.distinct_images += 1;
    }
    Ok(())
}

fn work(
    mut session: Running,
    client: i64,
    seed: u64,
    answered: &AtomicI64,
    stop: &AtomicBool,
) -> Result<()> {
    let runtime = runtime()?;
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let sequence = answered.load(Ordering::Relaxed) + 1;
        let own = client * ROWS_PER_CLIENT_MAX + sequence;
        let hot = random.below(HOT_ACCOUNTS);
        let text = match random.below(3) {
            0 => format!(
                "BEGIN; INSERT INTO journal VALUES ({own}, {hot}); \
                 UPDATE accounts SET cents = cents + 1 WHERE id = {hot}; COMMIT"
            ),
            _ => format!("CALL note({own}, {hot})"),
        };
        match runtime.block_on(session.run(&text)) {
            Ok(_) => answered.store(sequence, Ordering::Release),
            Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE => {
                drop(runtime.block_on(session.run("ROLLBACK")));
            }
            Err(error) => return Err(error).context(text),
        }
    }
    Ok(())
}

fn look(protocol: &'static str, image: &MemoryFiles, known: &[i64], sent: &[i64]) -> Result<()> {
    let from_genesis = replay(Arc::new(image.clone()), &language, 1, &mut |_| ())?;
    let shared: Arc<dyn Files> = Arc::new(image.copy());
    let mut running = Running::open_with(&shared, protocol, CHECKPOINTS)?;
    ensure!(
        running.seen()? == seen_of(protocol, &from_genesis.replica)?,
        "another state than a replay's"
    );
    let runtime = runtime()?;
    let mut number = |text: &str| -> Result<i64> {
        let rows = runtime.block_on(running.run(text))?;
        match rows.first().and_then(|row| row.first()) {
            Some(Value::Int(number)) => Ok(*number),
            Some(Value::Null) => Ok(0),
            other => Err(anyhow!("{text}: {other:?}")),
        }
    };
    let mut all = 0;
    for (client, (known, sent)) in (0i64..).zip(known.iter().zip(sent)) {
        let first = client * ROWS_PER_CLIENT_MAX;
        let of_client = format!(
            "FROM journal WHERE id BETWEEN {first} AND {}",
            first + ROWS_PER_CLIENT_MAX - 1
        );
        let rows = number(&format!("SELECT count(*) {of_client}"))?;
        let last = number(&format!("SELECT max(id) {of_client}"))?;
        ensure!(last == 0 || last == first + rows, "client {client}: {rows} rows up to {last}");
        ensure!((*known..=*sent).contains(&rows), "client {client}: {rows} of {known} to {sent}");
        all += rows;
    }
    let cents = number("SELECT sum(cents)::bigint FROM accounts")?;
    ensure!(cents == all, "{all} rows, and {cents} cents");
    Ok(())
}
