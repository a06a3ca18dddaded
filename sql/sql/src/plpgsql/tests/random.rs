//! Random structured programs: compiled and interpreted, against an evaluator with mutable
//! variables that knows nothing of registers, phis or carried values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::ControlFlow;

use kit::random::Random;
use procedure::analysis::Analysis;
use procedure::{Access, Command, Range, Row};
use types::{ColumnId, Key, Stamp, TableId};

use super::*;

const VARIABLES: [&str; 4] = ["a", "b", "c", "d"];

type Int = Option<i64>;

#[derive(Clone, Debug)]
enum Expr {
    Constant(Int),
    Variable(String),
    /// `+`, `-`, `*` (kept small by `%`), `/`.
    Binary(char, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug)]
struct Condition(Expr, &'static str, Expr);

#[derive(Clone, Debug)]
enum Statement {
    Assign(String, Expr),
    If(Vec<(Condition, Vec<Statement>)>, Vec<Statement>),
    Block(String, Expr, Vec<Statement>),
    /// Label, first, last, step, reverse.
    For(String, Expr, Expr, i64, bool, Vec<Statement>),
    Each(String, Vec<Expr>, Vec<Statement>),
    /// Label, condition; a counter of turns keeps it finite.
    While(String, Option<Condition>, Vec<Statement>),
    /// Exit or continue, label, `WHEN`.
    Leave(bool, Option<String>, Option<Condition>),
    /// `v := v + amount WHERE id = key`, and whether it was there into the variable.
    Update(Expr, Expr, String),
    Select(Expr, String),
    Delete(Expr),
    Insert(Expr, Expr),
    Return(Option<Condition>),
    Raise(Condition),
}

struct Generator {
    random: Random,
    loops: Vec<String>,
    next_label: usize,
}

impl Generator {
    fn variable(&mut self) -> String {
        VARIABLES[self.random.below(4) as usize].to_string()
    }

    fn expr(&mut self, depth: u32) -> Expr {
        match self.random.below(if depth == 0 { 5 } else { 8 }) {
            0 => Expr::Constant(Some(self.random.below(10) as i64)),
            1 if self.random.chance(4) => Expr::Constant(None),
            1..=4 => Expr::Variable(self.variable()),
            _ => {
                let sign = match self.random.below(12) {
                    0..=4 => '+',
                    5..=7 => '-',
                    8..=10 => '*',
                    _ => '/',
                };
                let (left, right) = (self.expr(depth - 1), self.expr(depth - 1));
                Expr::Binary(sign, left.into(), right.into())
            }
        }
    }

    fn condition(&mut self) -> Condition {
        let sign = ["<", "<=", "=", "<>", ">"][self.random.below(5) as usize];
        Condition(self.expr(1), sign, self.expr(1))
    }

    fn label(&mut self) -> String {
        self.next_label += 1;
        format!("l{}", self.next_label)
    }

    fn body(&mut self, depth: u32) -> Vec<Statement> {
        let count = 1 + self.random.below(3);
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn in_loop(
        &mut self,
        depth: u32,
        make: impl FnOnce(&mut Self, String, Vec<Statement>) -> Statement,
    ) -> Statement {
        let label = self.label();
        self.loops.push(label.clone());
        let body = self.body(depth - 1);
        self.loops.pop();
        make(self, label, body)
    }

    fn statement(&mut self, depth: u32) -> Statement {
        match self.random.below(if depth == 0 { 6 } else { 13 }) {
            0 if self.random.chance(2) => {
                let key = self.expr(0);
                match self.random.below(6) {
                    0 | 1 => Statement::Update(key, self.expr(1), self.variable()),
                    2 | 3 => Statement::Select(key, self.variable()),
                    4 => Statement::Delete(key),
                    _ => Statement::Insert(key, self.expr(1)),
                }
            }
            0..=3 => Statement::Assign(self.variable(), self.expr(2)),
            4 if !self.loops.is_empty() => {
                let place = self.random.below(self.loops.len() as u64) as usize;
                let label = self.random.chance(2).then(|| self.loops[place].clone());
                let is_conditional = !self.random.chance(3);
                let when = is_conditional.then(|| self.condition());
                Statement::Leave(self.random.chance(2), label, when)
            }
            5 if self.random.chance(6) => Statement::Return(Some(self.condition())),
            5 if self.random.chance(8) => Statement::Return(None),
            5 if self.random.chance(6) => Statement::Raise(self.condition()),
            4 | 5 => Statement::Assign(self.variable(), self.expr(2)),
            6 | 7 => {
                let branches = 1 + self.random.below(2);
                let branches = (0..branches).map(|_| (self.condition(), self.body(depth - 1)));
                let branches = branches.collect();
                let otherwise =
                    if self.random.chance(2) { self.body(depth - 1) } else { Vec::new() };
                Statement::If(branches, otherwise)
            }
            8 => Statement::Block(self.variable(), self.expr(1), self.body(depth - 1)),
            9 | 10 => self.in_loop(depth, |this, label, body| {
                let (first, last) = (this.expr(0), this.expr(1));
                let step = 1 + this.random.below(3) as i64;
                Statement::For(label, first, last, step, this.random.chance(2), body)
            }),
            11 => {
                let count = this_many(&mut self.random);
                let elements = (0..count).map(|_| self.expr(1)).collect();
                let variable = self.variable();
                self.loops.push("none".to_string());
                let body = self.body(depth - 1);
                self.loops.pop();
                Statement::Each(variable, elements, without_label(body))
            }
            _ => self.in_loop(depth, |this, label, body| {
                let condition = if this.random.chance(3) { None } else { Some(this.condition()) };
                Statement::While(label, condition, body)
            }),
        }
    }
}

fn this_many(random: &mut Random) -> u64 {
    1 + random.below(3)
}

/// FOREACH is generated without a label, so a jump to "none" is one to the innermost loop.
fn without_label(body: Vec<Statement>) -> Vec<Statement> {
    fn fix(statement: Statement) -> Statement {
        let all = |body: Vec<Statement>| body.into_iter().map(fix).collect();
        match statement {
            Statement::Leave(exit, Some(label), condition) if label == "none" => {
                Statement::Leave(exit, None, condition)
            }
            Statement::If(branches, otherwise) => Statement::If(
                branches.into_iter().map(|(c, body)| (c, all(body))).collect(),
                all(otherwise),
            ),
            Statement::Block(name, value, body) => Statement::Block(name, value, all(body)),
            Statement::For(l, first, last, step, reverse, body) => {
                Statement::For(l, first, last, step, reverse, all(body))
            }
            Statement::Each(name, elements, body) => Statement::Each(name, elements, all(body)),
            Statement::While(l, condition, body) => Statement::While(l, condition, all(body)),
            other => other,
        }
    }
    body.into_iter().map(fix).collect()
}

fn show(expr: &Expr) -> String {
    match expr {
        Expr::Constant(None) => "NULL::bigint".to_string(),
        Expr::Constant(Some(value)) => value.to_string(),
        Expr::Variable(name) => name.clone(),
        Expr::Binary(sign @ '/', left, right) => format!("({} {sign} {})", show(left), show(right)),
        Expr::Binary(sign, left, right) => {
            format!("(({} {sign} {}) % 1000)", show(left), show(right))
        }
    }
}

fn show_condition(Condition(left, sign, right): &Condition) -> String {
    format!("{} {sign} {}", show(left), show(right))
}

fn print(body: &[Statement], text: &mut String) {
    for statement in body {
        match statement {
            Statement::Assign(name, value) => {
                let _ = writeln!(text, "{name} := {};", show(value));
            }
            Statement::If(branches, otherwise) => {
                for (i, (condition, body)) in branches.iter().enumerate() {
                    let word = if i == 0 { "IF" } else { "ELSIF" };
                    let _ = writeln!(text, "{word} {} THEN", show_condition(condition));
                    print(body, text);
                }
                if !otherwise.is_empty() {
                    text.push_str("ELSE\n");
                    print(otherwise, text);
                }
                text.push_str("END IF;\n");
            }
            Statement::Block(name, value, body) => {
                let _ = writeln!(text, "DECLARE {name} bigint := {}; BEGIN", show(value));
                print(body, text);
                text.push_str("END;\n");
            }
            Statement::For(label, first, last, step, reverse, body) => {
                let reverse = if *reverse { "REVERSE " } else { "" };
                let (first, last) = (show(first), show(last));
                let head = format!("FOR i IN {reverse}{first}..{last} BY {step}");
                let _ = writeln!(text, "<<{label}>> {head} LOOP\na := (a + i) % 1000;");
                print(body, text);
                text.push_str("END LOOP;\n");
            }
            Statement::Each(name, elements, body) => {
                let elements: Vec<String> = elements.iter().map(show).collect();
                let _ =
                    writeln!(text, "FOREACH {name} IN ARRAY array[{}] LOOP", elements.join(", "));
                print(body, text);
                text.push_str("END LOOP;\n");
            }
            Statement::While(label, condition, body) => {
                let head = match condition {
                    Some(condition) => format!("WHILE {} LOOP", show_condition(condition)),
                    None => "LOOP".to_string(),
                };
                let _ = writeln!(text, "<<{label}>> {head}\nfuel := fuel - 1; EXIT WHEN fuel < 0;");
                print(body, text);
                text.push_str("END LOOP;\n");
            }
            Statement::Leave(exit, label, when) => {
                let word = if *exit { "EXIT" } else { "CONTINUE" };
                let label = label.as_deref().unwrap_or_default();
                let when = when.as_ref().map(|when| format!(" WHEN {}", show_condition(when)));
                let _ = writeln!(text, "{word} {label}{};", when.unwrap_or_default());
            }
            Statement::Update(key, amount, variable) => {
                let (key, amount) = (show(key), show(amount));
                let _ = writeln!(text, "UPDATE t SET v = v + {amount} WHERE id = {key};");
                let found = "CASE WHEN FOUND THEN 1 ELSE 0 END";
                let _ = writeln!(text, "{variable} := {found};");
            }
            Statement::Select(key, variable) => {
                let key = show(key);
                let _ = writeln!(text, "SELECT v INTO {variable} FROM t WHERE id = {key};");
            }
            Statement::Delete(key) => {
                let _ = writeln!(text, "DELETE FROM t WHERE id = {};", show(key));
            }
            Statement::Insert(key, value) => {
                let (key, value) = (show(key), show(value));
                let _ = writeln!(text, "INSERT INTO t VALUES ({key}, {value});");
            }
            Statement::Return(Some(condition)) => {
                let _ = writeln!(text, "IF {} THEN RETURN; END IF;", show_condition(condition));
            }
            Statement::Return(None) => text.push_str("RETURN;\n"),
            Statement::Raise(condition) => {
                let condition = show_condition(condition);
                let _ = writeln!(text, "IF {condition} THEN RAISE 'a is %', a; END IF;");
            }
        }
    }
}

enum Flow {
    Next,
    Leave(bool, Option<String>),
    Return,
}

/// The naive evaluator: a stack of mutable variables, the innermost last.
struct Machine {
    variables: Vec<(String, Int)>,
    fuel: i64,
    table: BTreeMap<i64, Int>,
}

impl Machine {
    fn get(&self, name: &str) -> Int {
        self.variables.iter().rfind(|(n, _)| n == name).unwrap().1
    }

    fn set(&mut self, name: &str, value: Int) {
        self.variables.iter_mut().rfind(|(n, _)| n == name).unwrap().1 = value;
    }

    fn eval(&self, expr: &Expr) -> Result<Int, String> {
        Ok(match expr {
            Expr::Constant(value) => *value,
            Expr::Variable(name) => self.get(name),
            Expr::Binary(sign, left, right) => {
                let (Some(left), Some(right)) = (self.eval(left)?, self.eval(right)?) else {
                    return Ok(None);
                };
                Some(match sign {
                    '+' => (left + right) % 1000,
                    '-' => (left - right) % 1000,
                    '*' => (left * right) % 1000,
                    _ if right == 0 => return Err("22012".to_string()),
                    _ => left / right,
                })
            }
        })
    }

    fn holds(&self, Condition(left, sign, right): &Condition) -> Result<bool, String> {
        let (Some(left), Some(right)) = (self.eval(left)?, self.eval(right)?) else {
            return Ok(false);
        };
        Ok(match *sign {
            "<" => left < right,
            "<=" => left <= right,
            "=" => left == right,
            "<>" => left != right,
            _ => left > right,
        })
    }

    fn block(&mut self, body: &[Statement]) -> Result<Flow, String> {
        for statement in body {
            let flow = self.statement(statement)?;
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// `None`: the next turn.
    fn turn(&mut self, label: &str, body: &[Statement]) -> Result<Option<Flow>, String> {
        Ok(match self.block(body)? {
            Flow::Next => None,
            Flow::Leave(exit, target) if target.as_deref().is_none_or(|t| t == label) => {
                exit.then_some(Flow::Next)
            }
            flow => Some(flow),
        })
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow, String> {
        match statement {
            Statement::Assign(name, value) => {
                let value = self.eval(value)?;
                self.set(name, value);
            }
            Statement::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.holds(condition)? {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            Statement::Block(name, value, body) => {
                let value = self.eval(value)?;
                self.variables.push((name.clone(), value));
                let flow = self.block(body);
                self.variables.pop();
                return flow;
            }
            Statement::For(label, first, last, step, reverse, body) => {
                let (Some(mut i), Some(last)) = (self.eval(first)?, self.eval(last)?) else {
                    return Err("22004".to_string());
                };
                while if *reverse { i >= last } else { i <= last } {
                    self.set("a", self.get("a").map(|a| (a + i) % 1000));
                    if let Some(flow) = self.turn(label, body)? {
                        return Ok(flow);
                    }
                    i += if *reverse { -step } else { *step };
                }
            }
            Statement::Each(name, elements, body) => {
                let values =
                    elements.iter().map(|e| self.eval(e)).collect::<Result<Vec<_>, _>>()?;
                for value in values {
                    self.set(name, value);
                    if let Some(flow) = self.turn("none", body)? {
                        return Ok(flow);
                    }
                }
            }
            Statement::While(label, condition, body) => loop {
                if let Some(condition) = condition
                    && !self.holds(condition)?
                {
                    break;
                }
                self.fuel -= 1;
                if self.fuel < 0 {
                    break;
                }
                if let Some(flow) = self.turn(label, body)? {
                    return Ok(flow);
                }
            },
            Statement::Leave(exit, label, when) => {
                if when.as_ref().map_or(Ok(true), |when| self.holds(when))? {
                    return Ok(Flow::Leave(*exit, label.clone()));
                }
            }
            Statement::Update(key, amount, variable) => {
                let (key, amount) = (self.eval(key)?, self.eval(amount)?);
                let row = key.and_then(|key| self.table.get_mut(&key));
                let found = row.is_some();
                if let Some(value) = row {
                    *value = value.zip(amount).map(|(value, amount)| value + amount);
                }
                self.set(variable, Some(i64::from(found)));
            }
            Statement::Select(key, variable) => {
                let row = self.eval(key)?.and_then(|key| self.table.get(&key).copied());
                self.set(variable, row.flatten());
            }
            Statement::Delete(key) => {
                if let Some(key) = self.eval(key)? {
                    self.table.remove(&key);
                }
            }
            Statement::Insert(key, value) => {
                let (key, value) = (self.eval(key)?, self.eval(value)?);
                let key = key.ok_or("23502")?;
                if self.table.contains_key(&key) {
                    return Err("23505".to_string());
                }
                self.table.insert(key, value);
            }
            Statement::Return(condition) => {
                if condition.as_ref().map_or(Ok(true), |c| self.holds(c))? {
                    return Ok(Flow::Return);
                }
            }
            Statement::Raise(condition) => {
                if self.holds(condition)? {
                    let a = self.get("a").map_or("<NULL>".to_string(), |a| a.to_string());
                    return Err(format!("P0001 a is {a}"));
                }
            }
        }
        Ok(Flow::Next)
    }
}

const FUEL: i64 = 40;

type Outcome = Result<(Vec<Int>, Vec<(i64, Int)>), String>;

fn initial_table() -> BTreeMap<i64, Int> {
    (0..6).map(|id| (id, Some(10 * id))).collect()
}

fn expected(program: &[Statement], a: i64, b: i64) -> Outcome {
    let values = [Some(a), Some(b), Some(0), None];
    let variables = VARIABLES.iter().zip(values).map(|(name, value)| (name.to_string(), value));
    let mut machine =
        Machine { variables: variables.collect(), fuel: FUEL, table: initial_table() };
    machine.block(program)?;
    let values = VARIABLES.iter().map(|name| machine.get(name)).collect();
    Ok((values, machine.table.into_iter().collect()))
}

/// Remembers which rows are touched.
struct Recorder {
    memory: Memory,
    touched: BTreeSet<(TableId, Key)>,
}

impl Recorder {
    fn note(&mut self, table: TableId, key: &Key) {
        self.touched.insert((table, key.clone()));
    }
}

impl Access for Recorder {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        self.note(table, key);
        self.memory.read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.note(table, key);
        self.memory.exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        self.note(table, key);
        self.memory.update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        self.note(table, &key);
        self.memory.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.note(table, key);
        self.memory.delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        self.memory.scan(range, columns, visit)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        self.memory.next_row_id()
    }

    fn now_us(&self) -> i64 {
        self.memory.now_us()
    }
}

const TABLE: TableId = TableId(1);

fn one_table() -> Catalog {
    let columns = [("id", DataType::Int8), ("v", DataType::Int8)];
    catalog_of([table(TABLE, "t", &columns, &[0])])
}

fn compiled(catalog: &Catalog, text: &str) -> Procedure {
    let parameters = VARIABLES.map(|name| (name, ParameterMode::InOut, DataType::Int8));
    match compile(catalog, function(&parameters, Returns::Void), text) {
        Ok(procedure) => procedure,
        Err(error) => panic!("{error:?}\n{text}"),
    }
}

/// Runs the procedure, and tells whether its key plan was complete.
fn actual(catalog: &Catalog, procedure: &Procedure, a: i64, b: i64) -> (Outcome, bool) {
    let mut memory = Memory::new(catalog.tables().map(|table| table.schema.clone()));
    for (id, value) in initial_table() {
        let row = vec![Value::Int(id), value.map_or(Value::Null, Value::Int)];
        memory.put(TABLE, row).unwrap();
    }
    let mut recorder = Recorder { memory, touched: BTreeSet::new() };
    let arguments = [Value::Int(a), Value::Int(b), Value::Int(0), Value::Null];
    let outcome = run(procedure, &arguments, &mut Frame::new(), &mut recorder);
    let plan = Analysis::of(procedure).keys;
    let planned = plan.keys(&arguments).unwrap().into_iter();
    let planned: BTreeSet<_> = planned.map(|planned| (planned.table, planned.key)).collect();
    if plan.is_complete() {
        assert!(recorder.touched.is_subset(&planned), "{:?}", recorder.touched);
    }
    let is_complete = plan.is_complete() && !recorder.touched.is_empty();
    let outcome = match outcome {
        Ok(result) => {
            let values = result.rows[0].iter().map(Value::as_int).collect();
            let rows = recorder.memory.rows(TABLE);
            let rows = rows.iter().map(|row| (row[0].as_int().unwrap(), row[1].as_int()));
            Ok((values, rows.collect()))
        }
        Err(Stop::Rejected(error)) if error.code().as_str() == "P0001" => {
            Err(format!("P0001 {}", error.message()))
        }
        Err(Stop::Rejected(error)) => Err(error.code().to_string()),
        Err(stop) => panic!("{stop:?}"),
    };
    (outcome, is_complete)
}

#[test]
fn random_programs_do_what_their_text_says() {
    let catalog = one_table();
    let (mut failed, mut planned) = (0, 0);
    for seed in 0..2_500 {
        let mut generator =
            Generator { random: Random::new(seed), loops: Vec::new(), next_label: 0 };
        let program = generator.body(3);
        let mut text = format!("DECLARE fuel int := {FUEL}; BEGIN\n");
        print(&program, &mut text);
        text.push_str("END");
        let procedure = compiled(&catalog, &text);
        for (a, b) in [(1, 2), (7, 0), (3, 9)] {
            let expected = expected(&program, a, b);
            failed += usize::from(expected.is_err());
            let (actual, is_planned) = actual(&catalog, &procedure, a, b);
            planned += usize::from(is_planned);
            assert_eq!(actual, expected, "seed {seed}, a = {a}, b = {b}\n{text}");
        }
    }
    // Some must fail and some must be planned, or neither was tested.
    assert!((100..4_000).contains(&failed), "{failed}");
    assert!(planned > 100, "{planned}");
}
