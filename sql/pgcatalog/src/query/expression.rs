//! From syntax to plan: expressions.

use sqlparser::ast;
use types::arithmetic::{ArithmeticOp, concat_type, no_operator, result_type};
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::bind::{Binder, settled};
use super::plan::*;
use super::refused::{missing_column, sets_not_allowed};
use super::scope::{parts, resolve};
use super::{Typed, fast, matched};
use sql::names::fold;

impl Binder<'_> {
    pub fn expr(&mut self, expr: &ast::Expr) -> Result<Typed> {
        self.nested(|binder| binder.expr_of_kind(expr))
    }

    /// An expression as a value of that type.
    pub fn bind_as(&mut self, expr: &ast::Expr, to: &DataType) -> Result<Expr> {
        let typed = self.expr(expr)?;
        self.coerce(typed, to)
    }

    fn expr_of_kind(&mut self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        match expr {
            E::Identifier(name) => self.identifier(name),
            E::CompoundIdentifier(names) => self.compound(names),
            E::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            E::Nested(expr) => self.expr(expr),
            // Everything is ordered by bytes, which is what the names of collations say here.
            E::Collate { expr, .. } => self.expr(expr),
            E::Value(value) => self.literal(&value.value),
            E::TypedString(string) => {
                let to = self.data_type(&string.data_type)?;
                let text = string.value.value.clone().into_string().unwrap_or_default();
                self.cast(Typed::literal(Value::text(text)), &to)
            }
            E::Cast { expr, data_type, .. } => {
                let to = self.data_type(data_type)?;
                let input = self.expr(expr)?;
                self.cast(input, &to)
            }
            E::UnaryOp { op, expr } => self.unary(*op, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right),
            E::IsNull(input) => self.is_null(input, false),
            E::IsNotNull(input) => self.is_null(input, true),
            E::IsTrue(input) => self.is_truth(input, Some(true), false),
            E::IsNotTrue(input) => self.is_truth(input, Some(true), true),
            E::IsFalse(input) => self.is_truth(input, Some(false), false),
            E::IsNotFalse(input) => self.is_truth(input, Some(false), true),
            E::IsUnknown(input) => self.is_truth(input, None, false),
            E::IsNotUnknown(input) => self.is_truth(input, None, true),
            E::IsDistinctFrom(a, b) => self.compare_exprs(CompareOp::Distinct, a, b),
            E::IsNotDistinctFrom(a, b) => self.compare_exprs(CompareOp::NotDistinct, a, b),
            E::Between { expr, negated, low, high } => {
                let input = self.expr(expr)?;
                let (low, high) = (self.expr(low)?, self.expr(high)?);
                self.once(input, |binder, input| {
                    let low = binder.compare(CompareOp::GreaterOrEqual, input.clone(), low)?;
                    let high = binder.compare(CompareOp::LessOrEqual, input, high)?;
                    Ok(Typed::bool(negate(Expr::And(vec![low, high]), *negated)))
                })
            }
            E::Like { negated, expr, pattern, escape_char, .. } => {
                let kind = MatchKind::Like { any_case: false };
                self.like(kind, *negated, expr, pattern, escape_char.as_ref())
            }
            E::ILike { negated, expr, pattern, escape_char, .. } => {
                let kind = MatchKind::Like { any_case: true };
                self.like(kind, *negated, expr, pattern, escape_char.as_ref())
            }
            E::Case { operand, conditions, else_result, .. } => {
                let operand = operand.as_deref().map(|operand| self.expr(operand)).transpose()?;
                let otherwise = else_result.as_deref();
                match operand {
                    None => self.case(None, conditions, otherwise),
                    Some(operand) => self.once(operand, |binder, operand| {
                        binder.case(Some(operand), conditions, otherwise)
                    }),
                }
            }
            E::Tuple(items) => {
                let items = items.iter().map(|item| self.expr(item));
                let items = items.collect::<Result<Vec<_>>>()?;
                Ok(Typed::row(items))
            }
            E::Array(array) => self.array(&array.elem),
            E::Function(function) => self.function_call(function),
            E::InList { .. }
            | E::InSubquery { .. }
            | E::AnyOp { .. }
            | E::AllOp { .. }
            | E::Exists { .. }
            | E::Subquery(_) => self.over_rows(expr),
            other => self.spelled_function(other),
        }
    }

    fn identifier(&mut self, name: &ast::Ident) -> Result<Typed> {
        let folded = fold(name);
        if let Some(typed) = self.column(&[], &folded)? {
            return Ok(typed);
        }
        if let Some(row) = self.whole_row(&folded)? {
            return Ok(row);
        }
        match sql::names::is_bare_call(name) {
            true => self.call(&folded, Vec::new()),
            false => Err(missing_column(&folded)),
        }
    }

    /// A table's name alone is its row; that of a function of values is its column.
    fn whole_row(&mut self, name: &String) -> Result<Option<Typed>> {
        let scopes = self.scopes.iter().rev();
        let table = scopes.enumerate().find_map(|(level, scope)| {
            let table = scope.table(std::slice::from_ref(name))?;
            let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.hidden);
            let items = columns.map(|(at, column)| {
                column.column.typed(Expr::Column { level, place: table.offset + at })
            });
            Some((level, table.offset, table.is_function, items.collect::<Vec<_>>()))
        });
        let Some((level, offset, is_function, mut items)) = table else {
            return Ok(None);
        };
        let at = self.scopes.len() - 1 - level;
        self.reach = self.reach.min(at);
        if is_function && items.len() == 1 {
            return Ok(items.pop());
        }
        let place = self.scopes[at].presence_of(offset);
        let mut row = Typed::row(items);
        if let Expr::Array(fields) = row.expr {
            let present = Box::new(Expr::Column { level, place });
            row.expr = Expr::WholeRow { present, fields };
        }
        Ok(Some(row))
    }

    fn column(&mut self, qualifier: &[String], name: &str) -> Result<Option<Typed>> {
        let found = resolve(&self.scopes, qualifier, name)?;
        Ok(found.map(|(typed, scope)| {
            self.reach = self.reach.min(scope);
            typed
        }))
    }

    fn compound(&mut self, names: &[ast::Ident]) -> Result<Typed> {
        let names: Vec<String> = names.iter().map(fold).collect();
        let Some((name, qualifier)) = names.split_last() else {
            return Err(missing_column(""));
        };
        if let Some(typed) = self.column(qualifier, name)? {
            return Ok(typed);
        }
        // `column.field` of a composite value.
        if let Some((column, qualifier)) = qualifier.split_last()
            && let Some(typed) = self.column(qualifier, column)?
        {
            return field(typed, name);
        }
        let known = self.scopes.iter().any(|scope| scope.table(qualifier).is_some());
        match known {
            true => Err(missing_column(&names.join("."))),
            false => Err(Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("missing FROM-clause entry for table \"{}\"", qualifier.join(".")),
            )),
        }
    }

    fn access(&mut self, root: &ast::Expr, chain: &[ast::AccessExpr]) -> Result<Typed> {
        // `table.column[1]` comes as a table's name with a chain behind it.
        let mut names = match root {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(names) => names.clone(),
            _ => Vec::new(),
        };
        let mut rest = chain;
        while let (false, [ast::AccessExpr::Dot(ast::Expr::Identifier(name)), after @ ..]) =
            (names.is_empty(), rest)
        {
            names.push(name.clone());
            rest = after;
        }
        let mut typed = match names.as_slice() {
            [] => self.expr(root)?,
            [name] => self.identifier(name)?,
            names => self.compound(names)?,
        };
        for access in rest {
            typed = match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => field(typed, &fold(name))?,
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    self.element(typed, index)?
                }
                other => return Err(Error::unsupported(format_args!("{root}{other}"))),
            };
        }
        Ok(typed)
    }

    fn element(&mut self, array: Typed, index: &ast::Expr) -> Result<Typed> {
        let (element, origin) = match &array.data_type {
            DataType::Array(element) => ((**element).clone(), 1),
            // A name is an array of characters.
            DataType::System(SystemType::Name) => (DataType::System(SystemType::Char), 0),
            DataType::System(SystemType::Int2Vector) => (DataType::Int2, 0),
            DataType::System(SystemType::OidVector) => (DataType::System(SystemType::Oid), 0),
            other => {
                return Err(Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "cannot subscript type {other} because it does not support subscripting"
                    ),
                ));
            }
        };
        let index = Box::new(self.bind_as(index, &DataType::Int8)?);
        let array = Box::new(array.expr);
        Ok(Typed::new(Expr::Element { array, index, origin }, element))
    }

    fn literal(&mut self, value: &ast::Value) -> Result<Typed> {
        use ast::Value as V;
        Ok(match value {
            V::Number(text, _) => number(text)?,
            V::Boolean(truth) => Typed::bool(Expr::Value(Value::Bool(*truth))),
            V::Null => Typed::literal(Value::Null),
            V::Placeholder(name) => return self.parameter(name),
            V::DollarQuotedString(string) => Typed::literal(Value::text(&string.value)),
            other => match other.clone().into_string() {
                Some(text) => Typed::literal(Value::text(text)),
                None => match other {
                    V::EscapedStringLiteral(text) | V::UnicodeStringLiteral(text) => {
                        Typed::literal(Value::text(text))
                    }
                    other => return Err(Error::unsupported(other)),
                },
            },
        })
    }

    fn parameter(&mut self, name: &str) -> Result<Typed> {
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let Some(number) = number.filter(|n| (1..=65535).contains(n)) else {
            return Err(Error::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {name}"),
            ));
        };
        if self.parameters.len() < number {
            self.parameters.resize(number, None);
        }
        let known = self.parameters[number - 1].clone();
        Ok(Typed::new(Expr::Parameter(number - 1), known.unwrap_or(DataType::Unknown)))
    }

    fn unary(&mut self, op: ast::UnaryOperator, input: &ast::Expr) -> Result<Typed> {
        match op {
            ast::UnaryOperator::Not => {
                let input = self.condition(input, "NOT")?;
                Ok(Typed::bool(Expr::Not(Box::new(input))))
            }
            ast::UnaryOperator::Plus => self.expr(input),
            ast::UnaryOperator::Minus => {
                let input = self.expr(input)?;
                let of = match input.data_type {
                    DataType::Int2 => DataType::Int2,
                    _ => DataType::Int4,
                };
                let zero = Typed::new(Expr::Value(Value::Int(0)), of);
                self.arithmetic(ArithmeticOp::Sub, zero, input)
            }
            other => Err(Error::unsupported(format_args!("the operator {other}"))),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed> {
        use ast::BinaryOperator as B;
        if let B::And | B::Or = op {
            return self.chain(left, op, right);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let arithmetic = match op {
            B::Plus => Some(ArithmeticOp::Add),
            B::Minus => Some(ArithmeticOp::Sub),
            B::Multiply => Some(ArithmeticOp::Mul),
            B::Divide => Some(ArithmeticOp::Div),
            B::Modulo => Some(ArithmeticOp::Mod),
            _ => None,
        };
        if let Some(op) = arithmetic {
            return self.arithmetic(op, left, right);
        }
        if *op == B::StringConcat {
            return self.concat(left, right);
        }
        match quantifier(op)? {
            Some(Quantifier::Compare(op) | Quantifier::Rows(op)) => {
                Ok(Typed::bool(self.compare(op, left, right)?))
            }
            Some(Quantifier::Match { kind, negated }) => self.matched(kind, negated, left, right),
            None => {
                let name = operator_name(op);
                self.call(&format!("operator {name}"), vec![left, right])
            }
        }
    }

    /// `a AND b AND c`: one list, however long.
    fn chain(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed> {
        let mut terms = vec![right];
        let mut rest = left;
        while let ast::Expr::BinaryOp { left, op: inner, right } = rest
            && inner == op
        {
            terms.push(right);
            rest = left;
        }
        terms.push(rest);
        let clause = op.to_string();
        let terms = terms.into_iter().rev().map(|term| self.condition(term, &clause));
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok(Typed::bool(match op {
            ast::BinaryOperator::And => Expr::And(terms),
            _ => Expr::Or(terms),
        }))
    }

    fn arithmetic(&mut self, op: ArithmeticOp, left: Typed, right: Typed) -> Result<Typed> {
        let settle = |typed: &Typed, other: &Typed| match typed.data_type {
            DataType::Unknown => other.data_type.clone(),
            ref known => known.clone(),
        };
        let left_type = settle(&left, &right).stored();
        let right_type = settle(&right, &left).stored();
        let (left, right) = (self.cast(left, &left_type)?, self.cast(right, &right_type)?);
        let result = match result_type(op, &left_type, &right_type) {
            Ok(result) => result,
            Err(error) => {
                return fast::operator(fast::arithmetic(op), left, right).map_err(|_| error);
            }
        };
        let sides = Box::new([left.expr, right.expr]);
        Ok(Typed::new(Expr::Arithmetic { op, sides, result: result.clone() }, result))
    }

    fn concat(&mut self, left: Typed, right: Typed) -> Result<Typed> {
        let is_array = |t: &Typed| matches!(t.data_type, DataType::Array(_));
        if is_array(&left) || is_array(&right) {
            let result = concat_type(&left.data_type, &right.data_type)?;
            let (left, right) = match (is_array(&left), is_array(&right)) {
                (true, true) => (left.expr, right.expr),
                (true, false) => (left.expr, Expr::Array(vec![right.expr])),
                _ => (Expr::Array(vec![left.expr]), right.expr),
            };
            return Ok(Typed::new(Expr::Concat(Box::new([left, right])), result));
        }
        let may_be_text = |t: &Typed| {
            t.data_type.is_string()
                || matches!(t.data_type, DataType::Unknown | DataType::System(_))
        };
        if !may_be_text(&left) && !may_be_text(&right) {
            return Err(no_operator(&left.data_type, "||", &right.data_type));
        }
        let sides = [self.text(left)?, self.text(right)?];
        Ok(Typed::new(Expr::Concat(Box::new(sides)), DataType::Text))
    }

    fn text(&mut self, typed: Typed) -> Result<Expr> {
        Ok(self.cast(typed, &DataType::Text)?.expr)
    }

    fn like(
        &mut self,
        kind: MatchKind,
        negated: bool,
        input: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
    ) -> Result<Typed> {
        let (input, mut pattern) = (self.expr(input)?, self.expr(pattern)?);
        if let Some(escape) = escape {
            let escape = self.literal(&escape.value)?;
            pattern = self.call("like_escape", vec![pattern, escape])?;
        }
        self.matched(kind, negated, input, pattern)
    }

    pub fn matched(
        &mut self,
        kind: MatchKind,
        negated: bool,
        input: Typed,
        pattern: Typed,
    ) -> Result<Typed> {
        let sides = Box::new([self.text(input)?, self.text(pattern)?]);
        Ok(Typed::bool(Expr::Match { kind, negated, sides }))
    }

    fn is_truth(&mut self, input: &ast::Expr, truth: Option<bool>, negated: bool) -> Result<Typed> {
        let input = Box::new(self.bind_as(input, &DataType::Bool)?);
        Ok(Typed::bool(Expr::IsTruth { input, truth, negated }))
    }

    fn case(
        &mut self,
        operand: Option<Typed>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let around = self.scope().sets.len();
        let mut whens = Vec::new();
        let mut results = Vec::new();
        for when in conditions {
            let condition = match &operand {
                Some(operand) => {
                    let value = self.expr(&when.condition)?;
                    self.compare(CompareOp::Equal, operand.clone(), value)?
                }
                None => self.condition(&when.condition, "CASE/WHEN")?,
            };
            whens.push(condition);
            results.push(self.expr(&when.result)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => Typed::literal(Value::Null),
        });
        if self.scope().sets.len() > around {
            return Err(sets_not_allowed("in CASE"));
        }
        let (mut results, data_type) = self.unify(results)?;
        let otherwise = Box::new(results.pop().unwrap_or(Expr::null()));
        let whens = whens.into_iter().zip(results).collect();
        Ok(Typed::new(Expr::Case { whens, otherwise }, data_type))
    }

    fn array(&mut self, elements: &[ast::Expr]) -> Result<Typed> {
        let elements = elements.iter().map(|element| self.expr(element));
        let elements = elements.collect::<Result<Vec<_>>>()?;
        let (elements, data_type) = self.unify(elements)?;
        Ok(Typed::new(Expr::Array(elements), array_of(settled(&data_type))?))
    }

    /// All in the type that they meet in; `Unknown` if none has one.
    pub fn unify(&mut self, inputs: Vec<Typed>) -> Result<(Vec<Expr>, DataType)> {
        let mut types = inputs.iter().map(|input| &input.data_type);
        let common = types.try_fold(DataType::Unknown, |common, t| matched(&common, t))?;
        let exprs = inputs.into_iter().map(|input| self.coerce(input, &common));
        Ok((exprs.collect::<Result<_>>()?, common))
    }

    /// An implicit conversion: literals and parameters take the type, others are cast.
    pub fn coerce(&mut self, typed: Typed, to: &DataType) -> Result<Expr> {
        Ok(self.cast(typed, to)?.expr)
    }

    pub fn cast(&mut self, typed: Typed, to: &DataType) -> Result<Typed> {
        if typed.data_type == *to || *to == DataType::Unknown {
            return Ok(typed);
        }
        if let (Expr::Parameter(number), DataType::Unknown) = (&typed.expr, &typed.data_type) {
            self.parameters[*number] = Some(to.clone());
            return Ok(Typed::new(typed.expr, to.clone()));
        }
        // A vector stays one as an array: it goes on counting from 0.
        if let (DataType::System(vector), DataType::Array(_)) = (&typed.data_type, to)
            && matches!(vector, SystemType::Int2Vector | SystemType::OidVector)
        {
            return Ok(typed);
        }
        if let Expr::Value(value) = &typed.expr {
            let names = super::cast::Names { world: self.world };
            let value = names.cast(value, &typed.data_type, to)?;
            return Ok(Typed::new(Expr::Value(value), to.clone()));
        }
        let (input, from) = (Box::new(typed.expr), typed.data_type);
        Ok(Typed::new(Expr::Cast { input, from, to: to.clone() }, to.clone()))
    }

    pub fn data_type(&self, data_type: &ast::DataType) -> Result<DataType> {
        super::cast::type_named(data_type)
    }
}

/// As many as PostgreSQL has.
const DIMENSIONS_MAX: usize = 6;

/// # Errors
/// 54000 for more dimensions than arrays can have.
pub fn array_of(element: DataType) -> Result<DataType> {
    let (mut within, mut dimensions) = (&element, 1);
    while let DataType::Array(of) = within {
        (within, dimensions) = (of, dimensions + 1);
    }
    match dimensions <= DIMENSIONS_MAX {
        true => Ok(DataType::Array(Box::new(element))),
        false => Err(Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "number of array dimensions ({dimensions}) exceeds the maximum allowed \
                 ({DIMENSIONS_MAX})"
            ),
        )),
    }
}

/// What an output is called that has no name.
pub fn output_name(expr: &ast::Expr) -> String {
    use ast::Expr as E;
    match expr {
        E::Identifier(name) => fold(name),
        E::CompoundIdentifier(names) => names.last().map(fold).unwrap_or_default(),
        E::Nested(expr) | E::Collate { expr, .. } => output_name(expr),
        E::Function(function) => parts(&function.name).pop().unwrap_or_default(),
        E::Cast { expr, data_type, .. } => named(expr).unwrap_or_else(|| cast_name(data_type)),
        // What it ends in lends it its name, unless that is only a type's.
        E::Case { else_result: Some(expr), .. } => named(expr).unwrap_or_else(|| "case".to_owned()),
        E::Case { .. } => "case".to_owned(),
        E::Array(_) => "array".to_owned(),
        E::Exists { negated: false, .. } => "exists".to_owned(),
        E::Substring { shorthand: true, .. } => "substr".to_owned(),
        E::Substring { .. } => "substring".to_owned(),
        E::Position { .. } => "position".to_owned(),
        E::Extract { .. } => "extract".to_owned(),
        E::Ceil { .. } => "ceil".to_owned(),
        E::Floor { .. } => "floor".to_owned(),
        E::Trim { .. } => "btrim".to_owned(),
        E::Tuple(_) => "row".to_owned(),
        E::CompoundFieldAccess { root, access_chain } => {
            let fields = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(fold(name)),
                _ => None,
            });
            fields.unwrap_or_else(|| output_name(root))
        }
        E::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.first() {
                Some(ast::SelectItem::UnnamedExpr(expr)) => output_name(expr),
                Some(ast::SelectItem::ExprWithAlias { alias, .. }) => fold(alias),
                _ => "?column?".to_owned(),
            },
            _ => "?column?".to_owned(),
        },
        _ => "?column?".to_owned(),
    }
}

/// The name of an expression that has one of its own.
fn named(expr: &ast::Expr) -> Option<String> {
    use ast::Expr as E;
    match expr {
        E::Cast { expr, .. } | E::Nested(expr) | E::Collate { expr, .. } => named(expr),
        expr => Some(output_name(expr)).filter(|name| name != "?column?"),
    }
}

fn cast_name(data_type: &ast::DataType) -> String {
    let text = data_type.to_string().to_ascii_lowercase();
    let name = text.rsplit('.').next().unwrap_or_default();
    let name = name.split(['(', '[']).next().unwrap_or_default();
    match name {
        "int" | "integer" => "int4".to_owned(),
        "bigint" => "int8".to_owned(),
        "smallint" => "int2".to_owned(),
        "boolean" => "bool".to_owned(),
        name => name.to_owned(),
    }
}

fn number(text: &str) -> Result<Typed> {
    if let Ok(number) = text.parse::<i64>() {
        let data_type = match i32::try_from(number) {
            Ok(_) => DataType::Int4,
            Err(_) => DataType::Int8,
        };
        return Ok(Typed::new(Expr::Value(Value::Int(number)), data_type));
    }
    let numeric = DataType::Numeric(None);
    Ok(Typed::new(Expr::Value(Value::read_text(&numeric, text)?), numeric))
}

fn field(typed: Typed, name: &str) -> Result<Typed> {
    let place = typed.fields.iter().position(|(field, _)| *field == name);
    let place = place.ok_or_else(|| missing_column(name))?;
    let data_type = typed.fields[place].1.clone();
    Ok(Typed::new(Expr::Field { input: Box::new(typed.expr), place }, data_type))
}

pub fn negate(expr: Expr, negated: bool) -> Expr {
    match negated {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    }
}

/// What stands between two values and gives a truth value.
pub fn quantifier(op: &ast::BinaryOperator) -> Result<Option<Quantifier>> {
    use CompareOp as C;
    let regex =
        |any_case, negated| Quantifier::Match { kind: MatchKind::Regex { any_case }, negated };
    let like =
        |any_case, negated| Quantifier::Match { kind: MatchKind::Like { any_case }, negated };
    Ok(Some(match operator_name(op).as_str() {
        "=" => Quantifier::Compare(C::Equal),
        "<>" | "!=" => Quantifier::Compare(C::NotEqual),
        "<" => Quantifier::Compare(C::Less),
        "<=" => Quantifier::Compare(C::LessOrEqual),
        ">" => Quantifier::Compare(C::Greater),
        ">=" => Quantifier::Compare(C::GreaterOrEqual),
        "~" => regex(false, false),
        "~*" => regex(true, false),
        "!~" => regex(false, true),
        "!~*" => regex(true, true),
        "~~" => like(false, false),
        "~~*" => like(true, false),
        "!~~" => like(false, true),
        "!~~*" => like(true, true),
        _ => return Ok(None),
    }))
}

/// `OPERATOR(pg_catalog.~)` is `~`.
fn operator_name(op: &ast::BinaryOperator) -> String {
    match op {
        ast::BinaryOperator::PGCustomBinaryOperator(names) => {
            names.last().cloned().unwrap_or_default()
        }
        other => other.to_string(),
    }
}
