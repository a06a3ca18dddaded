//! TPC-C's NewOrder and Payment, as `workloads/sql/tpcc` has them.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use storage::{LATEST, Slot, Store, Table, UndoArena};
use types::key::{encode_column, encode_int_key};
use types::{ColumnId, DataType, IndexId, Key, Stamp, Value};

use super::{ByHand, array, columns, number, table};

/// `now()` in all blocks of a run.
const NOW: Value = Value::Timestamptz(0);
/// Districts of a warehouse, each with a text of its own in every stock row.
const DISTRICTS: usize = 10;
const DATA_CHARACTERS_MAX: usize = 500;

/// A table and the columns of it that are looked at.
struct Of<const N: usize> {
    table: Arc<Table>,
    columns: [ColumnId; N],
}

impl<const N: usize> Of<N> {
    fn new(store: &Store, name: &str, names: [&str; N]) -> Result<Of<N>> {
        let table = table(store, name)?;
        let columns = columns(&table, names)?;
        Ok(Of { table, columns })
    }

    #[inline]
    fn find(&self, key: &[i64]) -> Result<Slot> {
        self.table.find(self::key(key).as_bytes()).context("a row")
    }

    /// Some of the columns, by their places.
    #[inline]
    fn read<const M: usize>(&self, slot: Slot, places: [usize; M]) -> Result<[Value; M]> {
        let columns = places.map(|place| self.columns[place]);
        let mut values = [const { Value::Null }; M];
        self.table.read_exclusive(slot, &columns, &mut values).context("a row")?;
        Ok(values)
    }
}

#[inline]
fn key(numbers: &[i64]) -> Key {
    let mut key = Key::default();
    numbers.iter().for_each(|number| key.0.extend_from_slice(&encode_int_key(*number)));
    key
}

fn int(value: &Value) -> Result<i64> {
    value.as_int().context("a number")
}

pub(super) struct Tpcc {
    warehouse: Of<3>,
    district: Of<4>,
    customer: Of<6>,
    by_name: IndexId,
    customer_number: ColumnId,
    item: Of<1>,
    stock: Of<4>,
    infos: [ColumnId; DISTRICTS],
    orders: Arc<Table>,
    new_order: Arc<Table>,
    order_line: Arc<Table>,
    history: Arc<Table>,
    /// Of an order.
    prices: Vec<i64>,
}

impl Tpcc {
    pub(super) fn new(store: &Store) -> Result<Tpcc> {
        let customer =
            ["c_discount", "c_credit", "c_balance", "c_ytd_payment", "c_payment_cnt", "c_data"];
        let customer = Of::new(store, "customer", customer)?;
        let indexes = &customer.table.schema().indexes;
        let by_name = indexes.iter().position(|index| index.name == "customer_by_name");
        let by_name = by_name.context("no index customer_by_name")? as IndexId + 1;
        let [customer_number] = columns(&customer.table, ["c_id"])?;
        let stock = ["s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt"];
        let stock = Of::new(store, "stock", stock)?;
        let mut infos = [0; DISTRICTS];
        for (at, info) in infos.iter_mut().enumerate() {
            [*info] = columns(&stock.table, [format!("s_dist_{:02}", at + 1).as_str()])?;
        }
        Ok(Tpcc {
            warehouse: Of::new(store, "warehouse", ["w_tax", "w_name", "w_ytd"])?,
            district: Of::new(store, "district", ["d_next_o_id", "d_tax", "d_name", "d_ytd"])?,
            customer,
            by_name,
            customer_number,
            item: Of::new(store, "item", ["i_price"])?,
            stock,
            infos,
            orders: table(store, "orders")?,
            new_order: table(store, "new_order")?,
            order_line: table(store, "order_line")?,
            history: table(store, "history")?,
            prices: Vec::new(),
        })
    }

    /// Of an order with an item that there is not, nothing is written.
    fn find_prices(&mut self, items: &[Value]) -> Result<bool> {
        self.prices.clear();
        for item in items {
            let Some(slot) = self.item.table.find(key(&[int(item)?]).as_bytes()) else {
                return Ok(false);
            };
            let [price] = self.item.read(slot, [0])?;
            self.prices.push(int(&price)?);
        }
        Ok(true)
    }

    fn new_order(
        &mut self,
        arguments: &[Value],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<bool> {
        let [warehouse, district, customer, all_local] = [0, 1, 2, 3].map(|n| number(arguments, n));
        let (warehouse, district, customer, all_local) =
            (warehouse?, district?, customer?, all_local?);
        let [items, suppliers, quantities] = [4, 5, 6].map(|place| array(arguments, place));
        let (items, suppliers, quantities) = (items?, suppliers?, quantities?);
        let [warehouse_tax] = self.warehouse.read(self.warehouse.find(&[warehouse])?, [0])?;
        let place = self.customer.find(&[warehouse, district, customer])?;
        let [discount] = self.customer.read(place, [0])?;
        if !self.find_prices(items)? {
            return Ok(false);
        }
        let place = self.district.find(&[warehouse, district])?;
        let [order, district_tax] = self.district.read(place, [0, 1])?;
        let order = int(&order)?;
        let next = [(self.district.columns[0], Value::Int(order + 1))];
        self.district.table.update(place, &next, stamp, undo);
        let of_order = [warehouse, district, order].map(Value::Int);
        let [w, d, o] = of_order.clone();
        let lines = Value::Int(items.len() as i64);
        let row = [w, d, o, Value::Int(customer), NOW, Value::Null, lines, Value::Int(all_local)];
        let order_key = key(&[warehouse, district, order]);
        self.orders.insert(order_key.as_bytes(), &row, stamp, undo);
        self.new_order.insert(order_key.as_bytes(), &of_order, stamp, undo);
        let mut amounts = 0;
        for (at, item) in items.iter().enumerate() {
            let (supplier, quantity) = (int(&suppliers[at])?, int(&quantities[at])?);
            let slot = self.stock.find(&[supplier, int(item)?])?;
            let info = self.take_stock(
                slot,
                quantity,
                (supplier, warehouse, district),
                (stamp, &mut *undo),
            )?;
            let (number, amount) = (at as i64 + 1, quantity * self.prices[at]);
            let [w, d, o] = of_order.clone();
            let [number_value, supplier, quantity, of_line] =
                [number, supplier, quantity, amount].map(Value::Int);
            let (item, none) = (item.clone(), Value::Null);
            let row = [w, d, o, number_value, item, supplier, none, quantity, of_line, info];
            let line_key = key(&[warehouse, district, order, number]);
            self.order_line.insert(line_key.as_bytes(), &row, stamp, undo);
            amounts += amount;
        }
        let taxes = 10_000 + int(&warehouse_tax)? + int(&district_tax)?;
        std::hint::black_box(amounts * (10_000 - int(&discount)?) * taxes / 100_000_000);
        Ok(true)
    }

    /// Takes so much from a stock row; the text of the district.
    fn take_stock(
        &self,
        slot: Slot,
        quantity: i64,
        (supplier, warehouse, district): (i64, i64, i64),
        (stamp, undo): (Stamp, &mut UndoArena),
    ) -> Result<Value> {
        let info = *self.infos.get(district as usize - 1).context("a district")?;
        let [a, b, c, d] = self.stock.columns;
        let mut values = [const { Value::Null }; 5];
        let columns = [info, a, b, c, d];
        self.stock.table.read_exclusive(slot, &columns, &mut values).context("a row")?;
        let [info, in_stock, ytd, count, remote] = values;
        let rest = int(&in_stock)? - quantity;
        let rest = if rest >= 10 { rest } else { rest + 91 };
        let remote = int(&remote)? + i64::from(supplier != warehouse);
        let left = [rest, int(&ytd)? + quantity, int(&count)? + 1, remote].map(Value::Int);
        let changed = self.stock.columns.iter().copied().zip(&left);
        self.stock.table.update_each(slot, changed, stamp, undo);
        Ok(info)
    }

    /// Of several customers of one name, the middle one by first name.
    fn customer_of(&self, warehouse: i64, district: i64, name: &Value) -> Result<i64> {
        let mut low = key(&[warehouse, district]);
        encode_column(&DataType::Text, false, name, &mut low)?;
        // What ends a text is two zeros: with a one all texts of the name are below.
        let mut high = low.clone();
        if let Some(last) = high.0.last_mut() {
            *last = 1;
        }
        let mut numbers = Vec::new();
        let bounds = (Bound::Included(low.as_bytes()), Bound::Excluded(high.as_bytes()));
        let (table, wanted) = (&self.customer.table, [self.customer_number]);
        table.scan(self.by_name, bounds.0, bounds.1, false, LATEST, &wanted, &mut |_, _, row| {
            numbers.extend(row.first().and_then(Value::as_int));
            ControlFlow::Continue(())
        });
        numbers.get(numbers.len().div_ceil(2).wrapping_sub(1)).copied().context("a customer")
    }

    fn payment(
        &self,
        by_name: bool,
        arguments: &[Value],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<bool> {
        let numbers = [0, 1, 2, 3, 5].map(|place| number(arguments, place));
        let [warehouse, district, customer_warehouse, customer_district, amount] = numbers;
        let (warehouse, district, amount) = (warehouse?, district?, amount?);
        let (at_warehouse, at_district) = (customer_warehouse?, customer_district?);
        let slot = self.warehouse.find(&[warehouse])?;
        let [warehouse_name, ytd] = self.warehouse.read(slot, [1, 2])?;
        let paid = [(self.warehouse.columns[2], Value::Int(int(&ytd)? + amount))];
        self.warehouse.table.update(slot, &paid, stamp, undo);
        let slot = self.district.find(&[warehouse, district])?;
        let [district_name, ytd] = self.district.read(slot, [2, 3])?;
        let paid = [(self.district.columns[3], Value::Int(int(&ytd)? + amount))];
        self.district.table.update(slot, &paid, stamp, undo);
        let customer = match by_name {
            true => self.customer_of(at_warehouse, at_district, &arguments[4])?,
            false => number(arguments, 4)?,
        };
        let slot = self.customer.find(&[at_warehouse, at_district, customer])?;
        let [credit, balance, ytd, count] = self.customer.read(slot, [1, 2, 3, 4])?;
        let [balance, ytd, count] =
            [int(&balance)? - amount, int(&ytd)? + amount, int(&count)? + 1].map(Value::Int);
        let [_, _, of_balance, of_ytd, of_count, of_data] = self.customer.columns;
        let paid = [(of_balance, &balance), (of_ytd, &ytd), (of_count, &count)];
        if credit.as_text() == Some("BC") {
            let [data] = self.customer.read(slot, [5])?;
            let numbers = [customer, at_district, at_warehouse, district, warehouse, amount];
            let mut text: String = numbers.iter().map(|number| format!("{number} ")).collect();
            text.push_str(data.as_text().context("a text")?);
            let data: Value = text.chars().take(DATA_CHARACTERS_MAX).collect::<String>().into();
            let changed = paid.into_iter().chain([(of_data, &data)]);
            self.customer.table.update_each(slot, changed, stamp, undo);
        } else {
            self.customer.table.update_each(slot, paid.into_iter(), stamp, undo);
        }
        let [warehouse_name, district_name] =
            [&warehouse_name, &district_name].map(|name| name.as_text().unwrap_or_default());
        let [c, cd, cw, d, w, paid] =
            [customer, at_district, at_warehouse, district, warehouse, amount].map(Value::Int);
        let data = Value::text(format!("{warehouse_name}    {district_name}"));
        let id = stamp.row_id(0);
        let row = [c, cd, cw, d, w, NOW, paid, data, Value::Uuid(id)];
        self.history.insert(&id, &row, stamp, undo);
        Ok(true)
    }
}

impl ByHand for Tpcc {
    fn run(
        &mut self,
        procedure: usize,
        arguments: &[Value],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<bool> {
        match procedure {
            0 => self.new_order(arguments, stamp, undo),
            1 | 2 => self.payment(procedure == 2, arguments, stamp, undo),
            _ => bail!("of TPC-C only NewOrder and Payment are written by hand"),
        }
    }
}
