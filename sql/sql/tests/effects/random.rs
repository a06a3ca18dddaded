//! Random histories.

use kit::random::Random;

use super::*;

const CHANGES: [&str; 11] = [
    "ALTER TABLE t ADD COLUMN more int DEFAULT 7",
    "ALTER TABLE t DROP COLUMN more",
    "ALTER TABLE t ALTER COLUMN v TYPE bigint",
    "ALTER TABLE t ALTER COLUMN v TYPE int",
    "CREATE INDEX by_s ON t (s, id)",
    "DROP INDEX by_s",
    "ALTER TABLE u ADD COLUMN c text DEFAULT 'a text that lies in the heap'",
    "ALTER TABLE u DROP COLUMN c",
    "TRUNCATE u",
    "CREATE TABLE w (a int)",
    "DROP TABLE w",
];

fn row_change(random: &mut Random) -> String {
    let (id, n) = (random.below(8), random.below(5));
    let text = ["x", "a text that is too long to lie in the row"][random.below(2) as usize];
    match random.below(19) {
        0 => format!("INSERT INTO t (id, v, s) VALUES ({id}, {n}, '{text}')"),
        1 => format!("INSERT INTO t (id, v) VALUES ({id}, {n}) ON CONFLICT DO NOTHING"),
        2 => {
            format!("INSERT INTO t (id, v) VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET v = {n}")
        }
        3 => format!("DELETE FROM t WHERE id = {id}"),
        4 => format!("DELETE FROM t WHERE v = {n}"),
        5 => format!("UPDATE t SET s = '{text}' WHERE id >= {id}"),
        6 => format!("CALL put_and_take({id})"),
        7 => format!("INSERT INTO u (a, b) VALUES ({id}, '{text}'), ({id}, NULL)"),
        8 => format!("UPDATE u SET b = b || '{n}' WHERE a < {id}"),
        9 => format!("DELETE FROM u WHERE a = {id}"),
        10 => format!("UPDATE t SET v = 1 / (v - {n}) WHERE id = {id}"),
        11 => {
            let counted = format!("(SELECT count(*) FROM u WHERE u.a = t.id AND u.a > {n})");
            format!("UPDATE t SET v = {counted} WHERE id >= {id}")
        }
        12 => format!("DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE a >= t.id + {n})"),
        13 => format!("INSERT INTO u (a, b) SELECT id, s FROM t EXCEPT SELECT a, '{text}' FROM u"),
        14 => {
            let joined = "t FULL JOIN u ON u.a = t.id AND u.b = t.s";
            format!("INSERT INTO u (a) SELECT coalesce(t.id, u.a) FROM {joined} WHERE t.v = {n}")
        }
        15 => {
            let latest = "LATERAL (SELECT max(b) AS b FROM u WHERE u.a <= t.id) AS l";
            format!("INSERT INTO u (a, b) SELECT t.id, l.b FROM t, {latest} WHERE t.id = {id}")
        }
        16 => format!("UPDATE t SET v = (SELECT a FROM u WHERE u.a = t.id) WHERE v > {n}"),
        _ => format!("UPDATE t SET v = v + {n} WHERE id = {id}"),
    }
}

fn change(random: &mut Random) -> &'static str {
    CHANGES[random.below(CHANGES.len() as u64) as usize]
}

/// A transaction with a schema change and rows; it fails where its row is not as it thinks.
fn migration(random: &mut Random, version: u64) -> Body {
    let one = Expectation { count: 1, rows: Vec::new() };
    let id = random.below(8);
    let update = format!("UPDATE t SET v = v + 1 WHERE id = {id}");
    let writes = vec![
        (statement(update.as_str()), one.clone()),
        (schema(change(random)), Expectation::default()),
        (statement(update), one),
    ];
    let (rows, ranges) = Default::default();
    Body::Interactive {
        seen: SchemaSeen { version, whole: true },
        transaction: Interactive { now_us: 0, rows, ranges, writes },
    }
}

fn history(protocol: &str, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut world = prepared(protocol, 1 + seed as usize % 3);
    for _ in 0..12 {
        let count = 1 + random.below(9);
        let version = world.language.schema_version();
        let body = |_| match random.below(8) {
            0 | 1 => vec![schema(change(&mut random))],
            // Its rows come after its changes. What is refused shows the state after them.
            2 => vec![migration(&mut random, version), schema("DROP TABLE nothing")],
            _ => vec![statement(row_change(&mut random))],
        };
        let bodies: Vec<Body> = (0..count).flat_map(body).collect();
        let reported = |body: &Body| format!("{}; ", body.describe());
        world.block(&bodies).map_err(|what| {
            let block: String = bodies.iter().map(reported).collect();
            format!("{protocol}, seed {seed}, block {block} of it: {what}")
        })?;
    }
    Ok(())
}

#[test]
fn the_leaves_of_random_blocks_are_what_they_did() {
    for protocol in protocols() {
        for seed in 0..6 {
            history(protocol, seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

/// A block whose second step forgets what it found.
#[test]
fn leaves_that_are_missing_are_found() {
    let _mutant = kit::mutant::enter(Some("steps_forgotten"));
    for protocol in protocols() {
        let found = (0..40).any(|seed| history(protocol, seed).is_err());
        assert!(found, "{protocol}: nothing is missing");
    }
}
