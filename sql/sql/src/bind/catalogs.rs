//! Queries over system catalogs, by whichever side knows them ([`System`]).
//!
//! Only a session's query has them at hand ([`Binder::system`]): what the ledger holds is bound
//! without, and so finds none of these relations, functions and types. A system table is read
//! through [`Query::Around`], a function called through [`Function::Around`], and both are numbers
//! that the other side has given out and answers when the plan runs.

use procedure::{Column, Expr, Function, Interrupt, Output, Procedure, Query, Step};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, Value};

use super::binder::{Binder, Typed, as_shown, fold, labels, network_of};
use super::digits::as_digits;
use super::relations::From;
use super::scope::ScopeColumn;
use super::system::{
    System, SystemCall, SystemColumn, SystemRelation, SystemRows, as_array, counts_from_0,
    is_of_system, same_values,
};
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::fold as fold_name;
use crate::syntax::walk;

/// Expressions, queries and columns that a statement may come to, with those of the views that it
/// reads: they are memory before anything runs.
const BOUND_MAX: usize = 200_000;

/// Binds a query that may read system catalogs.
///
/// # Errors
/// What is wrong with it, or 0A000 for what has no meaning there.
pub fn bind_system_query(
    (catalog, session): (&Catalog, &SessionInfo),
    query: &ast::Query,
    parameters: &[Option<DataType>],
    system: &dyn System,
    interrupt: Option<&dyn Interrupt>,
) -> Result<(Procedure, Vec<Column>)> {
    if locks(query) {
        return Err(Error::unsupported("FOR UPDATE and FOR SHARE beside system catalogs"));
    }
    let mut types = parameters.to_vec();
    types.resize(types.len().max(placeholders(query)), None);
    let known = |t: Option<DataType>| t.filter(|t| *t != DataType::Unknown);
    let mut binder = Binder::new(catalog, session, types.into_iter().map(known).collect());
    binder.system = Some(system);
    binder.interrupt = interrupt;
    binder.bound_to(BOUND_MAX);
    let bound = binder.query(query)?;
    binder.steps.push(Step::EmitQuery { query: bound.query });
    let output = Output::Rows(bound.columns.clone());
    let procedure = binder.procedure("system catalogs", output, "SELECT")?;
    match procedure.draws || !procedure.sequences.is_empty() || !procedure.read_only {
        true => Err(Error::unsupported("random values and sequences beside system catalogs")),
        false => Ok((procedure, bound.columns)),
    }
}

/// Whether it, or a query within it, locks rows.
fn locks(query: &ast::Query) -> bool {
    struct Locks;
    impl ast::Visitor for Locks {
        type Break = ();

        fn pre_visit_query(&mut self, query: &ast::Query) -> std::ops::ControlFlow<()> {
            match query.locks.is_empty() {
                true => std::ops::ControlFlow::Continue(()),
                false => std::ops::ControlFlow::Break(()),
            }
        }
    }
    walk::read(query, &mut Locks).is_break()
}

/// The highest number of a parameter.
fn placeholders(query: &ast::Query) -> usize {
    struct Highest(usize);
    impl ast::Visitor for Highest {
        type Break = ();

        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> std::ops::ControlFlow<()> {
            if let ast::Value::Placeholder(name) = &value.value {
                let number = name.strip_prefix('$').and_then(|n| n.parse::<u16>().ok());
                self.0 = self.0.max(number.map_or(0, usize::from));
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut highest = Highest(0);
    let _ = walk::read(query, &mut highest);
    highest.0
}

impl Binder<'_> {
    /// A conversion that depends on what system catalogs hold, or whose values do; `None`: it is
    /// one of others.
    pub(super) fn system_conversion(
        &mut self,
        expr: &Expr,
        from: &DataType,
        to: &DataType,
    ) -> Result<Option<Expr>> {
        let Some(system) = self.system else { return Ok(None) };
        if !is_of_system(from) && !is_of_system(to) {
            return Ok(None);
        }
        Ok(Some(match expr {
            Expr::Const(value) => Expr::Const(system.convert(value, from, to)?),
            expr if same_values(from, to) => expr.clone(),
            expr => Expr::Call {
                function: Function::Around(system.conversion(from, to)),
                arguments: [expr.clone()].into(),
                result: to.clone(),
            },
        }))
    }

    /// A function of system catalogs that means more than any other of its name.
    pub(super) fn own_system_call(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        let types: Vec<DataType> = arguments.iter().map(|a| a.data_type.clone()).collect();
        match self.system.is_some_and(|system| system.is_own(name, &types)) {
            true => self.system_call(name, arguments),
            false => Ok(None),
        }
    }

    pub(super) fn system_call(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        let types: Vec<DataType> = arguments.iter().map(|a| a.data_type.clone()).collect();
        let call = self.system.and_then(|system| system.function(name, &types));
        let Some(SystemCall { number, takes, gives }) = call else { return Ok(None) };
        let inputs = self.system_inputs(arguments, &takes)?;
        let function = Function::Around(number);
        let expr = Expr::Call { function, arguments: inputs.into(), result: gives.clone() };
        Ok(Some(Typed::new(expr, gives)))
    }

    fn system_inputs(&mut self, arguments: &[Typed], takes: &[DataType]) -> Result<Vec<Expr>> {
        let mut inputs = Vec::with_capacity(arguments.len());
        for (argument, to) in arguments.iter().zip(takes) {
            inputs.push(self.coerce(argument.clone(), to, CastContext::Explicit)?);
        }
        Ok(inputs)
    }

    /// A call that gives rows, and their columns.
    pub(super) fn system_rows(
        &mut self,
        name: &str,
        arguments: &[Typed],
        as_record: bool,
    ) -> Result<Option<(Query, Vec<Column>)>> {
        let types: Vec<DataType> = arguments.iter().map(|a| a.data_type.clone()).collect();
        let call = self.system.and_then(|system| system.row_function(name, &types, as_record));
        let Some(SystemRows { number, takes, columns }) = call else { return Ok(None) };
        let inputs = self.system_inputs(arguments, &takes)?.into();
        let width = if as_record { 1 } else { columns.len() as u16 };
        let function = procedure::query::RowFunction::Around { call: number, width };
        Ok(Some((Query::Call { function, inputs }, columns)))
    }

    /// The system's relation that a name in FROM means.
    pub(super) fn system_relation(&self, name: &ast::ObjectName) -> Option<SystemRelation> {
        let system = self.system?;
        let parts: Vec<String> = name.0.iter().filter_map(part).collect();
        match parts.as_slice() {
            [name] if self.ctes.iter().any(|cte| cte.name == *name) => None,
            [name] => system.relation(None, name),
            [schema, name] | [_, schema, name] => system.relation(Some(schema), name),
            _ => None,
        }
    }

    /// The name of a function, in whichever schema of the system.
    pub(super) fn called_name(&self, name: &ast::ObjectName) -> Result<String> {
        if self.system.is_some()
            && let [schema, name] = name.0.as_slice()
            && part(schema).is_some_and(|schema| schema == "information_schema")
            && let Some(name) = part(name)
        {
            return Ok(name);
        }
        crate::syntax::names::function_name(name)
    }

    pub(crate) fn type_named(&self, name: &ast::DataType) -> Result<DataType> {
        match self.system {
            Some(system) => system.data_type(name),
            None => self.catalog.data_type(name),
        }
    }

    /// An element of what counts from 0, whose elements are those of the array it is.
    pub(super) fn element_from_0(&self, array: &Typed, index: Expr) -> Option<Typed> {
        let DataType::Array(element) = as_array(&array.data_type) else { return None };
        if !counts_from_0(&array.data_type) {
            return None;
        }
        let index = Box::new(fold(Expr::Binary {
            op: procedure::BinaryOp::Add,
            left: Box::new(index),
            right: Box::new(Expr::Const(Value::Int(1))),
            result: DataType::Int8,
        }));
        let expr = Expr::Element { array: Box::new(array.expr.clone()), index };
        Some(Typed::new(expr, *element))
    }

    /// What functions of all types take as a text, as a text.
    pub(super) fn shown(&mut self, typed: Typed) -> Result<Typed> {
        if let Some(of) = typed.data_type.enum_type().cloned() {
            self.stable = true;
            return Ok(labels(typed.expr, &typed.data_type, &of));
        }
        if typed.data_type == DataType::Array(Box::new(DataType::Float4)) {
            return Ok(as_digits(typed, &DataType::Array(Box::new(DataType::Text))));
        }
        let is_shown_otherwise = network_of(&typed.data_type).is_some()
            || matches!(typed.data_type, DataType::Char(_) | DataType::Float4);
        if is_shown_otherwise {
            let result = match typed.data_type {
                DataType::Array(_) => DataType::Array(Box::new(DataType::Text)),
                _ => DataType::Text,
            };
            return Ok(Typed::new(as_shown(typed.expr, &typed.data_type), result));
        }
        let is_shown = match &typed.data_type {
            DataType::Record(_) => true,
            other => self.system.is_some() && is_of_system(other),
        };
        if !is_shown {
            return Ok(typed);
        }
        let expr = self.coerce(typed, &DataType::Text, CastContext::Explicit)?;
        Ok(Typed::new(expr, DataType::Text))
    }

    /// What an operator of values that are stored takes.
    pub(super) fn stored(&self, typed: Typed) -> Typed {
        match self.system {
            Some(_) => Typed { data_type: typed.data_type.stored(), ..typed },
            None => typed,
        }
    }
}

fn part(part: &ast::ObjectNamePart) -> Option<String> {
    match part {
        ast::ObjectNamePart::Identifier(ident) => Some(fold_name(ident)),
        ast::ObjectNamePart::Function(_) => None,
    }
}

impl From {
    pub fn add_system(&mut self, relation: SystemRelation, name: &str, is_renamed: bool) {
        let offset = self.scope.width();
        let columns: Vec<ScopeColumn> = relation.columns.iter().map(of_system).collect();
        let width = columns.len() as u16;
        self.scope.add(name, columns, None);
        if let Some(added) = self.scope.relations.last_mut() {
            added.schema = (!is_renamed).then_some(relation.schema);
            added.key = relation.key;
            // Every relation's `tableoid` is there.
            let is_beside = |column: &ScopeColumn| column.is_beside;
            added.presence = added.columns.iter().position(is_beside).map(|place| place as u16);
        }
        let source = super::items::Source::System(relation.number);
        self.items.push(super::items::Item::new(source, offset, width));
    }
}

fn of_system(column: &SystemColumn) -> ScopeColumn {
    let is_beside = column.is_beside;
    ScopeColumn { is_beside, ..ScopeColumn::new(column.name.to_owned(), column.data_type.clone()) }
}
