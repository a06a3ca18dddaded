//! The workloads as the engine gets them: SQL to set up, rows to load, calls to run.

use std::str::FromStr;

use kit::random::Random;
use types::Value;
use workloads::skew::Skew;
use workloads::{smallbank, tpcb, ycsb};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    Smallbank,
    Tpcb,
    Ycsb,
}

pub const WORKLOADS: [Workload; 3] = [Workload::Smallbank, Workload::Tpcb, Workload::Ycsb];

/// A call of one of the workload's procedures.
pub struct Call {
    /// Index into [`Workload::procedures`].
    pub procedure: usize,
    pub arguments: Box<[Value]>,
}

type Row = Box<[Value]>;

/// How to fill a table.
pub struct Fill {
    pub copy: &'static str,
    pub rows: u64,
    /// The row of a number in `1..=rows`.
    pub row: fn(u64) -> Row,
}

const YCSB_FIELD: &str = "0123456789";
const ACCOUNTS_PER_BRANCH: u64 = 100_000;
const TELLERS_PER_BRANCH: u64 = 10;

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Smallbank => "smallbank",
            Workload::Tpcb => "tpcb",
            Workload::Ycsb => "ycsb",
        }
    }

    /// Rows of the largest table, unless asked otherwise.
    pub fn default_rows(self) -> u64 {
        match self {
            Workload::Smallbank => 100_000,
            Workload::Tpcb | Workload::Ycsb => 1_000_000,
        }
    }

    pub fn schema(self) -> String {
        match self {
            Workload::Smallbank => {
                let variant = smallbank::Variant::default();
                smallbank::SCHEMA.to_owned() + &smallbank::procedures(variant)
            }
            Workload::Tpcb => tpcb::SCHEMA.to_owned() + tpcb::PROCEDURES,
            Workload::Ycsb => ycsb::SCHEMA.to_owned() + ycsb::PROCEDURES,
        }
    }

    pub fn fills(self, rows: u64) -> Vec<Fill> {
        match self {
            Workload::Smallbank => vec![
                Fill {
                    copy: "COPY accounts FROM STDIN",
                    rows,
                    row: |n| [Value::Int(n as i64), Value::text(format!("customer {n}"))].into(),
                },
                Fill {
                    copy: "COPY savings FROM STDIN",
                    rows,
                    row: |n| balance(smallbank::Table::Savings, n),
                },
                Fill {
                    copy: "COPY checking FROM STDIN",
                    rows,
                    row: |n| balance(smallbank::Table::Checking, n),
                },
            ],
            Workload::Tpcb => vec![
                Fill {
                    copy: "COPY pgbench_branches (bid, bbalance) FROM STDIN",
                    rows: branches(rows),
                    row: |n| [Value::Int(n as i64), Value::Int(0)].into(),
                },
                Fill {
                    copy: "COPY pgbench_tellers (tid, bid, tbalance) FROM STDIN",
                    rows: branches(rows) * TELLERS_PER_BRANCH,
                    row: |n| of_branch(n, TELLERS_PER_BRANCH),
                },
                Fill {
                    copy: "COPY pgbench_accounts (aid, bid, abalance) FROM STDIN",
                    rows,
                    row: |n| of_branch(n, ACCOUNTS_PER_BRANCH),
                },
            ],
            Workload::Ycsb => vec![Fill {
                copy: "COPY usertable FROM STDIN",
                rows,
                row: |n| {
                    let fields = std::iter::repeat_n(Value::text(YCSB_FIELD), 10);
                    std::iter::once(Value::Int(n as i64)).chain(fields).collect()
                },
            }],
        }
    }

    pub fn procedures(self) -> &'static [&'static str] {
        match self {
            Workload::Smallbank => &[
                "sb_amalgamate",
                "sb_balance",
                "sb_deposit_checking",
                "sb_send_payment",
                "sb_transact_savings",
                "sb_write_check",
            ],
            Workload::Tpcb => &["tpcb"],
            Workload::Ycsb => &["ycsb_rows"],
        }
    }

    /// The keys' popularity; TPC-B draws its own way.
    pub fn skew(self, rows: u64, theta: f64) -> Skew {
        match theta > 0.0 {
            true => Skew::zipf(rows, theta),
            false => Skew::uniform(rows),
        }
    }

    pub fn call(self, skew: &Skew, random: &mut Random) -> Call {
        match self {
            Workload::Smallbank => smallbank_call(skew, random),
            Workload::Tpcb => tpcb_call(skew, random),
            Workload::Ycsb => ycsb_call(skew, random),
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = WORKLOADS.into_iter().find(|w| w.name() == name);
        found.ok_or_else(|| {
            let names = WORKLOADS.map(Workload::name).join(", ");
            format!("unknown workload; there are: {names}")
        })
    }
}

fn branches(accounts: u64) -> u64 {
    accounts.div_ceil(ACCOUNTS_PER_BRANCH)
}

fn balance(table: smallbank::Table, customer: u64) -> Row {
    let cents = table.initial_cents(customer);
    [Value::Int(customer as i64), Value::Int(cents)].into()
}

fn of_branch(n: u64, per_branch: u64) -> Row {
    let branch = (n - 1) / per_branch + 1;
    [n as i64, branch as i64, 0].map(Value::Int).into()
}

/// The weights are those of `smallbank::scripts`.
fn smallbank_call(skew: &Skew, random: &mut Random) -> Call {
    let one = skew.key(random) as i64;
    let mut other = || {
        let other = skew.key(random) as i64;
        let next = one % skew.keys() as i64 + 1;
        if other == one { next } else { other }
    };
    let two = other();
    let (procedure, arguments): (_, &[i64]) = match random.below(100) {
        0..15 => (0, &[one, two]),
        15..30 => (1, &[one]),
        30..45 => (2, &[one, 130]),
        45..70 => (3, &[one, two, 500]),
        70..85 => (4, &[one, 2020]),
        _ => (5, &[one, 500]),
    };
    Call { procedure, arguments: arguments.iter().map(|&n| Value::Int(n)).collect() }
}

fn tpcb_call(skew: &Skew, random: &mut Random) -> Call {
    let account = skew.key(random);
    let branches = branches(skew.keys());
    let branch = 1 + random.below(branches);
    let teller = 1 + random.below(branches * TELLERS_PER_BRANCH);
    let amount = random.below(10_001) as i64 - 5_000;
    let arguments = [account as i64, branch as i64, teller as i64, amount];
    Call { procedure: 0, arguments: arguments.map(Value::Int).into() }
}

/// Ten distinct keys in no order, half of them read and half written.
fn ycsb_call(skew: &Skew, random: &mut Random) -> Call {
    let wanted = u64::from(ycsb::KEYS_PER_TRANSACTION).min(skew.keys()) as usize;
    let mut keys = Vec::with_capacity(wanted);
    while keys.len() < wanted {
        let key = Value::Int(skew.key(random) as i64);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let written = keys.split_off(wanted / 2);
    let arguments = [Value::array(keys), Value::array(written), Value::text("abcdefghij")];
    Call { procedure: 0, arguments: arguments.into() }
}
