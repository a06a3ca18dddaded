//! The three transactions of section 2.6.2, with TPC-C's bounds.

use anker::area::Area;
use anker::{Engine, Transaction};
use kit::random::Random;
use types::Result;

use super::tables::*;

/// Of every 100; the thesis does not give the mix, TPC-C's shares are 45 : 43 : 4.
const NEW_ORDERS: u64 = 49;
const PAYMENTS: u64 = 47;

/// Warehouse and district pairs that half of the accesses go to, where they are skewed.
const HOT_PAIRS: u32 = 5;

pub struct Client<'e, A: Area> {
    engine: &'e Engine<A>,
    tables: Tables,
    skewed: bool,
    random: Random,
}

impl<'e, A: Area> Client<'e, A> {
    pub fn new(engine: &'e Engine<A>, tables: Tables, skewed: bool, seed: u64) -> Self {
        Client { engine, tables, skewed, random: Random::new(seed) }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(u64::from(bound)) as u32
    }

    fn warehouse_and_district(&mut self) -> (u32, u32) {
        if self.skewed && self.random.chance(2) {
            let hot = self.below(HOT_PAIRS);
            return (hot * self.tables.warehouses / HOT_PAIRS, hot * DISTRICTS / HOT_PAIRS);
        }
        (self.below(self.tables.warehouses), self.below(DISTRICTS))
    }

    /// One transaction; an error is a conflict.
    pub fn run(&mut self) -> Result<()> {
        match self.random.below(100) {
            draw if draw < NEW_ORDERS => self.new_order(),
            draw if draw < NEW_ORDERS + PAYMENTS => self.payment(),
            _ => self.order_status(),
        }
    }

    fn new_order(&mut self) -> Result<()> {
        let tables = self.tables;
        let (warehouse, district) = self.warehouse_and_district();
        let (district, customer) = (tables.district(warehouse, district), tables.customers);
        let customer = tables.customer(district, self.below(customer));
        let lines = 5 + self.below(LINES_MAX - 4);
        let mut t = self.engine.begin();
        let tax = t.read(W_TAX, warehouse)? + t.read(D_TAX, district)?;
        let discount = t.read(C_DISCOUNT, customer)?;
        let number = t.read(D_NEXT_O_ID, district)?;
        t.write(D_NEXT_O_ID, district, number + 1);
        let order = tables.order(district, number);
        t.write(O_C_ID, order, i64::from(customer));
        t.write(O_LINES, order, i64::from(lines));
        t.write(O_CARRIER, order, 0);
        t.write(NO_O_ID, tables.new_order(district, number), number);
        for line in 0..lines {
            let (item, quantity) = (self.below(tables.items), 1 + i64::from(self.below(10)));
            let amount = quantity * t.read(I_PRICE, item)? * (100 + tax - discount) / 100;
            order_one(&mut t, tables.stock(warehouse, item), quantity)?;
            let row = tables.line(order, line);
            t.write(OL_I_ID, row, i64::from(item));
            t.write(OL_QUANTITY, row, quantity);
            t.write(OL_AMOUNT, row, amount);
        }
        t.commit().map(drop)
    }

    /// Changes the district alone, as the thesis lists what is updated.
    fn payment(&mut self) -> Result<()> {
        let (warehouse, district) = self.warehouse_and_district();
        let district = self.tables.district(warehouse, district);
        let customer = self.below(self.tables.customers);
        let customer = self.tables.customer(district, customer);
        let amount = 1 + i64::from(self.below(5_000));
        let mut t = self.engine.begin();
        std::hint::black_box(t.read(W_TAX, warehouse)? + t.read(C_BALANCE, customer)?);
        let paid = t.read(D_YTD, district)?;
        t.write(D_YTD, district, paid + amount);
        t.commit().map(drop)
    }

    fn order_status(&mut self) -> Result<()> {
        let tables = self.tables;
        let (warehouse, district) = self.warehouse_and_district();
        let district = tables.district(warehouse, district);
        let ago = i64::from(1 + self.below(tables.orders / 2));
        let mut t = self.engine.begin();
        let order = tables.order(district, t.read(D_NEXT_O_ID, district)? - ago);
        let mut seen = t.read(O_C_ID, order)? + t.read(O_CARRIER, order)?;
        let lines = t.read(O_LINES, order)? as u32;
        for line in 0..lines.min(LINES_MAX) {
            let row = tables.line(order, line);
            seen += t.read(OL_I_ID, row)? + t.read(OL_QUANTITY, row)? + t.read(OL_AMOUNT, row)?;
        }
        std::hint::black_box(seen);
        t.commit().map(drop)
    }
}

/// A line's share of the stock.
fn order_one<A: Area>(t: &mut Transaction<'_, A>, stock: u32, quantity: i64) -> Result<()> {
    let left = t.read(S_QUANTITY, stock)? - quantity;
    t.write(S_QUANTITY, stock, if left < 10 { left + 91 } else { left });
    let (ordered, orders) = (t.read(S_YTD, stock)?, t.read(S_ORDERS, stock)?);
    t.write(S_YTD, stock, ordered + quantity);
    t.write(S_ORDERS, stock, orders + 1);
    Ok(())
}
