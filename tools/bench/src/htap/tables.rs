//! The nine tables, as far as the workload touches their columns.

use anker::area::Area;
use anker::{ColumnId, Engine, Row};
use anyhow::Result;

pub const DISTRICTS: u32 = 10;
pub const LINES_MAX: u32 = 15;

macro_rules! columns {
    ($($name:ident of $table:ident),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Place { $($name),* }
        $(pub const $name: ColumnId = ColumnId(Place::$name as u16);)*
        const TABLE_OF: &[Table] = &[$(Table::$table),*];
    };
}

#[derive(Clone, Copy)]
enum Table {
    Warehouse,
    District,
    Customer,
    Stock,
    Orders,
    NewOrder,
    OrderLine,
    Item,
}

columns! {
    W_ID of Warehouse, W_TAX of Warehouse,
    D_TAX of District, D_YTD of District, D_NEXT_O_ID of District,
    C_DISCOUNT of Customer, C_BALANCE of Customer,
    S_W_ID of Stock, S_QUANTITY of Stock, S_YTD of Stock, S_ORDERS of Stock,
    O_C_ID of Orders, O_LINES of Orders, O_CARRIER of Orders,
    NO_O_ID of NewOrder, NO_D_ID of NewOrder,
    OL_W_ID of OrderLine, OL_D_ID of OrderLine, OL_I_ID of OrderLine, OL_QUANTITY of OrderLine,
    OL_AMOUNT of OrderLine,
    I_PRICE of Item,
}

/// How many rows there are, and which is which.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub warehouses: u32,
    pub customers: u32,
    pub items: u32,
    /// Slots of orders and of new orders in a district.
    pub orders: u32,
    pub new_orders: u32,
}

impl Tables {
    /// TPC-C's numbers, divided by `scale` within each warehouse.
    pub fn scaled(warehouses: u32, scale: u32) -> Tables {
        let of = |rows: u32| (rows / scale).max(20);
        Tables {
            warehouses,
            customers: of(3_000),
            items: of(100_000),
            orders: of(3_000),
            new_orders: of(900),
        }
    }

    pub fn districts(&self) -> u32 {
        self.warehouses * DISTRICTS
    }

    pub fn district(&self, warehouse: u32, district: u32) -> Row {
        warehouse * DISTRICTS + district
    }

    pub fn customer(&self, district: Row, customer: u32) -> Row {
        district * self.customers + customer
    }

    pub fn stock(&self, warehouse: u32, item: u32) -> Row {
        warehouse * self.items + item
    }

    pub fn order(&self, district: Row, number: i64) -> Row {
        district * self.orders + slot(number, self.orders)
    }

    pub fn new_order(&self, district: Row, number: i64) -> Row {
        district * self.new_orders + slot(number, self.new_orders)
    }

    pub fn line(&self, order: Row, line: u32) -> Row {
        order * LINES_MAX + line
    }

    fn rows_of(&self, table: Table) -> usize {
        let rows = match table {
            Table::Warehouse => self.warehouses,
            Table::District => self.districts(),
            Table::Customer => self.districts() * self.customers,
            Table::Stock => self.warehouses * self.items,
            Table::Orders => self.districts() * self.orders,
            Table::NewOrder => self.districts() * self.new_orders,
            Table::OrderLine => self.districts() * self.orders * LINES_MAX,
            Table::Item => self.items,
        };
        rows as usize
    }

    /// Of each column.
    pub fn rows(&self) -> Vec<usize> {
        TABLE_OF.iter().map(|&table| self.rows_of(table)).collect()
    }

    /// Of values and stamps.
    pub fn bytes(&self) -> usize {
        self.rows().iter().sum::<usize>() * 16
    }

    pub fn load<A: Area>(&self, engine: &Engine<A>) -> Result<()> {
        let fill = |column: ColumnId, value: &dyn Fn(u32) -> u32| {
            for row in 0..self.rows()[column.0 as usize] as Row {
                engine.load(column, row, i64::from(value(row)));
            }
        };
        let lines_of_district = self.orders * LINES_MAX;
        fill(W_ID, &|row| row);
        fill(W_TAX, &|row| row % 20);
        fill(D_TAX, &|row| row % 20);
        fill(D_NEXT_O_ID, &|_| self.orders);
        fill(C_DISCOUNT, &|row| row % 50);
        fill(C_BALANCE, &|row| row % 1_000);
        fill(S_W_ID, &|row| row / self.items);
        fill(S_QUANTITY, &|row| 10 + row % 91);
        fill(O_C_ID, &|row| row % self.customers);
        fill(O_LINES, &|row| 5 + row % 11);
        fill(O_CARRIER, &|row| row % 10);
        fill(NO_O_ID, &|row| row % self.new_orders);
        fill(NO_D_ID, &|row| row / self.new_orders % DISTRICTS);
        fill(OL_W_ID, &|row| row / lines_of_district / DISTRICTS);
        fill(OL_D_ID, &|row| row / lines_of_district % DISTRICTS);
        fill(OL_I_ID, &|row| row % self.items);
        fill(OL_QUANTITY, &|_| 5);
        fill(OL_AMOUNT, &|row| row % 10_000);
        fill(I_PRICE, &|row| 100 + row % 9_900);
        Ok(())
    }
}

fn slot(number: i64, slots: u32) -> u32 {
    number.rem_euclid(i64::from(slots)) as u32
}
