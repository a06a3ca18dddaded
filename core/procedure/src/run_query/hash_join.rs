//! Joins by the hash of their keys.

use std::ops::ControlFlow;

use smallvec::{SmallVec, smallvec};
use types::Value;

use super::{Flow, RowMap, Run, Sink, padded};
use crate::access::{Access, Row};
use crate::meter::PAIR_UNITS;
use crate::query::Query;

/// The rows of the inner side.
#[derive(Default)]
struct Inner {
    rows: Vec<Row>,
    /// Places of rows with the same key; NULLs join nothing.
    buckets: RowMap<Vec<usize>>,
    /// Which have joined something, where it matters.
    matched: Vec<bool>,
}

impl Run<'_> {
    pub(super) fn hash_join<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer_row: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::HashJoin {
            outer,
            inner,
            outer_keys,
            inner_keys,
            condition,
            left,
            right,
            inner_width,
        } = query
        else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut side = Inner { rows: self.gather(access, inner, outer_row)?, ..Inner::default() };
        for (place, row) in side.rows.iter().enumerate() {
            if let Some(key) = self.join_key(inner_keys, row)? {
                side.buckets.entry(&key).push(place);
            }
        }
        if *right {
            self.hold_bytes(side.rows.len())?;
            side.matched = vec![false; side.rows.len()];
        }
        let Inner { rows, buckets, mut matched } = side;
        let mut joined: SmallVec<[Value; 16]> = smallvec![];
        let flow = self.query(access, outer, outer_row, &mut |row| {
            let key = self.join_key(outer_keys, row)?;
            let matches = key.and_then(|key| buckets.get(&key));
            let mut is_alone = true;
            for place in matches.into_iter().flatten() {
                self.meter.spend(PAIR_UNITS)?;
                joined.clear();
                joined.extend(row.iter().chain(&rows[*place]).cloned());
                if self.passes(condition.as_ref(), &joined)? {
                    is_alone = false;
                    if *right {
                        matched[*place] = true;
                    }
                    if sink(&joined)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            match *left && is_alone {
                true => sink(&padded(row, *inner_width)),
                false => Ok(ControlFlow::Continue(())),
            }
        })?;
        if flow.is_break() || !*right {
            return Ok(flow);
        }
        let outer_width = usize::from(outer.width());
        for (row, _) in rows.iter().zip(&matched).filter(|(_, matched)| !**matched) {
            self.meter.spend(PAIR_UNITS)?;
            joined.clear();
            joined.extend(std::iter::repeat_n(Value::Null, outer_width));
            joined.extend(row.iter().cloned());
            if sink(&joined)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
