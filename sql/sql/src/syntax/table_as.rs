//! CREATE TABLE … AS and SELECT … INTO: a table that a query defines and fills.
//!
//! To the ledger that is a schema change and an INSERT, in one transaction: either both stand in a
//! block, or neither. So there is no third way to make a table or to fill one, and the query may do
//! what that of an INSERT may.
//!
//! `WITH NO DATA` and a list of names without types are taken from the tokens, since sqlparser does
//! not know them.

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{DataType, Error, Result};

use crate::syntax::names::{fold, object_name, quoted};

/// What such a statement says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub name: ast::ObjectName,
    pub temporary: bool,
    on_commit: Option<ast::OnCommit>,
    pub if_not_exists: bool,
    names: Vec<String>,
    options: String,
    pub query: Box<ast::Query>,
    with_data: bool,
}

/// As two statements.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAs {
    pub name: String,
    pub if_not_exists: bool,
    pub create: String,
    /// `None`: WITH NO DATA.
    pub fill: Option<String>,
}

/// What was taken from the tokens.
#[derive(Default)]
pub(crate) struct Taken {
    names: Vec<String>,
    no_data: bool,
}

fn is(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(known))
        if known.quote_style.is_none() && known.value.eq_ignore_ascii_case(word))
}

/// Takes out what sqlparser does not know.
pub(crate) fn take(tokens: &mut Vec<TokenWithSpan>) -> Taken {
    let mut taken = Taken::default();
    let table = (1..4).find(|place| is(tokens.get(*place), "table"));
    let Some(table) = table.filter(|_| is(tokens.first(), "create")) else { return taken };
    let end = tokens.len();
    let has_no = end > 3 && is(tokens.get(end - 2), "no");
    let with = end.saturating_sub(if has_no { 3 } else { 2 });
    if with > table && is(tokens.get(with), "with") && is(tokens.get(end - 1), "data") {
        taken.no_data = has_no;
        tokens.truncate(with);
    }
    let Some(open) = tokens.iter().position(|token| token.token == Token::LParen) else {
        return taken;
    };
    let Some(list) = names_in(&tokens[open + 1..]) else { return taken };
    // Each name and what follows it.
    let close = open + 2 * list.len();
    let goes_on = ["as", "with", "using"].iter().any(|word| is(tokens.get(close + 1), word));
    let is_name = (table + 1..open).all(|place| !is(tokens.get(place), "as"));
    if goes_on && is_name {
        tokens.drain(open..=close);
        taken.names = list;
    }
    taken
}

/// Names with commas between them, as far as the parenthesis.
fn names_in(tokens: &[TokenWithSpan]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for pair in tokens.chunks(2) {
        let [name, behind] = pair else { return None };
        let Token::Word(word) = &name.token else { return None };
        names.push(fold(&word.clone().into_ident(name.span)));
        match behind.token {
            Token::Comma => {}
            Token::RParen => return Some(names),
            _ => return None,
        }
    }
    None
}

impl Definition {
    /// `None`: the statement is another one.
    pub fn of(statement: &mut ast::Statement, taken: Taken) -> Result<Option<Definition>> {
        let Taken { names, no_data } = taken;
        match statement {
            ast::Statement::CreateTable(create) => {
                let Some(query) = create.query.take() else { return Ok(None) };
                Ok(Some(Definition {
                    name: create.name.clone(),
                    temporary: create.temporary,
                    on_commit: create.on_commit,
                    if_not_exists: create.if_not_exists,
                    names,
                    options: create.table_options.to_string(),
                    query,
                    with_data: !no_data,
                }))
            }
            ast::Statement::Query(query) => {
                let ast::SetExpr::Select(select) = &mut *query.body else { return Ok(None) };
                let Some(into) = select.into.take() else { return Ok(None) };
                Ok(Some(Definition {
                    name: into.name,
                    temporary: into.temporary,
                    on_commit: None,
                    if_not_exists: false,
                    names,
                    options: String::new(),
                    query: query.clone(),
                    with_data: true,
                }))
            }
            _ => Ok(None),
        }
    }

    /// `columns`: those of the query.
    ///
    /// # Errors
    /// 42601 for more names than columns, 42P16 for rows as values, which no column holds.
    pub fn as_statements(&self, columns: &[procedure::Column]) -> Result<TableAs> {
        let name = object_name(&self.name)?;
        if self.names.len() > columns.len() {
            let what = "too many column names were specified";
            return Err(Error::new(types::SqlState::SYNTAX_ERROR, what));
        }
        for (place, column) in columns.iter().enumerate() {
            if matches!(column.data_type, DataType::Record(_)) {
                let name = self.names.get(place).unwrap_or(&column.name);
                let what = format!("column \"{name}\" has pseudo-type record");
                return Err(Error::new(types::SqlState::INVALID_TABLE_DEFINITION, what));
            }
        }
        let given = self.names.iter().map(Some).chain(std::iter::repeat(None));
        let listed = columns.iter().zip(given).map(|(column, given)| {
            let data_type = match &column.data_type {
                DataType::Unknown => DataType::Text,
                known => known.clone(),
            };
            format!("{} {data_type}", quoted(given.unwrap_or(&column.name)))
        });
        let listed: Vec<String> = listed.collect();
        // Where the name has a schema, by whatever path these are read again.
        let parts = self.name.0.iter().filter_map(|part| part.as_ident());
        let parts: Vec<String> = parts.map(|part| quoted(&fold(part))).collect();
        let (shown, options) = (parts.join("."), &self.options);
        let which = if self.temporary { "TEMPORARY " } else { "" };
        let on_commit = match self.on_commit {
            None => "",
            Some(ast::OnCommit::PreserveRows) => " ON COMMIT PRESERVE ROWS",
            Some(ast::OnCommit::DeleteRows) => " ON COMMIT DELETE ROWS",
            Some(ast::OnCommit::Drop) => " ON COMMIT DROP",
        };
        let listed = listed.join(", ");
        let create = format!("CREATE {which}TABLE {shown} ({listed}) {options}{on_commit}");
        let fill = format!("INSERT INTO {shown} {}", self.query);
        Ok(TableAs {
            if_not_exists: self.if_not_exists,
            create: create.trim_end().to_owned(),
            fill: self.with_data.then_some(fill),
            name,
        })
    }
}
