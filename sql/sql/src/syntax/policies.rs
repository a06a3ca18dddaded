//! ALTER … SET APPROVAL POLICY and DROP APPROVAL POLICY.
//!
//! ```text
//! ALTER { TABLE [IF EXISTS] name | FUNCTION name [(…)] | PROCEDURE name [(…)] | DATABASE name }
//!     { SET APPROVAL POLICY 'policy' [FORCE] | DROP APPROVAL POLICY }
//! ```

use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use types::Result;

use crate::syntax::dialect::Ledger;
use crate::syntax::errors::parser_error;
use crate::syntax::grants::Owned;
use crate::syntax::words::{is_word, routine, word};

type Read<T> = std::result::Result<T, ParserError>;

#[derive(Clone, Debug, PartialEq)]
pub struct PolicyStatement {
    /// A table, a routine, or the database, which is the ledger.
    pub of: Owned,
    pub if_exists: bool,
    pub name: ast::ObjectName,
    /// `None`: it has none any more.
    pub set: Option<SetPolicy>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SetPolicy {
    pub text: String,
    /// Whatever it names, and be it never met.
    pub force: bool,
}

/// `None`: the statement is none of these.
pub(crate) fn read(sql: &str, tokens: &[TokenWithSpan]) -> Option<Result<PolicyStatement>> {
    let [first, kind, rest @ ..] = tokens else { return None };
    let says = |three: &[TokenWithSpan]| {
        (is_word(&three[0], "set") || is_word(&three[0], "drop"))
            && is_word(&three[1], "approval")
            && is_word(&three[2], "policy")
    };
    if !is_word(first, "alter") || !rest.windows(3).any(says) {
        return None;
    }
    let kinds = ["table", "database", "function", "procedure", "routine"];
    let of = match kinds.into_iter().find(|known| is_word(kind, known))? {
        "table" => Owned::Table,
        "database" => Owned::Database,
        _ => Owned::Routine,
    };
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    (0..2).for_each(|_| drop(parser.next_token()));
    Some(statement(&mut parser, of).map_err(|error| parser_error(sql, error)))
}

fn statement(parser: &mut Parser<'_>, of: Owned) -> Read<PolicyStatement> {
    let if_exists = of == Owned::Table && parser.parse_keywords(&[K::IF, K::EXISTS]);
    let name = routine(parser)?;
    let sets = word(parser, &["set", "drop"]).ok_or_else(|| expected("SET or DROP"))? == "set";
    for wanted in ["approval", "policy"] {
        word(parser, &[wanted]).ok_or_else(|| expected(&wanted.to_uppercase()))?;
    }
    let set = match sets {
        true => {
            let Token::SingleQuotedString(text) = parser.next_token().token else {
                return Err(expected("a policy, as a text in quotes"));
            };
            Some(SetPolicy { text, force: word(parser, &["force"]).is_some() })
        }
        false => None,
    };
    match parser.next_token().token {
        Token::EOF => Ok(PolicyStatement { of, if_exists, name, set }),
        _ => Err(expected("the end of the statement")),
    }
}

fn expected(what: &str) -> ParserError {
    ParserError::ParserError(format!("Expected: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ddl::Ddl;
    use crate::syntax::parse::parse;
    use crate::syntax::parsed::Body;

    fn read(text: &str) -> Option<PolicyStatement> {
        let Body::Ddl(ddl) = parse(text).ok()?.remove(0).body else { return None };
        match *ddl {
            Ddl::ApprovalPolicy(statement) => Some(*statement),
            _ => None,
        }
    }

    #[test]
    fn statements_say_what_they_say() {
        for (text, of, name, set) in [
            (
                "alter table s.t set approval policy 'AND(a, b)'",
                Owned::Table,
                "s.t",
                Some(("AND(a, b)", false)),
            ),
            (
                "ALTER FUNCTION pay(int, numeric(9, 2)) SET APPROVAL POLICY 'a' FORCE",
                Owned::Routine,
                "pay",
                Some(("a", true)),
            ),
            ("ALTER PROCEDURE p DROP APPROVAL POLICY", Owned::Routine, "p", None),
            (
                "ALTER DATABASE tally SET APPROVAL POLICY ''",
                Owned::Database,
                "tally",
                Some(("", false)),
            ),
        ] {
            let statement = read(text).unwrap_or_else(|| panic!("{text}"));
            let said = statement.set.as_ref().map(|set| (set.text.as_str(), set.force));
            assert_eq!((statement.of, statement.name.to_string().as_str(), said), (of, name, set));
        }
        assert!(read("ALTER TABLE IF EXISTS t DROP APPROVAL POLICY").unwrap().if_exists);
    }

    #[test]
    fn what_says_something_else_is_something_else() {
        for text in [
            "ALTER TABLE t SET APPROVAL POLICY a",
            "ALTER TABLE t SET APPROVAL POLICY 'a' now",
            "ALTER TABLE t DROP APPROVAL POLICY 'a'",
            "ALTER VIEW v SET APPROVAL POLICY 'a'",
            "ALTER FUNCTION IF EXISTS f DROP APPROVAL POLICY",
            "ALTER TABLE SET APPROVAL POLICY 'a'",
        ] {
            assert_eq!(parse(text).unwrap_err().code().as_str(), "42601", "{text}");
        }
        assert!(read("ALTER TABLE t DROP approval").is_none());
    }
}
