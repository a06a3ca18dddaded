//! Regular expressions: `~` and its like, SIMILAR TO, `substring` by a pattern, `regexp_…`.

use procedure::query::RowFunction;
use procedure::{Expr, Function, Query, RegexFunction};
use sqlparser::ast;
use types::arithmetic::no_operator;
use types::cast::CastContext;
use types::{DataType, Result, Value};

use super::binder::{Binder, Typed, fold};
use super::collated::Collated;
use super::digits::padded;
use super::operators::negated_if;
use super::scope::Scope;

/// What stands for an argument that was left out, beside which the others count.
const LEFT_OUT: i64 = i64::MIN;

fn is_text(typed: &Typed) -> bool {
    typed.data_type == DataType::Unknown || typed.data_type.stored().is_string()
}

fn is_int(typed: &Typed) -> bool {
    matches!(typed.data_type, DataType::Int2 | DataType::Int4 | DataType::Unknown)
}

fn int(value: i64) -> Typed {
    Typed::new(Expr::Const(Value::Int(value)), DataType::Int4)
}

/// What is refused under a collation that takes texts for the same.
const PATTERNS: &str = "regular expressions";

fn no_flags() -> Typed {
    Typed::new(Expr::Const(Value::text("")), DataType::Text)
}

impl Binder<'_> {
    /// `text operator pattern`, with one of `~ ~* !~ !~*`.
    pub(super) fn regex(&mut self, operator: &str, left: Typed, right: Typed) -> Result<Typed> {
        let (left, right) = (self.stored(left), self.stored(right));
        if !is_text(&left) || !is_text(&right) {
            return Err(no_operator(&left.data_type, operator, &right.data_type));
        }
        let left = self.with_blanks(left);
        let function = RegexFunction::Matches { any_case: operator.ends_with('*') };
        let matches = self.regex_call(function, &[left, right], DataType::Bool)?;
        Ok(negated_if(operator.starts_with('!'), matches))
    }

    /// The blanks of a `char(n)` are matched like other characters.
    pub(super) fn with_blanks(&self, typed: Typed) -> Typed {
        match typed.data_type {
            DataType::Char(length) => {
                let expr = padded(typed.expr, length);
                Typed { expr, data_type: DataType::Text, collated: typed.collated }
            }
            _ => typed,
        }
    }

    pub(super) fn similar_to(
        &mut self,
        scope: &Scope,
        (text, pattern): (&ast::Expr, &ast::Expr),
        escape: Option<&ast::ValueWithSpan>,
        negated: bool,
    ) -> Result<Typed> {
        let text = self.expression(scope, text)?;
        let text = self.with_blanks(text);
        let pattern = self.expression(scope, pattern)?;
        let mut arguments = vec![text, pattern];
        if !arguments.iter().all(is_text) {
            let types = [&arguments[0].data_type, &arguments[1].data_type];
            return Err(no_operator(types[0], "~", types[1]));
        }
        if let Some(escape) = escape {
            arguments.push(self.literal(&escape.value)?);
        }
        let similar = self.regex_call(RegexFunction::Similar, &arguments, DataType::Bool)?;
        Ok(negated_if(negated, similar))
    }

    /// Texts but where an integer is what a place takes.
    fn regex_call(
        &mut self,
        function: RegexFunction,
        arguments: &[Typed],
        result: DataType,
    ) -> Result<Typed> {
        Collated::of_all(arguments)?.check_patterns(PATTERNS)?;
        let mut inputs = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let to = if argument.data_type.is_integer() { DataType::Int4 } else { DataType::Text };
            inputs.push(self.coerce(argument.clone(), &to, CastContext::Implicit)?);
        }
        let (function, arguments) = (Function::Regex(function), inputs.into());
        let call = Expr::Call { function, arguments, result: result.clone() };
        Ok(Typed::new(fold(call), result))
    }

    /// `None`: there is none of this name for these types.
    pub(super) fn regex_function(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        use RegexFunction as F;
        let texts = DataType::Array(Box::new(DataType::Text));
        let (function, places, result) = match (name, arguments) {
            // With a length it is of places.
            ("substring", [text, pattern]) if is_pattern(text, &[pattern]) => {
                (F::Substring, "tt", DataType::Text)
            }
            ("substring", [text, pattern, escape]) if is_pattern(text, &[pattern, escape]) => {
                (F::SubstringSimilar, "ttt", DataType::Text)
            }
            ("regexp_match", _) => (F::Match, "tt,t", texts),
            ("regexp_like", _) => (F::Like, "tt,t", DataType::Bool),
            ("regexp_split_to_array", _) => (F::Split, "tt,t", texts),
            ("regexp_count", _) => (F::Count, "tt,it", DataType::Int4),
            ("regexp_substr", _) => (F::Substr, "tt,iiti", DataType::Text),
            ("regexp_instr", _) => (F::Instr, "tt,iiiti", DataType::Int4),
            ("regexp_replace", _) => return self.regexp_replace(arguments),
            _ => return Ok(None),
        };
        if !fit(arguments, places) {
            return Ok(None);
        }
        let mut given = arguments.to_vec();
        for (place, argument) in places.chars().filter(|c| *c != ',').zip(&mut given) {
            let to = if place == 'i' { DataType::Int4 } else { DataType::Text };
            let expr = self.coerce(argument.clone(), &to, CastContext::Implicit)?;
            *argument = Typed { expr, data_type: to, collated: argument.collated.clone() };
        }
        self.regex_call(function, &given, result).map(Some)
    }

    /// `(text, pattern, new [, flags])` or `(text, pattern, new, start [, n [, flags]])`.
    fn regexp_replace(&mut self, arguments: &[Typed]) -> Result<Option<Typed>> {
        let is_start = |typed: &Typed| typed.data_type.is_integer();
        let [text, pattern, new, rest @ ..] = arguments else { return Ok(None) };
        let (start, number, flags) = match rest {
            [] => (int(1), int(LEFT_OUT), no_flags()),
            [start] if is_start(start) => (start.clone(), int(LEFT_OUT), no_flags()),
            [flags] => (int(1), int(LEFT_OUT), flags.clone()),
            [start, number] => (start.clone(), number.clone(), no_flags()),
            [start, number, flags] => (start.clone(), number.clone(), flags.clone()),
            _ => return Ok(None),
        };
        let given = [text, pattern, new].map(Typed::clone);
        if !given.iter().all(is_text) || !is_text(&flags) || !is_int(&start) || !is_int(&number) {
            return Ok(None);
        }
        let mut all = given.to_vec();
        for place in [start, number] {
            let expr = match place.expr {
                // It is no integer of four bytes.
                Expr::Const(Value::Int(LEFT_OUT)) => place.expr,
                _ => self.coerce(place, &DataType::Int4, CastContext::Implicit)?,
            };
            all.push(Typed::new(expr, DataType::Int4));
        }
        all.push(flags);
        self.regex_call(RegexFunction::Replace, &all, DataType::Text).map(Some)
    }

    /// `regexp_matches` and `regexp_split_to_table`.
    pub(super) fn regex_rows(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<(Query, DataType)>> {
        if !fit(arguments, "tt,t") {
            return Ok(None);
        }
        if name == "regexp_split_to_table" {
            let parts = self.call_by_name("regexp_split_to_array", arguments.to_vec())?;
            let (function, inputs) = (RowFunction::Elements, [parts.expr].into());
            return Ok(Some((Query::Call { function, inputs }, DataType::Text)));
        }
        Collated::of_all(arguments)?.check_patterns(PATTERNS)?;
        let mut inputs = Vec::with_capacity(3);
        for argument in arguments {
            inputs.push(self.coerce(argument.clone(), &DataType::Text, CastContext::Implicit)?);
        }
        inputs.resize(3, Expr::Const(Value::text("")));
        let call = Query::Call { function: RowFunction::Matches, inputs: inputs.into() };
        Ok(Some((call, DataType::Array(Box::new(DataType::Text)))))
    }
}

/// Whether `substring` is one by a pattern.
fn is_pattern(text: &Typed, patterns: &[&Typed]) -> bool {
    is_text(text) && patterns.iter().all(|pattern| is_text(pattern))
}

/// Whether arguments are what a letter each says, `t` for a text and `i` for an integer; those
/// behind the comma may be left out.
fn fit(arguments: &[Typed], places: &str) -> bool {
    let (needed, more) = places.split_once(',').unwrap_or((places, ""));
    let all = needed.chars().chain(more.chars());
    let fits = |(typed, place): (&Typed, char)| match place {
        'i' => is_int(typed),
        _ => is_text(typed),
    };
    (needed.len()..=needed.len() + more.len()).contains(&arguments.len())
        && arguments.iter().zip(all).all(fits)
}
