//! IN, NOT IN, ANY and ALL over subqueries, in all small worlds.
//!
//! ```text
//!   t (id, a): NULL, 1 and 2     s (id, a): each list of at most two of them
//!   x IN q, x NOT IN q, x = ANY q, x <> ALL q, x < ANY q, x >= ALL q
//!   q: all of s, or those of other ids than the outer row's, or of the same a
//!   in WHERE alone, below NOT, OR, AND; in the select list; in CASE; in ON of three joins
//! ```
//!
//! The oracle compares value by value in three-valued logic. What it says was itself compared with
//! PostgreSQL's answers ([`WITNESSES`]).

use types::SqlState;

use super::{Client, Node, block_on, roomy};

type Truth = Option<bool>;
type Value = Option<i64>;

fn not(truth: Truth) -> Truth {
    truth.map(|truth| !truth)
}

fn and(a: Truth, b: Truth) -> Truth {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Truth, b: Truth) -> Truth {
    not(and(not(a), not(b)))
}

fn compare(a: Value, b: Value, holds: fn(i64, i64) -> bool) -> Truth {
    Some(holds(a?, b?))
}

fn any(x: Value, of: &[Value], holds: fn(i64, i64) -> bool) -> Truth {
    of.iter().map(|y| compare(x, *y, holds)).reduce(or).unwrap_or(Some(false))
}

/// Ways to ask, each with `{}` for the subquery, and what they mean.
type Form = (&'static str, fn(Value, &[Value]) -> Truth);

const FORMS: [Form; 6] = [
    ("{x} IN ({q})", |x, q| any(x, q, |a, b| a == b)),
    ("{x} NOT IN ({q})", |x, q| not(any(x, q, |a, b| a == b))),
    ("{x} = ANY ({q})", |x, q| any(x, q, |a, b| a == b)),
    ("{x} <> ALL ({q})", |x, q| not(any(x, q, |a, b| a == b))),
    ("{x} < ANY ({q})", |x, q| any(x, q, |a, b| a < b)),
    ("{x} >= ALL ({q})", |x, q| not(any(x, q, |a, b| a < b))),
];

/// A row: its number from 1, and its value.
#[derive(Clone, Copy)]
struct Row {
    id: i64,
    a: Value,
}

/// Subqueries, and which rows of `s` they have for a row outside.
type Subquery = (&'static str, fn(Row, Row) -> bool);

const SUBQUERIES: [Subquery; 4] = [
    ("SELECT a FROM s", |_, _| true),
    ("SELECT a FROM s WHERE s.id <> {o}.id", |o, s| o.id != s.id),
    ("SELECT a FROM s WHERE s.id = {o}.id", |o, s| o.id == s.id),
    ("SELECT DISTINCT s.a FROM s JOIN s r ON r.id = s.id WHERE r.a = {o}.id OR s.a IS NULL", {
        |o, s| s.a.is_none_or(|a| a == o.id)
    }),
];

/// Conditions over a row of `t`.
type Place = (&'static str, fn(Truth, Row) -> Truth);

const PLACES: [Place; 7] = [
    ("{m}", |m, _| m),
    ("NOT ({m})", |m, _| not(m)),
    ("{m} OR t.id = 1", |m, t| or(m, Some(t.id == 1))),
    ("NOT ({m} AND t.a = 1)", |m, t| not(and(m, compare(t.a, Some(1), |a, b| a == b)))),
    ("NOT ({m} OR t.a = 1)", |m, t| not(or(m, compare(t.a, Some(1), |a, b| a == b)))),
    ("({m}) IS NULL", |m, _| Some(m.is_none())),
    ("({m}) IS NOT TRUE AND t.id < 3", |m, t| Some(m != Some(true) && t.id < 3)),
];

fn rows(values: &[Value]) -> Vec<Row> {
    values.iter().zip(1..).map(|(a, id)| Row { id, a: *a }).collect()
}

fn shown(truth: Truth) -> &'static str {
    match truth {
        Some(true) => "t",
        Some(false) => "f",
        None => "NULL",
    }
}

/// A world, and the sides that a query can have in it.
struct World {
    t: Vec<Row>,
    s: Vec<Row>,
}

impl World {
    fn truth(&self, form: Form, subquery: Subquery, outer: Row) -> Truth {
        self.truth_of(form, subquery, outer, outer.a)
    }

    fn truth_of(&self, form: Form, subquery: Subquery, outer: Row, x: Value) -> Truth {
        let seen = self.s.iter().filter(|s| subquery.1(outer, **s)).map(|s| s.a);
        form.1(x, &seen.collect::<Vec<Value>>())
    }

    /// A query for each place, and what it gives.
    fn questions(&self, form: Form, subquery: Subquery) -> Vec<(String, Vec<String>)> {
        let member = |x: &str, outer: &str| {
            let query = subquery.0.replace("{o}", outer);
            form.0.replace("{x}", x).replace("{q}", &query)
        };
        let mut questions = Vec::new();
        let m = member("t.a", "t");
        for (place, means) in PLACES {
            let text = format!("SELECT id FROM t WHERE {}", place.replace("{m}", &m));
            let holds = |t: &&Row| means(self.truth(form, subquery, **t), **t) == Some(true);
            let expected = self.t.iter().filter(holds).map(|t| t.id.to_string()).collect();
            questions.push((format!("{text} ORDER BY id"), expected));
        }
        let text = format!(
            "SELECT id, {m}, CASE WHEN {m} THEN 1 WHEN NOT ({m}) THEN 2 ELSE 3 END FROM t\n             ORDER BY id"
        );
        let line = |t: &Row| {
            let truth = self.truth(form, subquery, *t);
            let case = truth.map_or(3, |truth| if truth { 1 } else { 2 });
            format!("{},{},{case}", t.id, shown(truth))
        };
        questions.push((text, self.t.iter().map(line).collect()));
        let text = format!("SELECT id FROM t WHERE {} ORDER BY id", member("NULL::int", "t"));
        let holds = |t: &&Row| self.truth_of(form, subquery, **t, None) == Some(true);
        questions.push((text, self.t.iter().filter(holds).map(|t| t.id.to_string()).collect()));
        let text =
            format!("SELECT count(*) FILTER (WHERE {m}), max(CASE WHEN {m} THEN id END) FROM t");
        let held = self.t.iter().filter(|t| self.truth(form, subquery, **t) == Some(true));
        let held: Vec<i64> = held.map(|t| t.id).collect();
        let last = held.iter().max().map_or("NULL".to_owned(), i64::to_string);
        questions.push((text, vec![format!("{},{last}", held.len())]));
        for join in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
            questions.push(self.joined(join, &member("u.a", "u"), form, subquery));
        }
        questions
    }

    /// `u` is `t` again, on the right side of a join.
    fn joined(&self, join: &str, m: &str, form: Form, of: Subquery) -> (String, Vec<String>) {
        let text =
            format!("SELECT t.id, u.id FROM t {join} t u ON t.id = u.id AND {m} ORDER BY 1, 2");
        let holds = |t: &Row| self.truth(form, of, *t) == Some(true);
        let mut lines = Vec::new();
        for t in &self.t {
            match holds(t) {
                true => lines.push(format!("{},{}", t.id, t.id)),
                false if join != "JOIN" => lines.push(format!("{},NULL", t.id)),
                false => {}
            }
        }
        if join == "FULL JOIN" {
            let alone = self.t.iter().filter(|t| !holds(t));
            lines.extend(alone.map(|t| format!("NULL,{}", t.id)));
        }
        (text, lines)
    }
}

async fn fill(client: &mut Client, table: &str, rows: &[Row]) {
    client.run(&format!("DELETE FROM {table}")).await;
    for Row { id, a } in rows {
        let a = a.map_or("NULL".to_owned(), |a| a.to_string());
        client.run(&format!("INSERT INTO {table} VALUES ({id}, {a})")).await;
    }
}

/// Lists of values, in this order.
fn lists(lengths: &[usize]) -> Vec<Vec<Value>> {
    let mut lists = Vec::new();
    for &length in lengths {
        for number in 0..3usize.pow(length as u32) {
            let digit = |place: usize| number / 3usize.pow(place as u32) % 3;
            let value = |place| [None, Some(1), Some(2)][digit(place)];
            lists.push((0..length).map(value).collect());
        }
    }
    lists
}

#[test]
fn they_are_true_false_or_null_as_sql_says_wherever_they_stand() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        for table in ["t", "s"] {
            client.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY, a int)")).await;
        }
        // All values outside at once: rows of t do not see each other.
        let t = rows(&[None, Some(1), Some(2)]);
        fill(&mut client, "t", &t).await;
        let (mut asked, mut moved, mut by_rows) = (0, 0, 0);
        // World by world within a form: its plans are those of the world before.
        let forms = FORMS.into_iter().enumerate().flat_map(|(place, form)| {
            // = ANY and <> ALL become IN and NOT IN, so two subqueries say enough.
            let subqueries = if (2..4).contains(&place) { &SUBQUERIES[..2] } else { &SUBQUERIES };
            subqueries.iter().map(move |subquery| (form, *subquery))
        });
        for (form, subquery) in forms {
            for by_columns in [false, true] {
                // Once for all worlds, since what a session keeps bound goes by that.
                match by_columns {
                    true => client.by_columns().await,
                    false => client.by_router().await,
                }
                // Planning for columns takes long.
                let step = if by_columns { 3 } else { 1 };
                for values in lists(&[0, 1, 2]).into_iter().step_by(step) {
                    let world = World { t: t.clone(), s: rows(&values) };
                    fill(&mut client, "s", &world.s).await;
                    for (text, expected) in world.questions(form, subquery) {
                        match client.tell(&text, &[]).await {
                            Ok(reported) => {
                                assert_eq!(reported.lines(), expected, "{text}\nover {values:?}");
                                moved += usize::from(by_columns && reported.by_analytical_engine);
                                by_rows +=
                                    usize::from(!by_columns && !reported.by_analytical_engine);
                            }
                            Err(error) => {
                                let is_left_out = error.code() == SqlState::FEATURE_NOT_SUPPORTED;
                                assert!(by_columns && is_left_out, "{text}: {error}");
                            }
                        }
                        asked += usize::from(!by_columns);
                    }
                }
            }
        }
        println!("{asked} asked, {by_rows} answered row by row, {moved} by columns");
        assert!(by_rows > asked / 2, "{by_rows} of {asked}");
        assert!(moved > asked / 6, "{moved} of {asked}");
    });
}

/// What PostgreSQL 15 answers over `t` (1, 1), (2, 2), (3, NULL), (4, 3), (5, 1) and
/// `s` (1, 1), (2, 2), (3, NULL), (4, 2), (5, 5).
const WITNESSES: &[(&str, &[&str])] = &[
    ("SELECT id FROM t WHERE a NOT IN (SELECT a FROM s WHERE s.id <> t.id) OR id = 1", &["1"]),
    (
        "SELECT id FROM t WHERE (a IN (SELECT a FROM s WHERE s.id <> t.id)) IS NULL",
        &["1", "3", "4"],
    ),
    ("SELECT id FROM t WHERE a NOT IN (SELECT a FROM s WHERE s.id = t.id)", &["4", "5"]),
];

#[test]
fn postgresql_says_the_same() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        for (table, rows) in [
            ("t", "(1, 1), (2, 2), (3, NULL), (4, 3), (5, 1)"),
            ("s", "(1, 1), (2, 2), (3, NULL), (4, 2), (5, 5)"),
        ] {
            client.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY, a int)")).await;
            client.run(&format!("INSERT INTO {table} VALUES {rows}")).await;
        }
        for (text, expected) in WITNESSES {
            assert_eq!(client.lines(&format!("{text} ORDER BY 1")).await, *expected, "{text}");
        }
    });
}
