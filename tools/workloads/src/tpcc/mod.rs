//! TPC-C, revision 5.11: a wholesale supplier's warehouses, with five transactions.
//!
//! Tables, keys, load, draws and transaction profiles are the specification's. What differs:
//!
//! * *Money is bigint cents*, taxes and discounts are ten-thousandths. All of TPC-C's amounts have
//!   two decimals and fit, and a 64-bit addition is a fraction of a decimal one.
//! * *All randomness is the generator's* and comes as arguments, so that a call is deterministic.
//! * *What a terminal would only show is left out*: names of items, addresses, the brand that
//!   `I_DATA` tells. What is stored is complete.
//! * *No terminals*: no keying and think times, and a call's home warehouse is drawn uniformly.
//! * *Scale for tests*: fewer customers in a district (as many orders, of which the last 30 % are
//!   not delivered) and fewer items.
//!
//! ```text
//!               keys follow from the arguments      need data
//! NewOrder      all rows but those on the right     orders, new_order, order_line: the number
//! Payment       all, where the customer is known    the customer, where looked up by name
//! OrderStatus   the customer, likewise              the last order and its lines
//! Delivery      the range of new orders             all the rest
//! StockLevel    the district                        the last orders' lines, and their stock
//! ```
//!
//! So Payment and OrderStatus exist twice, by number and by name. In NewOrder the turns of the loop
//! over the lines depend on each other by nothing but the sum of the amounts, which is not read
//! before the end.

mod check;
mod draw;
mod load;
mod programs;

use kit::random::Random;
use procedure::Procedure;
use procedure::build::Tables;
use types::{Result, Value};

use crate::settings::{Reader, Setting, setting};
use crate::text::uniform;
use crate::workload::{Call, Entry, Fill, State, Workload};

pub const ENTRY: Entry = Entry {
    name: "tpcc",
    about: "TPC-C: orders, payments and deliveries of a wholesale supplier",
    settings: SETTINGS,
    read: |reader| Ok(Box::new(Tpcc::read(reader)?)),
};

const SETTINGS: &[Setting] = &[
    setting("warehouses", "1", "how many warehouses"),
    setting("customers", "3000", "customers and first orders of a district"),
    setting("items", "100000", "items, and stock rows of a warehouse"),
    setting("mix", "standard", "standard (45/43/4/4/4), even, or neworder-payment"),
    setting("payment", "50", "percent of Payment in the mix neworder-payment"),
    setting("by_name", "60", "percent of customers that are looked up by last name"),
    setting("remote_lines", "1", "percent of order lines that another warehouse supplies"),
    setting("remote_payments", "15", "percent of payments by another warehouse's customer"),
    setting("user_aborts", "1", "percent of NewOrder with an unused item, which roll back"),
];

pub const DISTRICTS: u64 = 10;

/// The nine tables and their indexes.
pub const SCHEMA: &str = include_str!("../../sql/tpcc/schema.sql");
const NEW_ORDER: &str = include_str!("../../sql/tpcc/new_order.sql");
const PAYMENT: &str = include_str!("../../sql/tpcc/payment.sql");
const ORDER_STATUS: &str = include_str!("../../sql/tpcc/order_status.sql");
const DELIVERY: &str = include_str!("../../sql/tpcc/delivery.sql");
const STOCK_LEVEL: &str = include_str!("../../sql/tpcc/stock_level.sql");

/// How many rows there are.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub warehouses: u64,
    /// Of a district, and its orders too.
    pub customers: u64,
    pub items: u64,
}

impl Scale {
    /// Whether an order that is loaded has been delivered: all but the last 30 %.
    fn is_delivered(&self, order: u64) -> bool {
        order <= self.customers - self.customers * 3 / 10
    }
}

/// Percentages of the kinds, in the order of [`KINDS`].
type Weights = [u32; 5];
const STANDARD: Weights = [45, 43, 4, 4, 4];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

const KINDS: [Kind; 5] =
    [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

#[derive(Clone, Copy, Debug)]
struct Tpcc {
    scale: Scale,
    weights: Weights,
    by_name: u32,
    remote_lines: u32,
    remote_payments: u32,
    user_aborts: u32,
}

impl Tpcc {
    fn read(reader: &Reader<'_>) -> Result<Tpcc> {
        let payment = reader.percent("payment")?;
        Ok(Tpcc {
            scale: Scale {
                warehouses: reader.number("warehouses", 1..=100_000)?,
                customers: reader.number("customers", 10..=3_000)?,
                items: reader.number("items", 10..=100_000)?,
            },
            weights: reader.choice(
                "mix",
                &[
                    ("standard", STANDARD),
                    ("even", [20; 5]),
                    ("neworder-payment", [100 - payment, payment, 0, 0, 0]),
                ],
            )?,
            by_name: reader.percent("by_name")?,
            remote_lines: reader.percent("remote_lines")?,
            remote_payments: reader.percent("remote_payments")?,
            user_aborts: reader.percent("user_aborts")?,
        })
    }
}

/// Places in [`Workload::procedures`].
const NEW_ORDER_CALL: usize = 0;
const PAYMENT_CALL: usize = 1;
const PAYMENT_BY_NAME_CALL: usize = 2;
const ORDER_STATUS_CALL: usize = 3;
const ORDER_STATUS_BY_NAME_CALL: usize = 4;
const DELIVERY_CALL: usize = 5;
const STOCK_LEVEL_CALL: usize = 6;

impl Workload for Tpcc {
    fn schema(&self) -> String {
        let mut text = [SCHEMA, NEW_ORDER, DELIVERY, STOCK_LEVEL].concat();
        for template in [PAYMENT, ORDER_STATUS] {
            for mark in ["--[number]", "--[name]"] {
                text += &template.replace(mark, "");
            }
        }
        text
    }

    fn procedures(&self) -> Vec<&'static str> {
        vec![
            "tpcc_new_order",
            "tpcc_payment",
            "tpcc_payment_by_name",
            "tpcc_order_status",
            "tpcc_order_status_by_name",
            "tpcc_delivery",
            "tpcc_stock_level",
        ]
    }

    fn programs(&self, tables: &Tables) -> Result<Vec<Procedure>> {
        programs::all(tables)
    }

    fn fills(&self) -> Vec<Fill> {
        load::fills(&self.scale)
    }

    fn calls(&self, seed: u64) -> Box<dyn Iterator<Item = Call> + Send> {
        let tpcc = *self;
        let mut random = Random::new(seed);
        Box::new(std::iter::repeat_with(move || tpcc.call(&mut random)))
    }

    fn check(&self, state: &dyn State) -> Result<()> {
        check::all(state)
    }
}

/// A customer by number or by last name.
enum Customer {
    Number(u64),
    Name(String),
}

impl Tpcc {
    fn call(&self, random: &mut Random) -> Call {
        let mut drawn = random.below(100) as u32;
        let kind = KINDS.iter().zip(self.weights).find(|(_, weight)| {
            let found = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            found
        });
        let warehouse = uniform(random, 1..=self.scale.warehouses);
        let district = uniform(random, 1..=DISTRICTS);
        match kind.map_or(Kind::NewOrder, |(kind, _)| *kind) {
            Kind::NewOrder => self.new_order(random, warehouse, district),
            Kind::Payment => self.payment(random, warehouse, district),
            Kind::OrderStatus => {
                let (number, name) = (ORDER_STATUS_CALL, ORDER_STATUS_BY_NAME_CALL);
                let customer = self.customer(random);
                customer_call([number, name], &[warehouse, district], customer, &[])
            }
            Kind::Delivery => call(DELIVERY_CALL, &[warehouse, uniform(random, 1..=10)]),
            Kind::StockLevel => {
                call(STOCK_LEVEL_CALL, &[warehouse, district, uniform(random, 10..=20)])
            }
        }
    }

    /// Clause 2.4.1.
    fn new_order(&self, random: &mut Random, warehouse: u64, district: u64) -> Call {
        let customer = draw::customer(random, self.scale.customers);
        let lines = uniform(random, 5..=15) as usize;
        let mut items: Vec<u64> =
            (0..lines).map(|_| draw::item(random, self.scale.items)).collect();
        if percent(random, self.user_aborts) {
            items[lines - 1] = self.scale.items + 1;
        }
        let suppliers: Vec<u64> = (0..lines)
            .map(|_| match percent(random, self.remote_lines) {
                true => self.other_warehouse(random, warehouse),
                false => warehouse,
            })
            .collect();
        let quantities: Vec<u64> = (0..lines).map(|_| uniform(random, 1..=10)).collect();
        let all_local = suppliers.iter().all(|supplier| *supplier == warehouse);
        let numbers = [warehouse, district, customer, u64::from(all_local)].map(int);
        let arrays = [items, suppliers, quantities]
            .map(|array| Value::array(array.into_iter().map(int).collect::<Vec<_>>()));
        let arguments = numbers.into_iter().chain(arrays).collect();
        Call { procedure: NEW_ORDER_CALL, arguments }
    }

    /// Clause 2.5.1.
    fn payment(&self, random: &mut Random, warehouse: u64, district: u64) -> Call {
        let (customer_warehouse, customer_district) = match percent(random, self.remote_payments) {
            true => (self.other_warehouse(random, warehouse), uniform(random, 1..=DISTRICTS)),
            false => (warehouse, district),
        };
        let customer = self.customer(random);
        let amount_cents = uniform(random, 100..=500_000);
        let places = [warehouse, district, customer_warehouse, customer_district];
        customer_call([PAYMENT_CALL, PAYMENT_BY_NAME_CALL], &places, customer, &[amount_cents])
    }

    fn customer(&self, random: &mut Random) -> Customer {
        match percent(random, self.by_name) {
            true => Customer::Name(draw::wanted_name(random, self.scale.customers)),
            false => Customer::Number(draw::customer(random, self.scale.customers)),
        }
    }

    /// Where there is but one warehouse, that one.
    fn other_warehouse(&self, random: &mut Random, home: u64) -> u64 {
        match self.scale.warehouses {
            1 => home,
            warehouses => (home + random.below(warehouses - 1)) % warehouses + 1,
        }
    }
}

fn percent(random: &mut Random, share: u32) -> bool {
    random.below(100) < u64::from(share)
}

fn int(number: u64) -> Value {
    Value::Int(number as i64)
}

fn call(procedure: usize, arguments: &[u64]) -> Call {
    Call { procedure, arguments: arguments.iter().copied().map(int).collect() }
}

/// A call of the first of two procedures with a customer's number, or of the second with a name.
fn customer_call(
    procedures: [usize; 2],
    before: &[u64],
    customer: Customer,
    after: &[u64],
) -> Call {
    let (procedure, customer) = match customer {
        Customer::Number(number) => (procedures[0], int(number)),
        Customer::Name(name) => (procedures[1], Value::text(name)),
    };
    let before = before.iter().copied().map(int);
    let arguments = before.chain([customer]).chain(after.iter().copied().map(int)).collect();
    Call { procedure, arguments }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn calls(settings: Settings) -> Vec<Call> {
        ENTRY.make(&settings).unwrap().calls(1).take(20_000).collect()
    }

    /// Percent of the calls of these procedures for which `holds`.
    fn share(calls: &[Call], procedures: &[usize], holds: impl Fn(&Call) -> bool) -> f64 {
        let of: Vec<_> = calls.iter().filter(|c| procedures.contains(&c.procedure)).collect();
        of.iter().filter(|call| holds(call)).count() as f64 * 100.0 / of.len() as f64
    }

    fn assert_near(seen: f64, wanted: f64) {
        assert!((seen - wanted).abs() < 0.1 * wanted + 0.5, "{seen} instead of {wanted}");
    }

    #[test]
    fn calls_have_the_shares_of_the_specification() {
        let calls = calls(Settings::default().with("warehouses", 4));
        let everything: Vec<usize> = (0..7).collect();
        let payments = [PAYMENT_CALL, PAYMENT_BY_NAME_CALL];
        let statuses = [ORDER_STATUS_CALL, ORDER_STATUS_BY_NAME_CALL];
        let kinds: [(&[usize], f64); 5] = [
            (&[NEW_ORDER_CALL], 45.0),
            (&payments, 43.0),
            (&statuses, 4.0),
            (&[DELIVERY_CALL], 4.0),
            (&[STOCK_LEVEL_CALL], 4.0),
        ];
        for (kind, wanted) in kinds {
            assert_near(share(&calls, &everything, |c| kind.contains(&c.procedure)), wanted);
        }
        assert_near(share(&calls, &payments, |c| c.procedure == PAYMENT_BY_NAME_CALL), 60.0);
        assert_near(share(&calls, &payments, |c| c.arguments[0] != c.arguments[2]), 15.0);
        let unused = Value::Int(100_001);
        let rolls_back = |call: &Call| call.arguments[4].as_array().unwrap().contains(&unused);
        assert_near(share(&calls, &[NEW_ORDER_CALL], rolls_back), 1.0);
        // A line in a hundred, and ten lines.
        let is_remote = |call: &Call| call.arguments[3] == Value::Int(0);
        assert_near(share(&calls, &[NEW_ORDER_CALL], is_remote), 9.6);
    }

    #[test]
    fn the_share_of_payment_can_be_set() {
        for percent in [0, 30, 100] {
            let settings = Settings::default().with("mix", "neworder-payment");
            let calls = calls(settings.with("payment", percent));
            let is_payment = |c: &Call| c.procedure != NEW_ORDER_CALL;
            assert_near(share(&calls, &[0, 1, 2], is_payment), f64::from(percent));
            assert!(calls.iter().all(|call| call.procedure <= PAYMENT_BY_NAME_CALL));
        }
    }
}
