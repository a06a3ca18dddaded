//! The same procedures by the builder.
//!
//! What a terminal sends is never NULL, so the tests for it that SQL makes of a primary key are
//! left out.

use std::ops::Bound;

use procedure::build::{
    Builder, Tables, add, at_least, call, choose, concat, divide, element, int, less, multiply,
    subtract, text,
};
use procedure::functions::Function;
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::OnError;
use procedure::{Expr, Procedure};
use types::{DataType, Result, SqlState};

use super::DISTRICTS;

const INT: DataType = DataType::Int4;
const CENTS: DataType = DataType::Int8;

pub(super) fn all(tables: &Tables) -> Result<Vec<Procedure>> {
    Ok(vec![
        new_order(tables)?,
        payment(tables, By::Number)?,
        payment(tables, By::Name)?,
        order_status(tables, By::Number)?,
        order_status(tables, By::Name)?,
        delivery(tables)?,
        stock_level(tables)?,
    ])
}

/// How a customer is told.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Number,
    Name,
}

impl By {
    fn parameter(self) -> (&'static str, DataType) {
        match self {
            By::Number => ("customer_id", INT),
            By::Name => ("customer_name", DataType::Text),
        }
    }

    /// The customer's number. Of several of one name it is the middle one by first name.
    fn number(
        self,
        p: &mut Builder<'_>,
        warehouse: &Expr,
        district: &Expr,
        reported: Expr,
    ) -> Expr {
        if self == By::Number {
            return reported;
        }
        let prefix = [warehouse.clone(), district.clone(), reported];
        let input = p.scan("customer", Some("customer_by_name"), &prefix, &["c_id"]);
        let numbers = DataType::Array(Box::new(INT));
        let query = aggregated(input, AggregateFunction::ArrayAgg, numbers);
        let ([named], _) = p.fetch(query);
        let count = call(Function::Cardinality, vec![named.clone()], &INT);
        p.assign(element(&named, &divide(add(count, int(1), &INT), int(2), &INT)))
    }
}

/// The aggregate of a query's first column.
fn aggregated(input: Query, function: AggregateFunction, result: DataType) -> Query {
    let distinct = function == AggregateFunction::Count;
    let input_column = Some(Expr::Column(0));
    let aggregate = Aggregate {
        function,
        input: input_column,
        distinct,
        filter: None,
        separator: None,
        order: Box::default(),
        result,
    };
    Query::Aggregate {
        input: Box::new(input),
        groups: Box::default(),
        sets: Box::default(),
        aggregates: [aggregate].into(),
    }
}

fn first_of(input: Query) -> Query {
    Query::Limit { input: Box::new(input), limit: Some(int(1)), offset: None }
}

/// Changes columns of a row by what is added to each.
fn increase(p: &mut Builder<'_>, table: &str, key: &[Expr], by: Vec<(&str, Expr, DataType)>) {
    let sums = by.into_iter().map(|(column, amount, data_type)| {
        (column, add(p.column(table, column), amount, &data_type))
    });
    let sums = sums.collect();
    p.update(table, key, sums);
}

fn new_order(tables: &Tables) -> Result<Procedure> {
    let numbers = ["warehouse_id", "district_id", "customer_id", "all_local"];
    let arrays = ["items", "suppliers", "quantities"];
    let array = DataType::Array(Box::new(INT));
    let parameters = numbers.map(|name| (name, INT)).into_iter();
    let parameters: Vec<_> = parameters.chain(arrays.map(|name| (name, array.clone()))).collect();
    let mut p = Builder::new(tables, "tpcc_new_order", &parameters);
    p.returns(&[("order_id", INT), ("total", CENTS)]);
    let [warehouse, district, customer, all_local, items, suppliers, quantities] = p.arguments();
    let place = [warehouse.clone(), district.clone()];
    let ([warehouse_tax], _) = p.read("warehouse", &place[..1], ["w_tax"]);
    let customer_key = [&place[..], std::slice::from_ref(&customer)].concat();
    let ([discount], _) = p.read("customer", &customer_key, ["c_discount"]);
    let ([order, district_tax], _) = p.read("district", &place, ["d_next_o_id", "d_tax"]);
    increase(&mut p, "district", &place, vec![("d_next_o_id", int(1), INT)]);
    let count = p.assign(call(Function::Cardinality, vec![items.clone()], &INT));
    p.insert(
        "orders",
        vec![
            ("o_w_id", warehouse.clone()),
            ("o_d_id", district.clone()),
            ("o_id", order.clone()),
            ("o_c_id", customer),
            ("o_entry_d", Expr::Now),
            ("o_ol_cnt", count.clone()),
            ("o_all_local", all_local),
        ],
    );
    p.insert(
        "new_order",
        vec![
            ("no_w_id", warehouse.clone()),
            ("no_d_id", district.clone()),
            ("no_o_id", order.clone()),
        ],
    );
    let amounts = p.for_range_carrying([int(1), count], int(0), |p, n, amounts| {
        let [item, supplier, quantity] =
            [&items, &suppliers, &quantities].map(|array| p.assign(element(array, &n)));
        let line = Line { number: n, item, supplier, quantity };
        add(amounts, order_line(p, &place, &order, line), &CENTS)
    });
    let discounted = multiply(amounts, subtract(int(10_000), discount, &CENTS), &CENTS);
    let taxes = add(add(int(10_000), warehouse_tax, &CENTS), district_tax, &CENTS);
    let total = divide(multiply(discounted, taxes, &CENTS), int(100_000_000), &CENTS);
    p.emit(vec![order, total]);
    p.build()
}

struct Line {
    number: Expr,
    item: Expr,
    supplier: Expr,
    quantity: Expr,
}

/// Yields the line's amount.
fn order_line(p: &mut Builder<'_>, place: &[Expr; 2], order: &Expr, line: Line) -> Expr {
    let [warehouse, district] = place;
    let Line { number, item, supplier, quantity } = line;
    let ([price], found) = p.read("item", std::slice::from_ref(&item), ["i_price"]);
    p.require(found, OnError::new(SqlState(*b"TC001"), "item number is not valid"));
    let stock = [supplier.clone(), item.clone()];
    let info = district_info(p, &stock, district, 1..=DISTRICTS);
    let rest = subtract(p.column("stock", "s_quantity"), quantity.clone(), &INT);
    let refill = choose(at_least(rest.clone(), int(10)), int(0), int(91));
    let remote = choose(Expr::equal(supplier.clone(), warehouse.clone()), int(0), int(1));
    let [ytd, orders, remotes] =
        ["s_ytd", "s_order_cnt", "s_remote_cnt"].map(|column| p.column("stock", column));
    p.update(
        "stock",
        &stock,
        vec![
            ("s_quantity", add(rest, refill, &INT)),
            ("s_ytd", add(ytd, quantity.clone(), &CENTS)),
            ("s_order_cnt", add(orders, int(1), &INT)),
            ("s_remote_cnt", add(remotes, remote, &INT)),
        ],
    );
    let amount = p.assign(multiply(quantity.clone(), price, &CENTS));
    p.insert(
        "order_line",
        vec![
            ("ol_w_id", warehouse.clone()),
            ("ol_d_id", district.clone()),
            ("ol_o_id", order.clone()),
            ("ol_number", number),
            ("ol_i_id", item),
            ("ol_supply_w_id", supplier),
            ("ol_quantity", quantity),
            ("ol_amount", amount.clone()),
            ("ol_dist_info", info),
        ],
    );
    amount
}

/// The stock's text for a district, found by halving.
fn district_info(
    p: &mut Builder<'_>,
    stock: &[Expr; 2],
    district: &Expr,
    among: std::ops::RangeInclusive<u64>,
) -> Expr {
    let (low, high) = (*among.start(), *among.end());
    if low == high {
        let ([info], _) = p.read("stock", stock, [format!("s_dist_{low:02}").as_str()]);
        return info;
    }
    let middle = low + (high - low) / 2;
    p.select(
        less(district.clone(), int(middle as i64 + 1)),
        |p| district_info(p, stock, district, low..=middle),
        |p| district_info(p, stock, district, middle + 1..=high),
    )
}

fn payment(tables: &Tables, by: By) -> Result<Procedure> {
    let places = ["warehouse_id", "district_id", "customer_warehouse", "customer_district"];
    let mut parameters: Vec<_> = places.map(|name| (name, INT)).into();
    parameters.extend([by.parameter(), ("amount", CENTS)]);
    let name = if by == By::Name { "tpcc_payment_by_name" } else { "tpcc_payment" };
    let mut p = Builder::new(tables, name, &parameters);
    p.returns(&[("balance", CENTS)]);
    let [warehouse, district, customer_warehouse, customer_district, reported, amount] =
        p.arguments();
    let place = [warehouse.clone(), district.clone()];
    let ([warehouse_name], _) = p.read("warehouse", &place[..1], ["w_name"]);
    increase(&mut p, "warehouse", &place[..1], vec![("w_ytd", amount.clone(), CENTS)]);
    let ([district_name], _) = p.read("district", &place, ["d_name"]);
    increase(&mut p, "district", &place, vec![("d_ytd", amount.clone(), CENTS)]);
    let customer = by.number(&mut p, &customer_warehouse, &customer_district, reported);
    let key = [customer_warehouse.clone(), customer_district.clone(), customer.clone()];
    let ([credit, balance], _) = p.read("customer", &key, ["c_credit", "c_balance"]);
    let paid = |p: &mut Builder<'_>| {
        let [balance, ytd, count] =
            ["c_balance", "c_ytd_payment", "c_payment_cnt"].map(|c| p.column("customer", c));
        vec![
            ("c_balance", subtract(balance, amount.clone(), &CENTS)),
            ("c_ytd_payment", add(ytd, amount.clone(), &CENTS)),
            ("c_payment_cnt", add(count, int(1), &INT)),
        ]
    };
    p.when_else(
        Expr::equal(credit, text("BC")),
        |p| {
            let written = [
                text(" "),
                customer.clone(),
                customer_district.clone(),
                customer_warehouse.clone(),
                district.clone(),
                warehouse.clone(),
                amount.clone(),
                p.column("customer", "c_data"),
            ];
            let written = call(Function::ConcatWs, written.into(), &DataType::Text);
            let data = call(Function::Left, vec![written, int(500)], &DataType::Text);
            let mut set = paid(p);
            set.push(("c_data", data));
            p.update("customer", &key, set);
        },
        |p| {
            let set = paid(p);
            p.update("customer", &key, set);
        },
    );
    p.insert(
        "history",
        vec![
            ("h_c_id", customer.clone()),
            ("h_c_d_id", customer_district.clone()),
            ("h_c_w_id", customer_warehouse.clone()),
            ("h_d_id", district.clone()),
            ("h_w_id", warehouse.clone()),
            ("h_date", Expr::Now),
            ("h_amount", amount.clone()),
            ("h_data", concat(concat(warehouse_name, text("    ")), district_name)),
        ],
    );
    p.emit(vec![subtract(balance, amount, &CENTS)]);
    p.build()
}

fn order_status(tables: &Tables, by: By) -> Result<Procedure> {
    let name = if by == By::Name { "tpcc_order_status_by_name" } else { "tpcc_order_status" };
    let parameters = [("warehouse_id", INT), ("district_id", INT), by.parameter()];
    let mut p = Builder::new(tables, name, &parameters);
    p.returns(&[
        ("balance", CENTS),
        ("order_id", INT),
        ("entered", DataType::Timestamptz(None)),
        ("carrier", INT),
        ("item", INT),
        ("supplier", INT),
        ("quantity", INT),
        ("amount", CENTS),
        ("delivered", DataType::Timestamptz(None)),
    ]);
    let [warehouse, district, reported] = p.arguments();
    let customer = by.number(&mut p, &warehouse, &district, reported);
    let key = [warehouse.clone(), district.clone(), customer];
    let ([balance], _) = p.read("customer", &key, ["c_balance"]);
    let columns = ["o_id", "o_entry_d", "o_carrier_id"];
    let mut last = p.scan("orders", Some("orders_by_customer"), &key, &columns);
    if let Query::Scan { reverse, .. } = &mut last {
        *reverse = true;
    }
    let ([order, entered, carrier], _) = p.fetch(first_of(last));
    let columns = ["ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount", "ol_delivery_d"];
    let lines = p.scan("order_line", None, &[warehouse, district, order.clone()], &columns);
    let of_order = [balance, order, entered, carrier];
    let expressions = of_order.into_iter().chain((0..5).map(Expr::Column)).collect();
    p.emit_query(Query::Project { input: Box::new(lines), expressions });
    p.build()
}

fn delivery(tables: &Tables) -> Result<Procedure> {
    let mut p = Builder::new(tables, "tpcc_delivery", &[("warehouse_id", INT), ("carrier", INT)]);
    p.returns(&[("delivered", INT)]);
    let [warehouse, carrier] = p.arguments();
    let bounds = [int(1), int(DISTRICTS as i64)];
    let delivered = p.for_range_carrying(bounds, int(0), |p, district, delivered| {
        let place = [warehouse.clone(), district];
        let oldest = p.scan("new_order", None, &place, &["no_o_id"]);
        let ([order], found) = p.fetch(first_of(oldest));
        p.when(Expr::negated(found), |p| p.next_turn(Some(delivered.clone())));
        deliver(p, &place, order, &carrier);
        add(delivered, int(1), &INT)
    });
    p.emit(vec![delivered]);
    p.build()
}

fn deliver(p: &mut Builder<'_>, place: &[Expr; 2], order: Expr, carrier: &Expr) {
    let [warehouse, district] = place;
    let key = [warehouse.clone(), district.clone(), order];
    p.delete("new_order", &key);
    let ([customer], _) = p.read("orders", &key, ["o_c_id"]);
    p.update("orders", &key, vec![("o_carrier_id", carrier.clone())]);
    let amounts = p.scan("order_line", None, &key, &["ol_amount"]);
    let sum = aggregated(amounts, AggregateFunction::Sum, DataType::Numeric(None));
    let ([sum], _) = p.fetch(sum);
    let amount = p.assign(Expr::Cast { input: Box::new(sum), to: CENTS, explicit: false });
    let lines = p.scan("order_line", None, &key, &["ol_number"]);
    p.for_rows(lines, |p, [number]: [Expr; 1]| {
        let line = [&key[..], &[number]].concat();
        p.update("order_line", &line, vec![("ol_delivery_d", Expr::Now)]);
    });
    let customer = [warehouse.clone(), district.clone(), customer];
    increase(
        p,
        "customer",
        &customer,
        vec![("c_balance", amount, CENTS), ("c_delivery_cnt", int(1), INT)],
    );
}

fn stock_level(tables: &Tables) -> Result<Procedure> {
    let parameters = ["warehouse_id", "district_id", "threshold"].map(|name| (name, INT));
    let mut p = Builder::new(tables, "tpcc_stock_level", &parameters);
    p.returns(&[("low", CENTS)]);
    let [warehouse, district, threshold] = p.arguments();
    let place = [warehouse.clone(), district];
    let ([next], _) = p.read("district", &place, ["d_next_o_id"]);
    let until = |order: Expr| -> Box<[Expr]> { [&place[..], &[order]].concat().into() };
    let low = Bound::Included(until(subtract(next.clone(), int(20), &INT)));
    let lines = p.range("order_line", None, [low, Bound::Excluded(until(next))], &["ol_i_id"]);
    let stock_key = [warehouse, Expr::Column(0)];
    let short = less(Expr::Column(1), threshold);
    let stock = p.get("stock", &stock_key, &["s_i_id", "s_quantity"], Some(short));
    let short_lines = Query::NestedLoop {
        outer: Box::new(lines),
        inner: Box::new(stock),
        condition: None,
        left: false,
        inner_width: 2,
    };
    let ([count], _) = p.fetch(aggregated(short_lines, AggregateFunction::Count, CENTS));
    p.emit(vec![count]);
    p.build()
}
