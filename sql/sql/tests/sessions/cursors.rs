//! Cursors: where they go against PostgreSQL's rules over a plain vector, how long they live
//! against sets of names, what they hold, and the errors.

use std::collections::BTreeMap;

use kit::pool::Pool;
use kit::random::Random;
use sql::session::{Answer, SessionMemory, Tag};
use types::{Result, SqlState, Value};

use crate::sessions::{Client, Node, block_on, code, protocols};

/// A cursor as PostgreSQL's manual and its executor describe one: rows, how many were passed, and
/// two flags, moved by runs in one direction.
struct Model {
    rows: Vec<i64>,
    scroll: bool,
    passed: usize,
    at_start: bool,
    at_end: bool,
}

const EVERY: i64 = i64::MAX;

impl Model {
    fn new(rows: Vec<i64>, scroll: bool) -> Model {
        Model { rows, scroll, passed: 0, at_start: true, at_end: false }
    }

    fn forth(&mut self, count: i64) -> Vec<i64> {
        if self.at_end || count <= 0 {
            return Vec::new();
        }
        let left = &self.rows[self.passed..];
        let found: Vec<i64> = left.iter().copied().take(count as usize).collect();
        self.at_start &= found.is_empty();
        self.at_end = (found.len() as i64) < count;
        self.passed += found.len();
        found
    }

    fn back(&mut self, count: i64) -> Option<Vec<i64>> {
        if !self.scroll {
            return None;
        }
        if self.at_start || count <= 0 {
            return Some(Vec::new());
        }
        // The executor stands on the last row that it gave, or after all.
        let behind = if self.at_end { self.passed } else { self.passed - 1 };
        let found: Vec<i64> =
            self.rows[..behind].iter().rev().copied().take(count as usize).collect();
        if !found.is_empty() && self.at_end {
            self.at_end = false;
            self.passed += 1;
        }
        if (found.len() as i64) < count {
            (self.at_start, self.at_end, self.passed) = (true, false, 0);
        } else {
            self.passed -= found.len();
        }
        Some(found)
    }

    fn rewind(&mut self) -> Option<()> {
        if !(self.at_start && !self.at_end) {
            self.scroll.then_some(())?;
            (self.at_start, self.at_end, self.passed) = (true, false, 0);
        }
        Some(())
    }

    /// The rows of a FETCH, or how many a MOVE passes; `None`: it cannot go there.
    fn go(&mut self, way: &Way, moves: bool) -> Option<(Vec<i64>, usize)> {
        let found = match *way {
            Way::Forward(0) | Way::Backward(0) | Way::Relative(0) => {
                let on_row = !self.at_start && !self.at_end;
                if moves || !on_row {
                    return Some((Vec::new(), usize::from(on_row && moves)));
                }
                self.back(1)?;
                self.forth(1)
            }
            Way::Forward(count) if count < 0 => self.back(-count)?,
            Way::Forward(count) => self.forth(count),
            Way::Backward(EVERY) if moves => {
                let count = self.passed - usize::from(self.passed > 0 && !self.at_end);
                self.rewind()?;
                return Some((Vec::new(), count));
            }
            Way::Backward(count) if count < 0 => self.forth(-count),
            Way::Backward(count) => self.back(count)?,
            Way::Absolute(0) => {
                self.rewind()?;
                Vec::new()
            }
            Way::Absolute(row) if row > 0 => {
                let position = (self.passed + usize::from(self.at_end)) as i64;
                if row <= position {
                    self.back(position - row + 1)?;
                } else {
                    self.forth(row - position - 1);
                }
                self.forth(1)
            }
            Way::Absolute(row) => {
                self.forth(EVERY);
                self.back(-row - 1)?;
                self.back(1)?
            }
            Way::Relative(rows) if rows > 0 => {
                self.forth(rows - 1);
                self.forth(1)
            }
            Way::Relative(rows) => {
                self.back(-rows - 1)?;
                self.back(1)?
            }
        };
        let count = found.len();
        Some((if moves { Vec::new() } else { found }, count))
    }
}

enum Way {
    Forward(i64),
    Backward(i64),
    Absolute(i64),
    Relative(i64),
}

impl Way {
    fn any(random: &mut Random) -> (String, Way) {
        let count = random.below(9) as i64 - 4;
        match random.below(13) {
            0 => ("NEXT".into(), Way::Forward(1)),
            1 => ("PRIOR".into(), Way::Backward(1)),
            2 => ("FIRST".into(), Way::Absolute(1)),
            3 => ("LAST".into(), Way::Absolute(-1)),
            4 | 5 => (format!("ABSOLUTE {count}"), Way::Absolute(count)),
            6 | 7 => (format!("RELATIVE {count}"), Way::Relative(count)),
            8 => (format!("{count}"), Way::Forward(count)),
            9 => (format!("FORWARD {count}"), Way::Forward(count)),
            10 => (format!("BACKWARD {count}"), Way::Backward(count)),
            11 if random.below(3) == 0 => ("ALL".into(), Way::Forward(EVERY)),
            12 if random.below(2) == 0 => ("BACKWARD ALL".into(), Way::Backward(EVERY)),
            _ => ("BACKWARD".into(), Way::Backward(1)),
        }
    }
}

/// Rows and the count in the tag.
async fn fetched(client: &mut Client, text: &str) -> Result<(Vec<i64>, usize)> {
    match client.answer(text).await? {
        Answer::Rows { rows, tag: Tag::Counted(verb, count), .. } if verb == "FETCH" => {
            Ok((rows.iter().map(|row| row[0].as_int().unwrap()).collect(), count as usize))
        }
        Answer::Tag(Tag::Counted(verb, count)) if verb == "MOVE" => {
            Ok((Vec::new(), count as usize))
        }
        _ => panic!("{text}: another answer"),
    }
}

#[test]
fn every_direction_goes_where_the_model_goes() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        client.run("INSERT INTO t SELECT * FROM generate_series(1, 6)").await.unwrap();
        let mut random = Random::new(3);
        for round in 0..300 {
            let rows = random.below(7) as i64;
            let (words, scroll) = match round % 3 {
                0 => ("SCROLL", true),
                1 => ("NO SCROLL", false),
                _ => ("", true),
            };
            // Outside of a transaction an error ends nothing but the cursor's use.
            let query = format!("SELECT a FROM t WHERE a <= {rows} ORDER BY a");
            let declare = format!("DECLARE c {words} CURSOR WITH HOLD FOR {query}");
            client.run(&declare).await.unwrap();
            let mut model = Model::new((1..=rows).collect(), scroll);
            let mut reported = Vec::new();
            for _ in 0..25 {
                let moves = random.below(4) == 0;
                let (direction, way) = Way::any(&mut random);
                let text = format!("{} {direction} FROM c", if moves { "MOVE" } else { "FETCH" });
                reported.push(text.clone());
                let answered = fetched(&mut client, &text).await;
                match model.go(&way, moves) {
                    Some(expected) => {
                        assert_eq!(answered.unwrap(), expected, "{rows} {reported:?}")
                    }
                    None => {
                        let error = answered.unwrap_err();
                        assert_eq!(error.message(), "cursor can only scan forward", "{reported:?}");
                        let error = fetched(&mut client, "FETCH c").await.unwrap_err();
                        assert_eq!(error.message(), "portal \"c\" cannot be run", "{reported:?}");
                        break;
                    }
                }
            }
            client.run("CLOSE c").await.unwrap();
        }
        node.verify();
    });
}

/// What is open: the numbers of cursors by name, and whether each is held and committed.
type Open = BTreeMap<String, (u64, bool, bool)>;

#[test]
fn cursors_live_as_long_as_the_model_says() {
    for protocol in ["serial", "2pl"] {
        block_on(lives(protocol, 11));
    }
}

async fn lives(protocol: &str, seed: u64) {
    let node = Node::new(protocol);
    let mut client = node.session();
    let mut random = Random::new(seed);
    client.run("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    let mut open = Open::new();
    let mut savepoints: Option<Vec<(String, u64)>> = None;
    let (mut next, mut key) = (0, 0);
    for _ in 0..800 {
        let name = ["a", "b", "c"][random.below(3) as usize];
        match random.below(12) {
            0..4 => {
                let hold = random.below(2) == 0;
                let text = format!(
                    "DECLARE {name} CURSOR {} HOLD FOR SELECT a FROM t",
                    if hold { "WITH" } else { "WITHOUT" }
                );
                if open.contains_key(name) || (savepoints.is_none() && !hold) {
                    continue;
                }
                client.run(&text).await.unwrap();
                open.insert(name.to_owned(), (next, hold, savepoints.is_none()));
                next += 1;
            }
            4 if open.contains_key(name) => {
                client.run(&format!("CLOSE {name}")).await.unwrap();
                open.remove(name);
            }
            5 if savepoints.is_none() => {
                client.run("BEGIN").await.unwrap();
                savepoints = Some(Vec::new());
            }
            6 | 7 if let Some(savepoints) = &mut savepoints => {
                let point = ["s", "r"][random.below(2) as usize];
                client.run(&format!("SAVEPOINT {point}")).await.unwrap();
                savepoints.push((point.to_owned(), next));
                key += 1;
                client.run(&format!("INSERT INTO t VALUES ({key})")).await.unwrap();
            }
            8 if let Some(points) = &mut savepoints
                && !points.is_empty() =>
            {
                let point = points[random.below(points.len() as u64) as usize].0.clone();
                let at = points.iter().rposition(|(name, _)| *name == point).unwrap();
                points.truncate(at + 1);
                let mark = points[at].1;
                if random.below(2) == 0 {
                    assert!(client.run("SELECT 1 / 0").await.is_err());
                }
                client.run(&format!("ROLLBACK TO {point}")).await.unwrap();
                open.retain(|_, (number, _, stays)| *stays || *number < mark);
            }
            9 if let Some(ended) = savepoints.take() => {
                let commits = random.below(3) > 0;
                client.run(if commits { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
                drop(ended);
                open.values_mut().for_each(|(_, hold, stays)| *stays |= *hold && commits);
                open.retain(|_, (.., stays)| *stays);
            }
            10 if savepoints.is_none() && random.below(10) == 0 => {
                client.run("CLOSE ALL").await.unwrap();
                open.clear();
            }
            _ => {}
        }
        for name in ["a", "b", "c"] {
            assert_eq!(client.session.cursor(name).is_some(), open.contains_key(name));
        }
    }
    node.verify();
}

#[test]
fn a_cursor_has_the_rows_of_its_declaration_under_every_protocol() {
    for protocol in protocols() {
        block_on(async {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (a int PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)").await.unwrap();
            client.run("BEGIN; INSERT INTO t VALUES (4, 40)").await.unwrap();
            let of = "CURSOR WITH HOLD FOR SELECT v FROM t ORDER BY a";
            client.run(&format!("DECLARE kept SCROLL {of}")).await.unwrap();
            client.run("UPDATE t SET v = v + 1; DELETE FROM t WHERE a = 2").await.unwrap();
            assert_eq!(fetched(&mut client, "FETCH 2 kept").await.unwrap().0, [10, 20]);
            client.run("COMMIT").await.unwrap();
            let rest = fetched(&mut client, "FETCH ALL FROM kept").await.unwrap().0;
            assert_eq!(rest, [30, 40], "{protocol}");
            assert_eq!(fetched(&mut client, "FETCH FIRST kept").await.unwrap().0, [10]);
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 11 + 31 + 41);
            node.verify();
        });
    }
}

#[test]
fn what_a_cursor_has_read_is_required_at_commit() {
    block_on(async {
        let node = Node::new("serial");
        let (mut one, mut other) = (node.session(), node.session());
        one.run("CREATE TABLE t (a int PRIMARY KEY, v int)").await.unwrap();
        one.run("INSERT INTO t VALUES (1, 10)").await.unwrap();
        one.run("BEGIN; DECLARE c CURSOR FOR SELECT v FROM t WHERE a = 1").await.unwrap();
        other.run("UPDATE t SET v = 11 WHERE a = 1").await.unwrap();
        one.run("INSERT INTO t VALUES (2, 20)").await.unwrap();
        assert_eq!(code(one.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE);
        one.run("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT v FROM t").await.unwrap();
        other.run("UPDATE t SET v = 12 WHERE a = 1").await.unwrap();
        one.run("INSERT INTO t VALUES (2, 20)").await.unwrap();
        assert!(one.run("COMMIT").await.is_err());
        assert!(one.session.cursor("h").is_none(), "its transaction is in no block");
        node.verify();
    });
}

#[test]
fn what_cursors_hold_is_covered_until_they_are_closed() {
    block_on(async {
        let pool = Pool::new(4 << 20);
        let memory = SessionMemory { pool: pool.clone(), ..SessionMemory::default() };
        let clock: engine::Clock = std::sync::Arc::new(|| 0);
        let node = Node::with("serial", clock, Default::default(), memory);
        let mut client = node.session();
        let of = "CURSOR WITH HOLD FOR SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i";
        let mut count = 0;
        let refused = loop {
            match client.run(&format!("DECLARE c{count} SCROLL {of}")).await {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), SqlState::OUT_OF_MEMORY, "{refused}");
        assert!((2..12).contains(&count), "{count}");
        assert!(pool.leased_bytes() > 2 << 20);
        client.run("CLOSE ALL").await.unwrap();
        assert_eq!(pool.leased_bytes(), 0);
        // What one that goes forward only has passed is let go of.
        client.run(&format!("DECLARE c NO SCROLL {of}")).await.unwrap();
        let all = pool.leased_bytes();
        let mut rows = 0;
        while let (found @ 1.., _) = {
            let (found, _) = fetched(&mut client, "FETCH 500 c").await.unwrap();
            (found.len(), ())
        } {
            rows += found;
        }
        assert_eq!(rows, 5000);
        assert!(all > 500_000 && pool.leased_bytes() == 0, "{all} {}", pool.leased_bytes());
        node.verify();
    });
}

#[test]
fn errors_are_postgresqls() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        client.run("DECLARE h CURSOR WITH HOLD FOR SELECT 1").await.unwrap();
        for (text, expected) in [
            ("FETCH c", "34000"),
            ("MOVE c", "34000"),
            ("CLOSE c", "34000"),
            ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
            ("DECLARE h CURSOR WITH HOLD FOR SELECT 1", "42P03"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT nope", "42703"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1 / 0", "22012"),
            ("UPDATE t SET a = 1 WHERE CURRENT OF h", "0A000"),
            ("DELETE FROM t WHERE CURRENT OF h", "0A000"),
        ] {
            assert_eq!(code(client.run(text).await).as_str(), expected, "{text}");
        }
        // The statements of one query are a transaction.
        client.session.begin_implicit_block().unwrap();
        client.run("DECLARE c CURSOR FOR SELECT 5").await.unwrap();
        assert_eq!(client.number("FETCH c").await, 5);
        client.session.end_implicit_block(true).await.unwrap();
        assert_eq!(code(client.run("FETCH c").await).as_str(), "34000");

        let parameters = [Value::Int(3)];
        client.run("BEGIN").await.unwrap();
        let declare = "DECLARE c CURSOR FOR SELECT $1::int + a FROM (VALUES (1), (2)) v (a)";
        client.run_typed(declare, &[], &parameters).await.unwrap();
        assert_eq!(fetched(&mut client, "FETCH ALL c").await.unwrap().0, [4, 5]);

        // The same text of another cursor has other columns.
        let parsed = client.session.parse("FETCH c").unwrap().remove(0);
        let reported = client.session.prepare(parsed, &[]).unwrap();
        client.run("CLOSE c; DECLARE c CURSOR FOR SELECT 'x'").await.unwrap();
        let changed = client.session.execute(&reported, &[]).await;
        assert_eq!(code(changed).as_str(), "0A000");
        client.run("ROLLBACK; DISCARD ALL").await.unwrap();
        assert_eq!(code(client.run("FETCH h").await).as_str(), "34000");
        node.verify();
    });
}
