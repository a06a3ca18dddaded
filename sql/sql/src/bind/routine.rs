//! Stored procedures and functions: compiling LANGUAGE sql bodies, and calls.

use std::sync::Arc;

use identity::RoleId;
use procedure::{Column, Expr, Output, Procedure, Query, Step, draws};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::scope::Variable;
use super::state::BoundQuery;
use super::{is_read_only, supports};
use crate::bind::statement::{Program, Statement};
use crate::schema::catalog::{Catalog, Routine};
use crate::settings::session_info::SessionInfo;
use crate::syntax::changes::modifying;
use crate::syntax::names::{bare, fold, object_name};
use crate::syntax::parse::parse;
use crate::syntax::parsed::{Body, Parsed};
use crate::syntax::routine::{
    CreateFunction, ParameterMode, Returns, RoutineKind, parameter_columns, result_columns,
};

/// Whether a routine does not compile for want of something that may still be made.
pub(crate) fn is_missing(error: &Error) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_OBJECT,
    ]
    .contains(&error.code())
}

/// What trailing parameters are when a call leaves them out.
pub(crate) fn parameter_defaults(
    catalog: &Catalog,
    function: &CreateFunction,
) -> Result<Vec<Option<Expr>>> {
    let session = SessionInfo::default();
    let mut defaults = Vec::new();
    for parameter in function.parameters.iter().filter(|p| p.mode != ParameterMode::Out) {
        let mut binder = Binder::new(catalog, &session, Vec::new());
        defaults.push(match &parameter.default {
            None => None,
            Some(expr) => {
                binder.clause = "in DEFAULT expressions";
                binder.bound_by_text(expr.to_string().len());
                let typed = binder.bare_expression(expr)?;
                Some(binder.assign(typed, &parameter.name, &parameter.data_type)?)
            }
        });
        if !binder.steps.is_empty() {
            return Err(Error::unsupported("a subquery as a parameter's default"));
        }
    }
    Ok(defaults)
}

/// Compiles the body of a routine of LANGUAGE sql.
pub(crate) fn compile_sql(
    catalog: &Catalog,
    function: &CreateFunction,
    role: Option<RoleId>,
) -> Result<Procedure> {
    if function.parameters.iter().any(|p| p.mode != ParameterMode::In) {
        return Err(Error::unsupported("OUT parameters in LANGUAGE sql")
            .with_hint("Use RETURNS TABLE (…), or LANGUAGE plpgsql."));
    }
    let session = SessionInfo::default();
    let types: Vec<_> = function.input_types().cloned().map(Some).collect();
    let mut binder = Binder::new(catalog, &session, types);
    binder.bound_by_text(function.body.len());
    role.into_iter().for_each(|role| binder.check_role(role));
    for (i, parameter) in function.parameters.iter().enumerate() {
        binder.variables.push(Variable {
            qualifier: bare(&function.name).to_owned(),
            name: parameter.name.clone(),
            qualified_only: false,
            value: Expr::Reg(procedure::Reg(i as u16)),
            data_type: parameter.data_type.clone(),
        });
    }
    let columns = result_columns(function);
    let mut statements = parse(&function.body)?;
    let mut resolve = |parsed: &mut Parsed| function.path.resolve(catalog, parsed).map(drop);
    statements.iter_mut().try_for_each(&mut resolve)?;
    statements.iter().try_for_each(Parsed::reads_newest)?;
    for (i, parsed) in statements.iter().enumerate() {
        let last = i + 1 == statements.len();
        let outer = binder.begin_part();
        match &parsed.body {
            Body::Statement(statement) => {
                binder.sql_statement(statement, &columns, last, function)?
            }
            Body::Empty => {}
            _ => return Err(Error::unsupported("this statement in a function")),
        }
        binder.end_part(outer);
    }
    if binder.session_dependent {
        return Err(Error::unsupported("a session's own functions in a routine"));
    }
    let steps = std::mem::take(&mut binder.steps);
    let read_only = is_read_only(&steps);
    let mut procedure = Procedure {
        name: function.name.clone(),
        parameters: parameter_columns(function),
        registers: binder.next_register,
        register_names: Box::default(),
        body: steps.into(),
        output: match columns.is_empty() {
            true => Output::Tag,
            false => Output::Rows(columns),
        },
        tag: "CALL".into(),
        read_only,
        draws: false,
        sequences: Box::default(),
    };
    draws::place(&mut procedure)?;
    Ok(procedure)
}

impl Binder<'_> {
    fn sql_statement(
        &mut self,
        statement: &ast::Statement,
        columns: &[Column],
        last: bool,
        function: &CreateFunction,
    ) -> Result<()> {
        let returns = last && !columns.is_empty();
        match statement {
            ast::Statement::Query(query) if modifying(query).is_none() => {
                let bound = self.query(query)?;
                match returns {
                    true => self.return_query(bound, columns, function),
                    // Run for what it may raise.
                    false => self.exhaust(bound),
                }
            }
            ast::Statement::Query(_)
            | ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_) => {
                let dml = self.dml(statement, returns)?;
                let returned = dml.columns.map(|c| c.len());
                match returns && returned != Some(columns.len()) {
                    true => Err(return_mismatch(function)),
                    false => Ok(()),
                }
            }
            _ => Err(Error::unsupported("this statement in a function")),
        }
    }

    fn exhaust(&mut self, bound: BoundQuery) -> Result<()> {
        let row = self.registers(bound.columns.len())?;
        self.steps.push(Step::ForRows {
            query: bound.query,
            row: row.into(),
            body: Box::default(),
            carried: Box::default(),
        });
        Ok(())
    }

    fn return_query(
        &mut self,
        bound: BoundQuery,
        columns: &[Column],
        function: &CreateFunction,
    ) -> Result<()> {
        if bound.columns.len() != columns.len() {
            return Err(return_mismatch(function));
        }
        let mut values = Vec::with_capacity(columns.len());
        for (i, (from, to)) in bound.columns.iter().zip(columns).enumerate() {
            let typed = Typed::new(Expr::Column(i as u16), from.data_type.clone());
            let value = self.coerce(typed, &to.data_type, CastContext::Assignment);
            values.push(value.map_err(|_| return_mismatch(function))?);
        }
        let query = Query::Project { input: Box::new(bound.query), expressions: values.into() };
        if !matches!(function.returns, Returns::Scalar(_)) {
            self.steps.push(Step::EmitQuery { query });
            return Ok(());
        }
        // One row always; NULL where the query has none.
        let outputs = self.registers(columns.len())?;
        let found = self.register()?;
        self.steps.push(Step::Fetch {
            query,
            outputs: outputs.clone().into(),
            found,
            strict: false,
        });
        self.steps.push(Step::Emit { values: outputs.into_iter().map(Expr::Reg).collect() });
        Ok(())
    }

    /// `CALL p(…)`.
    pub(super) fn call_statement(&mut self, call: &ast::Function) -> Result<(Statement, Output)> {
        let name = object_name(&call.name)?;
        let routine = self.routine_called(&name, call)?;
        if routine.definition.kind != RoutineKind::Procedure {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{name}(…) is not a procedure"),
            )
            .with_hint("To call a function, use SELECT."));
        }
        let arguments = self.routine_arguments(&routine, call)?;
        let procedure = self.called(&routine)?;
        let statement = Statement::Program(Program::Call {
            procedure: procedure.clone(),
            arguments,
            tag: "CALL",
        });
        Ok((statement, procedure.output.clone()))
    }

    /// Its program, for those who call it.
    fn called(&self, routine: &Routine) -> Result<Arc<Procedure>> {
        routine.procedure_for(self.catalog, self.checked.as_ref().map(|checked| checked.role()))
    }

    fn routine_called(&mut self, name: &str, call: &ast::Function) -> Result<Arc<Routine>> {
        self.catalog.routine(name).cloned().ok_or_else(|| {
            let arguments = match &call.args {
                ast::FunctionArguments::List(list) => list.args.len(),
                _ => 0,
            };
            Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("procedure {name} with {arguments} arguments does not exist"),
            )
            .with_hint("No procedure matches the given name and argument types. You might need to add explicit type casts.")
        })
    }

    /// `SELECT f(…)` and `SELECT * FROM f(…)` where f is stored; `None` for every other query.
    pub(super) fn select_call(
        &mut self,
        query: &ast::Query,
    ) -> Result<Option<(Statement, Output)>> {
        let Some((call, alias)) = lone_call(query) else {
            return self.past_columns(query);
        };
        let Ok(name) = object_name(&call.name) else {
            return Ok(None);
        };
        let Some(routine) = self.catalog.routine(&name).cloned() else {
            return self.past_call(&name, &call);
        };
        if routine.definition.kind != RoutineKind::Function {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{name}(…) is a procedure"),
            )
            .with_hint("To call a procedure, use CALL."));
        }
        let arguments = self.routine_arguments(&routine, &call)?;
        let procedure = self.called(&routine)?;
        let mut output = match &procedure.output {
            Output::Rows(columns) => columns.clone(),
            Output::Tag => vec![Column { name: name.clone(), data_type: DataType::Void }],
        };
        if let (Some(alias), [column]) = (alias, output.as_mut_slice()) {
            column.name = alias;
        }
        let statement = Statement::Program(Program::Call { procedure, arguments, tag: "SELECT" });
        Ok(Some((statement, Output::Rows(output))))
    }

    fn routine_arguments(&mut self, routine: &Routine, call: &ast::Function) -> Result<Vec<Expr>> {
        let definition = &routine.definition;
        let given = self.call_arguments(&super::Scope::default(), call)?;
        let types: Vec<DataType> = definition.input_types().cloned().collect();
        let shown: Vec<String> = given.iter().map(|t| t.data_type.to_string()).collect();
        let mismatch = || {
            let wanted: Vec<String> = types.iter().map(DataType::to_string).collect();
            let word = match definition.kind {
                RoutineKind::Procedure => "procedure",
                RoutineKind::Function => "function",
            };
            Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("{word} {}({}) does not exist", definition.name, shown.join(", ")),
            )
            .with_hint(format!("There is {}({}).", definition.name, wanted.join(", ")))
        };
        if given.len() > types.len() {
            return Err(mismatch());
        }
        let given_count = given.len();
        let mut arguments = Vec::with_capacity(types.len());
        for (argument, to) in given.into_iter().zip(&types) {
            supports(&argument.data_type, to).then_some(()).ok_or_else(mismatch)?;
            arguments.push(self.coerce(argument, to, CastContext::Assignment)?);
        }
        for place in given_count..types.len() {
            let default = routine.defaults.get(place).cloned().flatten();
            let default = default.ok_or_else(mismatch)?;
            arguments.push(self.drawn_anew(default));
        }
        if !self.steps.is_empty() {
            return Err(Error::unsupported("a subquery as an argument"));
        }
        Ok(arguments)
    }
}

/// The only call in `SELECT f(…)` or `SELECT * FROM f(…)`, with its column's alias.
fn lone_call(query: &ast::Query) -> Option<(ast::Function, Option<String>)> {
    let select = plain_select(query)?;
    match (select.projection.as_slice(), select.from.as_slice()) {
        ([ast::SelectItem::UnnamedExpr(ast::Expr::Function(call))], []) => {
            Some((call.clone(), None))
        }
        ([ast::SelectItem::ExprWithAlias { expr: ast::Expr::Function(call), alias }], []) => {
            Some((call.clone(), Some(fold(alias))))
        }
        ([ast::SelectItem::Wildcard(_)], [from]) if from.joins.is_empty() => {
            let (name, args) = match &from.relation {
                ast::TableFactor::Table { name, args: Some(args), .. } => (name, &args.args),
                ast::TableFactor::Function { name, args, .. } => (name, args),
                _ => return None,
            };
            Some((function_call(name, args), None))
        }
        _ => None,
    }
}

/// A SELECT of nothing but a list and FROM.
pub(super) fn plain_select(query: &ast::Query) -> Option<&ast::Select> {
    let ast::SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let is_plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && select.selection.is_none()
        && select.distinct.is_none();
    is_plain.then_some(&**select)
}

pub(super) fn function_call(name: &ast::ObjectName, args: &[ast::FunctionArg]) -> ast::Function {
    ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: args.to_vec(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

fn return_mismatch(function: &CreateFunction) -> Error {
    let wanted: Vec<String> =
        result_columns(function).iter().map(|c| c.data_type.to_string()).collect();
    Error::new(
        SqlState(*b"42P13"),
        format!("return type mismatch in function declared to return {}", wanted.join(", ")),
    )
}
