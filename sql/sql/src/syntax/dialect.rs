//! PostgreSQL's dialect, with what makes its parser's time grow with more than the text taken away.
//!
//! sqlparser tries one reading, goes back and tries another. Where the first reading has already
//! read what is nested inside, every level doubles the time: `abs(abs(…` 30 levels deep took half
//! an hour. Three things prevent that:
//!
//! * No argument is read as a name first (`f('label': value)`, which PostgreSQL itself knows for
//!   JSON constructors only, and the binder for none).
//! * `NOT`, `CASE`, `CAST` and `ARRAY` are no function's name when what follows them is wrong.
//! * *Fuel.* Each expression, operator and statement that the parser begins costs one; a text has
//!   [`FUEL_PER_TOKEN`] for each of its tokens. Once it has run out, everything fails with the one
//!   error that no second reading catches, so the parser unwinds at once.
//!
//! The fuel follows from the text alone, so all replicas refuse the same texts.

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::{Expr, Statement};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

use crate::syntax::precedence;

/// What reading a text once takes is about three.
const FUEL_PER_TOKEN: usize = 16;

/// What the shortest text has.
const FUEL_MIN: usize = 1000;

const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

/// Serves one parser.
#[derive(Debug)]
pub(crate) struct Ledger {
    fuel: Cell<usize>,
}

impl Ledger {
    pub(crate) fn for_tokens(tokens: usize) -> Ledger {
        Ledger { fuel: Cell::new(FUEL_MIN + FUEL_PER_TOKEN * tokens) }
    }

    fn burn(&self) -> Result<(), ParserError> {
        let left = self.fuel.get().checked_sub(1).ok_or(ParserError::RecursionLimitExceeded)?;
        self.fuel.set(left);
        Ok(())
    }
}

macro_rules! as_postgresql {
    ($($name:ident),* $(,)?) => { $(
        fn $name(&self) -> bool {
            POSTGRESQL.$name()
        }
    )* };
}

impl Dialect for Ledger {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_statement(&self, _: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
        self.burn().err().map(Err)
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        self.burn().err().map(Err).or_else(|| precedence::prefix(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        _: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let refused = precedence::refuse_chain(parser, left).err().map(Err);
        refused.or_else(|| precedence::infix(parser, left))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match self.burn() {
            Ok(()) => POSTGRESQL.get_next_precedence(parser),
            Err(error) => Some(Err(error)),
        }
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRESQL.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        POSTGRESQL.is_delimited_identifier_start(c)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        POSTGRESQL.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        POSTGRESQL.is_identifier_part(c)
    }

    fn is_custom_operator_part(&self, c: char) -> bool {
        POSTGRESQL.is_custom_operator_part(c)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        matches!(keyword, Keyword::NOT | Keyword::CASE | Keyword::CAST | Keyword::ARRAY)
            || POSTGRESQL.is_reserved_for_identifier(keyword)
    }

    // `INSERT … SELECT 1 ON CONFLICT`: ON is no name.
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        *keyword != Keyword::ON && POSTGRESQL.is_column_alias(keyword, parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRESQL.prec_value(precedence)
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    as_postgresql!(
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_alter_column_type_using,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_factorial_operator,
        supports_filter_during_aggregation,
        supports_geometric_types,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_listen_notify,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_select_wildcard_with_alias,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_xml_expressions,
    );
}
