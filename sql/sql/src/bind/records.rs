//! Rows as values: `ROW(…)`, a relation's name in an expression, and the fields of such values.
//!
//! A row is an array of values whose fields are in its type ([`DataType::Record`]). So it is
//! shown, counted, grouped and compared as arrays are: a NULL field equals another one, and is
//! above every other value. Rows that are spelled out on both sides of a comparison are compared
//! field by field instead ([`rows`](super::rows)), where NULL is unknown.
//!
//! The row of a relation that an outer join may leave out is NULL where it is left out. A column
//! that is never NULL tells: one of the table's key, or a constant that is put after the columns
//! of a subquery.

use procedure::{Column, Expr, Function};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Field, Result, SqlState, Value};

use super::binder::{Binder, Typed, fold};
use super::scope::{ROW_ID_NAME, Relation, Scope, ScopeColumn};
use crate::syntax::exprs::{is_row, is_row_call, named_alone, positional};

impl Typed {
    /// A row of these fields.
    pub fn row(fields: Vec<(String, Typed)>) -> Typed {
        let of =
            |(name, typed): &(String, Typed)| Field::new(name.as_str(), typed.data_type.clone());
        let data_type = DataType::Record(fields.iter().map(of).collect());
        let values = fields.into_iter().map(|(_, typed)| typed.expr).collect();
        Typed::new(Expr::Array(values), data_type)
    }
}

/// Rows within rows: as text each doubles the quotes of those in it.
const DEPTH_MAX: usize = 12;

fn depth(data_type: &DataType) -> usize {
    match data_type {
        DataType::Record(fields) => {
            1 + fields.iter().map(|field| depth(&field.data_type)).max().unwrap_or(0)
        }
        DataType::Array(element) => depth(element),
        _ => 0,
    }
}

/// The type of a value that has these columns.
pub(super) fn record_of(columns: &[Column]) -> DataType {
    let fields = columns.iter();
    let fields = fields.map(|c| Field::new(c.name.as_str(), c.data_type.clone()));
    DataType::Record(fields.collect())
}

impl Relation {
    /// Its columns as the fields of a row, with their places.
    fn fields(&self) -> impl Iterator<Item = (u16, &ScopeColumn)> {
        let is_one = |c: &ScopeColumn| !c.is_beside && !c.name.is_empty() && c.name != ROW_ID_NAME;
        let places = self.columns.iter().enumerate();
        places
            .filter(move |(_, column)| is_one(column))
            .map(|(place, column)| (self.offset + place as u16, column))
    }

    fn typed_fields(&self) -> Vec<(String, Typed)> {
        let typed = |(place, column): (u16, &ScopeColumn)| {
            let typed = Typed::new(Expr::Column(place), column.data_type.clone());
            (column.name.clone(), typed)
        };
        self.fields().map(typed).collect()
    }

    /// Its row as a value. That of a function of one value is the value.
    fn row(&self) -> Typed {
        let mut fields = self.typed_fields();
        if self.is_scalar && fields.len() == 1 {
            return fields.remove(0).1;
        }
        let columns: Vec<Expr> = fields.iter().map(|(_, typed)| typed.expr.clone()).collect();
        let mut row = Typed::row(fields);
        if self.may_be_absent {
            let is_absent = match self.presence {
                Some(place) => Expr::is_null(Expr::Column(self.offset + place), false),
                None => {
                    let columns = columns.into_iter();
                    Expr::And(columns.map(|column| Expr::is_null(column, false)).collect())
                }
            };
            let whens = [(is_absent, Expr::Const(Value::Null))].into();
            row.expr = Expr::Case { whens, otherwise: Box::new(row.expr) };
        }
        row
    }
}

impl Binder<'_> {
    /// The values of `(a, b)` and of `ROW(a, t.*)`; `None` for every other expression.
    pub(super) fn row_items(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
    ) -> Result<Option<Vec<Typed>>> {
        let mut items = Vec::new();
        match expr {
            ast::Expr::Nested(inner) => return self.row_items(scope, inner),
            ast::Expr::Tuple(fields) => {
                for field in fields {
                    match field {
                        ast::Expr::QualifiedWildcard(name, _) => {
                            items.extend(self.columns_of(scope, name)?);
                        }
                        field => items.push(self.expression(scope, field)?),
                    }
                }
            }
            ast::Expr::Function(call) if is_row_call(call) => {
                let ast::FunctionArguments::List(list) = &call.args else {
                    return Ok(Some(items));
                };
                for argument in &list.args {
                    use ast::{FunctionArg::Unnamed, FunctionArgExpr as E};
                    match argument {
                        Unnamed(E::Expr(field)) => items.push(self.expression(scope, field)?),
                        Unnamed(E::QualifiedWildcard(name)) => {
                            items.extend(self.columns_of(scope, name)?);
                        }
                        other => {
                            return Err(Error::unsupported(format_args!("{other} in a row")));
                        }
                    }
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(items))
    }

    /// `name.*` among the values of a row.
    fn columns_of(&mut self, scope: &Scope, name: &ast::ObjectName) -> Result<Vec<Typed>> {
        let named = scope.named(name)?;
        match self.named_fields(scope, &named)? {
            Some(fields) => Ok(fields.into_iter().map(|(_, typed)| typed).collect()),
            None => Err(no_relation(&named)),
        }
    }

    /// The columns of a relation of that name, from the innermost query outwards; where it is left
    /// out, all of them are NULL.
    pub(super) fn named_fields(
        &mut self,
        scope: &Scope,
        name: &str,
    ) -> Result<Option<Vec<(String, Typed)>>> {
        if let Some(relation) = scope.relation(name) {
            let fields = relation.typed_fields();
            self.count(fields.len())?;
            fields.iter().for_each(|(_, typed)| self.reads(scope, &typed.expr));
            return Ok(Some(fields));
        }
        let around = self.enclosing.iter().rev();
        let relation = around.filter_map(|around| around.scope.relation(name)).next();
        let Some(fields) = relation.map(Relation::typed_fields) else { return Ok(None) };
        let mut outer = Vec::with_capacity(fields.len());
        for (field, _) in fields {
            let find = |scope: &Scope| scope.find_qualified(name, &field);
            if let Some(typed) = self.outer_column(&field, find)? {
                outer.push((field, typed));
            }
        }
        Ok(Some(outer))
    }

    /// `name.*` as one value.
    pub(super) fn row_named(&mut self, scope: &Scope, name: &ast::ObjectName) -> Result<Typed> {
        let name = scope.named(name)?;
        match self.row_of(scope, &name)? {
            Some(row) => Ok(row),
            None => Err(no_relation(&name)),
        }
    }

    /// A row that is spelled out, as a value.
    ///
    /// # Errors
    /// 54001: rows lie too deep in each other.
    pub(super) fn row_value(&mut self, items: Vec<Typed>) -> Result<Typed> {
        if items.iter().any(|item| depth(&item.data_type) >= DEPTH_MAX) {
            let what = format!("rows within rows are more than {DEPTH_MAX} deep");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, what));
        }
        let named = items.into_iter().enumerate();
        Ok(Typed::row(named.map(|(place, item)| (format!("f{}", place + 1), item)).collect()))
    }

    /// An argument of a call.
    pub(super) fn argument(&mut self, scope: &Scope, arg: &ast::FunctionArg) -> Result<Typed> {
        match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) => {
                self.row_named(scope, name)
            }
            arg => self.expression(scope, positional(arg)?),
        }
    }

    /// The row of the relation of that name, or of a routine's record.
    pub(super) fn row_of(&mut self, scope: &Scope, name: &str) -> Result<Option<Typed>> {
        if let Some(relation) = scope.relation(name) {
            let row = relation.row();
            self.reads(scope, &row.expr);
            self.count(relation.columns.len())?;
            return Ok(Some(row));
        }
        let find = |scope: &Scope| {
            let row = scope.relation(name).map(Relation::row);
            Ok(row.map(|row| (row.expr, row.data_type)))
        };
        if let Some(row) = self.outer_column(name, find)? {
            return Ok(Some(row));
        }
        let fields = self.variables.iter().filter(|v| v.qualified_only && v.qualifier == name);
        let typed = |v: &super::scope::Variable| Typed::new(v.value.clone(), v.data_type.clone());
        let fields: Vec<_> = fields.map(|v| (v.name.clone(), typed(v))).collect();
        Ok((!fields.is_empty()).then(|| Typed::row(fields)))
    }

    /// The values of a row's fields.
    pub(super) fn fields_of(&mut self, row: Typed) -> Result<Vec<Typed>> {
        let DataType::Record(fields) = &row.data_type else { return Ok(vec![row]) };
        if let Expr::Array(values) = row.expr {
            let pairs = values.into_iter().zip(fields.iter());
            return Ok(pairs.map(|(value, f)| Typed::new(value, f.data_type.clone())).collect());
        }
        let mut values = Vec::with_capacity(fields.len());
        for (place, field) in fields.iter().enumerate() {
            let row = Box::new(self.again(&row.expr)?);
            values.push(Typed::new(element(row, place), field.data_type.clone()));
        }
        Ok(values)
    }

    /// A field of a row, by its name.
    pub(super) fn field(&mut self, row: Typed, name: &str) -> Result<Typed> {
        let DataType::Record(fields) = &row.data_type else {
            let what = format!(
                "column notation .{name} applied to type {}, which is not a composite type",
                row.data_type
            );
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        };
        let place = fields.iter().position(|field| *field.name == *name).ok_or_else(|| {
            let what = format!("could not identify column \"{name}\" in record data type");
            Error::new(SqlState::UNDEFINED_COLUMN, what)
        })?;
        let data_type = fields[place].data_type.clone();
        let expr = match row.expr {
            Expr::Array(values) => {
                values.into_iter().nth(place).unwrap_or(Expr::Const(Value::Null))
            }
            row => element(Box::new(row), place),
        };
        Ok(Typed::new(expr, data_type))
    }

    /// The fields of what is surely a row; `None`: of anything else.
    fn fields_of_row(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Option<Vec<Typed>>> {
        if is_row(expr) {
            return self.row_items(scope, expr);
        }
        let name = match expr {
            ast::Expr::QualifiedWildcard(name, _) => scope.named(name)?,
            expr => match named_alone(expr) {
                Some(name) if scope.find(&name)?.is_none() => name,
                _ => return Ok(None),
            },
        };
        if scope.relation(&name).is_none_or(|relation| relation.is_scalar) {
            return Ok(None);
        }
        let fields = self.named_fields(scope, &name)?;
        Ok(fields.map(|fields| fields.into_iter().map(|(_, typed)| typed).collect()))
    }

    /// A row is NULL where all of its fields are, and not NULL where none of them is. `None`: it is
    /// no row.
    pub(super) fn row_is_null(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        negated: bool,
    ) -> Result<Option<Expr>> {
        let fields = self.fields_of_row(scope, expr)?;
        fields.map(|fields| self.are_null(fields, negated)).transpose()
    }

    pub(super) fn are_null(&mut self, fields: Vec<Typed>, negated: bool) -> Result<Expr> {
        let mut tests = Vec::new();
        for field in fields {
            let field = self.resolved(field)?;
            tests.push(fold(Expr::is_null(field.expr, negated)));
        }
        Ok(Expr::all(tests).unwrap_or(Expr::Const(Value::Bool(true))))
    }

    /// Fields that have no type yet are texts.
    pub(super) fn resolved_row(&mut self, row: Typed) -> Result<Typed> {
        let DataType::Record(fields) = &row.data_type else { return Ok(row) };
        if !fields.iter().any(|field| has_unknown(&field.data_type)) {
            return Ok(row);
        }
        let fields = fields.clone();
        let mut values = Vec::with_capacity(fields.len());
        for (field, value) in fields.iter().zip(self.fields_of(row)?) {
            values.push((field.name.to_string(), self.resolved(value)?));
        }
        Ok(Typed::row(values))
    }

    /// The text of a row: each field is written as its type's output has it.
    pub(super) fn row_as_text(&mut self, row: Typed) -> Result<Expr> {
        let is_null = match &row.expr {
            Expr::Array(_) => None,
            expr => Some(Expr::is_null(self.again(expr)?, false)),
        };
        let mut texts = Vec::new();
        for field in self.fields_of(row)? {
            texts.push(self.shown_in_row(field)?);
        }
        let text = Expr::Call {
            function: Function::RowText,
            arguments: texts.into(),
            result: DataType::Text,
        };
        Ok(match is_null {
            None => fold(text),
            Some(is_null) => {
                let whens = [(is_null, Expr::Const(Value::Null))].into();
                Expr::Case { whens, otherwise: Box::new(text) }
            }
        })
    }

    fn shown_in_row(&mut self, field: Typed) -> Result<Expr> {
        match &field.data_type {
            // A cast spells truths out, and leaves blanks away.
            DataType::Bool => {
                let letter = |letter: &str| Expr::Const(Value::text(letter));
                let (is_true, value) = (self.again(&field.expr)?, field.expr);
                let whens = [(is_true, letter("t")), (Expr::negated(value), letter("f"))];
                let otherwise = Box::new(Expr::Const(Value::Null));
                Ok(fold(Expr::Case { whens: whens.into(), otherwise }))
            }
            DataType::Char(length) => {
                let length = Expr::Const(Value::Int(i64::from(*length)));
                let arguments = [field.expr, length].into();
                let function = Function::Rpad;
                Ok(fold(Expr::Call { function, arguments, result: DataType::Text }))
            }
            of if of.is_network() => Ok(self.shown(field)?.expr),
            _ => self.coerce(field, &DataType::Text, CastContext::Explicit),
        }
    }
}

fn no_relation(name: &str) -> Error {
    let what = format!("missing FROM-clause entry for table \"{name}\"");
    Error::new(SqlState::UNDEFINED_TABLE, what)
}

fn has_unknown(data_type: &DataType) -> bool {
    match data_type {
        DataType::Unknown => true,
        DataType::Record(fields) => fields.iter().any(|field| has_unknown(&field.data_type)),
        _ => false,
    }
}

fn element(row: Box<Expr>, place: usize) -> Expr {
    let index = Box::new(Expr::Const(Value::Int(place as i64 + 1)));
    fold(Expr::Element { array: row, index })
}
