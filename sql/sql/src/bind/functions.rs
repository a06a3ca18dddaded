//! Built-in functions: which there are, for which types, and what they return.
//!
//! PostgreSQL's overload resolution is replaced by one rule per function, which gives the same
//! types for the calls that people write. Random values are drawn from the transaction's seed;
//! other functions whose answer could differ between replicas are known by name and refused.

use procedure::{BinaryOp, Expr, Function};
use sqlparser::ast;
use types::cast::{CastContext, common_type};
use types::numeric::Numeric;
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed, fold, network_of};
use super::collated::Collated;
use super::refused;
use super::scope::Scope;
use super::system::as_array;
use super::volatility::is_stable;
use crate::schema::collations::is_collatable;
use crate::syntax::assigned::{SET_ELEMENT, SET_SLICE};

impl Binder<'_> {
    /// A call of a built-in with bound arguments.
    pub(super) fn call_by_name(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        if let Some(typed) = self.own_system_call(name, &arguments)? {
            return Ok(typed);
        }
        self.stable |= is_stable(name);
        if let Some(typed) = self.session_call(name, &arguments)? {
            return Ok(typed);
        }
        if let Some(error) = refused::non_deterministic(name) {
            return Err(error);
        }
        if arguments.is_empty()
            && let Some(typed) = self.niladic(name)?
        {
            return Ok(typed);
        }
        let collated = Collated::of_all(&arguments)?;
        collated.check_call(name)?;
        let shown: Vec<String> = arguments.iter().map(|a| a.data_type.to_string()).collect();
        let attempts = [
            Self::conditional_function,
            Self::random_function,
            Self::sequence_function,
            Self::number_function,
            Self::integer_function,
            Self::regex_function,
            Self::text_function,
            Self::bytes_function,
            Self::datetime_function,
            Self::array_function,
            Self::json_function,
            Self::enum_function,
        ];
        for attempt in attempts {
            if let Some(typed) = attempt(self, name, &arguments)? {
                let collated = match is_collatable(&typed.data_type) {
                    true => collated.clone(),
                    false => Collated::Default,
                };
                let typed = Typed::new(fold(typed.expr), typed.data_type);
                return Ok(Typed { collated, ..typed });
            }
        }
        if let Some(typed) = self.system_call(name, &arguments)? {
            return Ok(typed);
        }
        if self.catalog.routine(name).is_some() {
            return Err(Error::unsupported(format_args!(
                "calling the stored function {name}() inside a larger statement"
            ))
            .with_hint(format!("Call it alone: SELECT {name}(…).")));
        }
        if let Some(error) = refused::not_there_yet(name) {
            return Err(error);
        }
        Err(Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {name}({}) does not exist", shown.join(", ")),
        )
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts."))
    }

    /// Functions without arguments: the block's time, and what a session knows of itself.
    pub(super) fn niladic(&mut self, name: &str) -> Result<Option<Typed>> {
        let mut now_as = |to: DataType| {
            let expr = match self.session_rules(name)? {
                Some(rules) => self.cast_by_clocks(&rules, Expr::Now, &to),
                None => Expr::Cast { input: Box::new(Expr::Now), to: to.clone(), explicit: true },
            };
            Ok(Some(Typed::new(expr, to)))
        };
        match name {
            "now" | "current_timestamp" | "transaction_timestamp" => {
                return Ok(Some(Typed::new(Expr::Now, DataType::Timestamptz(None))));
            }
            "current_date" => return now_as(DataType::Date),
            "localtimestamp" => return now_as(DataType::Timestamp(None)),
            "localtime" => return now_as(DataType::Time(None)),
            "current_time" => return now_as(DataType::Timetz(None)),
            "pi" => {
                let pi = Expr::Const(Value::Float(std::f64::consts::PI));
                return Ok(Some(Typed::new(pi, DataType::Float8)));
            }
            _ => {}
        }
        let session = self.session;
        let value = match name {
            "version" => Value::text(format!("PostgreSQL {} (Tallystick)", session.server_version)),
            "current_user" | "user" | "current_role" => Value::text(session.current_user()),
            "session_user" => Value::text(session.session_user()),
            "current_database" | "current_catalog" => Value::text(&session.database),
            "current_schema" => session.path.first(self.catalog).map_or(Value::Null, Value::text),
            "pg_backend_pid" => Value::Int(i64::from(session.backend_pid)),
            "pg_is_in_recovery" => Value::Bool(false),
            _ => return Ok(None),
        };
        self.session_dependent = true;
        let data_type = match value {
            Value::Int(_) => DataType::Int4,
            Value::Bool(_) => DataType::Bool,
            _ => DataType::Text,
        };
        Ok(Some(Typed::new(Expr::Const(value), data_type)))
    }

    /// Of an integer as many digits as it has: eight.
    fn to_hex(&mut self, input: Typed, is_long: bool) -> Result<Typed> {
        let long = self.coerce(input, &DataType::Int8, CastContext::Implicit)?;
        let shown = match is_long {
            true => long,
            false => Expr::Binary {
                op: BinaryOp::BitAnd,
                left: Box::new(long),
                right: Box::new(Expr::Const(Value::Int(i64::from(u32::MAX)))),
                result: DataType::Int8,
            },
        };
        Ok(called(Function::ToHex, vec![shown], DataType::Text))
    }

    fn conditional_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        match (name, arguments) {
            ("coalesce", [_, ..]) => {
                let (inputs, data_type) = self.unify(arguments.to_vec(), "COALESCE")?;
                Ok(Some(Typed::new(Expr::Coalesce(inputs.into()), data_type)))
            }
            ("greatest" | "least", [_, ..]) => {
                if let Some(extreme) = self.extreme_by_collation(name, arguments)? {
                    return Ok(Some(extreme));
                }
                let what = if name == "greatest" { "GREATEST" } else { "LEAST" };
                let function = match name {
                    "greatest" => Function::Greatest,
                    _ => Function::Least,
                };
                let (inputs, data_type) = self.unify(arguments.to_vec(), what)?;
                Ok(Some(called(function, inputs, data_type)))
            }
            ("nullif", [a, b]) => {
                let compared = Typed { expr: self.again(&a.expr)?, ..a.clone() };
                let equal = self.comparison(BinaryOp::Equal, compared, b.clone())?;
                let value = self.resolved(a.clone())?;
                let expr = Expr::Case {
                    whens: [(equal.expr, Expr::Const(Value::Null))].into(),
                    otherwise: Box::new(value.expr),
                };
                Ok(Some(Typed::new(expr, value.data_type)))
            }
            ("pg_typeof", [a]) => {
                let text = Value::text(a.data_type.without_modifier().to_string());
                Ok(Some(Typed::new(Expr::Const(text), DataType::Text)))
            }
            _ => Ok(None),
        }
    }

    /// Values that differ from call to call, and follow from the transaction's seed.
    fn random_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        let (function, given, result) = match (name, arguments) {
            ("random", []) => (Function::Random, Vec::new(), DataType::Float8),
            ("random", [low, high]) => {
                let result = match common_type(&low.data_type, &high.data_type) {
                    Some(DataType::Int2 | DataType::Unknown) => DataType::Int4,
                    Some(known @ (DataType::Int4 | DataType::Int8)) => known,
                    Some(DataType::Numeric(_)) => DataType::Numeric(None),
                    _ => return Ok(None),
                };
                let mut given = Vec::with_capacity(2);
                for bound in [low, high] {
                    given.push(self.coerce(bound.clone(), &result, CastContext::Implicit)?);
                }
                (Function::Random, given, result)
            }
            ("gen_random_uuid" | "uuidv4" | "uuid_generate_v4", []) => {
                (Function::GenRandomUuid, Vec::new(), DataType::Uuid)
            }
            ("uuidv7", []) => (Function::Uuidv7, vec![Expr::Now], DataType::Uuid),
            _ => return Ok(None),
        };
        Ok(Some(Typed::new(self.draw(function, given, result.clone()), result)))
    }

    fn number_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        let number = |t: &Typed| t.data_type.is_number() || t.data_type == T::Unknown;
        if arguments.is_empty() || !arguments.iter().all(number) {
            return Ok(None);
        }
        let numeric = T::Numeric(None);
        // PostgreSQL prefers float8 where it has no version for integers.
        let first = match arguments[0].data_type.without_modifier() {
            T::Unknown => T::Float8,
            other => other,
        };
        let no_integers = match &first {
            t if t.is_integer() || t.is_float() => T::Float8,
            t => t.clone(),
        };
        let (function, types, result) = match (name, arguments.len()) {
            ("abs", 1) => (Function::Abs, vec![first.clone()], first),
            ("ceil" | "ceiling", 1) => (Function::Ceil, vec![no_integers.clone()], no_integers),
            ("floor", 1) => (Function::Floor, vec![no_integers.clone()], no_integers),
            ("round", 1) => (Function::Round, vec![no_integers.clone()], no_integers),
            ("trunc", 1) => (Function::Trunc, vec![no_integers.clone()], no_integers),
            ("round", 2) if !first.is_float() => {
                (Function::Round, vec![numeric.clone(), T::Int4], numeric)
            }
            ("trunc", 2) if !first.is_float() => {
                (Function::Trunc, vec![numeric.clone(), T::Int4], numeric)
            }
            ("sign", 1) => (Function::Sign, vec![no_integers.clone()], no_integers),
            ("sqrt", 1) => (Function::Sqrt, vec![no_integers.clone()], no_integers),
            ("mod", 2) => {
                let common = common_type(&arguments[0].data_type, &arguments[1].data_type);
                let common = common.filter(|t| !t.is_float()).unwrap_or(numeric);
                let common = common.without_modifier();
                (Function::Mod, vec![common.clone(), common.clone()], common)
            }
            ("div", 2) => (Function::Div, vec![numeric.clone(), numeric.clone()], numeric),
            ("power" | "pow", 2) => {
                let common = common_type(&arguments[0].data_type, &arguments[1].data_type);
                let common = match common {
                    Some(T::Numeric(_)) => numeric,
                    _ => T::Float8,
                };
                (Function::Power, vec![common.clone(), common.clone()], common)
            }
            ("exp", 1) if no_integers == numeric => (Function::Exp, vec![numeric.clone()], numeric),
            ("ln", 1) if no_integers == numeric => (Function::Ln, vec![numeric.clone()], numeric),
            ("log" | "log10", 1) if no_integers == numeric => {
                let ten = Typed::new(Expr::Const(Value::from(Numeric::from(10))), numeric.clone());
                let given = [ten, arguments[0].clone()];
                let types = [numeric.clone(), numeric.clone()];
                return self.call(Function::Log, &types, &given, numeric).map(Some);
            }
            // There is none for floats.
            ("log", 2) if !arguments.iter().any(|a| a.data_type.is_float()) => {
                (Function::Log, vec![numeric.clone(), numeric.clone()], numeric)
            }
            _ => return Ok(None),
        };
        self.call(function, &types, arguments, result).map(Some)
    }

    fn integer_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        let (function, types, result) = match (name, arguments) {
            ("gcd" | "lcm", [a, b]) => {
                let common = match common_type(&a.data_type, &b.data_type) {
                    Some(T::Unknown) => T::Int4,
                    Some(known @ (T::Int4 | T::Int8)) => known,
                    _ => return Ok(None),
                };
                let function = if name == "gcd" { Function::Gcd } else { Function::Lcm };
                (function, vec![common.clone(), common.clone()], common)
            }
            ("to_hex", [number]) if number.data_type.is_integer() => {
                return self.to_hex(number.clone(), number.data_type == T::Int8).map(Some);
            }
            ("chr", [number]) if number.data_type.is_number() || number.data_type == T::Unknown => {
                (Function::Chr, vec![T::Int4], T::Text)
            }
            _ => return Ok(None),
        };
        self.call(function, &types, arguments, result).map(Some)
    }

    fn text_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        use Function::*;
        if matches!(name, "concat" | "concat_ws") {
            let function = if name == "concat" { Concat } else { ConcatWs };
            let mut inputs = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let input = self.resolved(argument.clone())?;
                let input = self.shown(input)?;
                inputs.push(self.moment_as_text(input)?.expr);
            }
            return Ok(Some(called(function, inputs, T::Text)));
        }
        if matches!((name, arguments.len()), ("quote_literal" | "quote_nullable", 1)) {
            let function = if name == "quote_literal" { QuoteLiteral } else { QuoteNullable };
            let input = self.resolved(arguments[0].clone())?;
            let input = self.moment_as_text(input)?;
            let text = self.coerce(input, &T::Text, CastContext::Explicit)?;
            return Ok(Some(called(function, vec![text], T::Text)));
        }
        if let ("octet_length", [padded @ Typed { data_type: T::Char(_), .. }]) = (name, arguments)
        {
            let padded = self.with_blanks(padded.clone());
            return Ok(Some(called(OctetLength, vec![padded.expr], T::Int4)));
        }
        let bytes = matches!(arguments.first(), Some(Typed { data_type: T::Bytea, .. }));
        let subject = if bytes { T::Bytea } else { T::Text };
        let text = T::Text;
        let (function, types, result) = match (name, arguments.len()) {
            ("lower", 1) => (Lower, vec![text], T::Text),
            ("upper", 1) => (Upper, vec![text], T::Text),
            ("length" | "char_length" | "character_length", 1) => (Length, vec![subject], T::Int4),
            ("octet_length", 1) => (OctetLength, vec![subject], T::Int4),
            ("substr" | "substring", 2) => (Substring, vec![subject.clone(), T::Int4], subject),
            ("substr" | "substring", 3) => {
                (Substring, vec![subject.clone(), T::Int4, T::Int4], subject)
            }
            ("left", 2) => (Left, vec![text, T::Int4], T::Text),
            ("right", 2) => (Right, vec![text, T::Int4], T::Text),
            ("btrim" | "trim", 2) => (TrimBoth, vec![subject.clone(), subject.clone()], subject),
            ("ltrim", 2) => (TrimLeft, vec![subject.clone(), subject.clone()], subject),
            ("rtrim", 2) => (TrimRight, vec![subject.clone(), subject.clone()], subject),
            ("btrim" | "trim", 1) => (TrimBoth, vec![text], T::Text),
            ("ltrim", 1) => (TrimLeft, vec![text], T::Text),
            ("rtrim", 1) => (TrimRight, vec![text], T::Text),
            ("position", 2) => (Position, vec![subject.clone(), subject], T::Int4),
            ("strpos", 2) => (Position, vec![text.clone(), text], T::Int4),
            ("replace", 3) => (Replace, vec![text.clone(), text.clone(), text], T::Text),
            ("translate", 3) => (Translate, vec![text.clone(), text.clone(), text], T::Text),
            ("repeat", 2) => (Repeat, vec![text, T::Int4], T::Text),
            ("reverse", 1) => (Reverse, vec![text], T::Text),
            ("initcap", 1) => (Initcap, vec![text], T::Text),
            ("lpad", 2 | 3) => (Lpad, vec![text.clone(), T::Int4, text], T::Text),
            ("rpad", 2 | 3) => (Rpad, vec![text.clone(), T::Int4, text], T::Text),
            ("split_part", 3) => (SplitPart, vec![text.clone(), text, T::Int4], T::Text),
            ("starts_with", 2) => (StartsWith, vec![text.clone(), text], T::Bool),
            ("ascii", 1) => (Ascii, vec![text], T::Int4),
            ("bit_length", 1) => (BitLength, vec![subject], T::Int4),
            ("string_to_array", 2) => {
                (StringToArray, vec![text.clone(), text], T::Array(Box::new(T::Text)))
            }
            ("string_to_array", 3) => {
                let types = vec![text.clone(), text.clone(), text];
                (StringToArray, types, T::Array(Box::new(T::Text)))
            }
            _ => return Ok(None),
        };
        self.call_fitting(function, &types, arguments, result)
    }

    /// Functions of bytes, and of texts and bytes alike.
    fn bytes_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        use Function::*;
        let bytes = matches!(arguments.first(), Some(Typed { data_type: T::Bytea, .. }));
        let subject = if bytes { T::Bytea } else { T::Text };
        let text = T::Text;
        let (function, types, result) = match (name, arguments.len()) {
            ("overlay", 3) => (Overlay, vec![subject.clone(), subject.clone(), T::Int4], subject),
            ("overlay", 4) => {
                (Overlay, vec![subject.clone(), subject.clone(), T::Int4, T::Int4], subject)
            }
            ("get_byte", 2) => (GetByte, vec![T::Bytea, T::Int4], T::Int4),
            ("set_byte", 3) => (SetByte, vec![T::Bytea, T::Int4, T::Int4], T::Bytea),
            ("md5", 1) => (Md5, vec![subject], T::Text),
            ("host", 1) => (Host, vec![T::Inet], T::Text),
            ("family", 1) => (Family, vec![T::Inet], T::Int4),
            ("masklen", 1) => (Masklen, vec![T::Inet], T::Int4),
            ("sha224", 1) => (Sha224, vec![T::Bytea], T::Bytea),
            ("sha256", 1) => (Sha256, vec![T::Bytea], T::Bytea),
            ("sha384", 1) => (Sha384, vec![T::Bytea], T::Bytea),
            ("sha512", 1) => (Sha512, vec![T::Bytea], T::Bytea),
            ("digest", 2) => (Digest, vec![subject, text], T::Bytea),
            ("hmac", 3) => (Hmac, vec![subject.clone(), subject, text], T::Bytea),
            ("encode", 2) => (Encode, vec![T::Bytea, text], T::Text),
            ("decode", 2) => (Decode, vec![text.clone(), text], T::Bytea),
            _ => return Ok(None),
        };
        self.call_fitting(function, &types, arguments, result)
    }

    /// `None`: some argument has not the type, nor becomes it by itself.
    pub(super) fn call_fitting(
        &mut self,
        function: Function,
        types: &[DataType],
        arguments: &[Typed],
        result: DataType,
    ) -> Result<Option<Typed>> {
        let fits = |argument: &Typed, to: &DataType| {
            types::cast::cast_context(&argument.data_type, to) == Some(CastContext::Implicit)
        };
        match arguments.iter().zip(types).all(|(a, t)| fits(a, t)) {
            true => self.call(function, types, arguments, result).map(Some),
            false => Ok(None),
        }
    }

    fn array_function(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        if name == SET_SLICE {
            return Err(Error::unsupported("an assignment to a slice of an array"));
        }
        if name == SET_ELEMENT {
            return self.with_element(arguments);
        }
        let is_shown = |array: &Typed| {
            let is_real = array.data_type == T::Array(Box::new(T::Float4));
            is_real
                || array.data_type.enum_type().is_some()
                || network_of(&array.data_type).is_some()
        };
        if name == "array_to_string" && arguments.first().is_some_and(is_shown) {
            let mut shown = arguments.to_vec();
            shown[0] = self.shown(shown[0].clone())?;
            return self.array_function(name, &shown);
        }
        let array_type = |t: &Typed| {
            let array = as_array(&t.data_type);
            matches!(array, T::Array(_)).then_some(array)
        };
        let Some(array) = arguments.iter().find_map(array_type) else {
            return Ok(None);
        };
        let T::Array(element) = &array else {
            return Ok(None);
        };
        let (array, element) = match element_of_all(name, element, arguments) {
            Some(common) => (T::Array(Box::new(common.clone())), common),
            None => (array.clone(), (**element).clone()),
        };
        let (function, types, result) = match (name, arguments.len()) {
            ("array_length", 2) => (Function::ArrayLength, vec![array, T::Int4], T::Int4),
            ("array_upper", 2) => (Function::ArrayUpper, vec![array, T::Int4], T::Int4),
            ("array_lower", 2) => (Function::ArrayLower, vec![array, T::Int4], T::Int4),
            ("cardinality", 1) => (Function::Cardinality, vec![array], T::Int4),
            ("array_ndims", 1) => return Ok(Some(dimensions(arguments[0].expr.clone()))),
            ("array_dims", 1) => return Ok(Some(shown_dimensions(arguments[0].expr.clone()))),
            ("array_append", 2) => (Function::ArrayAppend, vec![array.clone(), element], array),
            ("array_prepend", 2) => (Function::ArrayPrepend, vec![element, array.clone()], array),
            ("array_cat", 2) => (Function::ArrayCat, vec![array.clone(), array.clone()], array),
            ("array_position", 2) => (Function::ArrayPosition, vec![array, element], T::Int4),
            ("array_positions", 2) => {
                (Function::ArrayPositions, vec![array, element], T::Array(Box::new(T::Int4)))
            }
            ("array_remove", 2) => (Function::ArrayRemove, vec![array.clone(), element], array),
            ("array_replace", 3) => {
                (Function::ArrayReplace, vec![array.clone(), element.clone(), element], array)
            }
            ("array_to_string", 2 | 3) => {
                if matches!(element, T::Record(_)) {
                    return Err(Error::unsupported("an array of rows as text"));
                }
                self.needs_plain_text(&element)?;
                (Function::ArrayToString, vec![array, T::Text, T::Text], T::Text)
            }
            _ => return Ok(None),
        };
        self.call(function, &types, arguments, result).map(Some)
    }

    pub(super) fn call(
        &mut self,
        function: Function,
        types: &[DataType],
        arguments: &[Typed],
        result: DataType,
    ) -> Result<Typed> {
        let mut inputs = Vec::with_capacity(arguments.len());
        for (argument, to) in arguments.iter().zip(types) {
            inputs.push(self.coerce(argument.clone(), to, CastContext::Assignment)?);
        }
        Ok(called(function, inputs, result))
    }

    /// Calls with a syntax of their own: EXTRACT, SUBSTRING … FROM, TRIM, POSITION, CEIL, FLOOR.
    pub(super) fn function_syntax(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        let mut arguments: Vec<Typed> = Vec::new();
        let name = match expr {
            E::Extract { field, expr, .. } => {
                let unit = field.to_string().to_ascii_lowercase();
                let of = self.expression(scope, expr)?;
                if of.data_type == DataType::Date && is_of_clock(&unit) {
                    let what = format!("unit \"{unit}\" not supported for type date");
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
                }
                arguments.push(Typed::new(Expr::Const(Value::text(unit)), DataType::Text));
                arguments.push(of);
                "extract"
            }
            E::Ceil { expr, .. } => {
                arguments.push(self.expression(scope, expr)?);
                "ceil"
            }
            E::Floor { expr, .. } => {
                arguments.push(self.expression(scope, expr)?);
                "floor"
            }
            E::Position { expr, r#in } => {
                arguments.push(self.expression(scope, r#in)?);
                arguments.push(self.expression(scope, expr)?);
                "position"
            }
            E::Substring { expr, substring_from, substring_for, .. } => {
                arguments.push(self.expression(scope, expr)?);
                arguments.push(match substring_from {
                    Some(from) => self.expression(scope, from)?,
                    None => Typed::new(Expr::Const(Value::Int(1)), DataType::Int4),
                });
                if let Some(count) = substring_for {
                    arguments.push(self.expression(scope, count)?);
                }
                "substring"
            }
            E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                for part in [expr, overlay_what, overlay_from] {
                    arguments.push(self.expression(scope, part)?);
                }
                if let Some(count) = overlay_for {
                    arguments.push(self.expression(scope, count)?);
                }
                "overlay"
            }
            E::Trim { trim_where, trim_what, expr, trim_characters } => {
                arguments.push(self.expression(scope, expr)?);
                let listed = trim_characters.iter().flatten().next();
                if let Some(what) = trim_what.as_deref().or(listed) {
                    arguments.push(self.expression(scope, what)?);
                }
                match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                }
            }
            E::AtTimeZone { timestamp, time_zone } => {
                arguments.push(self.expression(scope, time_zone)?);
                arguments.push(self.expression(scope, timestamp)?);
                "timezone"
            }
            other => return Err(Error::unsupported(format_args!("the expression {other}"))),
        };
        self.call_by_name(name, arguments)
    }
}

/// NULL of an empty array.
fn dimensions(array: Expr) -> Typed {
    let length = length_of(array);
    let whens = [(Expr::is_null(length, false), Expr::Const(Value::Null))].into();
    let expr = Expr::Case { whens, otherwise: Box::new(Expr::Const(Value::Int(1))) };
    Typed::new(expr, DataType::Int4)
}

/// `[1:3]`; NULL of an empty array.
fn shown_dimensions(array: Expr) -> Typed {
    let beside = |left: Expr, right: Expr| Expr::Binary {
        op: BinaryOp::Concat,
        left: Box::new(left),
        right: Box::new(right),
        result: DataType::Text,
    };
    let text = |text: &str| Expr::Const(Value::text(text));
    let expr = beside(beside(text("[1:"), length_of(array)), text("]"));
    Typed::new(expr, DataType::Text)
}

fn length_of(array: Expr) -> Expr {
    let arguments = [array, Expr::Const(Value::Int(1))].into();
    Expr::Call { function: Function::ArrayLength, arguments, result: DataType::Int4 }
}

/// What a date has none of.
fn is_of_clock(unit: &str) -> bool {
    matches!(
        unit,
        "microsecond"
            | "microseconds"
            | "millisecond"
            | "milliseconds"
            | "second"
            | "seconds"
            | "minute"
            | "minutes"
            | "hour"
            | "hours"
            | "timezone"
            | "timezone_hour"
            | "timezone_minute"
    )
}

/// The type that elements and arrays of elements meet in, where a function takes both: its
/// `anycompatible`.
fn element_of_all(name: &str, element: &DataType, arguments: &[Typed]) -> Option<DataType> {
    let counted = match name {
        "array_append" | "array_prepend" | "array_cat" | "array_position" | "array_positions"
        | "array_remove" | "array_replace" => arguments,
        _ => return None,
    };
    counted.iter().try_fold(element.clone(), |common, argument| match &argument.data_type {
        DataType::Array(of) => common_type(&common, of),
        other => common_type(&common, other),
    })
}

pub(super) fn called(function: Function, arguments: Vec<Expr>, result: DataType) -> Typed {
    let expr = Expr::Call { function, arguments: arguments.into(), result: result.clone() };
    Typed::new(expr, result)
}
