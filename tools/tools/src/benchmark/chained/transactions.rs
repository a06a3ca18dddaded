//! What is run: SmallBank's four transactions of the thesis as SQL that both systems take, a line
//! of JSON each.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use bench::over_databases::System;
use kit::random::Random;
use serde_json::json;
use workloads::skew::Skew;

pub const TABLES: [&str; 2] = ["checking", "savings"];

/// An organisation's function that agrees to all of them.
pub const CHECK: &str = "agrees";

/// Tables that are there already go first.
pub fn tables(system: System, accounts: u64) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for table in TABLES {
        all.push(vec![format!("DROP TABLE IF EXISTS {table}")]);
        let columns = "(id bigint PRIMARY KEY, balance bigint NOT NULL)";
        all.push(vec![format!("CREATE TABLE {table} {columns}")]);
        let (rows, analysed) = match system {
            System::Postgres => {
                (format!("id, 10000 FROM generate_series(1, {accounts}) id"), "ANALYZE")
            }
            System::MariaDb => (format!("seq, 10000 FROM seq_1_to_{accounts}"), "ANALYZE TABLE"),
        };
        all.push(vec![format!("INSERT INTO {table} (id, balance) SELECT {rows}")]);
        all.push(vec![format!("{analysed} {table}")]);
    }
    let function = match system {
        System::Postgres => {
            "(statements text) RETURNS boolean LANGUAGE sql AS              $$ SELECT statements NOT LIKE '%DELETE%' $$"
        }
        System::MariaDb => {
            "(statements LONGTEXT CHARACTER SET utf8mb4) RETURNS boolean DETERMINISTIC              RETURN statements NOT LIKE '%DELETE%'"
        }
    };
    all.push(vec![format!("CREATE OR REPLACE FUNCTION {CHECK}{function}")]);
    all
}

/// What an administrator does behind the ledger's back; with triggers kept quiet, if it is unseen.
pub fn edit(system: System, account: u64, is_unseen: bool) -> Vec<Vec<String>> {
    let update = format!("UPDATE checking SET balance = balance + 1000000 WHERE id = {account}");
    let mut all = vec![update];
    if is_unseen {
        match system {
            System::Postgres => all.insert(0, "SET LOCAL tally_chainify.restoring = on".to_owned()),
            System::MariaDb => {
                all.insert(0, "SET @tally_chainify_restoring = 1".to_owned());
                all.push("SET @tally_chainify_restoring = NULL".to_owned());
            }
        }
    }
    vec![all]
}

pub fn write(file: &Path, transactions: impl IntoIterator<Item = Vec<String>>) -> Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    for statements in transactions {
        writeln!(out, "{}", json!(statements))?;
    }
    out.flush()?;
    Ok(())
}

/// So many of them.
pub fn payments(
    accounts: u64,
    theta: f64,
    seed: u64,
    count: u64,
) -> impl Iterator<Item = Vec<String>> {
    let (skew, mut random) = (Skew::zipf(accounts, theta), Random::new(seed));
    (0..count).map(move |_| payment(&skew, &mut random))
}

fn payment(skew: &Skew, random: &mut Random) -> Vec<String> {
    let (kind, cents, account) = (random.below(4), 1 + random.below(5000), skew.key(random));
    let changed = |table: &str, account: u64, by: String| {
        format!("UPDATE {table} SET balance = balance {by} WHERE id = {account}")
    };
    match kind {
        // TransactSavings, DepositChecking.
        0 => vec![changed("savings", account, format!("+ {cents}"))],
        1 => vec![changed("checking", account, format!("+ {cents}"))],
        // SendPayment.
        2 => {
            let mut other = skew.key(random);
            if other == account {
                other = account % skew.keys() + 1;
            }
            vec![
                changed("checking", account, format!("- {cents}")),
                changed("checking", other, format!("+ {cents}")),
            ]
        }
        // WriteCheck, with its fine for an overdraft.
        _ => {
            let savings = format!("(SELECT s.balance FROM savings s WHERE s.id = {account})");
            let (fined, check) = (cents + 100, format!("balance + {savings} < {cents}"));
            let by = format!("- CASE WHEN {check} THEN {fined} ELSE {cents} END");
            vec![changed("checking", account, by)]
        }
    }
}
