//! How deep a statement nests, before it is walked over.
//!
//! A walk over a syntax tree needs stack for each of its levels: binders and planners, and
//! also those that clone a tree, write it out, or drop it. A thread's stack has an end, and beyond
//! it the process is gone with all sessions. So trees are measured twice:
//!
//! ```text
//! tokens ── an upper bound, by counting ─► sqlparser ── the true depth, by a walk ─► statement
//!             beyond 1000: 54001                          beyond 200: 54001
//!             AND and OR beyond 10000: 54001
//! ```
//!
//! *By counting.* sqlparser bounds its own recursion, but reads `1 + 1 + …`, `a AND b AND …` and
//! `… UNION …` in loops, each round of which puts another level around what came before. Such a
//! level has an operator; operators between two commas of one pair of parentheses add up, and with
//! those of the parentheses around it. Operators between sets add up over commas.
//!
//!
//! AND and OR bind less than any other operator, so that what stands before one of them is within
//! one side of it: of the others those between two of them count alone. CASE and END are as good as
//! parentheses, and the AND of BETWEEN is none.
//!
//! *By a walk.* Bounded by the first, and given up at the second bound. Long chains of AND, or of
//! OR, say the same however they are grouped, and are grouped by halves before anything looks at
//! them: `(a OR b) OR (c OR d)`.

use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator as Op};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{Error, Result, SqlState};

use crate::syntax::walk::{self, Tree};

/// Levels that a tree may have while only its maker and the measuring walk have seen it.
const OPERATORS_MAX: usize = 1000;

/// The same for AND and OR, which nothing but their maker goes down by one by one, and what drops
/// a statement that is wrong further on.
const LOGICAL_MAX: usize = 10_000;

/// A chain of more terms is grouped by halves.
const CHAIN_MAX: usize = 16;

/// Queries and expressions within each other.
const DEPTH_MAX: usize = 200;

/// Fewer tokens make no deep tree.
const FLAT_TOKENS_MAX: usize = DEPTH_MAX;

/// Within one pair of parentheses.
#[derive(Default)]
struct Level {
    /// Since the last AND or OR.
    operators: usize,
    /// As many as there have been between two of them.
    operators_max: usize,
    logical: usize,
    sets: usize,
    /// BETWEEN whose AND is still to come.
    betweens: usize,
    /// It began with CASE.
    is_case: bool,
}

impl Level {
    fn depth(&self) -> usize {
        self.sets + self.operators.max(self.operators_max)
    }

    /// What follows is another expression.
    fn end_operands(&mut self) {
        let Level { sets, is_case, .. } = *self;
        *self = Level { sets, is_case, ..Level::default() };
    }
}

/// What may be parsed.
pub(crate) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    if tokens.len() <= FLAT_TOKENS_MAX {
        return Ok(());
    }
    let mut around: Vec<Level> = Vec::new();
    // Of the levels around, one for each pair of parentheses included.
    let (mut level, mut depth, mut logical) = (Level::default(), 0_usize, 0_usize);
    for token in tokens {
        let keyword = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let begins = matches!(&token.token, Token::LParen | Token::LBracket);
        let ends = matches!(&token.token, Token::RParen | Token::RBracket);
        match &token.token {
            _ if begins || keyword == Keyword::CASE => {
                depth += level.depth() + usize::from(begins);
                logical += level.logical;
                around.push(std::mem::take(&mut level));
                level.is_case = keyword == Keyword::CASE;
            }
            _ if ends || keyword == Keyword::END && level.is_case => {
                // One without its other half is sqlparser's to refuse.
                while level.is_case && ends {
                    level = left(&mut around, &mut depth, &mut logical, false);
                }
                level = left(&mut around, &mut depth, &mut logical, ends);
            }
            Token::Comma => level.end_operands(),
            token if is_set_operator(token) => {
                level.sets += 1;
            }
            token if is_operator(token) => count_operator(&mut level, keyword),
            _ => {}
        }
        if depth + level.depth() > OPERATORS_MAX || logical + level.logical > LOGICAL_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn count_operator(level: &mut Level, keyword: Keyword) {
    match keyword {
        Keyword::AND if level.betweens > 0 => {
            level.betweens -= 1;
            level.operators += 1;
        }
        Keyword::AND | Keyword::OR => {
            level.logical += 1;
            level.operators_max = level.operators_max.max(std::mem::take(&mut level.operators));
        }
        keyword => {
            level.betweens += usize::from(keyword == Keyword::BETWEEN);
            level.operators += 1;
        }
    }
}

/// The level around one that ends.
fn left(
    around: &mut Vec<Level>,
    depth: &mut usize,
    logical: &mut usize,
    is_parenthesis: bool,
) -> Level {
    let level = around.pop().unwrap_or_default();
    *depth = depth.saturating_sub(level.depth() + usize::from(is_parenthesis));
    *logical = logical.saturating_sub(level.logical);
    level
}

/// What may be handed on.
pub(crate) fn check_tree(tokens: &[TokenWithSpan], tree: &mut dyn Tree) -> Result<()> {
    if tokens.len() <= FLAT_TOKENS_MAX {
        return Ok(());
    }
    match walk::change(tree, &mut Walk { depth: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(too_deep()),
    }
}

/// Groups a long chain of one connective by halves.
fn group_by_halves(expr: &mut ast::Expr) {
    let op = match &*expr {
        ast::Expr::BinaryOp { op: op @ (Op::And | Op::Or), .. } => op.clone(),
        _ => return,
    };
    let (mut length, mut down) = (1, &*expr);
    while let ast::Expr::BinaryOp { left, op: of, .. } = down
        && *of == op
    {
        length += 1;
        down = left;
    }
    if length <= CHAIN_MAX {
        return;
    }
    let nothing = || ast::Expr::value(ast::Value::Null);
    let mut terms = Vec::with_capacity(length);
    let mut chain = std::mem::replace(expr, nothing());
    loop {
        match chain {
            ast::Expr::BinaryOp { left, op: of, right } if of == op => {
                terms.push(*right);
                chain = *left;
            }
            first => {
                terms.push(first);
                break;
            }
        }
    }
    terms.reverse();
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut each = terms.into_iter();
        while let Some(left) = each.next() {
            pairs.push(match each.next() {
                Some(right) => {
                    let (left, right, op) = (Box::new(left), Box::new(right), op.clone());
                    ast::Expr::BinaryOp { left, op, right }
                }
                None => left,
            });
        }
        terms = pairs;
    }
    if let Some(grouped) = terms.pop() {
        *expr = grouped;
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

impl ast::VisitorMut for Walk {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.enter()
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.leave()
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        group_by_halves(expr);
        self.enter()
    }

    fn post_visit_expr(&mut self, _: &mut ast::Expr) -> ControlFlow<()> {
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
    fn chains_of_one_connective_may_be_long() {
        for (between, other) in [(" AND ", " OR "), (" OR ", " AND ")] {
            let terms =
                format!("a = 1 + 1{other}b BETWEEN 1 AND 2{other}NOT CASE WHEN c THEN d END");
            let chained = chain(&terms, between, 2_000);
            assert!(!is_refused(&format!("SELECT 1 FROM t WHERE {chained}")), "{between}");
            let grouped = chain(&format!("({terms})"), between, 2_000);
            assert!(!is_refused(&format!("SELECT ({grouped}) FROM t")), "{between}");
            assert!(parse_expression(&chained).is_ok());
        }
    }

    /// The text that a tree is written out as has the terms in their order.
    #[test]
    fn a_long_chain_says_the_same() {
        let terms: Vec<String> = (0..100).map(|n| format!("a = {n}")).collect();
        for between in [" AND ", " OR "] {
            let text = terms.join(between);
            assert_eq!(parse_expression(&text).unwrap().to_string(), text);
        }
        let mixed = terms.join(" AND b OR ");
        assert_eq!(parse_expression(&mixed).unwrap().to_string(), mixed);
    }

    /// Connectives inside of others' operands hide no depth.
    #[test]
    fn depth_hides_behind_no_connective() {
        let sums = chain("1", "+", 600);
        for hidden in [
            format!("{sums} + CASE WHEN a OR b THEN 1 END + {sums}"),
            format!("{sums} BETWEEN 1 AND 2 IS NULL = (({sums}) = 1)"),
            format!("{sums} + (SELECT 1 WHERE a OR b) + {sums}"),
        ] {
            assert!(is_refused(&format!("SELECT {hidden}")), "{hidden}");
        }
        let hidden = format!("{sums} + CASE WHEN a OR b THEN 1 END + ");
        assert!(is_refused(&format!("SELECT {} 1", hidden.repeat(200))));
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
