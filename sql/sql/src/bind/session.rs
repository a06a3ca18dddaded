//! Binds statements that act on the session rather than on data (SET, PREPARE, LISTEN, cursors,
//! transaction control), and COPY.

use std::borrow::Cow;
use std::sync::Arc;

use identity::Privileges;
use procedure::Output;
use sqlparser::ast;
use types::{ColumnId, DataType, Error, Result, SqlState, SystemType};

use super::binder::Binder;
use super::load::{Looks, columns_of_own_keys};
use crate::bind::statement::{
    Command, Discarded, Isolation, Program, Statement, TableLock, TransactionModes,
};
use crate::copy::CopyOptions;
use crate::plan::explain::Explained;
use crate::schema::catalog::{Catalog, Commented};
use crate::settings;
use crate::settings::zones;
use crate::syntax::explain::ExplainOptions;
use crate::syntax::names::{fold, object_name, simple_name};

/// LOCK TABLE takes one of these, whatever the mode.
const LOCKS: Privileges = Privileges::SELECT
    .with(Privileges::INSERT)
    .with(Privileges::UPDATE)
    .with(Privileges::DELETE)
    .with(Privileges::TRUNCATE);

impl Binder<'_> {
    pub(super) fn session_statement(
        &mut self,
        statement: &ast::Statement,
        text: &str,
    ) -> Result<(Statement, Output)> {
        use ast::Statement as S;
        let bound = match statement {
            S::StartTransaction { modes, statements, modifier: None, .. }
                if statements.is_empty() =>
            {
                Statement::Command(Command::Begin(transaction_modes(modes)?))
            }
            S::Commit { chain: false, .. } => Statement::Command(Command::Commit),
            S::Rollback { chain: false, savepoint: None } => Statement::Command(Command::Rollback),
            S::Rollback { savepoint: Some(name), .. } => {
                Statement::Command(Command::RollbackTo(fold(name)))
            }
            S::Commit { .. } => Statement::Command(Command::Chain { commits: true }),
            S::Rollback { .. } => Statement::Command(Command::Chain { commits: false }),
            S::Savepoint { name } => Statement::Command(Command::Savepoint(fold(name))),
            S::ReleaseSavepoint { name } => Statement::Command(Command::Release(fold(name))),
            S::Set(set) => set_statement(set)?,
            S::ShowVariable { variable } => return Ok(show(variable)),
            S::Reset(reset) => Statement::Command(Command::Reset(match &reset.reset {
                ast::Reset::ALL => None,
                ast::Reset::ConfigurationParameter(name) => Some(setting_name(name)?),
            })),
            S::Discard { object_type } => Statement::Command(Command::Discard(match object_type {
                ast::DiscardObject::ALL => Discarded::All,
                ast::DiscardObject::PLANS => Discarded::Plans,
                ast::DiscardObject::SEQUENCES => Discarded::Sequences,
                ast::DiscardObject::TEMP => Discarded::Temporary,
            })),
            S::Prepare { name, data_types, .. } => prepare(self.catalog, name, data_types, text)?,
            S::Execute { name: Some(name), parameters, .. } => self.execute(name, parameters)?,
            S::Deallocate { name, .. } => match fold(name).as_str() {
                "all" => Statement::Command(Command::Deallocate(None)),
                name => Statement::Command(Command::Deallocate(Some(name.to_owned()))),
            },
            S::Explain { statement, analyze, options, format, .. } => {
                let given = options.as_deref().unwrap_or_default();
                let options = ExplainOptions::from_ast(*analyze, format.as_ref(), given)?;
                return self.explain(statement, options, text);
            }
            S::Lock(lock) => self.lock_tables(lock)?,
            S::Analyze(_) => Statement::Command(Command::Nothing("ANALYZE")),
            other => accepted(other)?,
        };
        Ok((bound, Output::Tag))
    }

    fn lock_tables(&mut self, lock: &ast::Lock) -> Result<Statement> {
        use ast::LockTableMode as M;
        let exclusive = match lock.lock_mode {
            None | Some(M::ShareRowExclusive | M::Exclusive | M::AccessExclusive) => Some(true),
            Some(M::Share) => Some(false),
            Some(M::AccessShare | M::RowShare | M::RowExclusive | M::ShareUpdateExclusive) => None,
        };
        let mut tables = Vec::with_capacity(lock.tables.len());
        for target in &lock.tables {
            // A view is no more than its text: nothing of it can be locked.
            if self.catalog.view(&object_name(&target.name)?).is_none() {
                let table = self.table(&target.name)?;
                if table.materialized.is_some() {
                    let what = format!("cannot lock relation \"{}\"", table.name());
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what)
                        .with_detail("This operation is not supported for materialized views."));
                }
                self.needs_one_of(&Commented::Table(table.id()), LOCKS);
                tables.push(table.id());
            }
        }
        Ok(Statement::Command(Command::LockTable(TableLock {
            tables,
            exclusive,
            nowait: lock.nowait,
        })))
    }

    fn execute(&mut self, name: &ast::ObjectName, parameters: &[ast::Expr]) -> Result<Statement> {
        let mut arguments = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            arguments.push(self.bare_expression(parameter)?.expr);
        }
        if !self.steps.is_empty() {
            return Err(Error::unsupported("a subquery as an argument"));
        }
        Ok(Statement::Command(Command::Execute { name: simple_name(name)?, arguments }))
    }

    fn explain(
        &mut self,
        statement: &ast::Statement,
        options: ExplainOptions,
        text: &str,
    ) -> Result<(Statement, Output)> {
        if options.analyze {
            return Err(Error::unsupported("EXPLAIN ANALYZE"));
        }
        let lines = match self.statement(statement, text)?.0 {
            Statement::Program(Program::Procedure(procedure) | Program::Call { procedure, .. }) => {
                crate::plan::explain::lines(self.catalog, &procedure)
            }
            _ => return Err(Error::unsupported("EXPLAIN of this statement")),
        };
        let (engine, reason, measured) = ("Program".to_owned(), String::new(), None);
        let lines = options.rows(&Explained { engine, reason, lines, measured });
        let (name, data_type) = ("QUERY PLAN".to_owned(), options.data_type());
        let column = procedure::Column { name, data_type };
        Ok((Statement::Program(Program::Explain(lines)), Output::Rows(vec![column])))
    }

    pub(super) fn copy(
        &mut self,
        source: &ast::CopySource,
        to: bool,
        (options, legacy): (&[ast::CopyOption], &[ast::CopyLegacyOption]),
        text: &str,
    ) -> Result<(Statement, Output)> {
        let options = CopyOptions::from_ast(options, legacy)?;
        let bound = match (source, to) {
            (ast::CopySource::Table { table_name, columns }, false) => {
                return self.copy_in(table_name, columns, options, text);
            }
            (ast::CopySource::Table { table_name, columns }, true) => {
                let table = self.table(table_name)?;
                if table.materialized.is_some() {
                    let what = format!("cannot copy from materialized view \"{}\"", table.name());
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what)
                        .with_hint("Try the COPY (SELECT ...) TO variant."));
                }
                let columns = self.copy_columns(&table, columns)?;
                let shown = columns.iter().copied();
                self.needs_columns(table.id(), Privileges::SELECT, shown);
                let described = columns.iter().map(|c| procedure::Column {
                    name: table.column_name(*c).to_owned(),
                    data_type: table.column_type(*c).clone(),
                });
                let query = super::constraints::rows_of(&table, Vec::new(), &columns)?;
                super::state::BoundQuery::new(query, described.collect())
            }
            (ast::CopySource::Query(query), true) => self.query(query)?,
            (ast::CopySource::Query(_), false) => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "COPY FROM needs a table"));
            }
        };
        let output = Output::Rows(bound.columns);
        let query = super::query_program(text, self, bound.query, output.clone())?;
        let statement = Statement::Program(Program::CopyOut { query: Arc::new(query), options });
        Ok((statement, output))
    }

    fn copy_columns(
        &self,
        table: &crate::schema::catalog::Table,
        names: &[ast::Ident],
    ) -> Result<Vec<ColumnId>> {
        if names.is_empty() {
            return Ok(table.schema.visible_columns().map(|(c, _)| c).collect());
        }
        let column = |name: &ast::Ident| {
            table.column_named(&fold(name)).map_err(|error| self.at(name.span, error))
        };
        names.iter().map(column).collect()
    }

    fn copy_in(
        &mut self,
        name: &ast::ObjectName,
        columns: &[ast::Ident],
        options: CopyOptions,
        text: &str,
    ) -> Result<(Statement, Output)> {
        let table = self.changed_table(name)?;
        let mut listed = self.copy_columns(&table, columns)?;
        let generated = |column: &ColumnId| table.generated(*column).is_some();
        if columns.is_empty() {
            listed.retain(|column| !generated(column));
        } else if let Some(column) = listed.iter().find(|column| generated(*column)) {
            let name = table.column_name(*column);
            return Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("column \"{name}\" is a generated column"),
            )
            .with_detail("Generated columns cannot be used in COPY."));
        }
        let columns = listed;
        self.needs_columns(table.id(), Privileges::INSERT, columns.iter().copied());
        let types: Vec<_> = columns.iter().map(|c| Some(table.column_type(*c).clone())).collect();
        let bound = |types| Binder::new(self.catalog, self.session, types);
        let looks = bound(types.clone()).looks_at_loaded(&table, &columns);
        let at_end = match looks {
            Looks::None => None,
            Looks::AtGiven | Looks::AtAnswers => {
                let type_of = |c: &ColumnId| Some(table.column_type(*c).clone());
                let mut at_end = bound(match looks {
                    Looks::AtGiven => types.clone(),
                    _ => columns_of_own_keys(&table).iter().map(type_of).collect(),
                });
                at_end.look_at_loaded(&table, &columns, looks)?;
                Some(Arc::new(at_end.procedure(text, Output::Tag, "COPY")?))
            }
        };
        let waits = looks != Looks::None;
        let answers = looks == Looks::AtAnswers;
        let mut row = bound(types);
        let insert = |row: &mut Binder<'_>| row.insert_parameters(&table, &columns, answers);
        let shown = row.loaded(&table, waits, insert)?;
        let output = shown.map_or(Output::Tag, Output::Rows);
        let mut row = row.procedure(text, output, "COPY")?;
        // What errors in the data speak of.
        for (parameter, column) in row.parameters.iter_mut().zip(&columns) {
            parameter.name = table.column_name(*column).to_owned();
        }
        let (table, row) = (table.id(), Arc::new(row));
        let statement =
            Statement::Program(Program::CopyIn { table, columns, row, at_end, options });
        Ok((statement, Output::Tag))
    }
}

/// Channels, and what asks for no more than what there is.
fn accepted(statement: &ast::Statement) -> Result<Statement> {
    use ast::Statement as S;
    Ok(match statement {
        S::LISTEN { channel } => Statement::Command(Command::Listen(fold(channel))),
        S::UNLISTEN { channel } => {
            Statement::Command(Command::Unlisten(match channel.value.as_str() {
                "*" if channel.quote_style.is_none() => None,
                _ => Some(fold(channel)),
            }))
        }
        S::NOTIFY { channel, payload } => Statement::Command(Command::Notify {
            channel: fold(channel),
            payload: payload.clone().unwrap_or_default(),
        }),
        S::CreateExtension(extension) => create_extension(extension)?,
        other => return Err(unsupported_statement(other)),
    })
}

/// Those whose functions are built in need no more than to be named.
fn create_extension(extension: &ast::CreateExtension) -> Result<Statement> {
    const BUILT_IN: &[&str] = &["pgcrypto", "plpgsql", "uuid-ossp"];
    let name = fold(&extension.name);
    if !BUILT_IN.contains(&name.as_str()) {
        return Err(Error::unsupported(format_args!("the extension \"{name}\""))
            .with_hint(format!("There are {}, of which some functions.", BUILT_IN.join(", "))));
    }
    match (name.as_str(), extension.if_not_exists) {
        ("plpgsql", false) => {
            let what = "extension \"plpgsql\" already exists";
            Err(Error::new(SqlState::DUPLICATE_OBJECT, what))
        }
        _ => Ok(Statement::Command(Command::Nothing("CREATE EXTENSION"))),
    }
}

fn transaction_modes(modes: &[ast::TransactionMode]) -> Result<TransactionModes> {
    use ast::TransactionIsolationLevel as L;
    let mut bound = TransactionModes::default();
    for mode in modes {
        match mode {
            ast::TransactionMode::AccessMode(access) => {
                bound.read_only = Some(*access == ast::TransactionAccessMode::ReadOnly);
            }
            ast::TransactionMode::IsolationLevel(level) => {
                bound.isolation = Some(match level {
                    L::ReadUncommitted => Isolation::ReadUncommitted,
                    L::ReadCommitted => Isolation::ReadCommitted,
                    L::RepeatableRead => Isolation::RepeatableRead,
                    L::Serializable => Isolation::Serializable,
                    L::Snapshot => return Err(Error::unsupported("ISOLATION LEVEL SNAPSHOT")),
                });
            }
        }
    }
    Ok(bound)
}

fn set_statement(set: &ast::Set) -> Result<Statement> {
    use ast::Set;
    let is_local =
        |scope: &Option<ast::ContextModifier>| matches!(scope, Some(ast::ContextModifier::Local));
    match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let name = setting_name(variable)?;
            let value = match name.as_str() {
                "search_path" => name_list(values)?,
                _ => setting_value(values)?,
            };
            Ok(Statement::Command(Command::Set { name, value, local: is_local(scope) }))
        }
        Set::SetTimeZone { local, value } => {
            let value = match value {
                ast::Expr::Interval(interval) => Some(ahead_of_utc(&interval.value)?),
                value => setting_value(std::slice::from_ref(value))?,
            };
            let value = value.filter(|value| !value.eq_ignore_ascii_case("local"));
            Ok(Statement::Command(Command::Set { name: "timezone".into(), value, local: *local }))
        }
        Set::SetSessionAuthorization(authorization) => Ok(Statement::Command(Command::Set {
            name: "session_authorization".into(),
            value: match &authorization.kind {
                ast::SetSessionAuthorizationParamKind::Default => None,
                ast::SetSessionAuthorizationParamKind::User(user) => Some(fold(user)),
            },
            local: false,
        })),
        Set::SetNames { charset_name, .. } => Ok(Statement::Command(Command::Set {
            name: "client_encoding".into(),
            value: Some(charset_name.value.clone()),
            local: false,
        })),
        Set::SetNamesDefault {} => Ok(Statement::Command(Command::Set {
            name: "client_encoding".into(),
            value: None,
            local: false,
        })),
        Set::SetTransaction { modes, snapshot: None, session } => {
            let modes = transaction_modes(modes)?;
            Ok(match session {
                false => Statement::Command(Command::SetTransaction(modes)),
                true => Statement::Command(Command::SetSessionCharacteristics(modes)),
            })
        }
        Set::SetRole { context_modifier, role_name } => Ok(Statement::Command(Command::Set {
            name: "role".into(),
            value: role_name.as_ref().map(fold),
            local: is_local(context_modifier),
        })),
        other => Err(Error::unsupported(format_args!("{other}"))),
    }
}

/// An interval is how far clocks are ahead of UTC.
fn ahead_of_utc(value: &ast::Expr) -> Result<String> {
    let text = setting_value(std::slice::from_ref(value))?.unwrap_or_default();
    let ahead_s = zones::of_clock(text.trim()).ok_or_else(|| {
        let what = format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{text}'\"");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
    })?;
    Ok(zones::ahead(ahead_s)?.name().to_owned())
}

fn setting_name(name: &ast::ObjectName) -> Result<String> {
    let parts: Vec<String> = name.0.iter().map(ToString::to_string).collect();
    Ok(parts.join(".").to_ascii_lowercase())
}

/// A list of names, each as SQL would write it.
fn name_list(values: &[ast::Expr]) -> Result<Option<String>> {
    if setting_value(values)?.is_none() {
        return Ok(None);
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let quoted = |name: String| match name.starts_with(|c: char| !c.is_ascii_digit()) {
        true if name.chars().all(is_plain) => name,
        _ => format!("\"{}\"", name.replace('"', "\"\"")),
    };
    let names = values.iter().map(|value| match value {
        ast::Expr::Identifier(name) => Ok(quoted(fold(name))),
        value => Ok(setting_value(std::slice::from_ref(value))?.map(quoted).unwrap_or_default()),
    });
    Ok(Some(names.collect::<Result<Vec<String>>>()?.join(", ")))
}

fn setting_value(values: &[ast::Expr]) -> Result<Option<String>> {
    let one = |value: &ast::Expr| match value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(s) | ast::Value::DoubleQuotedString(s) => Ok(s.clone()),
            other => Ok(other.to_string()),
        },
        ast::Expr::Identifier(ident) => Ok(ident.value.clone()),
        other => Ok(other.to_string()),
    };
    match values {
        [ast::Expr::Identifier(ident)] if ident.value.eq_ignore_ascii_case("default") => Ok(None),
        values => {
            let values: Result<Vec<String>> = values.iter().map(one).collect();
            values.map(|values| Some(values.join(", ")))
        }
    }
}

fn show(variable: &[ast::Ident]) -> (Statement, Output) {
    let words: Vec<String> = variable.iter().map(|i| i.value.to_ascii_lowercase()).collect();
    let name = match words.join(" ").as_str() {
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" => "TimeZone".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => words.join("."),
    };
    let columns = match name.as_str() {
        "all" => ["name", "setting", "description"].map(str::to_owned).into(),
        name => vec![settings::spelt(name).map_or_else(|| name.to_owned(), Cow::into_owned)],
    };
    let column = |name| procedure::Column { name, data_type: DataType::Text };
    (
        Statement::Command(Command::Show(name)),
        Output::Rows(columns.into_iter().map(column).collect()),
    )
}

/// The statement's text is what stands after AS, so that it is bound when it is executed.
fn prepare(
    catalog: &Catalog,
    name: &ast::Ident,
    types: &[ast::DataType],
    text: &str,
) -> Result<Statement> {
    let types = types.iter().map(|t| match t {
        ast::DataType::Unspecified => Ok(None),
        t => match system_type(t) {
            None => catalog.data_type(t).map(Some),
            known => Ok(known),
        },
    });
    let body = crate::syntax::parse::text_after_as(text)
        .ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "PREPARE needs AS and a statement"))?;
    Ok(Statement::Command(Command::Prepare {
        name: fold(name),
        types: types.collect::<Result<_>>()?,
        text: body,
    }))
}

/// A type that parameters have where only system tables are asked.
fn system_type(named: &ast::DataType) -> Option<DataType> {
    let name = named.to_string().to_ascii_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let known = SystemType::from_name(name).filter(|known| known.is_parameter());
    known.map(DataType::System)
}

fn unsupported_statement(statement: &ast::Statement) -> Error {
    let text = statement.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        .take(3)
        .collect();
    let what = match words.is_empty() {
        true => "this statement".to_owned(),
        false => words.join(" "),
    };
    Error::unsupported(what)
}
