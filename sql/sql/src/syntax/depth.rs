//! How deep a statement nests, before it is walked over.
//!
//! A walk over a syntax tree needs stack for each of its levels: binders and planners, and
//! also those that clone a tree, write it out, or drop it. A thread's stack has an end, and beyond
//! it the process is gone with all sessions. So trees are measured twice:
//!
//! ```text
//! tokens ── an upper bound, by counting ─► sqlparser ── the true depth, by a walk ─► statement
//!             beyond 1000: 54001                          beyond 200: 54001
//! ```
//!
//! *By counting.* sqlparser bounds its own recursion, but reads `1 + 1 + …`, `a AND b AND …` and
//! `… UNION …` in loops, each round of which puts another level around what came before. Such a
//! level has an operator; operators between two commas of one pair of parentheses add up, and with
//! those of the parentheses around it. Operators between sets add up over commas.
//!
//! *By a walk.* Bounded by the first, and given up at the second bound.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Visit};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{Error, Result, SqlState};

/// Levels that a tree may have while only its maker and the measuring walk have seen it.
const OPERATORS_MAX: usize = 1000;

/// Queries and expressions within each other.
const DEPTH_MAX: usize = 200;

/// Fewer tokens make no deep tree.
const FLAT_TOKENS_MAX: usize = DEPTH_MAX;

/// What may be parsed.
pub(crate) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    /// Within one pair of parentheses.
    #[derive(Default)]
    struct Level {
        operators: usize,
        sets: usize,
    }
    if tokens.len() <= FLAT_TOKENS_MAX {
        return Ok(());
    }
    let mut around: Vec<Level> = Vec::new();
    let (mut level, mut depth) = (Level::default(), 0_usize);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                around.push(std::mem::take(&mut level));
                depth += 1;
            }
            Token::RParen | Token::RBracket => {
                // One without its other half is sqlparser's to refuse.
                depth = usize::saturating_sub(depth, level.operators + level.sets + 1);
                level = around.pop().unwrap_or_default();
            }
            Token::Comma => {
                depth = depth.saturating_sub(std::mem::take(&mut level.operators));
            }
            token if is_set_operator(token) => {
                level.sets += 1;
                depth += 1;
            }
            token if is_operator(token) => {
                level.operators += 1;
                depth += 1;
            }
            _ => {}
        }
        if depth > OPERATORS_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

/// What may be handed on.
pub(crate) fn check_tree(tokens: &[TokenWithSpan], tree: &impl Visit) -> Result<()> {
    if tokens.len() <= FLAT_TOKENS_MAX {
        return Ok(());
    }
    match tree.visit(&mut Walk { depth: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(too_deep()),
    }
}

pub fn too_deep() -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply")
        .with_hint("Break it up: a list for IN or a JOIN with VALUES does for many terms.")
}

fn is_set_operator(token: &Token) -> bool {
    let Token::Word(word) = token else { return false };
    matches!(word.keyword, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT)
}

/// Anything that is no operand, name, or separator; too many rather than too few.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::XOR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::NOTNULL
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::OPERATOR
                | Keyword::OVERLAPS
                | Keyword::ARRAY
        ),
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::Placeholder(_)
        | Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::SingleQuotedByteStringLiteral(_)
        | Token::Period
        | Token::SemiColon
        | Token::EOF => false,
        _ => true,
    }
}

struct Walk {
    depth: usize,
}

impl Walk {
    fn enter(&mut self) -> ControlFlow<()> {
        self.depth += 1;
        match self.depth <= DEPTH_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn leave(&mut self) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl ast::Visitor for Walk {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.enter()
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.leave()
    }

    fn pre_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.enter()
    }

    fn post_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.leave()
    }
}

#[cfg(test)]
mod sweep;

#[cfg(test)]
mod tests {
    use crate::syntax::parse::{parse, parse_expression};

    fn is_refused(text: &str) -> bool {
        match parse(text) {
            Ok(_) => false,
            Err(error) if error.code() == types::SqlState::STATEMENT_TOO_COMPLEX => true,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn chain(term: &str, between: &str, count: usize) -> String {
        vec![term; count].join(between)
    }

    #[test]
    fn chains_are_refused_before_they_are_trees() {
        for between in ["+", " AND ", " OR ", "||", " IS DISTINCT FROM "] {
            let chained = chain("a", between, 20_000);
            assert!(is_refused(&format!("SELECT {chained}")), "{between}");
            assert!(is_refused(&format!("SELECT f(1, ({chained})) FROM t")), "{between}");
            assert!(is_refused(&format!("SELECT 1 FROM t WHERE {chained}")), "{between}");
            assert!(parse_expression(&chained).is_err());
        }
        assert!(is_refused(&chain("SELECT a, b", " UNION ALL ", 20_000)));
        assert!(is_refused(&format!("SELECT a{}", "::int".repeat(20_000))));
        let deep = format!("SELECT {}", chain("a", "+", 500));
        assert!(is_refused(&deep), "by the walk");
    }

    #[test]
    fn tests_of_two_values_nest_no_deeper_than_they_are_many() {
        for test in ["IS DISTINCT FROM", "IS NOT DISTINCT FROM", "=", "IS NULL OR b ="] {
            for between in [" OR ", " AND "] {
                let chained = chain(&format!("a {test} b"), between, 60);
                assert!(!is_refused(&format!("SELECT {chained}")), "{test}");
                assert!(!is_refused(&format!("SELECT 1 FROM t WHERE NOT ({chained})")), "{test}");
            }
        }
    }

    #[test]
    fn what_is_long_and_flat_is_no_chain() {
        let rows = chain("(1, -2, 'x' || 'y')", ", ", 20_000);
        assert!(!is_refused(&format!("INSERT INTO t VALUES {rows}")));
        assert!(!is_refused(&format!("SELECT a FROM t WHERE a IN ({})", chain("-1", ",", 20_000))));
        assert!(!is_refused(&format!("SELECT {}", chain("a + 1", ", ", 5_000))));
        assert!(!is_refused(&format!("SELECT {}", chain("a", "+", 150))));
    }
}
