//! Queries that no application would send: drawn from a grammar, over small tables full of NULLs.
//!
//! ```text
//! query   = select | select UNION [ALL] | INTERSECT | EXCEPT select | WITH … select
//! select  = [DISTINCT] columns | groups and aggregates | windows,  FROM joins, WHERE, HAVING
//! expr    = by type: columns, constants, arithmetic, functions, CASE, subqueries (also correlated)
//! ```
//!
//! Every expression has a type, so that queries mean something in PostgreSQL; every query orders by
//! all of its columns, so that its answer is one sequence; and nothing can overflow or divide by
//! zero, since databases are free to evaluate what is not needed. What differs is then a fault.

use std::fmt::Write;

use kit::random::Random;
use types::Value;
use types::numeric::Numeric;

use super::{Analytical, Query};
use crate::workload::{Fill, Row};

const SCHEMA: &str = include_str!("../../sql/random.sql");
const ROWS: u64 = 60;
const DEPTH_MAX: u32 = 3;
const WORDS: [&str; 8] = ["", "a", "ab", "Abc", "b%c", "x_y", "zebra", "the quick brown fox"];

/// As many queries as asked for; the same seed draws the same ones.
pub fn at(seed: u64, queries: u64) -> Analytical {
    let draw = |number| {
        let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let text = Generator { random, aliases: 0 }.query();
        Query { name: format!("{seed}/{number}"), text }
    };
    Analytical {
        name: "random",
        schema: SCHEMA.to_owned(),
        indexes: "",
        fills: vec![fill("a", 0), fill("b", 1), fill("c", 1)],
        queries: (0..queries).map(draw).collect(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    Int,
    Numeric,
    Text,
    Date,
    Bool,
}

const TYPES: [Type; 5] = [Type::Int, Type::Numeric, Type::Text, Type::Date, Type::Bool];

/// Columns after the key and the reference.
fn columns_of(table: &str) -> &'static [(&'static str, Type)] {
    use Type::{Bool, Date, Int, Numeric, Text};
    match table {
        "a" => &[
            ("id", Int),
            ("i", Int),
            ("l", Int),
            ("n", Numeric),
            ("t", Text),
            ("d", Date),
            ("b", Bool),
        ],
        "b" => &[
            ("id", Int),
            ("a_id", Int),
            ("i", Int),
            ("l", Int),
            ("n", Numeric),
            ("t", Text),
            ("d", Date),
            ("b", Bool),
        ],
        _ => &[("id", Int), ("b_id", Int), ("i", Int), ("n", Numeric), ("t", Text), ("d", Date)],
    }
}

/// `references` columns after the key point at another table's key, or nowhere.
fn fill(table: &'static str, references: usize) -> Fill {
    Fill::rows(table, ROWS, move |id| {
        let mut random = Random::new(id * 8 + u64::from(table.as_bytes()[0]));
        let random = &mut random;
        let types = columns_of(table).iter().skip(1);
        let values =
            types.enumerate().map(|(at, (name, data_type))| match (random.chance(6), data_type) {
                (true, _) => Value::Null,
                (_, Type::Int) if at < references => Value::Int(random.below(ROWS + 9) as i64),
                (_, Type::Int) if *name == "l" => Value::Int(random.below(2_000) as i64 - 1_000),
                (_, Type::Int) => Value::Int(random.below(12) as i64 - 4),
                (_, Type::Numeric) => {
                    Value::Numeric(Numeric::from_units(i128::from(random.below(10_000)) - 5_000, 2))
                }
                (_, Type::Text) => Value::text(WORDS[random.below(8) as usize]),
                (_, Type::Date) => Value::Date(random.below(900) as i32 - 300),
                (_, Type::Bool) => Value::Bool(random.chance(2)),
            });
        let values: Vec<Value> = values.collect();
        std::iter::once(Value::Int(id as i64)).chain(values).collect::<Row>()
    })
}

/// A column that can be named.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    data_type: Type,
}

struct Generator {
    random: Random,
    aliases: u32,
}

impl Generator {
    fn one_in(&mut self, n: u64) -> bool {
        self.random.chance(n)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.random.below(from.len() as u64) as usize]
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    fn query(&mut self) -> String {
        let count = 1 + self.random.below(4) as usize;
        let types: Vec<Type> = (0..count).map(|_| *self.pick(&TYPES)).collect();
        let mut text = String::new();
        if self.one_in(6) {
            let name = self.alias();
            let inner = self.select(&types, &[], 2);
            let names: Vec<String> = (0..count).map(|at| format!("w{at}")).collect();
            let _ = writeln!(text, "WITH {name} ({}) AS ({inner})", names.join(", "));
            let named = |(name, data_type): (String, &Type)| Column { name, data_type: *data_type };
            let scope: Vec<Column> = names.into_iter().zip(&types).map(named).collect();
            let condition = self.condition(&scope, 1);
            let _ = write!(text, "SELECT * FROM {name} WHERE {condition}");
        } else if self.one_in(4) {
            let verbs = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"];
            let verb = *self.pick(&verbs);
            let (left, right) = (self.select(&types, &[], 1), self.select(&types, &[], 1));
            let _ = write!(text, "({left})\n{verb}\n({right})");
        } else {
            text += &self.select(&types, &[], 0);
        }
        let order: Vec<String> = (1..=count).map(|at| at.to_string()).collect();
        let _ = write!(text, "\nORDER BY {}", order.join(", "));
        if self.one_in(5) {
            let _ = write!(text, " LIMIT {}", 1 + self.random.below(10));
        }
        text
    }

    /// A SELECT of such columns; `outer` can be named in its conditions.
    fn select(&mut self, types: &[Type], outer: &[Column], depth: u32) -> String {
        let (from, scope) = self.from(depth);
        let mut seen = scope.clone();
        seen.extend_from_slice(outer);
        let condition = match self.one_in(3) {
            true => String::new(),
            false => format!("\nWHERE {}", self.condition(&seen, depth)),
        };
        match self.random.below(5) {
            0 | 1 => self.grouped(types, &scope, &from, &condition, depth),
            2 => {
                let items = self.items(types, |it, data_type| it.window(data_type, &scope));
                format!("SELECT {items}\nFROM {from}{condition}")
            }
            _ => {
                let distinct = if self.one_in(5) { "DISTINCT " } else { "" };
                let items = self.items(types, |it, data_type| it.expr(data_type, &scope, depth));
                format!("SELECT {distinct}{items}\nFROM {from}{condition}")
            }
        }
    }

    fn items(
        &mut self,
        types: &[Type],
        mut make: impl FnMut(&mut Generator, Type) -> String,
    ) -> String {
        let items = types.iter().enumerate();
        let items = items.map(|(at, data_type)| format!("{} AS c{at}", make(self, *data_type)));
        items.collect::<Vec<_>>().join(", ")
    }

    fn grouped(
        &mut self,
        types: &[Type],
        scope: &[Column],
        from: &str,
        condition: &str,
        depth: u32,
    ) -> String {
        let keys: Vec<Column> =
            (0..=self.random.below(2)).map(|_| self.pick(scope).clone()).collect();
        let items = self.items(types, |it, data_type| {
            let of_type: Vec<&Column> = keys.iter().filter(|k| k.data_type == data_type).collect();
            match of_type.first() {
                Some(key) if it.one_in(2) => key.name.clone(),
                _ => it.aggregate(data_type, scope, depth),
            }
        });
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let having = match self.one_in(3) {
            true => format!("\nHAVING {} > {}", self.aggregate(Type::Int, scope, 2), self.small()),
            false => String::new(),
        };
        format!("SELECT {items}\nFROM {from}{condition}\nGROUP BY {}{having}", names.join(", "))
    }

    /// Tables, joined by their references, and all columns that can be named.
    fn from(&mut self, depth: u32) -> (String, Vec<Column>) {
        let (first, mut scope) = self.source(depth);
        let mut text = first;
        let joins = if depth >= 2 { self.random.below(2) } else { self.random.below(3) };
        for _ in 0..joins {
            let (source, columns) = self.source(depth + 1);
            let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"];
            let kind = *self.pick(&kinds);
            let _ = write!(text, "\n{kind} {source}");
            if kind != "CROSS JOIN" {
                let ints = |from: &[Column]| -> Vec<Column> {
                    from.iter().filter(|c| c.data_type == Type::Int).cloned().collect()
                };
                let (left, right) = (ints(&scope), ints(&columns));
                let (left, right) = (self.pick(&left).clone(), self.pick(&right).clone());
                let _ = write!(text, " ON {} = {}", left.name, right.name);
                if kind != "FULL JOIN" && self.one_in(3) {
                    let both: Vec<Column> = scope.iter().chain(&columns).cloned().collect();
                    let _ = write!(text, " AND {}", self.comparison(&both, DEPTH_MAX));
                }
            }
            scope.extend(columns);
        }
        (text, scope)
    }

    fn source(&mut self, depth: u32) -> (String, Vec<Column>) {
        let alias = self.alias();
        if depth < 2 && self.one_in(5) {
            // A key for joins among them.
            let types = [Type::Int, *self.pick(&TYPES), *self.pick(&TYPES)];
            let inner = self.select(&types, &[], depth + 1);
            let columns = types.iter().enumerate().map(|(at, data_type)| Column {
                name: format!("{alias}.c{at}"),
                data_type: *data_type,
            });
            return (format!("({inner}) AS {alias}"), columns.collect());
        }
        let table = *self.pick(&["a", "b", "c"]);
        let columns = columns_of(table).iter().map(|(name, data_type)| Column {
            name: format!("{alias}.{name}"),
            data_type: *data_type,
        });
        (format!("{table} AS {alias}"), columns.collect())
    }

    fn condition(&mut self, scope: &[Column], depth: u32) -> String {
        match self.random.below(8) {
            0 => {
                format!("({} AND {})", self.comparison(scope, depth), self.condition(scope, depth))
            }
            1 => format!("({} OR {})", self.comparison(scope, depth), self.condition(scope, depth)),
            2 => format!("NOT ({})", self.comparison(scope, depth)),
            3 if depth < 2 => {
                let not = if self.one_in(2) { "NOT " } else { "" };
                let inner = self.correlated(scope, "=", false);
                format!("{not}EXISTS ({inner})")
            }
            5 if depth < 2 => {
                let by = *self.pick(&["=", "<>"]);
                let inner = self.correlated(scope, by, true);
                let x = self.expr(Type::Int, scope, DEPTH_MAX);
                match self.random.below(4) {
                    0 => format!("{x} NOT IN ({inner})"),
                    1 => format!("{x} <> ALL ({inner})"),
                    2 => format!("NOT ({x} = ANY ({inner}))"),
                    _ => format!("({x} IN ({inner})) IS NULL"),
                }
            }
            4 if depth < 2 => {
                let not = if self.one_in(3) { "NOT " } else { "" };
                let data_type = *self.pick(&[Type::Int, Type::Text, Type::Date]);
                let inner = self.select(&[data_type], &[], 2);
                format!("{} {not}IN ({inner})", self.expr(data_type, scope, DEPTH_MAX))
            }
            _ => self.comparison(scope, depth),
        }
    }

    /// A subquery whose rows depend on those around it by a comparison. `valued`: with a number.
    fn correlated(&mut self, outer: &[Column], by: &str, valued: bool) -> String {
        let (from, scope) = self.source(2);
        let outer: Vec<Column> =
            outer.iter().filter(|c| c.data_type == Type::Int).cloned().collect();
        let scope: Vec<Column> = scope.into_iter().filter(|c| c.data_type == Type::Int).collect();
        let value = if valued { self.pick(&scope).name.clone() } else { "1".to_owned() };
        let inner = self.pick(&scope).name.clone();
        let (by, of) = match outer.is_empty() {
            true => (">", self.small()),
            false => (by, self.pick(&outer).name.clone()),
        };
        format!("SELECT {value} FROM {from} WHERE {inner} {by} {of}")
    }

    fn comparison(&mut self, scope: &[Column], depth: u32) -> String {
        let data_type = *self.pick(&TYPES);
        let left = self.expr(data_type, scope, depth + 1);
        match (self.random.below(7), data_type) {
            (0, _) => format!("{left} IS NULL"),
            (1, _) => format!("{left} IS NOT NULL"),
            (_, Type::Bool) => left,
            (2, Type::Text) => {
                let pattern = *self.pick(&["a%", "%b%", "_b%", "%", "%x\\_y%"]);
                format!("{left} LIKE '{pattern}'")
            }
            (2, _) => {
                let (low, high) = (self.constant(data_type), self.constant(data_type));
                format!("{left} BETWEEN {low} AND {high}")
            }
            (3, _) => {
                let list = [self.constant(data_type), self.constant(data_type)];
                let not = if self.one_in(3) { "NOT " } else { "" };
                format!("{left} {not}IN ({})", list.join(", "))
            }
            (4, _) => {
                format!("{left} IS DISTINCT FROM {}", self.expr(data_type, scope, depth + 1))
            }
            _ => {
                let sign = *self.pick(&["=", "<>", "<", "<=", ">", ">="]);
                format!("{left} {sign} {}", self.expr(data_type, scope, depth + 1))
            }
        }
    }

    fn small(&mut self) -> String {
        self.random.below(6).to_string()
    }

    fn constant(&mut self, data_type: Type) -> String {
        match data_type {
            Type::Int => (self.random.below(20) as i64 - 6).to_string(),
            Type::Numeric => {
                let cents = i128::from(self.random.below(9_000)) - 4_500;
                Numeric::from_units(cents, 2).to_string()
            }
            Type::Text => format!("'{}'", self.pick(&WORDS)),
            Type::Date => {
                let (month, day) = (1 + self.random.below(12), 1 + self.random.below(28));
                format!("date '{}-{month:02}-{day:02}'", 1999 + self.random.below(4))
            }
            Type::Bool => if self.one_in(2) { "true" } else { "false" }.to_owned(),
        }
    }

    fn leaf(&mut self, data_type: Type, scope: &[Column]) -> String {
        let known: Vec<&Column> = scope.iter().filter(|c| c.data_type == data_type).collect();
        match known.is_empty() || self.one_in(5) {
            true => self.constant(data_type),
            false => self.pick(&known).name.clone(),
        }
    }

    fn expr(&mut self, data_type: Type, scope: &[Column], depth: u32) -> String {
        if depth >= DEPTH_MAX || self.one_in(2) {
            return self.leaf(data_type, scope);
        }
        let deeper = depth + 1;
        match self.random.below(7) {
            0 => {
                let condition = self.comparison(scope, deeper);
                let (a, b) = (self.expr(data_type, scope, deeper), self.leaf(data_type, scope));
                return format!("CASE WHEN {condition} THEN {a} ELSE {b} END");
            }
            1 => {
                let (a, b) = (self.expr(data_type, scope, deeper), self.leaf(data_type, scope));
                return format!("coalesce({a}, {b})");
            }
            2 => {
                let (a, b) = (self.expr(data_type, scope, deeper), self.leaf(data_type, scope));
                return format!("nullif({a}, {b})");
            }
            3 if depth == 0 && data_type != Type::Bool => {
                let (from, inner) = self.source(2);
                let aggregate = self.aggregate(data_type, &inner, DEPTH_MAX);
                return format!("(SELECT {aggregate} FROM {from})");
            }
            _ => {}
        }
        self.call(data_type, scope, deeper)
    }

    /// An operator or a function of a type's own.
    fn call(&mut self, data_type: Type, scope: &[Column], deeper: u32) -> String {
        let mut of = |data_type| self.expr(data_type, scope, deeper);
        match data_type {
            Type::Int => {
                let (a, t) = (of(Type::Int), of(Type::Text));
                let (d, e) = (of(Type::Date), of(Type::Date));
                let b = self.leaf(Type::Int, scope);
                match self.random.below(7) {
                    0 => format!("({a} + {b})"),
                    1 => format!("({a} - {b})"),
                    2 => format!("abs({a})"),
                    3 => format!("length({t})"),
                    4 => format!("({d} - {e})"),
                    5 => format!("mod({a}, {})", 2 + self.random.below(5)),
                    _ => format!("({a} / {})", 2 + self.random.below(5)),
                }
            }
            Type::Numeric => {
                let (a, i) = (of(Type::Numeric), of(Type::Int));
                let b = self.leaf(Type::Numeric, scope);
                match self.random.below(5) {
                    0 => format!("({a} + {b})"),
                    1 => format!("({a} - {i})"),
                    2 => format!("abs({a})"),
                    3 => format!("({b} * {})", self.small()),
                    _ => format!("round({a}, 1)"),
                }
            }
            Type::Text => {
                let (a, b) = (of(Type::Text), of(Type::Text));
                match self.random.below(6) {
                    0 => format!("({a} || {b})"),
                    1 => format!("upper({a})"),
                    2 => format!("lower({a})"),
                    3 => format!("substring({a} from {} for 2)", 1 + self.random.below(3)),
                    4 => format!("trim({a})"),
                    _ => format!("replace({a}, 'b', {b})"),
                }
            }
            Type::Date => {
                let d = of(Type::Date);
                format!("({d} + {})", self.random.below(40))
            }
            Type::Bool => {
                let (a, b) = (of(Type::Bool), of(Type::Bool));
                match self.random.below(3) {
                    0 => format!("({a} AND {b})"),
                    1 => format!("({a} OR {b})"),
                    _ => format!("(NOT {a})"),
                }
            }
        }
    }

    fn aggregate(&mut self, data_type: Type, scope: &[Column], depth: u32) -> String {
        let argument = self.expr(data_type, scope, depth.max(2));
        let filter = match self.one_in(5) {
            true => format!(" FILTER (WHERE {})", self.comparison(scope, DEPTH_MAX)),
            false => String::new(),
        };
        let call = match data_type {
            Type::Int => match self.random.below(6) {
                0 => "count(*)".to_owned(),
                1 => format!("count({argument})"),
                2 => {
                    let any = *self.pick(&TYPES);
                    format!("count(DISTINCT {})", self.leaf(any, scope))
                }
                3 => format!("min({argument})"),
                4 => format!("max({argument})"),
                _ => "count(*)".to_owned(),
            },
            Type::Numeric => match self.random.below(4) {
                0 => format!("min({argument})"),
                1 => format!("max({argument})"),
                2 => format!("avg({argument})"),
                _ => format!("sum({argument})"),
            },
            Type::Text | Type::Date => {
                format!("{}({argument})", self.pick(&["min", "max"]))
            }
            Type::Bool => format!("{}({argument})", self.pick(&["bool_and", "bool_or"])),
        };
        format!("{call}{filter}")
    }

    /// A window function whose order leaves nothing open: rows that are equal in it are equal in
    /// all that it looks at.
    fn window(&mut self, data_type: Type, scope: &[Column]) -> String {
        let argument = self.leaf(data_type, scope);
        let partition = match self.one_in(2) {
            true => format!("PARTITION BY {} ", self.pick(scope).name),
            false => String::new(),
        };
        let by = self.pick(scope).name.clone();
        let call = match (data_type, self.random.below(4)) {
            (Type::Int, 0) => return format!("rank() OVER ({partition}ORDER BY {by})"),
            (Type::Int, 1) => return format!("dense_rank() OVER ({partition}ORDER BY {by})"),
            (Type::Int, 2) => format!("count({argument})"),
            (Type::Numeric, 0 | 1) => format!("sum({argument})"),
            (Type::Bool, _) => format!("bool_or({argument})"),
            (_, 3) => format!("min({argument})"),
            _ => format!("max({argument})"),
        };
        match self.one_in(2) {
            // A running one: equal rows are peers.
            true => format!("{call} OVER ({partition}ORDER BY {by})"),
            false => format!("{call} OVER ({})", partition.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_queries_and_others_draw_others() {
        let texts = |seed| at(seed, 50).queries.into_iter().map(|q| q.text).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
        let all = texts(1).concat();
        for piece in ["GROUP BY", "JOIN", "OVER", "CASE", "EXISTS", "UNION", "WITH", "HAVING"] {
            assert!(all.contains(piece), "{piece}");
        }
    }

    #[test]
    fn columns_hold_nulls_and_values() {
        for fill in at(1, 0).fills {
            let rows: Vec<Row> = fill.batches(100).flatten().collect();
            assert_eq!(rows.len() as u64, ROWS);
            for column in 1..rows[0].len() {
                let nulls = rows.iter().filter(|row| row[column].is_null()).count();
                assert!(nulls > 0 && nulls < rows.len(), "{} {column}", fill.copy);
            }
        }
    }
}
