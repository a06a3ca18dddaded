//! A program and what is known of it, as text for people: what EXPLAIN prints.
//!
//! ```text
//! procedure deposit_checking(customer bigint, amount bigint)
//!
//! steps
//!   1  require  amount > 0, else P0001 'amount must be positive'
//!   2  update   checking[customer]: balance := balance + amount → found r2
//!   3  require  r2, else P0002 'no such customer'                               ← 2
//!
//! keys        complete: all follow from the arguments
//! commands    2  checking: balance add; commutes with itself
//! footprint   checking: changes balance by command
//! fragments   1  steps 1      on arguments                        may abort
//!             2  steps 2, 3   on checking[customer]               may abort, commits after 1
//! ```
//!
//! Steps are numbered from 1. A register has the name of the variable that it is a version of
//! (`total`, `total#2`), or else its number; a flag that is not read is not shown. After the arrow
//! stand the steps that a step depends on: for its values, `key` for the choice of its row, `row`
//! for the order of accesses to one row. The text is stable: it depends on the program alone.

mod expressions;
mod queries;
mod report;

use std::fmt::Write;

use types::{ColumnId, IndexId, TableId, TableSchema};

use crate::analysis::{Analysis, StepId, visit};
use crate::expr::{Expr, Reg};
use crate::step::{Block, Carried, OnError, Output, Procedure, Step};

/// Where names of tables, columns and indexes come from.
pub trait NameResolver {
    fn schema(&self, table: TableId) -> Option<&TableSchema>;
}

/// Describe `procedure` and its analysis.
pub fn explain(procedure: &Procedure, names: &dyn NameResolver) -> String {
    let analysis = Analysis::of(procedure);
    let namer = Namer::new(procedure, names);
    let mut text = namer.heading();
    text.push_str("\n\nsteps\n");
    let mut listing =
        Listing { namer: &namer, analysis: &analysis, lines: Vec::new(), next_step: 0 };
    listing.block(&procedure.body, 0);
    listing.print(&mut text);
    text.push('\n');
    report::report(&namer, &analysis, &mut text);
    text
}

/// An expression over no columns and no registers, such as a default.
pub fn expression(expr: &Expr) -> String {
    struct NoNames;
    impl NameResolver for NoNames {
        fn schema(&self, _: TableId) -> Option<&TableSchema> {
            None
        }
    }
    let procedure = Procedure {
        name: String::new(),
        parameters: Vec::new(),
        registers: 0,
        register_names: [].into(),
        body: [].into(),
        output: Output::Tag,
        tag: String::new(),
        read_only: true,
        draws: false,
        sequences: Box::default(),
    };
    Namer::new(&procedure, &NoNames).expr(expr, &[])
}

/// Turns ids into names.
pub(crate) struct Namer<'a> {
    procedure: &'a Procedure,
    schemas: &'a dyn NameResolver,
    registers: Vec<String>,
    is_read: Vec<bool>,
}

impl<'a> Namer<'a> {
    fn new(procedure: &'a Procedure, schemas: &'a dyn NameResolver) -> Self {
        let count = usize::from(procedure.registers);
        let mut registers: Vec<String> = (0..count).map(|i| format!("r{i}")).collect();
        for (i, parameter) in procedure.parameters.iter().enumerate() {
            registers[i] = match parameter.name.is_empty() {
                true => format!("${}", i + 1),
                false => parameter.name.clone(),
            };
        }
        let mut versions = std::collections::BTreeMap::new();
        for parameter in &procedure.parameters {
            versions.insert(parameter.name.as_str(), 1);
        }
        for (register, name) in &procedure.register_names {
            let version = versions.entry(name).or_insert(0);
            *version += 1;
            registers[usize::from(register.0)] = match version {
                1 => name.to_string(),
                version => format!("{name}#{version}"),
            };
        }
        let mut is_read = vec![false; count];
        for step in visit::numbered(&procedure.body) {
            visit::each_step_expr(step, &mut |_, expr| {
                visit::each_register(expr, &mut |register| is_read[usize::from(register.0)] = true);
            });
        }
        Namer { procedure, schemas, registers, is_read }
    }

    fn heading(&self) -> String {
        let procedure = self.procedure;
        let parameters = procedure.visible_parameters().iter().enumerate();
        let parameters: Vec<String> =
            parameters.map(|(i, p)| format!("{} {}", self.registers[i], p.data_type)).collect();
        let mut text = match procedure.tag.as_str() {
            "CALL" => format!("procedure {}({})", procedure.name, parameters.join(", ")),
            _ if parameters.is_empty() => procedure.name.clone(),
            _ => format!("{} ({})", procedure.name, parameters.join(", ")),
        };
        if let Output::Rows(columns) = &procedure.output {
            let columns: Vec<String> =
                columns.iter().map(|c| format!("{} {}", c.name, c.data_type)).collect();
            let _ = write!(text, " → ({})", columns.join(", "));
        }
        text
    }

    fn register(&self, register: Reg) -> &str {
        &self.registers[usize::from(register.0)]
    }

    fn table(&self, table: TableId) -> String {
        match self.schemas.schema(table) {
            Some(schema) => schema.name.clone(),
            None => format!("table {}", table.0),
        }
    }

    fn column(&self, table: TableId, column: ColumnId) -> String {
        let schema = self.schemas.schema(table);
        let column_schema = schema.and_then(|s| s.columns.get(usize::from(column)));
        match column_schema {
            Some(column) => column.name.clone(),
            None => format!("column {column}"),
        }
    }

    fn columns(&self, table: TableId, columns: &[ColumnId]) -> Vec<String> {
        columns.iter().map(|c| self.column(table, *c)).collect()
    }

    /// All columns of a table, as the names of a row.
    fn row_names(&self, table: TableId) -> Vec<String> {
        let schema = self.schemas.schema(table);
        schema.map_or(Vec::new(), |s| s.columns.iter().map(|c| c.name.clone()).collect())
    }

    fn index(&self, table: TableId, index: IndexId) -> String {
        let schema = self.schemas.schema(table);
        let place = usize::from(index).checked_sub(1);
        match (place, schema) {
            (None, _) => "primary key".to_string(),
            (Some(place), Some(schema)) if place < schema.indexes.len() => {
                schema.indexes[place].name.clone()
            }
            _ => format!("index {index}"),
        }
    }

    /// `table[key]`.
    fn record(&self, table: TableId, key: &[Expr], row: &[String]) -> String {
        format!("{}[{}]", self.table(table), self.list(key, row))
    }

    /// ` → found r3`, if a step reads it.
    fn flag(&self, word: &str, register: Reg) -> String {
        match self.is_read[usize::from(register.0)] {
            true => format!(" → {word} {}", self.register(register)),
            false => String::new(),
        }
    }
}

struct Line {
    /// Empty on lines that go on with a step or close one.
    number: Option<StepId>,
    text: String,
    dependencies: String,
}

struct Listing<'a> {
    namer: &'a Namer<'a>,
    analysis: &'a Analysis,
    lines: Vec<Line>,
    next_step: StepId,
}

/// Dependencies stand in a column of their own, unless that would be too far right.
const DEPENDENCY_COLUMN_MAX: usize = 84;

impl Listing<'_> {
    fn print(&self, text: &mut String) {
        let number_width = self.next_step.to_string().len();
        let widths = self.lines.iter().map(|line| line.text.chars().count());
        let column = widths.filter(|w| *w < DEPENDENCY_COLUMN_MAX).max().unwrap_or(0);
        for line in &self.lines {
            let number = line.number.map_or(String::new(), |id| (id + 1).to_string());
            let _ = write!(text, "  {number:>number_width$}  {}", line.text);
            if !line.dependencies.is_empty() {
                let used = line.text.chars().count();
                let gap = column.saturating_sub(used) + 2;
                let _ = write!(text, "{:gap$}← {}", "", line.dependencies);
            }
            text.push('\n');
        }
    }

    fn block(&mut self, block: &Block, depth: usize) {
        for step in block {
            let id = self.next_step;
            self.next_step += 1;
            self.step(id, step, depth);
        }
    }

    fn head(&mut self, id: StepId, depth: usize, verb: &str, rest: &str) {
        let text = format!("{:indent$}{verb:<8} {rest}", "", indent = 2 * depth);
        self.lines.push(Line {
            number: Some(id),
            text: text.trim_end().to_string(),
            dependencies: self.dependencies(id),
        });
    }

    fn more(&mut self, depth: usize, text: &str) {
        self.lines.push(Line {
            number: None,
            text: format!("{:indent$}{text}", "", indent = 2 * depth),
            dependencies: String::new(),
        });
    }

    /// What a step needs. Its parent is seen by its place, and the blocks inside it by theirs.
    fn dependencies(&self, id: StepId) -> String {
        let facts = &self.analysis.steps[id as usize];
        let parent = facts.parent;
        let control = facts.control_dependencies.iter().copied();
        let values = facts.value_dependencies.iter().copied();
        let groups = [
            ("", values.filter(|on| *on < id).collect::<Vec<_>>()),
            ("key ", facts.key_dependencies.to_vec()),
            ("row ", facts.row_dependencies.to_vec()),
            ("after ", control.filter(|on| Some(*on) != parent).collect()),
        ];
        let groups = groups.into_iter().filter(|(_, steps)| !steps.is_empty());
        let texts: Vec<String> =
            groups.map(|(word, steps)| format!("{word}{}", numbers(&steps))).collect();
        texts.join("; ")
    }

    fn step(&mut self, id: StepId, step: &Step, depth: usize) {
        let namer = self.namer;
        match step {
            Step::Let { out, value } => {
                let text = format!("{} := {}", namer.register(*out), namer.expr(value, &[]));
                self.head(id, depth, "let", &text);
            }
            Step::Require { condition, error } => {
                let text = format!("{}, else {}", namer.expr(condition, &[]), self.error(error));
                self.head(id, depth, "require", &text);
            }
            Step::Raise { error } => {
                let text = self.error(error);
                self.head(id, depth, "raise", &text);
            }
            Step::Notice { notice, .. } => {
                let text = self.error(notice);
                self.head(id, depth, "notice", &text);
            }
            Step::Emit { values } => {
                let text = format!("({})", namer.list(values, &[]));
                self.head(id, depth, "emit", &text);
            }
            Step::EmitQuery { query } => {
                self.head(id, depth, "emit", "rows of");
                self.query(query, depth);
            }
            Step::CountRows { by } => {
                let text = format!("{} rows", namer.expr(by, &[]));
                self.head(id, depth, "count", &text);
            }
            Step::Exit { depth: out, values } => self.leave(id, depth, "exit", *out, values),
            Step::Continue { depth: out, values } => {
                self.leave(id, depth, "continue", *out, values);
            }
            Step::Return => self.head(id, depth, "return", ""),
            Step::Fetch { query, outputs, found, strict } => {
                let outputs: Vec<&str> = outputs.iter().map(|r| namer.register(*r)).collect();
                let strict = if *strict { "the only row of" } else { "the first row of" };
                let mut text = strict.to_string();
                if !outputs.is_empty() {
                    let _ = write!(text, " → {}", outputs.join(", "));
                }
                text.push_str(&namer.flag("found", *found));
                self.head(id, depth, "fetch", &text);
                self.query(query, depth);
            }
            Step::If { .. } => self.branch(id, step, depth),
            _ if visit::is_loop(step) => self.any_loop(id, step, depth),
            _ => self.row_step(id, step, depth),
        }
    }

    fn row_step(&mut self, id: StepId, step: &Step, depth: usize) {
        let namer = self.namer;
        match step {
            Step::Read { table, key, columns, out, found } => {
                let names = namer.columns(*table, columns).into_iter();
                let outputs = names.zip(out.0..).map(|(column, register)| {
                    let register = namer.register(Reg(register));
                    match column == register {
                        true => column,
                        false => format!("{column} → {register}"),
                    }
                });
                let outputs: Vec<String> = outputs.collect();
                let record = namer.record(*table, key, &[]);
                let flag = namer.flag("found", *found);
                let text = format!("{record}: {}{flag}", outputs.join(", "));
                self.head(id, depth, "read", &text);
            }
            Step::Exists { table, key, found } => {
                let text = namer.record(*table, key, &[]) + &namer.flag("found", *found);
                self.head(id, depth, "exists", &text);
            }
            Step::Delete { table, key, found, .. } => {
                let text = namer.record(*table, key, &[]) + &namer.flag("found", *found);
                self.head(id, depth, "delete", &text);
            }
            Step::Insert { table, values, inserted, .. } => {
                let table = namer.table(*table);
                let values = namer.list(values, &[]);
                let flag = namer.flag("inserted", *inserted);
                self.head(id, depth, "insert", &format!("{table} ({values}){flag}"));
            }
            Step::Update { table, key, code, inputs, found } => {
                let row = namer.row_names(*table);
                let assignments = code.assignments.iter().map(|(column, expr)| {
                    let value = namer.expr(&with_inputs(expr, inputs), &row);
                    format!("{} := {value}", namer.column(*table, *column))
                });
                let assignments: Vec<String> = assignments.collect();
                let record = namer.record(*table, key, &[]);
                let flag = namer.flag("found", *found);
                let text = format!("{record}: {}{flag}", assignments.join(", "));
                self.head(id, depth, "update", &text);
                for check in &code.checks {
                    let condition = namer.expr(&with_inputs(&check.condition, inputs), &row);
                    let (code, message) = (check.error.code(), check.error.message());
                    let text = format!("check {condition}, else {code} {}", quoted(message));
                    self.more(depth + 2, &text);
                }
            }
            _ => {}
        }
    }

    fn error(&self, error: &OnError) -> String {
        let namer = self.namer;
        let code = match &error.code {
            Some(code) => namer.expr(code, &[]),
            None => error.error.code().to_string(),
        };
        let mut text = format!("{code} {}", quoted(error.error.message()));
        if !error.arguments.is_empty() {
            let _ = write!(text, " % ({})", namer.list(&error.arguments, &[]));
        }
        text
    }

    fn leave(&mut self, id: StepId, depth: usize, verb: &str, out: u16, values: &[Expr]) {
        let mut text = match out {
            0 => String::new(),
            1 => "1 loop out".to_string(),
            out => format!("{out} loops out"),
        };
        if !values.is_empty() {
            let _ = write!(text, "with {}", self.namer.list(values, &[]));
        }
        self.head(id, depth, verb, &text);
    }

    fn branch(&mut self, id: StepId, step: &Step, depth: usize) {
        let Step::If { condition, then, otherwise, phis } = step else {
            return;
        };
        let namer = self.namer;
        self.head(id, depth, "if", &namer.expr(condition, &[]));
        self.block(then, depth + 1);
        if !otherwise.is_empty() {
            self.more(depth, "else");
            self.block(otherwise, depth + 1);
        }
        for phi in phis {
            let (then, otherwise) = (namer.expr(&phi.then, &[]), namer.expr(&phi.otherwise, &[]));
            let out = namer.register(phi.out);
            self.more(depth, &format!("merge    {out} := {then} | {otherwise}"));
        }
    }

    fn any_loop(&mut self, id: StepId, step: &Step, depth: usize) {
        let namer = self.namer;
        let (verb, head) = loop_head(namer, step);
        self.head(id, depth, verb, &head);
        if let Step::ForRows { query, .. } = step {
            self.query(query, depth);
        }
        let carried = visit::carried(step);
        for Carried { register, initial, .. } in carried {
            let (register, initial) = (namer.register(*register), namer.expr(initial, &[]));
            self.more(depth + 1, &format!("carry    {register} := {initial}"));
        }
        for body in visit::blocks(step).into_iter().flatten() {
            self.block(body, depth + 1);
        }
        for Carried { register, next, .. } in carried {
            let (register, next) = (namer.register(*register), namer.expr(next, &[]));
            self.more(depth + 1, &format!("next     {register} := {next}"));
        }
    }

    fn query(&mut self, query: &crate::query::Query, depth: usize) {
        let lines = self.namer.query(query);
        for (inner, line) in lines {
            self.more(depth + 2 + inner, &line);
        }
    }
}

/// The first line of a loop.
fn loop_head(namer: &Namer<'_>, step: &Step) -> (&'static str, String) {
    match step {
        Step::While { condition, .. } => ("loop", format!("while {}", namer.expr(condition, &[]))),
        Step::ForRange { register, first, last, step, reverse, .. } => {
            let (first, last) = (namer.expr(first, &[]), namer.expr(last, &[]));
            let direction = if *reverse { "down to" } else { "to" };
            let register = namer.register(*register);
            let mut head = format!("{register} from {first} {direction} {last}");
            if *step != Expr::Const(types::Value::Int(1)) {
                let _ = write!(head, " by {}", namer.expr(step, &[]));
            }
            ("for", head)
        }
        Step::ForEach { register, array, .. } => {
            let array = namer.expr(array, &[]);
            ("for", format!("{} of {array}", namer.register(*register)))
        }
        Step::ForRows { row, .. } => {
            let row: Vec<&str> = row.iter().map(|r| namer.register(*r)).collect();
            ("for", format!("({}) in", row.join(", ")))
        }
        _ => ("", String::new()),
    }
}

/// A command's expression, with its inputs in place of their numbers.
fn with_inputs(expr: &Expr, inputs: &[Expr]) -> Expr {
    let mut expr = expr.clone();
    expr.map_registers(&mut |register| match inputs.get(usize::from(register.0)) {
        Some(input) => input.clone(),
        None => Expr::Reg(register),
    });
    expr
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `1, 4-6`, counted from 1.
pub(crate) fn numbers(steps: &[StepId]) -> String {
    let mut ranges: Vec<(StepId, StepId)> = Vec::new();
    for &step in steps {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == step => *last = step,
            _ => ranges.push((step, step)),
        }
    }
    let texts = ranges.into_iter().map(|(first, last)| match last - first {
        0 => (first + 1).to_string(),
        1 => format!("{}, {}", first + 1, last + 1),
        _ => format!("{}-{}", first + 1, last + 1),
    });
    texts.collect::<Vec<_>>().join(", ")
}
