//! What a transaction of the ledger may hold: statements that come to the same everywhere.
//!
//! INSERT, UPDATE and DELETE of chained tables, with conditions, subqueries over chained tables and
//! the functions below. What could come to something else in another system, or the next time, is
//! refused by its name before it is ordered, and is refused alike by every organisation where it is
//! ordered all the same: its outcome is *refused*.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FromTable, ObjectName, Query, SetExpr, Statement, TableFactor, TableObject, Visit,
    Visitor,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use types::codec::{decode_str, decode_u64, encode_str, encode_u64};
use types::{Error, Result, SqlState};

use crate::schema::Schema;

/// Of one transaction.
pub const STATEMENTS_MAX: usize = 256;
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Functions that come to the same in both systems.
const FUNCTIONS: [&str; 11] = [
    "abs",
    "char_length",
    "coalesce",
    "count",
    "max",
    "min",
    "mod",
    "nullif",
    "octet_length",
    "sign",
    "sum",
];

/// The request of an envelope.
pub fn encode(statements: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_u64(statements.len() as u64, &mut out);
    statements.iter().for_each(|statement| encode_str(statement, &mut out));
    out
}

pub fn decode(mut request: &[u8]) -> Result<Vec<String>> {
    let count = decode_u64(&mut request)?;
    if count == 0 || count > STATEMENTS_MAX as u64 {
        let what = format!("a transaction has {count} statements, not 1 to {STATEMENTS_MAX}");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    }
    let all: Result<Vec<String>> =
        (0..count).map(|_| decode_str(&mut request).map(str::to_owned)).collect();
    match request.is_empty() {
        true => all,
        false => Err(Error::new(SqlState::PROTOCOL_VIOLATION, "bytes follow the last statement")),
    }
}

/// Whether all of a transaction's statements may be ordered.
pub fn check(statements: &[String], schema: &Schema) -> Result<()> {
    parsed(statements, schema).map(|_| ())
}

/// The same, with what each says.
pub fn parsed(statements: &[String], schema: &Schema) -> Result<Vec<Statement>> {
    if statements.is_empty() || statements.len() > STATEMENTS_MAX {
        let found = statements.len();
        let what = format!("a transaction has {found} statements, not 1 to {STATEMENTS_MAX}");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    }
    statements.iter().map(|statement| parsed_one(statement, schema)).collect()
}

fn parsed_one(text: &str, schema: &Schema) -> Result<Statement> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("a statement has {} bytes, at most {TEXT_BYTES_MAX}", text.len());
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    }
    // MariaDB executes what stands in some comments; E'…' and X'…' mean something in one system
    // only, or something else.
    let bare = outside_of_quotes(text);
    for (piece, what) in [
        ("/*", "a comment"),
        ("--", "a comment, or a minus before a sign"),
        ("#", "the sign #"),
        ("\\", "a backslash"),
        ("`", "the quote `"),
        ("$", "the sign $"),
        ("@", "the sign @"),
        ("?", "a parameter"),
        ("\0", "the character zero"),
        ("prefix'", "a string with a prefix"),
    ] {
        if bare.contains(piece) {
            return Err(refused(what, text));
        }
    }
    let parsed = Parser::parse_sql(&GenericDialect {}, text);
    let mut parsed = parsed.map_err(|error| {
        Error::new(SqlState::SYNTAX_ERROR, "a statement cannot be read")
            .with_detail(error.to_string())
    })?;
    let [statement] = &parsed[..] else {
        return Err(refused("several statements in one text", text));
    };
    check_kind(statement, text)?;
    let mut portable = Portable { schema };
    match statement.visit(&mut portable) {
        ControlFlow::Continue(()) => Ok(parsed.remove(0)),
        ControlFlow::Break(what) => Err(refused(&what, text)),
    }
}

/// The text without what stands in quotes, as the standard has it: two of a kind are one inside. A
/// string after a letter is told by the word `prefix'`.
fn outside_of_quotes(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut inside = None;
    for letter in text.chars() {
        match inside {
            Some(quote) => {
                if letter == quote {
                    inside = None;
                }
                if letter == '\0' {
                    bare.push(letter);
                }
            }
            None if letter == '\'' || letter == '"' => {
                let is_word = |it: char| it.is_alphanumeric() || it == '_' || it == '&';
                if letter == '\'' && bare.ends_with(is_word) {
                    bare.push_str("prefix'");
                }
                inside = Some(letter);
            }
            None => bare.push(letter),
        }
    }
    bare
}

fn check_kind(statement: &Statement, text: &str) -> Result<()> {
    let refuse = |is_there: bool, what: &str| match is_there {
        true => Err(refused(what, text)),
        false => Ok(()),
    };
    match statement {
        Statement::Insert(insert) => {
            refuse(insert.returning.is_some(), "RETURNING")?;
            refuse(insert.on.is_some(), "ON CONFLICT or ON DUPLICATE KEY")?;
            refuse(
                insert.or.is_some() || insert.ignore || insert.replace_into,
                "a special INSERT",
            )?;
            refuse(insert.overwrite || insert.partitioned.is_some(), "a special INSERT")?;
            refuse(!matches!(insert.table, TableObject::TableName(_)), "INSERT into no table")?;
            refuse(!insert.assignments.is_empty() || insert.source.is_none(), "INSERT … SET")?;
            refuse(insert.columns.is_empty(), "INSERT without names of columns")
        }
        Statement::Update(update) => {
            refuse(update.returning.is_some(), "RETURNING")?;
            refuse(update.or.is_some() || update.limit.is_some(), "LIMIT")?;
            refuse(!update.order_by.is_empty(), "ORDER BY")?;
            refuse(update.from.is_some() || !update.table.joins.is_empty(), "UPDATE of a join")
        }
        Statement::Delete(delete) => {
            let FromTable::WithFromKeyword(from) = &delete.from else {
                return Err(refused("DELETE without FROM", text));
            };
            let is_plain = from.len() == 1 && from[0].joins.is_empty();
            refuse(!is_plain || delete.using.is_some() || !delete.tables.is_empty(), "a join")?;
            refuse(delete.returning.is_some(), "RETURNING")?;
            refuse(delete.limit.is_some() || !delete.order_by.is_empty(), "LIMIT")
        }
        _ => Err(refused("anything but INSERT, UPDATE and DELETE", text)),
    }
}

struct Portable<'a> {
    schema: &'a Schema,
}

impl Visitor for Portable<'_> {
    type Break = String;

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<String> {
        let name = relation.to_string().replace('"', "");
        match self.schema.table(&name) {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(format!("table {name}, which is not chained")),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<String> {
        match factor {
            TableFactor::Table { args: None, .. } | TableFactor::Derived { .. } => {
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break("a table that is none".to_owned()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        if query.limit_clause.is_some() || query.fetch.is_some() {
            return ControlFlow::Break("LIMIT, which picks other rows elsewhere".to_owned());
        }
        if query.with.is_some() || !query.locks.is_empty() {
            return ControlFlow::Break("WITH or FOR UPDATE".to_owned());
        }
        match &*query.body {
            SetExpr::Select(_) | SetExpr::Values(_) => ControlFlow::Continue(()),
            _ => ControlFlow::Break("a set operation".to_owned()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let what = match expr {
            Expr::Function(function) => {
                let name = function.name.to_string().to_ascii_lowercase();
                if FUNCTIONS.contains(&&*name) && function.over.is_none() {
                    return ControlFlow::Continue(());
                }
                format!("function {name}(), which may come to something else elsewhere")
            }
            // Keywords that are functions.
            Expr::Identifier(name) if name.quote_style.is_none() && is_clock(&name.value) => {
                format!("{}, which is another time elsewhere", name.value)
            }
            Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::RLike { .. }
            | Expr::SimilarTo { .. } => "LIKE, which ignores case in one system".to_owned(),
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(what)
    }
}

fn is_clock(name: &str) -> bool {
    let names = [
        "current_timestamp",
        "current_date",
        "current_time",
        "localtime",
        "localtimestamp",
        "current_user",
        "session_user",
        "user",
    ];
    names.contains(&&*name.to_ascii_lowercase())
}

fn refused(what: &str, text: &str) -> Error {
    let shown: String = text.chars().take(120).collect();
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} cannot stand in the ledger"))
        .with_detail(format!("The statement is: {shown}"))
        .with_hint("Statements have to come to the same in every organisation's database.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let text = "table accounts\n  balance numeric(12,2) not null\n  id int8 not null key\n";
        Schema::parse(text).unwrap()
    }

    fn checked(text: &str) -> Result<()> {
        check(&[text.to_owned()], &schema())
    }

    #[test]
    fn what_is_the_same_everywhere_is_taken() {
        for text in [
            "INSERT INTO accounts (id, balance) VALUES (1, 2.50), (2, 0)",
            "UPDATE accounts SET balance = balance - 5 WHERE id = 1 AND balance >= 5",
            "DELETE FROM accounts WHERE id BETWEEN 3 AND 4 OR balance = -1",
            "UPDATE \"accounts\" SET balance = (SELECT coalesce(sum(balance), 0) FROM accounts a)",
            "INSERT INTO accounts (id, balance) SELECT id + 10, abs(balance) FROM accounts",
            "DELETE FROM accounts WHERE 'a -- b # /* c ''d\\' = 'e\\'",
            "update accounts set balance = case when id = 1 then 1 else 2 end;",
        ] {
            checked(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
    }

    #[test]
    fn what_is_not_is_refused_by_name() {
        for (text, what) in [
            ("TRUNCATE accounts", "anything but"),
            ("DROP TABLE accounts", "anything but"),
            ("COMMIT", "anything but"),
            ("SELECT 1", "anything but"),
            ("DELETE FROM accounts; COMMIT", "several"),
            ("DELETE FROM others", "table others"),
            ("DELETE FROM tally_chainify.digest", "table tally_chainify.digest"),
            ("UPDATE accounts SET balance = (SELECT max(a) FROM others)", "table others"),
            ("INSERT INTO accounts VALUES (1, 2)", "without names"),
            ("INSERT INTO accounts (id) VALUES (1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
            ("INSERT INTO accounts (id) VALUES (1) RETURNING id", "RETURNING"),
            ("UPDATE accounts SET balance = random()", "function random()"),
            ("UPDATE accounts SET balance = nextval('s')", "function nextval()"),
            ("DELETE FROM accounts WHERE balance < now()", "function now()"),
            ("UPDATE accounts SET balance = CURRENT_TIMESTAMP", "current_timestamp"),
            ("DELETE FROM accounts WHERE id IN (SELECT id FROM accounts LIMIT 1)", "LIMIT"),
            ("DELETE FROM accounts LIMIT 1", "LIMIT"),
            ("DELETE FROM accounts /*! WHERE 1 = 0 */", "a comment"),
            ("DELETE FROM accounts -- WHERE 1 = 0", "a comment"),
            ("DELETE FROM accounts WHERE id = \\1", "a backslash"),
            ("DELETE FROM accounts WHERE 'a' = E'\\\\' OR 1 = 1", "with a prefix"),
            ("DELETE FROM accounts WHERE id = X'01'", "with a prefix"),
            ("DELETE FROM accounts WHERE id = ?", "a parameter"),
            ("UPDATE accounts SET balance = greatest(1, balance)", "function greatest()"),
            ("DELETE FROM accounts WHERE 'a' LIKE 'A'", "LIKE"),
            ("WITH a AS (SELECT 1) DELETE FROM accounts", ""),
            ("UPDATE accounts SET balance = a.id FROM accounts a", ""),
            ("REPLACE INTO accounts (id) VALUES (1)", ""),
            ("DELETE accounts", ""),
            ("", "several"),
        ] {
            let error = checked(text).expect_err(text);
            let message = error.message().to_ascii_lowercase();
            assert!(message.contains(&what.to_ascii_lowercase()), "{text}: {error:?}");
        }
    }

    #[test]
    fn a_request_has_one_encoding() {
        let statements = vec!["DELETE FROM a".to_owned(), "é".to_owned()];
        let bytes = encode(&statements);
        assert_eq!(decode(&bytes).unwrap(), statements);
        for bad in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat(), &[0], &[]] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }
}
