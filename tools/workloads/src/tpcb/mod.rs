//! TPC-B as pgbench has it ("tpcb-like"), as one call.
//!
//! The tables are those that `pgbench -i` makes, so the same data serves the built-in script,
//! statement by statement, and this one.

mod programs;

use kit::random::Random;
use procedure::Procedure;
use procedure::build::Tables;
use types::{Error, Result, SqlState, Value};

use crate::PgbenchScript;
use crate::settings::{Setting, setting};
use crate::skew::Skew;
use crate::workload::{Call, Entry, Fill, Row, State, Workload};

pub const ENTRY: Entry = Entry {
    name: "tpcb",
    about: "TPC-B as pgbench has it: a deposit at a teller of a branch",
    settings: SETTINGS,
    read: |reader| {
        let accounts = reader.number("rows", 2..=1_000_000_000)?;
        let skew = Skew::zipf(accounts, reader.number("theta", 0.0..=2.0)?);
        Ok(Box::new(Tpcb { skew }))
    },
};

const SETTINGS: &[Setting] = &[
    setting("rows", "1000000", "accounts, 100,000 of them at each branch"),
    setting("theta", "0", "Zipf skew of the accounts, 0 to 2"),
];

const ACCOUNTS_PER_BRANCH: u64 = 100_000;
const TELLERS_PER_BRANCH: u64 = 10;

/// What `pgbench -i` creates, for runs without it.
pub const SCHEMA: &str = include_str!("../../sql/tpcb/schema.sql");
pub const PROCEDURES: &str = include_str!("../../sql/tpcb/procedures.sql");

/// The built-in tpcb-like script's draws, and one call instead of its five statements.
pub fn script(scale: u32) -> PgbenchScript {
    let accounts = u64::from(scale) * 100_000;
    let tellers = u64::from(scale) * 10;
    PgbenchScript {
        name: "tpcb",
        weight: 1,
        text: format!(
            "\\set aid random(1, {accounts})\n\
             \\set bid random(1, {scale})\n\
             \\set tid random(1, {tellers})\n\
             \\set delta random(-5000, 5000)\n\
             SELECT tpcb(:aid, :bid, :tid, :delta);\n"
        ),
    }
}

struct Tpcb {
    /// Of the accounts.
    skew: Skew,
}

impl Tpcb {
    fn branches(&self) -> u64 {
        self.skew.keys().div_ceil(ACCOUNTS_PER_BRANCH)
    }
}

impl Workload for Tpcb {
    fn schema(&self) -> String {
        SCHEMA.to_owned() + PROCEDURES
    }

    fn procedures(&self) -> Vec<&'static str> {
        vec!["tpcb"]
    }

    fn programs(&self, tables: &Tables) -> Result<Vec<Procedure>> {
        programs::all(tables)
    }

    fn fills(&self) -> Vec<Fill> {
        let branches = self.branches();
        let at_branch = |n: u64, per_branch: u64| -> Row {
            let branch = (n - 1) / per_branch + 1;
            [n, branch, 0].map(|n| Value::Int(n as i64)).into()
        };
        vec![
            Fill::rows("pgbench_branches (bid, bbalance)", branches, |n| {
                [n, 0].map(|n| Value::Int(n as i64)).into()
            }),
            Fill::rows(
                "pgbench_tellers (tid, bid, tbalance)",
                branches * TELLERS_PER_BRANCH,
                move |n| at_branch(n, TELLERS_PER_BRANCH),
            ),
            Fill::rows("pgbench_accounts (aid, bid, abalance)", self.skew.keys(), move |n| {
                at_branch(n, ACCOUNTS_PER_BRANCH)
            }),
        ]
    }

    fn calls(&self, seed: u64) -> Box<dyn Iterator<Item = Call> + Send> {
        let (skew, branches) = (self.skew.clone(), self.branches());
        let mut random = Random::new(seed);
        Box::new(std::iter::repeat_with(move || {
            let account = skew.key(&mut random) as i64;
            let branch = 1 + random.below(branches) as i64;
            let teller = 1 + random.below(branches * TELLERS_PER_BRANCH) as i64;
            let amount = random.below(10_001) as i64 - 5_000;
            let arguments = [account, branch, teller, amount].map(Value::Int).into();
            Call { procedure: 0, arguments }
        }))
    }

    /// TPC-B, clause 1.4: accounts, tellers, branches and the history have the same sum.
    fn check(&self, state: &dyn State) -> Result<()> {
        let sum = |table, column| -> Result<i64> {
            let mut sum = 0;
            state.each_row(table, &[column], &mut |row| sum += row[0].as_int().unwrap_or(0))?;
            Ok(sum)
        };
        let sums = [
            sum("pgbench_accounts", "abalance")?,
            sum("pgbench_tellers", "tbalance")?,
            sum("pgbench_branches", "bbalance")?,
            sum("pgbench_history", "delta")?,
        ];
        match sums.iter().all(|sum| *sum == sums[0]) {
            true => Ok(()),
            false => {
                let what = format!("accounts, tellers, branches, history sum up to {sums:?}");
                Err(Error::new(SqlState::CHECK_VIOLATION, what))
            }
        }
    }
}
