//! Figure 2.1 of the thesis, step by step.

use super::on_every_area;
use crate::area::Area;
use crate::area::Frozen;
use crate::query::{Query, SumAndCount};
use crate::snapshot::Snapshot;
use crate::{ColumnId, Configuration, Engine};

const C: ColumnId = ColumnId(0);

fn sum<A: Area>(snapshot: &Snapshot<'_, A>) -> i64 {
    let query = SumAndCount::new(C);
    let mut answer = query.start();
    let frozen = snapshot.column(C).expect("the column was asked for");
    query.fold(0, &[&frozen.values().zone(0)], &mut answer);
    answer[0]
}

fn walk<A: Area>() {
    let engine: Engine<A> = Engine::new(Configuration::HeeAnker, &[6]).expect("an engine");
    // 1-3: T1 writes and commits, T2 writes and gives up.
    let (mut t1, mut t2) = (engine.begin(), engine.begin());
    t1.write(C, 5, 1);
    t1.write(C, 1, 2);
    t2.write(C, 3, 3);
    assert_eq!(engine.begin().read(C, 5), Ok(0), "a write is local until its commit");
    t1.commit().expect("nobody else wrote");
    t2.abort();
    assert_eq!(engine.column(C).versions(), 2, "the old zeros");
    // 4: Q1 takes C, with its chains.
    let q1 = engine.snapshot(&[C]);
    q1.column(C).expect("frozen");
    assert_eq!(engine.column(C).versions(), 0, "the chains went with the old column");
    // 5-6: T3 reads and commits in C' while Q1 runs.
    let mut t3 = engine.begin();
    assert_eq!(t3.read(C, 3), Ok(0));
    t3.write(C, 3, 4);
    t3.write(C, 1, 5);
    t3.commit().expect("queries are in nobody's way");
    // 7: Q2 takes C'; both snapshots are there.
    let q2 = engine.snapshot(&[C]);
    assert_eq!(sum(&q2), 4 + 5 + 1);
    assert_eq!(engine.column(C).frozen_alive(), 2);
    // 8-9: Q1 still sees C, and C goes with it.
    assert_eq!(sum(&q1), 3);
    drop(q1);
    assert_eq!(engine.column(C).frozen_alive(), 1, "C was dropped");
    drop(q2);
    assert_eq!(engine.column(C).frozen_alive(), 1, "the newest stays");
}

on_every_area!(the_walk_through_of_figure_2_1, walk);
