//! An organisation of a test, and transactions for it.

use std::sync::Arc;

use bytes::Bytes;
use chainify::dialect::Dialect;
use chainify::{Database, Executed, Organisation, Schema, Terms, statement};
use ledger::{Files, MemoryFiles};
use order::{Envelope, Proposal, Submission};

use crate::servers::Server;

pub const LEDGER: [u8; 16] = *b"chained by tests";

/// 2026-11-27 or so.
pub const TIME_US: i64 = 849_000_000_000_000;

const SCHEMA: &str = "\
table accounts
  balance numeric(12,2) not null
  id int8 not null key
  name text(20)
table transfers
  amount numeric(12,2) not null
  from_id int8 not null
  id int8 not null key
  to_id int8 not null
";

/// Of fifty accounts and no transfer, computed by a program of its own.
const FIRST_ROOT: &str = "fa88b79fc7313403b32c8816d9896750b87031a225fc2416ccc57d38807e3a02";

pub fn tables(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric(12,2) NOT NULL \
             CHECK (balance >= 0), name varchar(20)); CREATE TABLE transfers (id bigint PRIMARY KEY, \
             from_id bigint NOT NULL REFERENCES accounts, to_id bigint NOT NULL REFERENCES accounts, \
             amount numeric(12,2) NOT NULL); INSERT INTO accounts SELECT id, 100, 'account ' || id \
             FROM generate_series(1, 50) id"
        }
        Dialect::MariaDb => {
            "CREATE TABLE accounts (name varchar(20) CHARACTER SET utf8mb4, balance decimal(12,2) \
             NOT NULL CHECK (balance >= 0), id bigint PRIMARY KEY); CREATE TABLE transfers \
             (id bigint PRIMARY KEY, from_id bigint NOT NULL, to_id bigint NOT NULL, \
             amount decimal(12,2) NOT NULL, FOREIGN KEY (from_id) REFERENCES accounts (id), \
             FOREIGN KEY (to_id) REFERENCES accounts (id)); \
             INSERT INTO accounts SELECT CONCAT('account ', seq), 100, seq FROM seq_1_to_50"
        }
    }
}

pub fn terms() -> Terms {
    Terms {
        ledger_id: LEDGER,
        time_us: TIME_US,
        schema: Schema::parse(SCHEMA).unwrap(),
        first_root: ledger::hash::hash_from_hex(FIRST_ROOT).unwrap(),
        checkpoint_blocks: 3,
        members: String::new(),
        votes: 1,
        agreement: Default::default(),
    }
}

pub struct Chained {
    pub organisation: Organisation,
    pub files: MemoryFiles,
    pub url: String,
}

impl Chained {
    pub async fn new(server: &Server) -> Chained {
        let dialect = server.dialect();
        let url = server.database(tables(dialect)).await;
        let files = MemoryFiles::new();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let organisation = Organisation::create(shared, &url, &terms()).await.unwrap();
        Chained { organisation, files, url }
    }

    /// As after SIGKILL: what the process held is gone.
    pub async fn crash(self) -> Chained {
        let Chained { organisation, files, url } = self;
        drop(organisation);
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let organisation = Organisation::open(shared, &url).await.unwrap();
        Chained { organisation, files, url }
    }

    /// Orders a block, runs it, agrees with itself.
    pub async fn block(&mut self, envelopes: Vec<Bytes>) -> Executed {
        let height = self.organisation.book.ordered() + 1;
        let batch = self.organisation.order(proposal(height, envelopes)).unwrap();
        let executed = self.organisation.execute(&batch).await.unwrap();
        self.organisation.agree(&executed).await.unwrap();
        executed
    }

    /// What no trigger sees, as an administrator can do it.
    pub async fn edit_around_triggers(&self, statement: &str) {
        let mut outside = self.outside().await;
        let off = match outside.dialect() {
            Dialect::Postgres => "SET tally_chainify.restoring = on",
            Dialect::MariaDb => "SET @tally_chainify_restoring = 1",
        };
        outside.run(off).await.unwrap();
        assert_ne!(outside.run(statement).await.unwrap(), 0);
    }

    /// Another session's connection.
    pub async fn outside(&self) -> Database {
        Database::connect(&self.url).await.unwrap()
    }
}

pub fn proposal(height: u64, envelopes: Vec<Bytes>) -> Proposal {
    let time_us = TIME_US + height as i64 * 1000;
    Proposal { time_us, proposer: [0; 32], seen_height: 0, envelopes }
}

pub fn envelope(sequence: u64, statements: &[&str]) -> Bytes {
    let statements: Vec<String> = statements.iter().map(|it| (*it).to_owned()).collect();
    let envelope: Envelope = Envelope {
        ledger_id: LEDGER,
        principal: "ann".to_owned(),
        submission: Submission::Sequence { submitter: [1; 16], sequence },
        expires_us: TIME_US + 3_600_000_000,
        seen_height: 0,
        settings: Vec::new(),
        seed: [0; 16],
        request: statement::encode(&statements).into(),
        signatures: Vec::new(),
        approvals: Vec::new(),
    };
    envelope.encode().unwrap()
}

/// A transfer, which fails where the first account has too little.
pub fn transfer(sequence: u64, from: u64, to: u64, cents: u64) -> Bytes {
    let amount = format!("{}.{:02}", cents / 100, cents % 100);
    envelope(
        sequence,
        &[
            &format!("UPDATE accounts SET balance = balance - {amount} WHERE id = {from}"),
            &format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {to}"),
            &format!(
                "INSERT INTO transfers (id, from_id, to_id, amount) \
                 VALUES ({sequence}, {from}, {to}, {amount})"
            ),
        ],
    )
}
