//! SmallBank: six short banking transactions.
//!
//! Alomari, Cahill, Fekete, Röhm, "The cost of serializability on platforms that use snapshot
//! isolation" (ICDE 2008), in the shape of OLTP-Bench (its weights and ranges). Three departures:
//! customers are found by number and not by a 64-digit name, since pgbench cannot format one;
//! Amalgamate moves all of one customer's money to another's checking account, as the paper says,
//! where OLTP-Bench's own text creates and destroys money; and a refusal for want of funds returns
//! false before anything is written, since pgbench gives up a client whose transaction fails
//! (the `raising` variant makes it SQLSTATE SB001).
//!
//! Amalgamate, SendPayment and Balance conserve the money; the other three let some in or out.
//! With [`Variant::audited`] they book it in `outside`, so that at any moment
//! `sum(savings.bal) + sum(checking.bal) + sum(outside.bal)` is what was loaded.

mod programs;

use std::io::{self, Write};

use kit::random::Random;
use procedure::Procedure;
use procedure::build::Tables;
use types::{Result, Value};

use crate::PgbenchScript;
use crate::settings::{Reader, Setting, setting};
use crate::skew::Skew;
use crate::workload::{Call, Entry, Fill, Row, Workload};

pub const ENTRY: Entry = Entry {
    name: "smallbank",
    about: "SmallBank: six short transactions on savings and checking accounts",
    settings: SETTINGS,
    read: |reader| Ok(Box::new(Smallbank::read(reader)?)),
};

const SETTINGS: &[Setting] = &[
    setting("rows", "100000", "customers"),
    setting("theta", "0", "Zipf skew of the customers, 0 to 2"),
    setting("mix", "standard", "standard (OLTP-Bench's), chainify (four of six), or fabric (P_w)"),
    setting("modifying", "95", "P_w of the mix fabric: percent that are not Balance"),
];

pub const SCHEMA: &str = include_str!("../../sql/smallbank/schema.sql");
/// Tables and a procedure for clients that keep count of what was acknowledged.
pub const AUDIT: &str = include_str!("../../sql/smallbank/audit.sql");
const PROCEDURES: &str = include_str!("../../sql/smallbank/procedures.sql");

/// Rows of `outside`; `procedures.sql` has the same number.
pub const OUTSIDE_ROWS: u64 = 1024;

/// Which of the procedures' optional lines are on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Variant {
    pub audited: bool,
    pub raising: bool,
}

/// The six procedures.
pub fn procedures(variant: Variant) -> String {
    let mut text = PROCEDURES.to_owned();
    for (on, mark) in [(variant.audited, "--[audited] "), (variant.raising, "--[raising] ")] {
        if on {
            text = text.replace(mark, "");
        }
    }
    text
}

/// The tables of [`SCHEMA`], in the order in which they are loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    Accounts,
    Savings,
    Checking,
}

pub const TABLES: [Table; 3] = [Table::Accounts, Table::Savings, Table::Checking];

impl Table {
    pub fn name(self) -> &'static str {
        match self {
            Table::Accounts => "accounts",
            Table::Savings => "savings",
            Table::Checking => "checking",
        }
    }

    /// Writes the customers `first..=last` as COPY's text format has them.
    pub fn write_rows(self, first: u64, last: u64, out: &mut impl Write) -> io::Result<()> {
        for customer in first..=last {
            match self {
                Table::Accounts => writeln!(out, "{customer}\tcustomer {customer}")?,
                _ => writeln!(out, "{customer}\t{}", self.initial_cents(customer))?,
            }
        }
        Ok(())
    }

    fn row(self, customer: u64) -> Row {
        let second = match self {
            Table::Accounts => Value::text(format!("customer {customer}")),
            _ => Value::Int(self.initial_cents(customer)),
        };
        [Value::Int(customer as i64), second].into()
    }

    /// The balance that a customer begins with: 100 to 500 of the currency.
    pub fn initial_cents(self, customer: u64) -> i64 {
        let salt = match self {
            Table::Accounts => return 0,
            Table::Savings => 1,
            Table::Checking => 2,
        };
        let mut random = Random::new(customer.wrapping_mul(4) + salt);
        10_000 + random.below(40_001) as i64
    }
}

/// All the money that is loaded for `customers`, in cents.
pub fn initial_total_cents(customers: u64) -> i64 {
    let of =
        |customer| Table::Savings.initial_cents(customer) + Table::Checking.initial_cents(customer);
    (1..=customers).map(of).sum()
}

/// The mix, with OLTP-Bench's weights.
pub fn scripts(skew: &Skew) -> Vec<PgbenchScript> {
    let one = skew.pgbench("customer");
    // Two different customers: the next one where both draws agree.
    let keys = skew.keys();
    let two = format!(
        "{one}{}\\set other case when :other = :customer \
         then :customer % {keys} + 1 else :other end\n",
        skew.pgbench("other")
    );
    let script = |name, weight, text: String| PgbenchScript { name, weight, text };
    vec![
        script("amalgamate", 15, format!("{two}SELECT sb_amalgamate(:customer, :other);\n")),
        script("balance", 15, format!("{one}SELECT sb_balance(:customer);\n")),
        script(
            "deposit_checking",
            15,
            format!("{one}SELECT sb_deposit_checking(:customer, 130);\n"),
        ),
        script(
            "send_payment",
            25,
            format!("{two}SELECT sb_send_payment(:customer, :other, 500);\n"),
        ),
        script(
            "transact_savings",
            15,
            format!("{one}SELECT sb_transact_savings(:customer, 2020);\n"),
        ),
        script("write_check", 15, format!("{one}SELECT sb_write_check(:customer, 500);\n")),
    ]
}

/// Percentages, or shares of any sum, of the procedures in their order.
type Weights = [u32; 6];

/// As [`scripts`] has them.
const STANDARD: Weights = [15, 15, 15, 25, 15, 15];
/// TransactSavings, DepositChecking, SendPayment, WriteCheck: ChainifyDB's evaluation.
const CHAINIFY: Weights = [0, 0, 1, 1, 1, 1];

struct Smallbank {
    customers: u64,
    skew: Skew,
    weights: Weights,
}

impl Smallbank {
    fn read(reader: &Reader<'_>) -> Result<Smallbank> {
        let customers = reader.number("rows", 2..=1_000_000_000)?;
        // Fabric++: one of the five modifying ones, alike, with probability P_w, else Balance.
        let modifying = reader.percent("modifying")?;
        let mut fabric = [modifying; 6];
        fabric[BALANCE] = 5 * (100 - modifying);
        let mixes = [("standard", STANDARD), ("chainify", CHAINIFY), ("fabric", fabric)];
        Ok(Smallbank {
            customers,
            skew: Skew::zipf(customers, reader.number("theta", 0.0..=2.0)?),
            weights: reader.choice("mix", &mixes)?,
        })
    }
}

/// Places in [`Workload::procedures`].
const AMALGAMATE: usize = 0;
const BALANCE: usize = 1;
const DEPOSIT_CHECKING: usize = 2;
const SEND_PAYMENT: usize = 3;
const TRANSACT_SAVINGS: usize = 4;

impl Workload for Smallbank {
    fn schema(&self) -> String {
        SCHEMA.to_owned() + &procedures(Variant::default())
    }

    fn procedures(&self) -> Vec<&'static str> {
        vec![
            "sb_amalgamate",
            "sb_balance",
            "sb_deposit_checking",
            "sb_send_payment",
            "sb_transact_savings",
            "sb_write_check",
        ]
    }

    fn programs(&self, tables: &Tables) -> Result<Vec<Procedure>> {
        programs::all(tables)
    }

    fn fills(&self) -> Vec<Fill> {
        TABLES.map(|table| Fill::rows(table.name(), self.customers, move |n| table.row(n))).into()
    }

    fn calls(&self, seed: u64) -> Box<dyn Iterator<Item = Call> + Send> {
        let (skew, weights) = (self.skew.clone(), self.weights);
        let mut random = Random::new(seed);
        Box::new(std::iter::repeat_with(move || call(&skew, &weights, &mut random)))
    }
}

fn call(skew: &Skew, weights: &Weights, random: &mut Random) -> Call {
    let mut drawn = random.below(u64::from(weights.iter().sum::<u32>())) as u32;
    let mut procedure = 0;
    while drawn >= weights[procedure] {
        drawn -= weights[procedure];
        procedure += 1;
    }
    let one = skew.key(random);
    let mut other = || match skew.key(random) {
        other if other == one => one % skew.keys() + 1,
        other => other,
    };
    let arguments: &[u64] = match procedure {
        AMALGAMATE => &[one, other()],
        BALANCE => &[one],
        DEPOSIT_CHECKING => &[one, 130],
        SEND_PAYMENT => &[one, other(), 500],
        TRANSACT_SAVINGS => &[one, 2020],
        _ => &[one, 500],
    };
    Call { procedure, arguments: arguments.iter().map(|n| Value::Int(*n as i64)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_switch_lines_on_and_nothing_else() {
        let plain = procedures(Variant::default());
        assert_eq!(plain, PROCEDURES);
        let audited = procedures(Variant { audited: true, raising: false });
        let live = |text: &str, word: &str| {
            let lines = text.lines().map(str::trim_start);
            lines.filter(|line| !line.starts_with("--") && line.contains(word)).count()
        };
        assert_eq!(live(&plain, "outside"), 0);
        assert_eq!(live(&audited, "UPDATE outside"), 3);
        assert_eq!(live(&audited, "SB001"), 0);
        let both = procedures(Variant { audited: true, raising: true });
        assert_eq!(live(&both, "SB001"), 2);
        assert!(plain.contains(&format!("% {OUTSIDE_ROWS};")));
    }

    #[test]
    fn the_loaded_money_is_what_the_rows_say() {
        let mut rows = Vec::new();
        for table in [Table::Savings, Table::Checking] {
            table.write_rows(1, 500, &mut rows).unwrap();
        }
        let text = String::from_utf8(rows).unwrap();
        let sum: i64 =
            text.lines().map(|line| line.split('\t').nth(1).unwrap().parse::<i64>().unwrap()).sum();
        assert_eq!(sum, initial_total_cents(500));
        assert_eq!(text.lines().count(), 1000);
    }

    #[test]
    fn the_mix_has_six_scripts_of_a_hundred() {
        let scripts = scripts(&Skew::zipf(100, 0.99));
        assert_eq!(scripts.len(), 6);
        assert_eq!(scripts.iter().map(|s| s.weight).sum::<u32>(), 100);
        for script in scripts {
            assert_eq!(script.text.matches("SELECT sb_").count(), 1);
            assert!(procedures(Variant::default()).contains(&format!("sb_{}(", script.name)));
        }
    }
}
