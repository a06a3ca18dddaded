//! Runtime filters: what a join or a sort has found already drops rows at the scan below it.
//!
//! ```text
//!            HashJoin ── has read its smaller side: keys 3, 17, 40 ──┐
//!           ╱        ╲                                               ▼
//!    57 orders     Repartition ◄── RuntimeFilter ◄── ImageScan: lineitem,  key IN (3, 17, 40)
//! ```
//!
//! A hash join that has read its build side knows the keys that can match; a sort with a LIMIT that
//! has its first rows knows a bound. DataFusion makes a filter of it ([`is_dynamic`]), and the scan
//! drops rows by it before they pass other joins and threads. The operator above compares all rows
//! again, so the scan may let any number of them pass.
//!
//! *Cost.* Some 20 to 50 ns a row, as much as the way up costs. So a filter pays only where few
//! rows pass: after a batch of which more than one row in [`ONE_IN`] passed, the next batch is not
//! filtered, after another such one the next two, then four, up to [`PAUSE_MAX`]. Of several
//! filters each sees what the one before let pass.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::compute::{BatchCoalescer, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};

/// Rows of which one may pass.
const ONE_IN: usize = 8;

/// Batches at most that go by unseen after one that was looked at in vain.
const PAUSE_MAX: usize = 128;

/// Batches that may leave nothing one after the other before an empty one is handed on.
const SILENT_MAX: usize = 32;

/// Whether a filter is one that is made while the query runs, and asks for nothing but columns of a
/// scan: what is computed of them might be an error of rows that would not have been looked at. Of
/// floats there are ones that differ and are equal.
pub(crate) fn is_dynamic(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> bool {
    let is_plain = |operand: &&Arc<dyn PhysicalExpr>| {
        let column = operand.downcast_ref::<Column>();
        let of = column.and_then(|column| schema.fields().get(column.index()));
        of.is_some_and(|field| *field.data_type() != DataType::Float64)
    };
    filter.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
        && filter.children().iter().all(is_plain)
}

/// A filter, and whether it is worth its while.
struct Mesh {
    filter: Arc<dyn PhysicalExpr>,
    /// Batches that go by unseen: still, and after the next one in vain.
    paused: usize,
    pause: usize,
}

impl Mesh {
    /// The rows of a batch that pass, if they are few.
    fn judge(&mut self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        if self.paused > 0 {
            self.paused -= 1;
            return Ok(None);
        }
        let rows = batch.num_rows();
        let passes = self.filter.evaluate(batch)?.into_array(rows)?.as_boolean().clone();
        if passes.true_count() * ONE_IN > rows {
            self.paused = self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            return Ok(None);
        }
        self.pause = 1;
        Ok(Some(passes))
    }
}

/// What a partition's batches go through.
pub(crate) struct RuntimeFilter {
    meshes: Vec<Mesh>,
    passed: BatchCoalescer,
    silent: usize,
}

impl RuntimeFilter {
    /// Which makes batches of so many rows of what passes.
    pub(crate) fn new(
        filters: &[Arc<dyn PhysicalExpr>],
        schema: SchemaRef,
        batch_rows: usize,
    ) -> RuntimeFilter {
        let mesh = |filter: &Arc<_>| Mesh { filter: Arc::clone(filter), paused: 0, pause: 1 };
        let passed = BatchCoalescer::new(schema, batch_rows);
        // What nothing was taken from goes by as it is, not row by row after what waits.
        let passed = passed.with_biggest_coalesce_batch_size(Some(batch_rows / ONE_IN));
        RuntimeFilter { meshes: filters.iter().map(mesh).collect(), passed, silent: 0 }
    }

    /// Lets a batch in, and one or none out.
    pub(crate) fn push(&mut self, mut batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = batch.num_rows();
        for mesh in &mut self.meshes {
            if batch.num_rows() > 0
                && let Some(passes) = mesh.judge(&batch)?
            {
                batch = filter_record_batch(&batch, &passes)?;
            }
        }
        self.silent += 1;
        let out = match batch.num_rows() == rows && self.passed.is_empty() {
            true => Some(batch),
            false => {
                self.passed.push_batch(batch)?;
                self.passed.next_completed_batch()
            }
        };
        let is_too_silent = self.silent > SILENT_MAX;
        let nothing = || RecordBatch::new_empty(self.passed.schema());
        let out = out.or_else(|| is_too_silent.then(nothing));
        self.silent = if out.is_some() { 0 } else { self.silent };
        Ok(out)
    }

    /// What has passed and not come out.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        self.passed.finish_buffered_batch()?;
        Ok(self.passed.next_completed_batch())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{Field, Int64Type, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, lit};
    use kit::random::Random;

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]))
    }

    fn below(limit: i64) -> Arc<dyn PhysicalExpr> {
        let column = Arc::new(Column::new("a", 0));
        Arc::new(BinaryExpr::new(column, Operator::Lt, lit(limit)))
    }

    fn batch(values: Vec<i64>) -> RecordBatch {
        RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(values))]).expect("a batch")
    }

    fn values(batch: &RecordBatch) -> Vec<i64> {
        batch.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    /// Filters change while rows go through: what none of them would have kept may come out, what
    /// all would have must, once and in its order.
    #[test]
    fn what_passes_comes_out_once_and_in_order() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let dynamic = || Arc::new(DynamicFilterPhysicalExpr::new(vec![below(0)], lit(true)));
            let filters = [dynamic(), dynamic()];
            let shared = filters.clone().map(|filter| filter as Arc<dyn PhysicalExpr>);
            let mut runtime_filter = RuntimeFilter::new(&shared, schema(), 100);
            let (mut pushed, mut must, mut out) = (Vec::new(), Vec::new(), Vec::new());
            let mut limit = i64::MAX;
            for _ in 0..200 {
                if random.below(20) == 0 {
                    limit = [1_000, 100, 30, 2][random.below(4) as usize].min(limit);
                    let which = random.below(2) as usize;
                    filters[which].update(below(limit)).expect("a filter");
                }
                let rows = [1, 7, 40, 300][random.below(4) as usize];
                let rows: Vec<i64> = (0..rows).map(|_| random.below(1_000) as i64).collect();
                must.extend(rows.iter().copied().filter(|value| *value < limit));
                pushed.extend(&rows);
                let batch = runtime_filter.push(batch(rows)).expect("a judgement");
                out.extend(batch.iter().flat_map(values));
            }
            while let Some(batch) = runtime_filter.finish().expect("the rest") {
                out.extend(values(&batch));
            }
            let is_within = |small: &[i64], large: &[i64]| {
                let mut left = large.iter();
                small.iter().all(|value| left.any(|other| other == value))
            };
            assert!(is_within(&out, &pushed), "seed {seed}");
            assert!(is_within(&must, &out), "seed {seed}");
        }
    }

    #[test]
    fn a_filter_that_leaves_little_is_asked_always_and_one_that_leaves_much_seldom() {
        for (limit, rows_max) in [(10, 100_000 / 50), (900, 100_000)] {
            let mut runtime_filter = RuntimeFilter::new(&[below(limit)], schema(), 100);
            let mut out = 0;
            for _ in 0..100 {
                let rows = (0..1_000).collect();
                out += runtime_filter
                    .push(batch(rows))
                    .expect("a judgement")
                    .map_or(0, |b| b.num_rows());
            }
            assert!(out <= rows_max, "{out}");
            let mesh = &runtime_filter.meshes[0];
            assert_eq!(mesh.pause == 1, limit == 10);
        }
    }

    #[test]
    fn somebody_hears_of_a_scan_that_finds_nothing() {
        let mut runtime_filter = RuntimeFilter::new(&[below(0)], schema(), 100);
        let heard = (0..10 * SILENT_MAX)
            .filter(|_| runtime_filter.push(batch(vec![1, 2, 3])).expect("a judgement").is_some())
            .count();
        assert!((5..=10).contains(&heard), "{heard}");
    }

    #[test]
    fn only_filters_of_plain_columns_that_are_no_floats_are_taken() {
        let float = Arc::new(Schema::new(vec![Field::new("a", DataType::Float64, true)]));
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let of = |child| Arc::new(DynamicFilterPhysicalExpr::new(vec![child], lit(true))) as Arc<_>;
        assert!(is_dynamic(&of(column.clone()), &schema()));
        assert!(!is_dynamic(&of(column), &float));
        assert!(!is_dynamic(&of(below(3)), &schema()));
        assert!(!is_dynamic(&below(3), &schema()));
    }
}
