//! Consistency conditions 1 to 4: clause 3.3.2.
//!
//! They are checked on the rows themselves, not by the SQL whose execution is in question.

use std::collections::BTreeMap;

use types::{Error, Result, SqlState, Value};

use crate::workload::State;

/// Warehouse and district.
type District = (i64, i64);

pub fn all(state: &dyn State) -> Result<()> {
    condition_1(state)?;
    let mut districts = BTreeMap::new();
    gather(state, &mut districts)?;
    for (district, facts) in &districts {
        facts.conditions_2_to_4(*district)?;
    }
    Ok(())
}

fn violated(condition: u32, what: String) -> Error {
    Error::new(SqlState::CHECK_VIOLATION, format!("consistency condition {condition}: {what}"))
}

fn int(value: &Value) -> i64 {
    value.as_int().unwrap_or_default()
}

/// `W_YTD = sum(D_YTD)`.
fn condition_1(state: &dyn State) -> Result<()> {
    let mut differences: BTreeMap<i64, i64> = BTreeMap::new();
    state.each_row("warehouse", &["w_id", "w_ytd"], &mut |row| {
        *differences.entry(int(&row[0])).or_default() += int(&row[1]);
    })?;
    state.each_row("district", &["d_w_id", "d_ytd"], &mut |row| {
        *differences.entry(int(&row[0])).or_default() -= int(&row[1]);
    })?;
    match differences.iter().find(|(_, difference)| **difference != 0) {
        None => Ok(()),
        Some((warehouse, cents)) => Err(violated(
            1,
            format!("W_YTD of warehouse {warehouse} is {cents} cents above its districts' D_YTD"),
        )),
    }
}

/// What the conditions compare, of one district.
#[derive(Default)]
struct Facts {
    next_order: i64,
    newest_order: i64,
    /// Lowest and highest number among the new orders, and how many there are.
    new_orders: Option<(i64, i64)>,
    new_orders_count: i64,
    lines_promised: i64,
    lines: i64,
}

fn gather(state: &dyn State, districts: &mut BTreeMap<District, Facts>) -> Result<()> {
    let mut of = |table, columns: &[&str], note: fn(&mut Facts, i64)| {
        state.each_row(table, columns, &mut |row| {
            let facts = districts.entry((int(&row[0]), int(&row[1]))).or_default();
            note(facts, int(&row[2]));
        })
    };
    of("district", &["d_w_id", "d_id", "d_next_o_id"], |facts, next| facts.next_order = next)?;
    of("orders", &["o_w_id", "o_d_id", "o_id"], |facts, order| {
        facts.newest_order = facts.newest_order.max(order);
    })?;
    of("orders", &["o_w_id", "o_d_id", "o_ol_cnt"], |facts, n| facts.lines_promised += n)?;
    of("order_line", &["ol_w_id", "ol_d_id", "ol_number"], |facts, _| facts.lines += 1)?;
    of("new_order", &["no_w_id", "no_d_id", "no_o_id"], |facts, order| {
        let (low, high) = facts.new_orders.unwrap_or((order, order));
        facts.new_orders = Some((low.min(order), high.max(order)));
        facts.new_orders_count += 1;
    })
}

impl Facts {
    /// 2: `D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)`. 3: no gaps among `NO_O_ID`.
    /// 4: `sum(O_OL_CNT)` is the number of order lines.
    fn conditions_2_to_4(&self, district: District) -> Result<()> {
        let newest = self.next_order - 1;
        let newest_new = self.new_orders.map_or(newest, |(_, high)| high);
        if self.newest_order != newest || newest_new != newest {
            let (orders, new_orders) = (self.newest_order, newest_new);
            let what = format!(
                "D_NEXT_O_ID - 1 = {newest}, max(O_ID) = {orders}, max(NO_O_ID) = {new_orders} \
                 in {district:?}"
            );
            return Err(violated(2, what));
        }
        let spanned = self.new_orders.map_or(0, |(low, high)| high - low + 1);
        if spanned != self.new_orders_count {
            let count = self.new_orders_count;
            let what = format!("{count} new orders span {spanned} numbers in {district:?}");
            return Err(violated(3, what));
        }
        if self.lines_promised != self.lines {
            let (promised, lines) = (self.lines_promised, self.lines);
            let what = format!("orders have {promised} lines, there are {lines} in {district:?}");
            return Err(violated(4, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables, and rows of named numbers.
    struct Rows(Vec<(&'static str, Vec<(&'static str, i64)>)>);

    impl State for Rows {
        fn each_row(
            &self,
            table: &str,
            columns: &[&str],
            visit: &mut dyn FnMut(&[Value]),
        ) -> Result<()> {
            for (_, row) in self.0.iter().filter(|(of, _)| *of == table) {
                let value = |column: &&str| {
                    let (_, number) = row.iter().find(|(name, _)| name == column).unwrap();
                    Value::Int(*number)
                };
                visit(&columns.iter().map(value).collect::<Vec<_>>());
            }
            Ok(())
        }
    }

    /// A warehouse with one district, two orders of two lines and one, the second order new.
    fn consistent() -> Rows {
        let order = |id, lines| {
            ("orders", vec![("o_w_id", 1), ("o_d_id", 1), ("o_id", id), ("o_ol_cnt", lines)])
        };
        let line =
            |number| ("order_line", vec![("ol_w_id", 1), ("ol_d_id", 1), ("ol_number", number)]);
        let district = vec![("d_w_id", 1), ("d_id", 1), ("d_ytd", 70), ("d_next_o_id", 3)];
        Rows(vec![
            ("warehouse", vec![("w_id", 1), ("w_ytd", 70)]),
            ("district", district),
            order(1, 2),
            order(2, 1),
            ("new_order", vec![("no_w_id", 1), ("no_d_id", 1), ("no_o_id", 2)]),
            line(1),
            line(2),
            line(1),
        ])
    }

    /// The condition that is told to be violated after `change`.
    fn violated_by(change: impl FnOnce(&mut Rows)) -> Option<String> {
        let mut rows = consistent();
        change(&mut rows);
        let error = all(&rows).err()?;
        Some(error.message().split(':').next().unwrap().to_owned())
    }

    #[test]
    fn each_condition_is_noticed_when_violated() {
        assert_eq!(violated_by(|_| {}), None);
        let condition = |number| Some(format!("consistency condition {number}"));
        assert_eq!(violated_by(|rows| rows.0[0].1[1].1 += 1), condition(1));
        assert_eq!(violated_by(|rows| rows.0[1].1[3].1 += 1), condition(2));
        let older_new_order = ("new_order", vec![("no_w_id", 1), ("no_d_id", 1), ("no_o_id", 0)]);
        assert_eq!(violated_by(|rows| rows.0.push(older_new_order)), condition(3));
        assert_eq!(violated_by(|rows| drop(rows.0.pop())), condition(4));
    }

    #[test]
    fn a_district_without_new_orders_is_consistent() {
        assert_eq!(violated_by(|rows| rows.0.retain(|(table, _)| *table != "new_order")), None);
    }
}
