//! Fragments: the procedure cut up by the record that each part touches.
//!
//! QueCC plans a batch by putting each fragment into the queue of its record's partition. A
//! fragment is a record access with the computation around it:
//!
//! ```text
//!   1  Read savings[$1] → r3     ┐ fragment 0, savings[$1], abortable
//!   2  Require r3.found          ┘
//!   3  Let r5 = r3 - $2          ┐ fragment 1, checking[$1]: data-depends on 0 (r3),
//!   4  Update checking[$1], r5   ┘                            commit-depends on 0
//! ```
//!
//! Steps on the same record (the same table, and keys that are the same expressions) share a
//! fragment; two fragments may still meet in one record when different expressions have the same
//! value, which queues, being in program order, take care of. A step that touches nothing joins the
//! last fragment it takes values from. A query, or a branch or loop that touches more than one
//! record, is a fragment of its own, whose records are many.
//!
//! - *Data dependency*: a fragment reads a register that another one writes.
//! - *Commit dependency*: a fragment that writes is not final before every other fragment that a
//!   guard may abort.

use std::collections::BTreeSet;

use types::TableId;

use super::dependencies::{Abortable, StepFacts};
use super::{StepId, visit};
use crate::expr::Expr;
use crate::query::Query;
use crate::step::{Procedure, Step};

pub type FragmentId = u32;

/// A record, named by the expressions of its key.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordRef {
    pub table: TableId,
    pub key: Box<[Expr]>,
}

/// What a fragment touches.
#[derive(Clone, PartialEq, Debug)]
pub enum Records {
    /// Nothing: it computes with arguments.
    None,
    One(RecordRef),
    /// A row under a hidden row id, which no other transaction can know.
    New(TableId),
    Many,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Fragment {
    /// Steps of the procedure's outermost block, ascending.
    pub steps: Vec<StepId>,
    pub records: Records,
    pub writes: bool,
    pub abortable: Abortable,
    /// Ascending.
    pub data_dependencies: Vec<FragmentId>,
    pub commit_dependencies: Vec<FragmentId>,
}

pub(super) fn of(procedure: &Procedure, facts: &[StepFacts]) -> Box<[Fragment]> {
    let mut fragments: Vec<Fragment> = Vec::new();
    // By step: its fragment. Steps inside a compound one belong to it.
    let mut home: Vec<FragmentId> = Vec::with_capacity(facts.len());
    for step in &procedure.body {
        let id = home.len();
        let size = 1 + inner_steps(step);
        let steps = id..id + size;
        let depends: BTreeSet<FragmentId> = facts[steps.clone()]
            .iter()
            .flat_map(|facts| facts.key_dependencies.iter().chain(&facts.value_dependencies))
            .filter(|on| (**on as usize) < id)
            .map(|on| home[*on as usize])
            .collect();
        let chosen = choose(step, &depends, &fragments).unwrap_or_else(|| {
            fragments.push(empty_fragment(step));
            fragments.len() - 1
        });
        home.extend(std::iter::repeat_n(chosen as FragmentId, size));
        let fragment = &mut fragments[chosen];
        fragment.steps.push(id as StepId);
        fragment.writes |= writes(step);
        let worst = facts[steps].iter().map(|facts| facts.abortable).max();
        fragment.abortable = fragment.abortable.max(worst.unwrap_or(Abortable::Never));
        let known: BTreeSet<FragmentId> = fragment.data_dependencies.iter().copied().collect();
        let others = known.into_iter().chain(depends).collect::<BTreeSet<_>>();
        fragment.data_dependencies =
            others.into_iter().filter(|on| *on as usize != chosen).collect();
    }
    commit_dependencies(&mut fragments);
    fragments.into()
}

fn inner_steps(step: &Step) -> usize {
    let inner = visit::blocks(step).into_iter().flatten();
    inner.flat_map(|block| block.iter()).map(|step| 1 + inner_steps(step)).sum()
}

/// The fragment that a step joins, if it does.
fn choose(step: &Step, depends: &BTreeSet<FragmentId>, fragments: &[Fragment]) -> Option<usize> {
    match records(step) {
        Records::One(record) => {
            let same = |f: &Fragment| matches!(&f.records, Records::One(r) if *r == record);
            let place = fragments.iter().position(same)?;
            // Joining an earlier fragment must not make it depend on a later one.
            depends.iter().all(|on| *on as usize <= place).then_some(place)
        }
        Records::New(_) | Records::Many => None,
        Records::None => match depends.last() {
            Some(last) => Some(*last as usize),
            None => fragments.iter().position(|f| f.records == Records::None),
        },
    }
}

fn empty_fragment(step: &Step) -> Fragment {
    Fragment {
        steps: Vec::new(),
        records: records(step),
        writes: false,
        abortable: Abortable::Never,
        data_dependencies: Vec::new(),
        commit_dependencies: Vec::new(),
    }
}

fn records(step: &Step) -> Records {
    if let Some((table, key)) = visit::row_access(step) {
        let key = key.into_iter().cloned().collect();
        return Records::One(RecordRef { table, key });
    }
    match step {
        Step::Insert { table, .. } => Records::New(*table),
        Step::Fetch { query, .. } | Step::EmitQuery { query } if !reads_tables(query) => {
            Records::None
        }
        Step::Fetch { .. } | Step::EmitQuery { .. } => Records::Many,
        step if visit::is_structured(step) => records_inside(step),
        _ => Records::None,
    }
}

/// A branch or loop that touches nothing, or only one record however it goes, is no more than that.
fn records_inside(step: &Step) -> Records {
    if let Step::ForRows { query, .. } = step
        && reads_tables(query)
    {
        return Records::Many;
    }
    let mut all = Records::None;
    for step in visit::blocks(step).into_iter().flatten().flat_map(|block| block.iter()) {
        all = match (all, records(step)) {
            (all, Records::None) => all,
            (Records::None, records) => records,
            (all, records) if all == records => all,
            _ => Records::Many,
        };
    }
    match all {
        // In a loop, or under a key that the branch itself computes, it need not be the same each
        // time.
        Records::One(record) if visit::is_loop(step) || is_computed_inside(step, &record) => {
            Records::Many
        }
        Records::New(_) if visit::is_loop(step) => Records::Many,
        all => all,
    }
}

fn is_computed_inside(step: &Step, record: &RecordRef) -> bool {
    let mut inside = BTreeSet::new();
    for block in visit::blocks(step).into_iter().flatten() {
        for step in visit::numbered(block) {
            visit::each_output(step, &mut |register| {
                inside.insert(register);
            });
        }
    }
    let mut found = false;
    for expr in &record.key {
        visit::each_register(expr, &mut |register| found |= inside.contains(&register));
    }
    found
}

fn reads_tables(query: &Query) -> bool {
    let mut found = false;
    visit::each_query(query, &mut |query| {
        found |= matches!(query, Query::Get { .. } | Query::Scan { .. });
    });
    found
}

fn writes(step: &Step) -> bool {
    let own = matches!(step, Step::Update { .. } | Step::Insert { .. } | Step::Delete { .. });
    let mut inner = visit::blocks(step).into_iter().flatten();
    own || inner.any(|block| block.iter().any(writes))
}

fn commit_dependencies(fragments: &mut [Fragment]) {
    let abortable: Vec<FragmentId> = fragments
        .iter()
        .enumerate()
        .filter(|(_, fragment)| fragment.abortable == Abortable::Guard)
        .map(|(id, _)| id as FragmentId)
        .collect();
    for (id, fragment) in fragments.iter_mut().enumerate() {
        if fragment.writes {
            let others = abortable.iter().copied().filter(|on| *on as usize != id);
            fragment.commit_dependencies = others.collect();
        }
    }
}
