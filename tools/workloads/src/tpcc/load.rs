//! The initial population: clause 4.3.3. Every row is a function of its key.

use kit::random::Random;
use types::Value;

use super::draw::{self, data, digits};
use super::{DISTRICTS, Scale};
use crate::skew::Spread;
use crate::text::{letters, uniform};
use crate::workload::{Fill, Row};

/// Each customer has paid this much before the run.
const FIRST_PAYMENT_CENTS: u64 = 1_000;
const ORDER_LINES: std::ops::RangeInclusive<u64> = 5..=15;
const LOAD_TIME: Value = Value::Timestamptz(0);

pub fn fills(scale: &Scale) -> Vec<Fill> {
    let scale = *scale;
    let Scale { warehouses, customers, items } = scale;
    let districts = warehouses * DISTRICTS;
    let everyone = districts * customers;
    vec![
        Fill::rows("item", items, item),
        Fill::rows("warehouse", warehouses, move |w| warehouse(w, customers)),
        Fill::rows("stock", warehouses * items, move |n| stock(n, items)),
        Fill::rows("district", districts, move |n| district(n, customers)),
        Fill::rows("customer", everyone, move |n| customer(&place(n, customers))),
        Fill::rows("history", everyone, move |n| history(&place(n, customers))),
        Fill::groups("orders", districts, move |district, out| {
            let spread = Spread::new(customers);
            out.extend(
                (1..=customers)
                    .map(|o| order(&place(district * customers + o, customers), &spread, scale)),
            );
        }),
        Fill::groups("new_order", everyone, move |n, out| {
            let place = place(n + 1, customers);
            if !scale.is_delivered(place.number) {
                out.push(ints([place.warehouse, place.district, place.number]));
            }
        }),
        Fill::groups("order_line", everyone, move |n, out| {
            order_lines(&place(n + 1, customers), scale, out);
        }),
    ]
}

/// Where a customer or an order belongs.
struct Place {
    warehouse: u64,
    district: u64,
    /// Of the customer or order in its district.
    number: u64,
    /// Among all of them.
    overall: u64,
}

fn place(overall: u64, per_district: u64) -> Place {
    let district = (overall - 1) / per_district;
    Place {
        warehouse: district / DISTRICTS + 1,
        district: district % DISTRICTS + 1,
        number: (overall - 1) % per_district + 1,
        overall,
    }
}

/// The draws of row `number` of a kind.
fn random_of(kind: u64, number: u64) -> Random {
    Random::new(number.wrapping_mul(16) + kind)
}

fn int(number: u64) -> Value {
    Value::Int(number as i64)
}

fn ints<const N: usize>(numbers: [u64; N]) -> Row {
    numbers.map(int).into()
}

/// Street, street, city, state, zip.
fn address(random: &mut Random) -> [Value; 5] {
    let mut street = || Value::text(letters(random, 10..=20));
    let [street_1, street_2, city] = [street(), street(), street()];
    let state = Value::text(letters(random, 2..=2).to_uppercase());
    [street_1, street_2, city, state, Value::text(digits(random, 4) + "11111")]
}

fn item(id: u64) -> Row {
    let mut random = random_of(0, id);
    let random = &mut random;
    let image = int(uniform(random, 1..=10_000));
    let name = Value::text(letters(random, 14..=24));
    let price_cents = int(uniform(random, 100..=10_000));
    [int(id), image, name, price_cents, Value::text(data(random))].into()
}

fn warehouse(id: u64, customers: u64) -> Row {
    let mut random = random_of(1, id);
    let name = Value::text(letters(&mut random, 6..=10));
    let address = address(&mut random);
    let tax = int(uniform(&mut random, 0..=2_000));
    let paid_cents = int(DISTRICTS * customers * FIRST_PAYMENT_CENTS);
    [int(id), name].into_iter().chain(address).chain([tax, paid_cents]).collect()
}

fn stock(n: u64, items: u64) -> Row {
    let mut random = random_of(2, n);
    let random = &mut random;
    let (warehouse, item) = ((n - 1) / items + 1, (n - 1) % items + 1);
    let mut row = vec![int(warehouse), int(item), int(uniform(random, 10..=100))];
    row.extend((0..DISTRICTS).map(|_| Value::text(letters(random, 24..=24))));
    row.extend([int(0), int(0), int(0), Value::text(data(random))]);
    row.into()
}

fn district(n: u64, customers: u64) -> Row {
    let mut random = random_of(3, n);
    let (warehouse, district) = ((n - 1) / DISTRICTS + 1, (n - 1) % DISTRICTS + 1);
    let name = Value::text(letters(&mut random, 6..=10));
    let address = address(&mut random);
    let tax = int(uniform(&mut random, 0..=2_000));
    let paid_cents = int(customers * FIRST_PAYMENT_CENTS);
    let key_and_name = [int(warehouse), int(district), name];
    key_and_name.into_iter().chain(address).chain([tax, paid_cents, int(customers + 1)]).collect()
}

fn customer(place: &Place) -> Row {
    let mut random = random_of(4, place.overall);
    let random = &mut random;
    let mut row: Vec<Value> = ints([place.warehouse, place.district, place.number]).into();
    let first = Value::text(letters(random, 8..=16));
    let last = Value::text(draw::loaded_name(random, place.number));
    row.extend([first, Value::text("OE"), last]);
    row.extend(address(random));
    let credit = if random.chance(10) { "BC" } else { "GC" };
    row.extend([Value::text(digits(random, 16)), LOAD_TIME, Value::text(credit)]);
    row.extend([int(5_000_000), int(uniform(random, 0..=5_000))]);
    row.extend([Value::Int(-(FIRST_PAYMENT_CENTS as i64)), int(FIRST_PAYMENT_CENTS)]);
    row.extend([int(1), int(0), Value::text(letters(random, 300..=500))]);
    row.into()
}

fn history(place: &Place) -> Row {
    let Place { warehouse, district, number, overall } = *place;
    let text = Value::text(letters(&mut random_of(5, overall), 12..=24));
    let mut row: Vec<Value> = ints([number, district, warehouse, district, warehouse]).into();
    row.extend([LOAD_TIME, int(FIRST_PAYMENT_CENTS), text]);
    row.into()
}

/// The number of an order's lines comes first of its draws, since its row holds it too.
fn order_draws(place: &Place) -> (Random, u64) {
    let mut random = random_of(6, place.overall);
    let lines = uniform(&mut random, ORDER_LINES);
    (random, lines)
}

fn order(place: &Place, spread: &Spread, scale: Scale) -> Row {
    let (mut random, lines) = order_draws(place);
    // A permutation: every customer has one order.
    let customer = spread.of((place.number + 7 * place.district) % scale.customers) + 1;
    let carrier = match scale.is_delivered(place.number) {
        true => int(uniform(&mut random, 1..=10)),
        false => Value::Null,
    };
    let mut row: Vec<Value> =
        ints([place.warehouse, place.district, place.number, customer]).into();
    row.extend([LOAD_TIME, carrier, int(lines), int(1)]);
    row.into()
}

fn order_lines(place: &Place, scale: Scale, out: &mut Vec<Row>) {
    let (mut random, lines) = order_draws(place);
    let delivered = scale.is_delivered(place.number);
    let key = [place.warehouse, place.district, place.number];
    for line in 1..=lines {
        let mut row: Vec<Value> = key.map(int).into();
        let item = uniform(&mut random, 1..=scale.items);
        row.extend([line, item, place.warehouse].map(int));
        let (time, amount_cents) = match delivered {
            true => (LOAD_TIME, 0),
            false => (Value::Null, uniform(&mut random, 1..=999_999)),
        };
        let info = Value::text(letters(&mut random, 24..=24));
        row.extend([time, int(5), int(amount_cents), info]);
        out.push(row.into());
    }
}
