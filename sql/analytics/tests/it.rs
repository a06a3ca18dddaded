//! Queries against what the rows say.

mod sessions;

use std::sync::Arc;

use analytics::datafusion;
use analytics::{Analytics, AnalyticsOptions, Answer, Query};
use datafusion::arrow::util::pretty::pretty_format_batches;
use kit::random::Random;
use storage::{GROUP_ROWS, Store};
use types::{ColumnSchema, DataType, Key, Stamp, TableId, TableSchema, Value};

const TABLE: TableId = TableId(1);

struct World {
    store: Arc<Store>,
    analytics: Analytics,
    rows: Vec<(i64, i64, String)>,
}

fn world(rows: i64, options: &AnalyticsOptions) -> World {
    let store = Arc::new(Store::new());
    let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
    let table = store.create_table(Arc::new(TableSchema {
        id: TABLE,
        name: "t".into(),
        columns: vec![
            column("id", DataType::Int8),
            column("amount", DataType::Int8),
            column("name", DataType::Text),
        ],
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    }));
    let mut random = Random::new(3);
    let mut block = store.begin_block(1, 1);
    let mut model = Vec::new();
    for id in 0..rows {
        let row = (id, random.below(1_000) as i64, format!("customer {}", random.below(7)));
        let values = [Value::Int(row.0), Value::Int(row.1), Value::text(&row.2)];
        table.insert(Key::from_int(id).as_bytes(), &values, Stamp::new(1, 0), block.arena(0));
        model.push(row);
    }
    store.finish_unread(block);
    store.publish(1);
    let analytics = Analytics::new(store.clone(), options).expect("analytics");
    World { store, analytics, rows: model }
}

fn roomy() -> AnalyticsOptions {
    AnalyticsOptions {
        threads: 2,
        image_bytes_max: 1 << 30,
        query_bytes_max: 1 << 28,
        spill_folder: None,
    }
}

impl World {
    fn run(&self, text: &str) -> datafusion::common::Result<Answer> {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
        let tables = [("t".to_owned(), TABLE)];
        let snapshot = Arc::new(self.store.snapshot());
        runtime.block_on(self.analytics.run(&Query { snapshot, tables: &tables, text }))
    }
}

fn text(answer: &Answer) -> String {
    pretty_format_batches(&answer.batches).expect("printable").to_string()
}

#[test]
fn groups_sums_and_windows_are_what_the_rows_say() {
    let world = world(10_000, &roomy());
    let answer = world.run("SELECT name, sum(amount), count(*) FROM t GROUP BY name ORDER BY name");
    let answer = answer.expect("a grouping");
    let mut expected = std::collections::BTreeMap::<&str, (i64, i64)>::new();
    for (_, amount, name) in &world.rows {
        let group = expected.entry(name).or_default();
        *group = (group.0 + amount, group.1 + 1);
    }
    let shown = text(&answer);
    let lines = shown.lines().filter(|line| line.starts_with("| customer")).collect::<Vec<_>>();
    assert_eq!(lines.len(), expected.len());
    for (line, (name, (sum, count))) in lines.iter().zip(&expected) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[1..4], [*name, &sum.to_string(), &count.to_string()]);
    }
    let window = "SELECT count(*) FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM t) \
                  WHERE n = id + 1";
    assert!(text(&world.run(window).expect("a window")).contains("10000"));
}

#[test]
fn a_filter_leaves_out_groups_that_cannot_match_once_their_zones_are_known() {
    let groups = 5;
    let world = world((groups * GROUP_ROWS) as i64, &roomy());
    let (low, high) = (GROUP_ROWS * 2 - 500, GROUP_ROWS * 2 + 1_500);
    let query = &format!("SELECT count(*) FROM t WHERE id BETWEEN {low} AND {high}");
    let first = world.run(query).expect("a count");
    assert!(first.plan_text().contains("groups=5 of 5"), "{}", first.plan_text());
    let second = world.run(query).expect("a count");
    assert!(second.plan_text().contains("groups=2 of 5"), "{}", second.plan_text());
    assert_eq!(text(&first), text(&second));
    assert!(text(&first).contains("| 2001 "));
}

#[test]
fn a_query_beyond_its_memory_is_refused_and_the_next_one_runs() {
    let world = world(60_000, &AnalyticsOptions { query_bytes_max: 1 << 20, ..roomy() });
    let refused = world.run("SELECT count(*) FROM (SELECT DISTINCT id, name FROM t)");
    let refused = refused.err().expect("too many groups").to_string();
    assert!(refused.contains("Resources exhausted"), "{refused}");
    assert!(text(&world.run("SELECT count(*) FROM t").expect("a count")).contains("60000"));
}
