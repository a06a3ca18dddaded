//! QueCC's reads of what a block does not change: a market whose orders are turned down for goods
//! that are not there, and whose goods are looked for by kind.

use std::sync::Arc;

use concurrency::{ExecutionPath, PathCounts, Protocol, Statement, Work, WorkerPool};
use kit::random::Random;
use oracle::{Divergence, Twin, rows};
use procedure::build::{Builder, Tables, add, at_least, call, element, int};
use procedure::functions::Function;
use procedure::query::Query;
use procedure::step::{OnError, Procedure, Step};
use types::{ColumnSchema, DataType, IndexSchema, SqlState, TableId, TableSchema, Value};

const INT: DataType = DataType::Int8;
const GOODS: i64 = 12;
const SHOPS: i64 = 4;

fn schemas() -> Vec<Arc<TableSchema>> {
    let table = |id, name: &str, columns: &[&str], key: u16, indexes: Vec<IndexSchema>| {
        Arc::new(TableSchema {
            id: TableId(id),
            name: name.into(),
            columns: columns.iter().map(|name| ColumnSchema::new(*name, INT)).collect(),
            primary_key: (0..key).collect(),
            indexes,
            hidden_row_id: false,
        })
    };
    let by_kind =
        IndexSchema { name: "by_kind".into(), columns: vec![2], unique: false, dropped: false };
    vec![
        table(1, "shops", &["id", "next"], 1, Vec::new()),
        table(2, "goods", &["id", "price", "kind", "sold"], 1, vec![by_kind]),
        table(3, "sales", &["shop", "number", "line", "price"], 3, Vec::new()),
    ]
}

struct Market {
    open: Arc<Procedure>,
    offer: Arc<Procedure>,
    orders: [Arc<Procedure>; 2],
    sell: Arc<Procedure>,
    reprice: Arc<Procedure>,
    reclass: Arc<Procedure>,
}

impl Market {
    fn new() -> Market {
        let tables: Tables = schemas().into_iter().collect();
        let built = |p: Builder<'_>| Arc::new(p.build().unwrap());
        let assign = |name: &str, column: &str| {
            let mut p = Builder::new(&tables, name, &[("id", INT), ("value", INT)]);
            let [id, value] = p.arguments();
            p.update("goods", &[id], vec![(column, value)]);
            built(p)
        };
        Market {
            open: {
                let mut p = Builder::new(&tables, "open", &[("id", INT)]);
                let [id] = p.arguments();
                p.insert("shops", vec![("id", id), ("next", int(1))]);
                built(p)
            },
            offer: {
                let mut p = Builder::new(&tables, "offer", &[("id", INT)]);
                let [id] = p.arguments();
                let rest = [("price", 7), ("kind", 1), ("sold", 0)];
                let rest = rest.map(|(name, value)| (name, add(id.clone(), int(value), &INT)));
                p.insert("goods", [("id", id.clone())].into_iter().chain(rest).collect());
                built(p)
            },
            orders: [built(order(&tables)), Arc::new(raising(order(&tables).build().unwrap()))],
            sell: built(sell(&tables)),
            reprice: assign("reprice", "price"),
            reclass: assign("reclass", "kind"),
        }
    }
}

/// Each of some goods at its price, under the shop's next number.
fn order(tables: &Tables) -> Builder<'_> {
    let array = DataType::Array(Box::new(INT));
    let mut p = Builder::new(tables, "order", &[("shop", INT), ("goods", array)]);
    p.returns(&[("number", INT), ("total", INT)]);
    let [shop, goods] = p.arguments();
    let ([number], _) = p.read("shops", &[shop.clone()], ["next"]);
    let next = add(p.column("shops", "next"), int(1), &INT);
    p.update("shops", &[shop.clone()], vec![("next", next)]);
    let count = p.assign(call(Function::Cardinality, vec![goods.clone()], &INT));
    let total = p.for_range_carrying([int(1), count], int(0), |p, line, total| {
        let id = p.assign(element(&goods, &line));
        let ([price], found) = p.read("goods", &[id], ["price"]);
        p.require(found, OnError::new(SqlState(*b"TC001"), "there is nothing like that"));
        let why = OnError::new(SqlState(*b"TC002"), "there is no such shop");
        p.require(at_least(number.clone(), int(1)), why);
        let row = [("shop", &shop), ("number", &number), ("line", &line), ("price", &price)];
        p.insert("sales", row.map(|(name, value)| (name, value.clone())).into());
        add(total, price, &INT)
    });
    p.emit(vec![number, total]);
    p
}

/// The same where a branch of each turn raises what the turn requires otherwise.
fn raising(mut order: Procedure) -> Procedure {
    for step in &mut order.body {
        let Step::ForRange { body, .. } = step else { continue };
        let required = body.iter_mut().find(|step| matches!(step, Step::Require { .. })).unwrap();
        let Step::Require { condition, error } = required else { unreachable!() };
        *required = Step::If {
            condition: condition.clone(),
            then: Box::default(),
            otherwise: Box::new([Step::Raise { error: error.clone() }]),
            phis: Box::default(),
        };
    }
    order
}

/// One more of the first goods of a kind is sold.
fn sell(tables: &Tables) -> Builder<'_> {
    let mut p = Builder::new(tables, "sell", &[("kind", INT)]);
    p.returns(&[("id", INT), ("sold", INT)]);
    let [kind] = p.arguments();
    let input = Box::new(p.scan("goods", Some("by_kind"), &[kind], &["id"]));
    let ([id], _) = p.fetch(Query::Limit { input, limit: Some(int(1)), offset: None });
    let ([sold], _) = p.read("goods", &[id.clone()], ["sold"]);
    let more = add(p.column("goods", "sold"), int(1), &INT);
    p.update("goods", &[id.clone()], vec![("sold", more)]);
    p.emit(vec![id, sold]);
    p
}

fn work(procedure: &Arc<Procedure>, arguments: &[Value]) -> Arc<Work> {
    let procedure = Arc::clone(procedure);
    Arc::new(Work::Statement(Statement { procedure, arguments: arguments.into() }))
}

/// How the transactions of a block ran, and whether it changed what others read while planning.
type Ran = (PathCounts, bool);

fn run(
    protocol: &Arc<dyn Protocol>,
    workers: usize,
    seed: u64,
) -> Result<(Twin, Vec<Ran>), Divergence> {
    let market = Market::new();
    let pool = WorkerPool::new(workers);
    let mut random = Random::new(seed);
    let mut twin = Twin::new(&schemas());
    let int = |n: i64| Value::Int(n);
    let opened = (0..SHOPS).map(|id| work(&market.open, &[int(id)]));
    let offered = (0..GOODS).map(|id| work(&market.offer, &[int(id)]));
    twin.run(protocol, &pool, opened.chain(offered).collect())?;
    let mut ran = Vec::new();
    for _ in 0..6 {
        let changes = random.chance(2);
        let mut number = |of: i64| random.below(of as u64) as i64;
        let block = (0..90).map(|_| match number(8) {
            0 if changes => work(&market.reprice, &[int(number(GOODS)), int(number(50))]),
            1 if changes => work(&market.reclass, &[int(number(GOODS)), int(number(GOODS))]),
            2 | 3 => work(&market.sell, &[int(number(GOODS + 2))]),
            _ => {
                let (shop, order) = (number(SHOPS + 1), &market.orders[number(2) as usize]);
                let goods = (0..number(4)).map(|_| int(number(GOODS) + number(40) / 39 * GOODS));
                work(order, &[int(shop), Value::array(goods.collect::<Vec<_>>())])
            }
        });
        let block: Vec<_> = block.collect();
        let outcome = twin.run(protocol, &pool, block)?;
        ran.push((outcome.report.paths, changes));
    }
    Ok((twin, ran))
}

/// Rejections in loops, and keys that queries find, are known while planning, unless the block
/// changes what they rest on.
#[test]
fn what_a_block_does_not_change_is_read_while_planning() {
    for name in [
        "quecc",
        "quecc:cutting=always",
        "quecc:cutting=always:queue=16",
        "quecc:cutting=always:planning=pipelined",
    ] {
        let cuts = !name.contains("pipelined") && name != "quecc";
        let protocol = protocols::by_name(name).unwrap();
        let mut cut = 0;
        for seed in 0..8 {
            let states = [1, 2, 8].map(|workers| {
                let (twin, ran) = run(&protocol, workers, seed)
                    .unwrap_or_else(|divergence| panic!("{name}, seed {seed}: {divergence}"));
                for (paths, changes) in ran {
                    let of_block = paths.of(ExecutionPath::Cut);
                    cut += if changes { 0 } else { of_block };
                    if !changes && name == "quecc" {
                        assert_eq!(paths.of(ExecutionPath::Uncut), 90, "{name}, seed {seed}");
                    }
                    if !changes && cuts {
                        let whole = paths.of(ExecutionPath::Whole);
                        assert!(of_block > 45 && whole == 0, "{name}, seed {seed}: {of_block}");
                    }
                }
                [1, 2, 3].map(|table| rows(&twin.subject, TableId(table)))
            });
            assert!(states.windows(2).all(|two| two[0] == two[1]), "{name}, seed {seed}");
        }
        assert_eq!(cut > 0, cuts, "{name}");
    }
}

#[test]
fn a_read_of_what_the_block_changes_is_found() {
    let mutant = protocols::mutant("quecc:cutting=always", "unsteady_reads").unwrap();
    assert!((0..20).any(|seed| run(&mutant, 1, seed).is_err()));
}

/// An answer may be made of what was read while planning.
#[test]
fn what_was_read_while_planning_is_answered() {
    let market = Market::new();
    let (pool, protocol) =
        (WorkerPool::new(1), protocols::by_name("quecc:cutting=always").unwrap());
    let mut twin = Twin::new(&schemas());
    let offered = (0..3).map(|id| work(&market.offer, &[Value::Int(id)]));
    twin.run(&protocol, &pool, offered.collect()).unwrap();
    let block = (1..4).map(|kind| work(&market.sell, &[Value::Int(kind)])).collect();
    let outcome = twin.run(&protocol, &pool, block).unwrap();
    assert_eq!(outcome.report.paths.of(ExecutionPath::Cut), 3);
}
