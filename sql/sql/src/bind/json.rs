//! Functions and operators of `json` and `jsonb`.
//!
//! Values that become parts of JSON are made JSON first ([`Binder::as_json`]), so the functions
//! themselves meet nothing else. A row ([`records`](super::records)) is an object of its fields, by
//! the names that its type has for them.

use procedure::{Column, Expr, Function, JsonFunction, Query};
use sqlparser::ast;
use types::arithmetic::no_operator;
use types::cast::{CastContext, cast_context};
use types::{DataType, Error, Result, SqlState, Value, Zone};

use super::aggregates::not_for_types;
use super::binder::{Binder, Typed, fold};
use super::digits::as_digits;
use super::scope::Scope;
use crate::syntax::names::fold as fold_name;

/// Those whose argument is JSON of the other kind where their name says so.
fn family(name: &str) -> Option<(DataType, &str)> {
    let of = |data_type, base| Some((data_type, base));
    match name {
        "to_json" | "array_to_json" | "row_to_json" => of(DataType::Json, name),
        "to_jsonb" => of(DataType::Jsonb, "to_json"),
        _ => match name.strip_prefix("jsonb_") {
            Some(base) => of(DataType::Jsonb, base),
            None => name.strip_prefix("json_").and_then(|base| of(DataType::Json, base)),
        },
    }
}

const NUMERIC: DataType = DataType::Numeric(None);

fn texts() -> DataType {
    DataType::Array(Box::new(DataType::Text))
}

fn is_json(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Json | DataType::Jsonb)
}

fn not_for(name: &str, arguments: &[Typed]) -> Error {
    let types: Vec<DataType> = arguments.iter().map(|a| a.data_type.clone()).collect();
    not_for_types(name, &types)
}

impl Binder<'_> {
    pub(super) fn json_function(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        use JsonFunction as F;
        let Some((json, base)) = family(name) else { return Ok(None) };
        let is_jsonb = json == DataType::Jsonb;
        let function = match (base, arguments.len()) {
            ("to_json" | "array_to_json" | "row_to_json", 1 | 2) => {
                return self.made_json(base, arguments, json);
            }
            ("build_object", _) => return self.build_object(name, arguments, json).map(Some),
            ("build_array", _) => {
                let mut parts = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    parts.push(self.as_json(argument.clone())?);
                }
                return Ok(Some(called(F::BuildArray, parts, json)));
            }
            ("object", 1 | 2) => {
                let types = vec![texts(); arguments.len()];
                return self.json_call(F::Object, &types, arguments, json);
            }
            ("extract_path" | "extract_path_text", 1..) => {
                let result = if base == "extract_path" { json.clone() } else { DataType::Text };
                let mut path = Vec::with_capacity(arguments.len());
                for step in &arguments[1..] {
                    path.push(self.coerce(step.clone(), &DataType::Text, CastContext::Implicit)?);
                }
                let path = Typed::new(fold(Expr::Array(path.into())), texts());
                let both = [arguments[0].clone(), path];
                return self.json_call(F::GetPath, &[json, texts()], &both, result);
            }
            ("typeof", 1) => {
                return self.json_call(F::Typeof, &[json], arguments, DataType::Text);
            }
            ("array_length", 1) => {
                return self.json_call(F::ArrayLength, &[json], arguments, DataType::Int4);
            }
            ("pretty", 1) if is_jsonb => {
                return self.json_call(F::Pretty, &[json], arguments, DataType::Text);
            }
            ("strip_nulls", 1) => F::StripNulls,
            ("set", 3 | 4) if is_jsonb => F::Set,
            ("insert", 3 | 4) if is_jsonb => F::Insert,
            ("populate_record" | "populate_recordset", _) => {
                return Err(Error::unsupported(format_args!("function {name}()")));
            }
            (base, _) if is_jsonb && (base.starts_with("path_") || base == "set_lax") => {
                return Err(Error::unsupported(format_args!("function {name}()")));
            }
            _ => return Ok(None),
        };
        let types = [json.clone(), texts(), json.clone(), DataType::Bool];
        self.json_call(function, &types, arguments, json)
    }

    /// `None`: some argument has not the type, nor becomes it by itself.
    fn json_call(
        &mut self,
        function: JsonFunction,
        types: &[DataType],
        arguments: &[Typed],
        result: DataType,
    ) -> Result<Option<Typed>> {
        let mut inputs = Vec::with_capacity(arguments.len());
        for (argument, to) in arguments.iter().zip(types) {
            if cast_context(&argument.data_type, to) != Some(CastContext::Implicit) {
                return Ok(None);
            }
            inputs.push(self.coerce(argument.clone(), to, CastContext::Implicit)?);
        }
        Ok(Some(called(function, inputs, result)))
    }

    /// A value as JSON. NULL stays NULL, which functions take for JSON's.
    pub(super) fn as_json(&mut self, typed: Typed) -> Result<Expr> {
        let typed = self.resolved(typed)?;
        if is_json(&typed.data_type) {
            return Ok(typed.expr);
        }
        self.json_of(typed, &DataType::Json)
    }

    fn json_of(&mut self, typed: Typed, json: &DataType) -> Result<Expr> {
        let typed = self.resolved(typed)?;
        if matches!(typed.data_type, DataType::Record(_)) {
            let object = self.json_of_row(typed, JsonFunction::OfRow)?;
            return self.coerce(object, json, CastContext::Explicit);
        }
        let typed = match &typed.data_type {
            // A number, by its own digits.
            DataType::Float4 => {
                let digits = as_digits(typed, &DataType::Text);
                Typed::new(self.coerce(digits, &NUMERIC, CastContext::Explicit)?, NUMERIC)
            }
            DataType::Array(of) if **of == DataType::Float4 => {
                let [texts, numbers] =
                    [DataType::Text, NUMERIC].map(|of| DataType::Array(of.into()));
                let digits = as_digits(typed, &texts);
                Typed::new(self.coerce(digits, &numbers, CastContext::Explicit)?, numbers)
            }
            _ => self.shown(typed)?,
        };
        if Zone::matters(&typed.data_type, &DataType::Text) {
            let from = &typed.data_type;
            self.needs_plain(from, &DataType::Text, format_args!("{from} as {json}"))?;
        }
        let mut element = &typed.data_type;
        while let DataType::Array(of) = element {
            element = of;
        }
        let function = match element {
            DataType::Json => JsonFunction::OfJsons,
            _ => JsonFunction::Of,
        };
        Ok(called(function, vec![typed.expr], json.clone()).expr)
    }

    /// A row as an object, `made` on one line or on several; NULL where there is no row.
    fn json_of_row(&mut self, row: Typed, made: JsonFunction) -> Result<Typed> {
        let DataType::Record(fields) = &row.data_type else { return Ok(row) };
        let (fields, of) = (fields.clone(), row.data_type.clone());
        let expr = match row.expr {
            // That of a relation which an outer join may leave out.
            Expr::Case { whens, otherwise } => {
                let mut branches = Vec::with_capacity(whens.len());
                for (when, then) in whens {
                    branches
                        .push((when, self.json_of_row(Typed::new(then, of.clone()), made)?.expr));
                }
                let otherwise = self.json_of_row(Typed::new(*otherwise, of), made)?.expr;
                Expr::Case { whens: branches.into(), otherwise: Box::new(otherwise) }
            }
            null @ Expr::Const(Value::Null) => null,
            expr => {
                let absent = match &expr {
                    Expr::Array(_) => None,
                    expr => Some(Expr::is_null(self.again(expr)?, false)),
                };
                let mut parts = Vec::with_capacity(2 * fields.len());
                for (field, value) in fields.iter().zip(self.fields_of(Typed::new(expr, of))?) {
                    parts.push(Expr::Const(Value::text(&field.name)));
                    parts.push(self.as_json(value)?);
                }
                let object = called(made, parts, DataType::Json).expr;
                match absent {
                    None => object,
                    Some(absent) => Expr::Case {
                        whens: [(absent, Expr::Const(Value::Null))].into(),
                        otherwise: Box::new(object),
                    },
                }
            }
        };
        Ok(Typed::new(expr, DataType::Json))
    }

    /// `to_json` and its like.
    fn made_json(
        &mut self,
        name: &str,
        arguments: &[Typed],
        json: DataType,
    ) -> Result<Option<Typed>> {
        let of = &arguments[0].data_type;
        let is_row = matches!(of, DataType::Record(_));
        let fits = match name {
            "array_to_json" => matches!(of, DataType::Array(_)),
            "row_to_json" => is_row,
            _ => arguments.len() == 1,
        };
        if !fits {
            return Ok(None);
        }
        if *of == DataType::Unknown && arguments[0].expr != Expr::Const(Value::Null) {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let lines = match arguments.get(1).map(|pretty| &pretty.expr) {
            None | Some(Expr::Const(Value::Bool(false))) => false,
            Some(Expr::Const(Value::Bool(true))) => true,
            Some(_) => {
                return Err(Error::unsupported(format_args!("{name}() with a computed flag")));
            }
        };
        if lines && is_row {
            return self.json_of_row(arguments[0].clone(), JsonFunction::OfRowLines).map(Some);
        }
        let expr = match of {
            of if *of == json => arguments[0].expr.clone(),
            DataType::Json if json == DataType::Jsonb => {
                self.coerce(arguments[0].clone(), &json, CastContext::Explicit)?
            }
            _ => self.json_of(arguments[0].clone(), &json)?,
        };
        Ok(Some(match lines {
            true => called(JsonFunction::OfLines, vec![expr], json),
            false => Typed::new(expr, json),
        }))
    }

    fn build_object(&mut self, name: &str, arguments: &[Typed], json: DataType) -> Result<Typed> {
        let invalid = |what: &str| Error::new(SqlState::INVALID_PARAMETER_VALUE, what);
        if arguments.len() % 2 == 1 {
            let hint =
                format!("The arguments of {name}() must consist of alternating keys and values.");
            return Err(invalid("argument list must have even number of elements").with_hint(hint));
        }
        let mut parts = Vec::with_capacity(arguments.len());
        for pair in arguments.chunks(2) {
            parts.push(self.json_key(pair[0].clone())?);
            parts.push(self.as_json(pair[1].clone())?);
        }
        Ok(called(JsonFunction::BuildObject, parts, json))
    }

    fn json_key(&mut self, key: Typed) -> Result<Expr> {
        use DataType as T;
        if matches!(key.data_type, T::Array(_) | T::Record(_) | T::Json | T::Jsonb) {
            let message = "key value must be scalar, not array, composite, or json";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let key = match key.data_type.is_network() {
            true => self.shown(key)?,
            false => key,
        };
        self.coerce(key, &DataType::Text, CastContext::Explicit)
    }

    /// A member for `json_object_agg`.
    pub(super) fn json_member(&mut self, key: Typed, value: Typed) -> Result<Expr> {
        let parts = vec![self.json_key(key)?, self.as_json(value)?];
        Ok(called(JsonFunction::Member, parts, DataType::Text).expr)
    }

    /// What an aggregate that makes JSON gathers, and what makes it of that.
    pub(super) fn json_gathered(
        &mut self,
        name: &str,
        arguments: Option<Vec<Typed>>,
    ) -> Result<(Option<Vec<Typed>>, Option<JsonFunction>)> {
        let Some(given) = arguments else { return Ok((None, None)) };
        let (input, function) = match (name, <[Typed; 2]>::try_from(given)) {
            ("json_object_agg" | "jsonb_object_agg", Ok([key, value])) => {
                let member = Typed::new(self.json_member(key, value)?, DataType::Text);
                (vec![member], JsonFunction::GatherMembers)
            }
            ("json_object_agg" | "jsonb_object_agg", Err(given)) => {
                return Err(not_for(name, &given));
            }
            ("json_agg" | "jsonb_agg", Err(mut given)) if given.len() == 1 => {
                let typed = given.remove(0);
                let typed = self.resolved(typed)?;
                match &typed.data_type {
                    DataType::Json => (vec![typed], JsonFunction::GatherJsons),
                    DataType::Record(_) | DataType::Array(_) => {
                        let json = Typed::new(self.as_json(typed)?, DataType::Json);
                        (vec![json], JsonFunction::GatherLines)
                    }
                    DataType::Char(_) | DataType::System(_) => {
                        let json = Typed::new(self.as_json(typed)?, DataType::Json);
                        (vec![json], JsonFunction::GatherJsons)
                    }
                    of => {
                        if Zone::matters(of, &DataType::Text) {
                            let of = of.clone();
                            self.needs_plain(&of, &DataType::Text, format_args!("{of} as json"))?;
                        }
                        (vec![typed], JsonFunction::Gather)
                    }
                }
            }
            ("json_agg" | "jsonb_agg", Err(given)) => return Err(not_for(name, &given)),
            ("json_agg" | "jsonb_agg", Ok(given)) => return Err(not_for(name, &given)),
            (_, Ok(given)) => return Ok((Some(given.into()), None)),
            (_, Err(given)) => return Ok((Some(given), None)),
        };
        Ok((Some(input), Some(function)))
    }

    /// Objects as rows of the columns that are declared after their alias.
    pub(super) fn json_records(
        &mut self,
        objects: Query,
        of: &[Column],
        alias: Option<&ast::TableAlias>,
    ) -> Result<(Query, Vec<Column>)> {
        let json = of.first().map_or(DataType::Json, |column| column.data_type.clone());
        let declared = alias.map_or(&[][..], |alias| &alias.columns);
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for column in declared {
            let Some(data_type) = &column.data_type else { continue };
            let (name, data_type) = (fold_name(&column.name), self.type_named(data_type)?);
            values.push(self.json_field(&name, &json, &data_type)?);
            columns.push(Column { name, data_type });
        }
        if columns.is_empty() {
            let what = "a column definition list is required for functions returning \"record\"";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        Ok((Query::Project { input: Box::new(objects), expressions: values.into() }, columns))
    }

    /// A member of the only column, as a value of a type.
    fn json_field(&mut self, name: &str, json: &DataType, to: &DataType) -> Result<Expr> {
        let get = |result: DataType| {
            let parts = vec![Expr::Column(0), Expr::Const(Value::text(name))];
            called(JsonFunction::Get, parts, result).expr
        };
        if is_json(to) {
            let part = Typed::new(get(json.clone()), json.clone());
            return Ok(Expr::Case {
                // JSON's null is no value of any type.
                whens: [(Expr::is_null(get(DataType::Text), false), Expr::Const(Value::Null))]
                    .into(),
                otherwise: Box::new(self.coerce(part, to, CastContext::Explicit)?),
            });
        }
        if matches!(to, DataType::Array(_)) {
            return Err(Error::unsupported(format_args!("type {to} in a column definition list")));
        }
        if Zone::matters(&DataType::Text, to) {
            self.needs_utc(format_args!("text as {to}"))?;
        }
        Ok(Expr::Cast { input: Box::new(get(DataType::Text)), to: to.clone(), explicit: false })
    }

    /// `j['a'][0]`: by a path.
    pub(super) fn json_subscript(
        &mut self,
        scope: &Scope,
        json: Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Typed> {
        let mut path = Vec::with_capacity(chain.len());
        for access in chain {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else {
                let message = "jsonb subscript does not support slices";
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
            };
            let index = self.expression(scope, index)?;
            let is_step = index.data_type.is_integer()
                || index.data_type.is_string()
                || index.data_type == DataType::Unknown;
            if !is_step {
                let message = format!("subscript type {} is not supported", index.data_type);
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, message)
                    .with_hint("jsonb subscript must be coercible to either integer or text."));
            }
            path.push(self.coerce(index, &DataType::Text, CastContext::Explicit)?);
        }
        let parts = vec![json, fold(Expr::Array(path.into()))];
        Ok(called(JsonFunction::GetPath, parts, DataType::Jsonb))
    }

    /// An operator of JSON; `None`: it is none between these.
    pub(super) fn json_operator(
        &mut self,
        op: &ast::BinaryOperator,
        left: &Typed,
        right: &Typed,
    ) -> Result<Option<Typed>> {
        use DataType as T;
        use JsonFunction as F;
        use ast::BinaryOperator as B;
        let (l, r) = (&left.data_type, &right.data_type);
        if !is_json(l) && !is_json(r) {
            return Ok(None);
        }
        let is_text = |t: &T| *t == T::Unknown || t.is_string();
        let is_place = |t: &T| matches!(t, T::Int2 | T::Int4);
        let jsonb = |t: &T| matches!(t, T::Jsonb | T::Unknown);
        let (function, types, result) = match op {
            B::Arrow | B::LongArrow if is_json(l) && (is_text(r) || is_place(r)) => {
                let step = if is_place(r) { T::Int4 } else { T::Text };
                let result = if *op == B::Arrow { l.clone() } else { T::Text };
                (F::Get, [l.clone(), step], result)
            }
            B::HashArrow | B::HashLongArrow if is_json(l) => {
                let result = if *op == B::HashArrow { l.clone() } else { T::Text };
                (F::GetPath, [l.clone(), texts()], result)
            }
            B::AtArrow if jsonb(l) && jsonb(r) => (F::Contains, [T::Jsonb, T::Jsonb], T::Bool),
            B::ArrowAt if jsonb(l) && jsonb(r) => {
                let swapped = [right.clone(), left.clone()];
                return self.json_call(F::Contains, &[T::Jsonb, T::Jsonb], &swapped, T::Bool);
            }
            B::Question if *l == T::Jsonb => (F::HasKey, [T::Jsonb, T::Text], T::Bool),
            B::QuestionPipe if *l == T::Jsonb => (F::HasAnyKey, [T::Jsonb, texts()], T::Bool),
            B::QuestionAnd if *l == T::Jsonb => (F::HasAllKeys, [T::Jsonb, texts()], T::Bool),
            B::StringConcat if jsonb(l) && jsonb(r) => (F::Concat, [T::Jsonb, T::Jsonb], T::Jsonb),
            B::Minus if *l == T::Jsonb && (is_text(r) || is_place(r)) => {
                let step = if is_place(r) { T::Int4 } else { T::Text };
                (F::Delete, [T::Jsonb, step], T::Jsonb)
            }
            B::Minus if *l == T::Jsonb && matches!(r, T::Array(_)) => {
                (F::Delete, [T::Jsonb, texts()], T::Jsonb)
            }
            B::HashMinus if *l == T::Jsonb => (F::DeletePath, [T::Jsonb, texts()], T::Jsonb),
            B::AtQuestion | B::AtAt => {
                return Err(Error::unsupported(format_args!("operator {op}"))
                    .with_hint("There is no jsonpath: use -> and @>."));
            }
            B::StringConcat => return Ok(None),
            B::Arrow
            | B::LongArrow
            | B::HashArrow
            | B::HashLongArrow
            | B::AtArrow
            | B::ArrowAt
            | B::Question
            | B::QuestionPipe
            | B::QuestionAnd
            | B::Minus
            | B::HashMinus => return Err(no_operator(l, op, r)),
            _ => return Ok(None),
        };
        let sides = [left.clone(), right.clone()];
        match self.json_call(function, &types, &sides, result)? {
            Some(typed) => Ok(Some(typed)),
            None => Err(no_operator(l, op, r)),
        }
    }
}

/// What is made of the values that an aggregate has gathered.
pub(super) fn json_of_gathered(name: &str, function: JsonFunction, gathered: Expr) -> Typed {
    let json = if name.starts_with("jsonb_") { DataType::Jsonb } else { DataType::Json };
    called(function, vec![gathered], json)
}

fn called(function: JsonFunction, arguments: Vec<Expr>, result: DataType) -> Typed {
    let (function, arguments) = (Function::Json(function), arguments.into());
    let expr = Expr::Call { function, arguments, result: result.clone() };
    Typed::new(fold(expr), result)
}
