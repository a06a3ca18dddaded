//! The builder: procedures written in Rust, where no SQL is needed.
//!
//! Tables and columns go by name, registers are handed out as expressions, and blocks are closures.
//! A name that does not exist is told at the end, by [`Builder::build`], so that a procedure reads
//! from top to bottom:
//!
//! ```
//! # use std::sync::Arc;
//! # use procedure::build::{add, Builder, Tables};
//! # use types::{ColumnSchema, DataType, TableId, TableSchema};
//! # let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
//! # let tables: Tables = [Arc::new(TableSchema {
//! #     id: TableId(1), name: "checking".into(), columns: vec![column("id"), column("bal")],
//! #     primary_key: vec![0], indexes: vec![], hidden_row_id: false,
//! # })].into_iter().collect();
//! let int = DataType::Int8;
//! let mut p = Builder::new(&tables, "deposit", &[("id", int.clone()), ("amount", int.clone())]);
//! let [id, amount] = p.arguments();
//! let more = add(p.column("checking", "bal"), amount, &int);
//! let found = p.update("checking", &[id], vec![("bal", more)]);
//! p.emit(vec![found]);
//! let procedure = p.build().unwrap();
//! # assert!(!procedure.read_only);
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use types::{ColumnId, DataType, Error, Result, SqlState, TableSchema, Value};

use crate::access::CommandCode;
use crate::analysis::Footprint;
use crate::bound::long_columns;
use crate::expr::{BinaryOp, Expr, Reg};
use crate::functions::Function;
use crate::query::Query;
use crate::step::{Block, Carried, Column, OnError, Output, Phi, Procedure, Step};

/// The tables that procedures are built on.
#[derive(Clone, Default, Debug)]
pub struct Tables(BTreeMap<String, Arc<TableSchema>>);

impl FromIterator<Arc<TableSchema>> for Tables {
    fn from_iter<I: IntoIterator<Item = Arc<TableSchema>>>(tables: I) -> Tables {
        Tables(tables.into_iter().map(|table| (table.name.clone(), table)).collect())
    }
}

/// See the module's documentation.
pub struct Builder<'t> {
    tables: &'t Tables,
    name: String,
    parameters: Vec<Column>,
    output: Output,
    registers: u16,
    steps: Vec<Step>,
    /// The first mistake.
    fault: Option<Error>,
}

impl<'t> Builder<'t> {
    pub fn new(tables: &'t Tables, name: &str, parameters: &[(&str, DataType)]) -> Builder<'t> {
        Builder {
            tables,
            name: name.to_owned(),
            parameters: columns(parameters),
            output: Output::Tag,
            registers: parameters.len() as u16,
            steps: Vec::new(),
            fault: None,
        }
    }

    /// The columns of the result; without them there is none.
    pub fn returns(&mut self, result: &[(&str, DataType)]) {
        self.output = Output::Rows(columns(result));
    }

    /// All arguments, in order.
    pub fn arguments<const N: usize>(&mut self) -> [Expr; N] {
        if N != self.parameters.len() {
            let (has, name) = (self.parameters.len(), &self.name);
            self.fault(format!("{name} has {has} parameters, not {N}"));
        }
        std::array::from_fn(|n| Expr::Reg(Reg(n as u16)))
    }

    pub fn build(self) -> Result<Procedure> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let body: Block = self.steps.into();
        Ok(Procedure {
            read_only: Footprint::of_block(&body).is_read_only(),
            name: self.name,
            parameters: self.parameters,
            registers: self.registers,
            register_names: Box::default(),
            body,
            output: self.output,
            tag: "CALL".to_owned(),
            draws: false,
            sequences: Box::default(),
        })
    }

    fn fault(&mut self, what: String) {
        self.fault.get_or_insert(Error::new(SqlState::UNDEFINED_OBJECT, what));
    }

    fn table(&mut self, name: &str) -> Arc<TableSchema> {
        let found = self.tables.0.get(name).cloned();
        found.unwrap_or_else(|| {
            self.fault(format!("there is no table \"{name}\""));
            Arc::new(TableSchema {
                id: types::TableId(0),
                name: name.to_owned(),
                columns: Vec::new(),
                primary_key: Vec::new(),
                indexes: Vec::new(),
                hidden_row_id: false,
            })
        })
    }

    fn column_id(&mut self, table: &TableSchema, column: &str) -> ColumnId {
        table.column(column).unwrap_or_else(|| {
            self.fault(format!("there is no column \"{column}\" in \"{}\"", table.name));
            0
        })
    }

    fn column_ids(&mut self, table: &TableSchema, columns: &[&str]) -> Box<[ColumnId]> {
        columns.iter().map(|column| self.column_id(table, column)).collect()
    }

    /// A column of the row that an update changes, for the values it assigns.
    pub fn column(&mut self, table: &str, column: &str) -> Expr {
        let table = self.table(table);
        Expr::Column(self.column_id(&table, column))
    }

    fn new_registers(&mut self, count: usize) -> Reg {
        let first = Reg(self.registers);
        match self.registers.checked_add(count as u16) {
            Some(registers) => self.registers = registers,
            None => self.fault(format!("{} needs too many registers", self.name)),
        }
        first
    }

    fn new_register(&mut self) -> Reg {
        self.new_registers(1)
    }

    /// Evaluates once.
    pub fn assign(&mut self, value: Expr) -> Expr {
        let out = self.new_register();
        self.steps.push(Step::Let { out, value });
        Expr::Reg(out)
    }

    /// A value read by primary key: the columns, NULL where there is no row, and whether there is.
    pub fn read<const N: usize>(
        &mut self,
        table: &str,
        key: &[Expr],
        columns: [&str; N],
    ) -> ([Expr; N], Expr) {
        let (values, found) = self.read_columns(table, key, &columns);
        (std::array::from_fn(|n| values[n].clone()), found)
    }

    /// The same for any number of columns.
    pub fn read_columns(
        &mut self,
        table: &str,
        key: &[Expr],
        columns: &[&str],
    ) -> (Vec<Expr>, Expr) {
        let table = self.table(table);
        let columns = self.column_ids(&table, columns);
        let (out, found) = (self.new_registers(columns.len()), self.new_register());
        let values = (0..columns.len() as u16).map(|n| Expr::Reg(Reg(out.0 + n)));
        let values = values.collect();
        let key = key.to_vec().into();
        self.steps.push(Step::Read { table: table.id, key, columns, out, found });
        (values, Expr::Reg(found))
    }

    /// An update by command; values see the old row by [`Builder::column`]. Yields whether there is
    /// a row.
    pub fn update(&mut self, table: &str, key: &[Expr], set: Vec<(&str, Expr)>) -> Expr {
        let table = self.table(table);
        let mut inputs: Vec<Expr> = Vec::new();
        let assignments = set.into_iter().map(|(column, mut value)| {
            value.map_registers(&mut |register| {
                let input = Expr::Reg(register);
                let known = inputs.iter().position(|known| *known == input);
                if known.is_none() {
                    inputs.push(input);
                }
                Expr::Reg(Reg(known.unwrap_or(inputs.len() - 1) as u16))
            });
            (self.column_id(&table, column), value)
        });
        let code = CommandCode::on(&table.columns, assignments.collect(), Box::default());
        let found = self.new_register();
        self.steps.push(Step::Update {
            table: table.id,
            key: key.to_vec().into(),
            code: Arc::new(code),
            inputs: inputs.into(),
            found,
        });
        Expr::Reg(found)
    }

    /// Adds a row, NULL where no value is given. That its key is taken rejects the transaction.
    pub fn insert(&mut self, table: &str, row: Vec<(&str, Expr)>) {
        let table = self.table(table);
        let visible = table.columns.len() - usize::from(table.hidden_row_id);
        let mut values = vec![Expr::Const(Value::Null); visible];
        for (column, value) in row {
            let column = usize::from(self.column_id(&table, column));
            if let Some(place) = values.get_mut(column) {
                *place = value;
            }
        }
        let inserted = self.new_register();
        self.steps.push(Step::Insert {
            table: table.id,
            key: table.primary_key.clone().into(),
            hidden_row_id: table.hidden_row_id,
            values: values.into(),
            inserted,
        });
        if !table.hidden_row_id {
            let message = format!("there is a row of this key in \"{}\"", table.name);
            self.require(Expr::Reg(inserted), OnError::new(SqlState::UNIQUE_VIOLATION, &message));
        }
    }

    /// Yields whether there was a row.
    pub fn delete(&mut self, table: &str, key: &[Expr]) -> Expr {
        let table = self.table(table);
        let found = self.new_register();
        let (key, long) = (key.to_vec().into(), long_columns(&table.columns));
        self.steps.push(Step::Delete { table: table.id, key, long, found });
        Expr::Reg(found)
    }

    /// A query over the entries of an index that begin with `prefix`, in index order. The index is
    /// the primary key where it has no name.
    pub fn scan(
        &mut self,
        table: &str,
        index: Option<&str>,
        prefix: &[Expr],
        columns: &[&str],
    ) -> Query {
        let bound = || Bound::Included(prefix.to_vec().into());
        self.range(table, index, [bound(), bound()], columns)
    }

    /// The same between two bounds.
    pub fn range(
        &mut self,
        table: &str,
        index: Option<&str>,
        [low, high]: [Bound<Box<[Expr]>>; 2],
        columns: &[&str],
    ) -> Query {
        let table = self.table(table);
        let place = index.map(|name| table.indexes.iter().position(|index| index.name == name));
        let (index, indexed) = match place {
            None => (0, &table.primary_key),
            Some(Some(place)) => (place as u16 + 1, &table.indexes[place].columns),
            Some(None) => {
                self.fault(format!("there is no index {index:?} on \"{}\"", table.name));
                (0, &table.primary_key)
            }
        };
        let is_nullable = |column: &ColumnId| table.columns[usize::from(*column)].nullable;
        Query::Scan {
            table: table.id,
            index,
            nullable: indexed.iter().map(is_nullable).collect(),
            low,
            high,
            reverse: false,
            columns: self.column_ids(&table, columns),
            filter: None,
        }
    }

    /// A query for the row of a key, whose expressions may see an outer row.
    pub fn get(
        &mut self,
        table: &str,
        key: &[Expr],
        columns: &[&str],
        filter: Option<Expr>,
    ) -> Query {
        let table = self.table(table);
        let columns = self.column_ids(&table, columns);
        Query::Get { table: table.id, key: key.to_vec().into(), columns, filter }
    }

    /// The first row of a query of `N` columns, NULL where there is none, and whether there is.
    pub fn fetch<const N: usize>(&mut self, query: Query) -> ([Expr; N], Expr) {
        let outputs: [Reg; N] = std::array::from_fn(|_| self.new_register());
        let found = self.new_register();
        self.steps.push(Step::Fetch { query, outputs: outputs.into(), found, strict: false });
        (outputs.map(Expr::Reg), Expr::Reg(found))
    }

    pub fn require(&mut self, condition: Expr, error: OnError) {
        self.steps.push(Step::Require { condition, error });
    }

    /// One row of the result.
    pub fn emit(&mut self, values: Vec<Expr>) {
        self.steps.push(Step::Emit { values: values.into() });
    }

    /// All rows of a query as result.
    pub fn emit_query(&mut self, query: Query) {
        self.steps.push(Step::EmitQuery { query });
    }

    /// The procedure ends here.
    pub fn end(&mut self) {
        self.steps.push(Step::Return);
    }

    fn block(&mut self, build: impl FnOnce(&mut Self)) -> Block {
        let outside = std::mem::take(&mut self.steps);
        build(self);
        std::mem::replace(&mut self.steps, outside).into()
    }

    pub fn when(&mut self, condition: Expr, then: impl FnOnce(&mut Self)) {
        self.when_else(condition, then, |_| {});
    }

    pub fn when_else(
        &mut self,
        condition: Expr,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let (then, otherwise) = (self.block(then), self.block(otherwise));
        let phis = Box::default();
        self.steps.push(Step::If { condition, then, otherwise, phis });
    }

    /// The value of the branch that is taken.
    pub fn select(
        &mut self,
        condition: Expr,
        then: impl FnOnce(&mut Self) -> Expr,
        otherwise: impl FnOnce(&mut Self) -> Expr,
    ) -> Expr {
        let mut values = [Expr::Const(Value::Null), Expr::Const(Value::Null)];
        let [of_then, of_otherwise] = &mut values;
        let then = self.block(|builder| *of_then = then(builder));
        let otherwise = self.block(|builder| *of_otherwise = otherwise(builder));
        let out = self.new_register();
        let [of_then, of_otherwise] = values;
        let phis = [Phi { out, then: of_then, otherwise: of_otherwise }].into();
        self.steps.push(Step::If { condition, then, otherwise, phis });
        Expr::Reg(out)
    }

    pub fn for_each(&mut self, array: Expr, body: impl FnOnce(&mut Self, Expr)) {
        let register = self.new_register();
        let body = self.block(|builder| body(builder, Expr::Reg(register)));
        self.steps.push(Step::ForEach { register, array, body, carried: Box::default() });
    }

    /// For every row of a query of `N` columns.
    pub fn for_rows<const N: usize>(
        &mut self,
        query: Query,
        body: impl FnOnce(&mut Self, [Expr; N]),
    ) {
        let row: [Reg; N] = std::array::from_fn(|_| self.new_register());
        let body = self.block(|builder| body(builder, row.map(Expr::Reg)));
        self.steps.push(Step::ForRows { query, row: row.into(), body, carried: Box::default() });
    }

    /// Counts from `first` to `last`.
    pub fn for_range(&mut self, [first, last]: [Expr; 2], body: impl FnOnce(&mut Self, Expr)) {
        let counter = self.new_register();
        let body = self.block(|builder| body(builder, Expr::Reg(counter)));
        self.counted(counter, [first, last], body, Box::default());
    }

    /// The same with a value that is carried from turn to turn: `body` yields the next one, and the
    /// last one is what comes out.
    pub fn for_range_carrying(
        &mut self,
        bounds: [Expr; 2],
        initial: Expr,
        body: impl FnOnce(&mut Self, Expr, Expr) -> Expr,
    ) -> Expr {
        let (counter, register) = (self.new_register(), self.new_register());
        let mut next = initial.clone();
        let body = self.block(|builder| {
            next = body(builder, Expr::Reg(counter), Expr::Reg(register));
        });
        self.counted(counter, bounds, body, [Carried { register, initial, next }].into());
        Expr::Reg(register)
    }

    fn counted(
        &mut self,
        register: Reg,
        [first, last]: [Expr; 2],
        body: Block,
        carried: Box<[Carried]>,
    ) {
        let (step, reverse) = (int(1), false);
        self.steps.push(Step::ForRange { register, first, last, step, reverse, body, carried });
    }

    /// Turns while `condition`, with values that are carried from turn to turn: `body` yields the
    /// next ones, and the last ones are what comes out.
    pub fn while_carrying<const N: usize>(
        &mut self,
        initial: [Expr; N],
        condition: impl FnOnce([Expr; N]) -> Expr,
        body: impl FnOnce(&mut Self, [Expr; N]) -> [Expr; N],
    ) -> [Expr; N] {
        let registers: [Reg; N] = std::array::from_fn(|_| self.new_register());
        let mut next = initial.clone();
        let body = self.block(|builder| next = body(builder, registers.map(Expr::Reg)));
        let values = registers.into_iter().zip(initial.into_iter().zip(next));
        let carried =
            values.map(|(register, (initial, next))| Carried { register, initial, next }).collect();
        let condition = condition(registers.map(Expr::Reg));
        self.steps.push(Step::While { condition, body, carried });
        registers.map(Expr::Reg)
    }

    /// Ends the loop around, of which `values` come out.
    pub fn leave(&mut self, values: Vec<Expr>) {
        self.steps.push(Step::Exit { depth: 0, values: values.into() });
    }

    /// Goes on with the next turn of a [`Builder::for_range`], or of one that carries `value`.
    pub fn next_turn(&mut self, value: Option<Expr>) {
        self.steps.push(Step::Continue { depth: 0, values: value.into_iter().collect() });
    }
}

fn columns(columns: &[(&str, DataType)]) -> Vec<Column> {
    let column = |(name, data_type): &(&str, DataType)| Column {
        name: (*name).to_owned(),
        data_type: data_type.clone(),
    };
    columns.iter().map(column).collect()
}

pub fn int(number: i64) -> Expr {
    Expr::Const(Value::Int(number))
}

pub fn text(text: &str) -> Expr {
    Expr::Const(Value::text(text))
}

fn binary(op: BinaryOp, left: Expr, right: Expr, result: &DataType) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right), result: result.clone() }
}

pub fn add(left: Expr, right: Expr, result: &DataType) -> Expr {
    binary(BinaryOp::Add, left, right, result)
}

pub fn subtract(left: Expr, right: Expr, result: &DataType) -> Expr {
    binary(BinaryOp::Subtract, left, right, result)
}

pub fn multiply(left: Expr, right: Expr, result: &DataType) -> Expr {
    binary(BinaryOp::Multiply, left, right, result)
}

/// Towards zero.
pub fn divide(left: Expr, right: Expr, result: &DataType) -> Expr {
    binary(BinaryOp::Divide, left, right, result)
}

pub fn concat(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::Concat, left, right, &DataType::Text)
}

pub fn less(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::Less, left, right, &DataType::Bool)
}

pub fn at_least(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::GreaterOrEqual, left, right, &DataType::Bool)
}

pub fn choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case { whens: [(condition, then)].into(), otherwise: Box::new(otherwise) }
}

pub fn call(function: Function, arguments: Vec<Expr>, result: &DataType) -> Expr {
    Expr::Call { function, arguments: arguments.into(), result: result.clone() }
}

/// The element of a place counted from 1.
pub fn element(array: &Expr, place: &Expr) -> Expr {
    Expr::Element { array: Box::new(array.clone()), index: Box::new(place.clone()) }
}
