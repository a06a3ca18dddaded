//! Loops that other tables decide on, loops that are left, and columns that are never written:
//! small programs that pass values from turn to turn. All tables are filled before the log begins,
//! and no row comes or goes.

use std::sync::Arc;

use concurrency::Work;
use kit::random::Random;
use procedure::Expr;
use procedure::build::{Builder, Tables, add, int, less, multiply};
use procedure::step::Procedure;
use types::Value;

use crate::several::{INT, KEYS, modulo, schemas, work};

type Program = fn(&mut Builder<'_>, [Expr; 2]);

const PROGRAMS: [(&str, Program); 9] = [
    ("chase", |p, [x, y]| chase(p, x, y)),
    ("rows", rows),
    ("nested", nested),
    ("leaver", leaver),
    ("skipper", skipper),
    ("indirect", indirect),
    ("set_a", |p, [x, y]| set(p, "a", x, y)),
    ("set_b", |p, [x, y]| set(p, "b", x, y)),
    ("set_c", |p, [x, y]| set(p, "c", x, y)),
];

fn key(k: Expr) -> [Expr; 2] {
    [modulo(k, KEYS), int(0)]
}

fn value_of(p: &mut Builder<'_>, table: &str, k: Expr) -> Expr {
    let ([v], _) = p.read(table, &key(k), ["v"]);
    Expr::Coalesce([v, int(1)].into())
}

/// The order of two of them shows.
fn set(p: &mut Builder<'_>, table: &str, k: Expr, by: Expr) {
    let tripled = multiply(p.column(table, "v"), int(3), &INT);
    let next = modulo(add(tripled, by, &INT), 1_000);
    p.update(table, &key(k), vec![("v", next)]);
}

/// `a` says which row of `b` is changed by what the turn before has read in `b`.
fn chase(p: &mut Builder<'_>, from: Expr, sum: Expr) {
    let to = p.assign(add(from.clone(), int(3), &INT));
    p.while_carrying(
        [from, sum],
        |[i, _]| less(i, to),
        |p, [i, sum]| {
            let r = value_of(p, "a", i.clone());
            set(p, "b", r.clone(), sum);
            let sum = value_of(p, "b", r);
            [add(i, int(1), &INT), sum]
        },
    );
}

/// The same with several rows of `a` for a turn.
fn rows(p: &mut Builder<'_>, [x, y]: [Expr; 2]) {
    let to = p.assign(add(x.clone(), int(2), &INT));
    p.while_carrying(
        [x, y],
        |[i, _]| less(i, to),
        |p, [i, sum]| {
            let rows = p.scan("a", None, &[modulo(i.clone(), KEYS)], &["v"]);
            p.for_rows(rows, |p, [v]: [Expr; 1]| set(p, "b", v, sum.clone()));
            let sum = value_of(p, "b", i.clone());
            [add(i, int(1), &INT), sum]
        },
    );
}

fn nested(p: &mut Builder<'_>, [x, y]: [Expr; 2]) {
    p.for_range([int(1), int(2)], |p, j| {
        let from = add(x, j, &INT);
        chase(p, from, y);
    });
}

/// A loop that is left, surely, with what was read in the table that it decides on.
fn leaver(p: &mut Builder<'_>, [x, y]: [Expr; 2]) {
    let left = p.for_range_carrying([int(1), int(3)], y, |p, i, _| {
        let v = value_of(p, "b", i.clone());
        let is_last = less(x, i.clone());
        p.when(is_last, |p| p.leave(vec![v]));
        i
    });
    set(p, "b", left, int(1));
}

/// Turns that end early by what `a` says, told where turns are not: a sum over one row of `b`,
/// whose key is known all the same, goes along. What `c` says ends the loop before more of it is
/// asked for than there is.
fn skipper(p: &mut Builder<'_>, [x, y]: [Expr; 2]) {
    p.for_range([int(1), int(3)], |p, j| {
        let from = p.assign(add(y.clone(), j.clone(), &INT));
        let to = p.assign(add(from.clone(), int(2), &INT));
        let last = p.while_carrying(
            [from, int(0), int(0)],
            |[i, _, _]| less(i, to),
            |p, [i, sum, _]| {
                let z = value_of(p, "a", i.clone());
                let more = value_of(p, "b", x.clone());
                [add(i, int(1), &INT), add(sum, more, &INT), z]
            },
        );
        let [_, sum, z] = last;
        set(p, "b", x.clone(), sum);
        p.when(less(z, int(3)), |p| p.next_turn(None));
        let q = value_of(p, "c", j.clone());
        set(p, "b", add(q.clone(), j, &INT), int(2));
        p.when(less(int(1), q), |p| p.leave(Vec::new()));
    });
}

/// Where `c` is written, what it says is no constant.
fn indirect(p: &mut Builder<'_>, [x, y]: [Expr; 2]) {
    let k = value_of(p, "c", x);
    set(p, "b", k, y);
}

/// Blocks of calls with random arguments; the first one fills the tables.
pub fn blocks(random: &mut Random) -> Vec<Vec<Arc<Work>>> {
    let tables: Tables = schemas().into_iter().collect();
    let programs: Vec<Arc<Procedure>> = PROGRAMS
        .iter()
        .map(|(name, program)| {
            let mut p = Builder::new(&tables, name, &[("x", INT), ("y", INT)]);
            let arguments = p.arguments();
            program(&mut p, arguments);
            Arc::new(p.build().unwrap())
        })
        .collect();
    // Not all of them, so that now and then a table is only read.
    let chosen: Vec<_> = (0..4).map(|_| random.below(programs.len() as u64) as usize).collect();
    let call = |random: &mut Random| {
        let arguments = [(); 2].map(|()| Value::Int(random.below(KEYS as u64) as i64));
        work(&programs[chosen[random.below(4) as usize]], arguments.into())
    };
    let blocks = (0..4).map(|_| (0..1 + random.below(8)).map(|_| call(random)).collect());
    [crate::several::fill(&tables)].into_iter().chain(blocks.collect::<Vec<_>>()).collect()
}
