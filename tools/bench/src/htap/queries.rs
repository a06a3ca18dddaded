//! The eight queries of figure 2.7. The text of the second and of the sixth is cut in the thesis;
//! they are completed after their siblings.

use anker::{ColumnId, Query};

use super::tables::*;

pub const QUERIES: usize = 8;

/// Words of a group: rows, and two sums.
const GROUP: usize = 3;

/// A pass, a zone of its columns, the answer.
type Fold = fn(usize, &[&[i64]], &mut [i64]);

pub struct TpccQuery {
    passes: Vec<Vec<ColumnId>>,
    words: usize,
    fold: Fold,
}

impl TpccQuery {
    /// From 1 to 8.
    pub fn numbered(number: usize, tables: &Tables) -> TpccQuery {
        let warehouses = tables.warehouses as usize;
        let lines = |group: ColumnId| vec![vec![group, OL_QUANTITY, OL_AMOUNT]];
        let (passes, words, fold): (_, _, Fold) = match number {
            1 => (vec![vec![W_ID], vec![S_W_ID]], warehouses * 2, join_count),
            2 => (lines(OL_D_ID), DISTRICTS as usize * GROUP, grouped),
            3 => (lines(OL_W_ID), warehouses * GROUP, grouped),
            4 => (vec![vec![O_C_ID, O_LINES, O_CARRIER]], 4, sums),
            5 => (vec![vec![NO_O_ID, NO_D_ID]], 3, sums),
            6 => (vec![vec![D_TAX, D_YTD]], 3, sums),
            7 => (vec![vec![OL_AMOUNT]], 2, sums),
            _ => (vec![vec![S_QUANTITY]], 2, sums),
        };
        TpccQuery { passes, words, fold }
    }
}

impl Query for TpccQuery {
    fn passes(&self) -> &[Vec<ColumnId>] {
        &self.passes
    }

    fn start(&self) -> Vec<i64> {
        vec![0; self.words]
    }

    fn fold(&self, pass: usize, zone: &[&[i64]], answer: &mut [i64]) {
        (self.fold)(pass, zone, answer);
    }
}

/// Rows, then the sum of each column.
fn sums(_pass: usize, zone: &[&[i64]], answer: &mut [i64]) {
    answer[0] += zone[0].len() as i64;
    for (sum, column) in answer[1..].iter_mut().zip(zone) {
        *sum = column.iter().fold(*sum, |sum, value| sum.wrapping_add(*value));
    }
}

fn grouped(_pass: usize, zone: &[&[i64]], answer: &mut [i64]) {
    for ((group, first), second) in zone[0].iter().zip(zone[1]).zip(zone[2]) {
        let group = &mut answer[*group as usize * GROUP..][..GROUP];
        group[0] += 1;
        group[1] += first;
        group[2] += second;
    }
}

/// Which keys there are on one side; how many rows of the other have each.
fn join_count(pass: usize, zone: &[&[i64]], answer: &mut [i64]) {
    for &key in zone[0] {
        let key = key as usize * 2;
        match pass {
            0 => answer[key] = 1,
            _ => answer[key + 1] += answer[key],
        }
    }
}
