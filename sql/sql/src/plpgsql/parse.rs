//! The parser of PL/pgSQL: recursive descent over [`Tokens`], one function per statement.

use std::cell::Cell;

use procedure::NoticeLevel;
use procedure::condition::sqlstate_of_condition;
use sqlparser::ast;
use sqlparser::tokenizer::Token;
use types::{Error, Result, SqlState};

use super::syntax::{
    self, Block, Declaration, DeclarationKind, Into, LoopKind, Node, Raise, RaiseOption, Statement,
    Target, TypeName,
};
use super::tokens::{NESTING_MAX, Reads, Tokens, at_line, is_range, is_word};
use crate::schema::catalog::Catalog;
use crate::syntax::assigned::SET_ELEMENT;
use crate::syntax::path::SearchPath;

/// Parse a whole body. `parameters` are the names that `$1`, `$2`… stand for.
pub fn parse_body(
    body: &str,
    parameters: &[String],
    path: (&SearchPath, &Catalog),
) -> Result<(Block, Reads)> {
    let mut parser = Parser { tokens: Tokens::new(body, parameters, path)?, depth: 0 };
    let reads = parser.tokens.reads();
    if *parser.tokens.peek() == Token::Sharp {
        return Err(Error::unsupported("a # option of PL/pgSQL"));
    }
    let label = parser.label()?;
    let block = parser.block(label)?;
    parser.tokens.take(&Token::SemiColon);
    if parser.tokens.at_end() { Ok((block, reads)) } else { Err(parser.tokens.unexpected()) }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    depth: usize,
}

impl Parser<'_> {
    fn label(&mut self) -> Result<Option<String>> {
        if !self.tokens.take(&Token::ShiftLeft) {
            return Ok(None);
        }
        let label = self.tokens.name()?;
        self.tokens.expect(&Token::ShiftRight)?;
        Ok(Some(label))
    }

    fn block(&mut self, label: Option<String>) -> Result<Block> {
        let mut declarations = Vec::new();
        if self.tokens.take_word("declare") {
            while !self.tokens.next_is_word("begin") {
                if !self.tokens.take_word("declare") {
                    declarations.push(self.declaration()?);
                }
            }
        }
        self.tokens.expect_word("begin")?;
        let body = self.statements(&["end", "exception"])?;
        if self.tokens.next_is_word("exception") {
            let error = Error::unsupported("a block with EXCEPTION").with_hint(
                "A transaction succeeds or fails as a whole: check the condition with IF before, \
                 or let the transaction fail.",
            );
            return Err(error);
        }
        self.tokens.expect_word("end")?;
        self.end_label(&label)?;
        Ok(Block { label, declarations, body })
    }

    /// `END name` must repeat the block's own label.
    fn end_label(&mut self, label: &Option<String>) -> Result<()> {
        if !matches!(self.tokens.peek(), Token::Word(_)) {
            return Ok(());
        }
        let line = self.tokens.line();
        let name = self.tokens.name()?;
        if label.as_ref() == Some(&name) {
            return Ok(());
        }
        let message = match label {
            Some(label) => {
                format!("end label \"{name}\" differs from block's label \"{label}\"")
            }
            None => format!("end label \"{name}\" specified for unlabeled block"),
        };
        Err(at_line(Error::new(SqlState::SYNTAX_ERROR, message), line))
    }

    fn declaration(&mut self) -> Result<Declaration> {
        let line = self.tokens.line();
        let name = self.tokens.name()?;
        if self.tokens.take_word("alias") {
            self.tokens.expect_word("for")?;
            let of = self.tokens.name()?;
            self.tokens.expect_semicolon()?;
            let kind = DeclarationKind::Alias(of);
            return Ok(Declaration { line, name, kind });
        }
        let constant = self.tokens.take_word("constant");
        if self.tokens.next_is_word("cursor") || self.tokens.next_is_word("refcursor") {
            return Err(at_line(Error::unsupported("a cursor variable"), line));
        }
        let type_name = self.type_name()?;
        if self.tokens.next_is_word("collate") {
            return Err(at_line(Error::unsupported("COLLATE"), line));
        }
        let not_null = self.tokens.take_word("not");
        if not_null {
            self.tokens.expect_word("null")?;
        }
        let has_default = self.tokens.take(&Token::Assignment)
            || self.tokens.take(&Token::Eq)
            || self.tokens.take_word("default");
        let default = if has_default {
            Some(self.tokens.until_semicolon()?.expression()?)
        } else {
            self.tokens.expect_semicolon()?;
            None
        };
        let kind = DeclarationKind::Variable { type_name, constant, not_null, default };
        Ok(Declaration { line, name, kind })
    }

    fn type_name(&mut self) -> Result<TypeName> {
        let mut tokens = self.tokens.until(|token| {
            matches!(token, Token::SemiColon | Token::Assignment | Token::Eq)
                || ["default", "not", "collate"].iter().any(|word| is_word(token, word))
        })?;
        let Some(length) = tokens.distance(|token| *token == Token::Mod) else {
            if tokens.next_is_word("record") && matches!(tokens.peek_at(1), Token::EOF) {
                return Ok(TypeName::Record);
            }
            return Ok(TypeName::Sql(Box::new(tokens.data_type()?)));
        };
        let mut path = tokens.remove(length).path()?;
        tokens.expect(&Token::Mod)?;
        if tokens.take_word("rowtype") {
            return Ok(TypeName::Row(path.pop().unwrap_or_default()));
        }
        tokens.expect_word("type")?;
        Ok(TypeName::Like(path))
    }

    /// Statements up to one of `ends`, which is left in place.
    fn statements(&mut self, ends: &[&str]) -> Result<Vec<Node>> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("statements are nested more than {NESTING_MAX} levels deep"),
            ));
        }
        let mut nodes = Vec::new();
        while !ends.iter().any(|end| self.tokens.next_is_word(end)) {
            if self.tokens.at_end() {
                return Err(self.tokens.unexpected());
            }
            let line = self.tokens.line();
            let statement = self.statement().map_err(|error| at_line(error, line))?;
            nodes.push(Node { line, statement });
        }
        self.depth -= 1;
        Ok(nodes)
    }

    fn statement(&mut self) -> Result<Statement> {
        if let Some(label) = self.label()? {
            return self.labelled(label);
        }
        let Token::Word(word) = self.tokens.peek() else {
            return Err(self.tokens.unexpected());
        };
        let is_assignment = matches!(
            self.tokens.peek_at(1),
            Token::Assignment | Token::Eq | Token::Period | Token::LBracket
        );
        if is_assignment || word.quote_style.is_some() {
            return self.assignment();
        }
        let word = word.value.to_ascii_lowercase();
        match word.as_str() {
            "declare" | "begin" => self.inner_block(None),
            "loop" | "while" | "for" | "foreach" => self.any_loop(None),
            "if" => self.if_statement(),
            "case" => self.case_statement(),
            "exit" | "continue" => self.leave_statement(&word),
            "raise" => self.raise(),
            "return" => self.return_statement(),
            "assert" => self.assert_statement(),
            "get" => self.get_diagnostics(),
            "perform" => self.perform(),
            "null" => {
                self.tokens.advance();
                self.tokens.expect_semicolon()?;
                Ok(Statement::Null)
            }
            "select" | "insert" | "update" | "delete" | "with" | "values" | "merge" => self.sql(),
            _ => Err(self.refusal(&word)),
        }
    }

    /// What PL/pgSQL has and this database has not.
    fn refusal(&self, word: &str) -> Error {
        match word {
            "commit" | "rollback" => {
                Error::unsupported(format!("{} in a procedure", word.to_ascii_uppercase()))
                    .with_hint("A call is one transaction; split the work into several calls.")
            }
            "execute" => Error::unsupported("EXECUTE of dynamic SQL")
                .with_hint("A procedure is analysed before it runs; write the statements out."),
            "call" => Error::unsupported("CALL in a procedure"),
            "open" | "fetch" | "close" | "move" => {
                Error::unsupported("a cursor").with_hint("Use FOR row IN SELECT … LOOP.")
            }
            "create" | "alter" | "drop" | "truncate" | "grant" | "revoke" => {
                Error::unsupported("a schema change in a procedure")
            }
            _ => self.tokens.unexpected(),
        }
    }

    fn labelled(&mut self, label: String) -> Result<Statement> {
        if self.tokens.next_is_word("declare") || self.tokens.next_is_word("begin") {
            self.inner_block(Some(label))
        } else {
            self.any_loop(Some(label))
        }
    }

    fn inner_block(&mut self, label: Option<String>) -> Result<Statement> {
        let block = self.block(label)?;
        self.tokens.expect_semicolon()?;
        Ok(Statement::Block(block))
    }

    fn target(&mut self) -> Result<Target> {
        let path = self.tokens.path()?;
        if *self.tokens.peek() == Token::LBracket {
            return Err(Error::unsupported("this assignment to an element of an array"));
        }
        Ok(Target(path))
    }

    fn targets(&mut self) -> Result<Vec<Target>> {
        let mut targets = vec![self.target()?];
        while self.tokens.take(&Token::Comma) {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    fn assignment(&mut self) -> Result<Statement> {
        let path = self.tokens.path()?;
        let index = match self.tokens.take(&Token::LBracket) {
            false => None,
            true => {
                let index = self.tokens.until(|token| *token == Token::RBracket)?.expression()?;
                self.tokens.advance();
                if self.tokens.next_is(&Token::LBracket) {
                    return Err(Error::unsupported("an array of more than one dimension"));
                }
                Some(index)
            }
        };
        if !self.tokens.take(&Token::Assignment) {
            self.tokens.expect(&Token::Eq)?;
        }
        let value = self.tokens.until_semicolon()?.expression()?;
        let value = match index {
            None => value,
            Some(index) => with_element(&path, index, value),
        };
        let target = Target(path);
        Ok(Statement::Assign { target, value })
    }

    fn if_statement(&mut self) -> Result<Statement> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        self.tokens.expect_word("if")?;
        loop {
            let condition = self.tokens.until_word("then")?.expression()?;
            self.tokens.expect_word("then")?;
            let body = self.statements(&["elsif", "elseif", "else", "end"])?;
            branches.push((condition, body));
            if self.tokens.take_word("elsif") || self.tokens.take_word("elseif") {
                continue;
            }
            if self.tokens.take_word("else") {
                otherwise = self.statements(&["end"])?;
            }
            break;
        }
        self.end_of("if")?;
        Ok(Statement::If { branches, otherwise })
    }

    fn end_of(&mut self, word: &str) -> Result<()> {
        self.tokens.expect_word("end")?;
        self.tokens.expect_word(word)?;
        self.tokens.expect_semicolon()
    }

    fn case_statement(&mut self) -> Result<Statement> {
        self.tokens.expect_word("case")?;
        let operand = if self.tokens.next_is_word("when") {
            None
        } else {
            Some(self.tokens.until_word("when")?.expression()?)
        };
        let mut branches = Vec::new();
        while self.tokens.take_word("when") {
            let values = self.tokens.until_word("then")?.expressions()?;
            self.tokens.expect_word("then")?;
            branches.push((values, self.statements(&["when", "else", "end"])?));
        }
        let otherwise =
            if self.tokens.take_word("else") { Some(self.statements(&["end"])?) } else { None };
        self.end_of("case")?;
        Ok(Statement::Case { operand, branches, otherwise })
    }

    fn any_loop(&mut self, label: Option<String>) -> Result<Statement> {
        let kind = if self.tokens.take_word("while") {
            LoopKind::While(self.tokens.until_word("loop")?.expression()?)
        } else if self.tokens.take_word("for") {
            self.for_header()?
        } else if self.tokens.take_word("foreach") {
            let target = self.target()?;
            if self.tokens.next_is_word("slice") {
                return Err(Error::unsupported("FOREACH … SLICE"));
            }
            self.tokens.expect_word("in")?;
            self.tokens.expect_word("array")?;
            let array = self.tokens.until_word("loop")?.expression()?;
            LoopKind::Each { target, array }
        } else {
            LoopKind::Forever
        };
        self.tokens.expect_word("loop")?;
        let body = self.statements(&["end"])?;
        self.tokens.expect_word("end")?;
        self.tokens.expect_word("loop")?;
        self.end_label(&label)?;
        self.tokens.expect_semicolon()?;
        Ok(Statement::Loop { label, kind, body })
    }

    fn for_header(&mut self) -> Result<LoopKind> {
        let targets = self.targets()?;
        self.tokens.expect_word("in")?;
        if self.tokens.next_is_word("execute") {
            return Err(self.refusal("execute"));
        }
        let mut header = self.tokens.until_word("loop")?;
        if header.distance(is_range).is_none() {
            let statement = Box::new(header.statement()?);
            return Ok(LoopKind::Rows { targets, statement });
        }
        let reverse = header.take_word("reverse");
        let first = header.until(is_range)?.expression()?;
        header.take_range();
        let by = |token: &Token| is_word(token, "by");
        let (last, step) = match header.distance(by) {
            None => (header.expression()?, None),
            Some(length) => {
                let last = header.remove(length).expression()?;
                header.expect_word("by")?;
                (last, Some(header.expression()?))
            }
        };
        match <[Target; 1]>::try_from(targets) {
            Ok([Target(mut path)]) if path.len() == 1 => {
                Ok(LoopKind::Range { variable: path.remove(0), reverse, first, last, step })
            }
            _ => Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "integer FOR loop must have only one target variable",
            )),
        }
    }

    fn leave_statement(&mut self, word: &str) -> Result<Statement> {
        self.tokens.advance();
        let at_end = self.tokens.next_is(&Token::SemiColon) || self.tokens.next_is_word("when");
        let label = if at_end { None } else { Some(self.tokens.name()?) };
        let when = if self.tokens.take_word("when") {
            Some(self.tokens.until_semicolon()?.expression()?)
        } else {
            self.tokens.expect_semicolon()?;
            None
        };
        Ok(if word == "exit" {
            Statement::Exit { label, when }
        } else {
            Statement::Continue { label, when }
        })
    }

    fn return_statement(&mut self) -> Result<Statement> {
        self.tokens.expect_word("return")?;
        if self.tokens.take(&Token::SemiColon) {
            return Ok(Statement::Return(None));
        }
        if self.tokens.take_word("query") {
            if self.tokens.next_is_word("execute") {
                return Err(self.refusal("execute"));
            }
            return Ok(Statement::ReturnQuery(self.tokens.until_semicolon()?.query()?));
        }
        if self.tokens.take_word("next") {
            if self.tokens.take(&Token::SemiColon) {
                return Ok(Statement::ReturnNext(None));
            }
            let value = self.tokens.until_semicolon()?.expression()?;
            return Ok(Statement::ReturnNext(Some(value)));
        }
        let value = self.tokens.until_semicolon()?.expression()?;
        Ok(Statement::Return(Some(value)))
    }

    fn assert_statement(&mut self) -> Result<Statement> {
        self.tokens.expect_word("assert")?;
        let mut expressions = self.tokens.until_semicolon()?.expressions()?.into_iter();
        match (expressions.next(), expressions.next(), expressions.next()) {
            (Some(condition), message, None) => Ok(Statement::Assert { condition, message }),
            _ => Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "ASSERT takes a condition and at most one message",
            )),
        }
    }

    fn get_diagnostics(&mut self) -> Result<Statement> {
        self.tokens.expect_word("get")?;
        if self.tokens.next_is_word("stacked") {
            return Err(Error::unsupported("GET STACKED DIAGNOSTICS"));
        }
        self.tokens.take_word("current");
        self.tokens.expect_word("diagnostics")?;
        let mut targets = Vec::new();
        loop {
            targets.push(self.target()?);
            if !self.tokens.take(&Token::Assignment) {
                self.tokens.expect(&Token::Eq)?;
            }
            if !self.tokens.take_word("row_count") {
                return Err(Error::unsupported(format!(
                    "the diagnostics item {}",
                    self.tokens.peek()
                )));
            }
            if !self.tokens.take(&Token::Comma) {
                break;
            }
        }
        self.tokens.expect_semicolon()?;
        Ok(Statement::RowCount(targets))
    }

    fn perform(&mut self) -> Result<Statement> {
        self.tokens.expect_word("perform")?;
        let mut tokens = self.tokens.until_semicolon()?;
        tokens.prepend_word("SELECT");
        Ok(Statement::Perform(tokens.query()?))
    }

    /// SQL, with its INTO taken out: sqlparser knows another INTO.
    fn sql(&mut self) -> Result<Statement> {
        let inserts = self.tokens.next_is_word("insert") || self.tokens.next_is_word("merge");
        let mut tokens = self.tokens.until_semicolon()?;
        let skip = if inserts { 2 } else { 0 };
        tokens.skip(skip);
        let mut into = None;
        let changes = |token: &Token| is_word(token, "insert") || is_word(token, "merge");
        let is_of_change = Cell::new(false);
        // After a WITH, INSERT has an INTO of its own.
        let takes_rows =
            |token: &Token| !is_of_change.replace(changes(token)) && is_word(token, "into");
        if let Some(distance) = tokens.distance(takes_rows) {
            tokens.skip(distance);
            into = Some(remove_into(&mut tokens)?);
        }
        tokens.rewind();
        let statement = Box::new(tokens.statement()?);
        Ok(Statement::Sql { statement, into })
    }

    fn raise(&mut self) -> Result<Statement> {
        self.tokens.expect_word("raise")?;
        if self.tokens.take(&Token::SemiColon) {
            return Err(Error::unsupported("RAISE without parameters")
                .with_hint("It would raise an exception again, and none can be caught."));
        }
        const LEVELS: [(&str, NoticeLevel); 5] = [
            ("debug", NoticeLevel::Debug),
            ("log", NoticeLevel::Log),
            ("info", NoticeLevel::Info),
            ("notice", NoticeLevel::Notice),
            ("warning", NoticeLevel::Warning),
        ];
        let level = LEVELS.into_iter().find(|(word, _)| self.tokens.take_word(word));
        let level = level.map(|(_, level)| level);
        if level.is_none() {
            self.tokens.take_word("exception");
        }
        let mut raise = Raise {
            level,
            condition: None,
            format: None,
            arguments: Vec::new(),
            options: Vec::new(),
        };
        match self.tokens.peek().clone() {
            Token::SingleQuotedString(format) => {
                self.tokens.advance();
                raise.format = Some(format);
                self.raise_arguments(&mut raise)?;
            }
            _ if self.tokens.take_word("sqlstate") => {
                let code = self.sqlstate_literal()?;
                raise.condition = Some((code, code.to_string()));
            }
            _ if self.tokens.next_is_word("using") => {}
            _ => raise.condition = Some(self.condition_name()?),
        }
        if self.tokens.take_word("using") {
            self.raise_options(&mut raise)?;
        }
        self.tokens.expect_semicolon()?;
        check_placeholders(&raise)?;
        Ok(Statement::Raise(raise))
    }

    fn raise_arguments(&mut self, raise: &mut Raise) -> Result<()> {
        while self.tokens.take(&Token::Comma) {
            let argument = self.tokens.until(|token| {
                matches!(token, Token::Comma | Token::SemiColon) || is_word(token, "using")
            })?;
            raise.arguments.push(argument.expression()?);
        }
        Ok(())
    }

    fn sqlstate_literal(&mut self) -> Result<SqlState> {
        let Token::SingleQuotedString(text) = self.tokens.peek().clone() else {
            return Err(self.tokens.unexpected());
        };
        self.tokens.advance();
        SqlState::parse(&text)
            .ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "invalid SQLSTATE code"))
    }

    fn condition_name(&mut self) -> Result<(SqlState, String)> {
        let name = self.tokens.name()?;
        match sqlstate_of_condition(&name) {
            Some(code) => Ok((code, name)),
            None => Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("unrecognized exception condition \"{name}\""),
            )),
        }
    }

    fn raise_options(&mut self, raise: &mut Raise) -> Result<()> {
        loop {
            let name = self.tokens.name()?;
            let option = match name.as_str() {
                "message" => RaiseOption::Message,
                "detail" => RaiseOption::Detail,
                "hint" => RaiseOption::Hint,
                "errcode" => RaiseOption::ErrorCode,
                "column" | "constraint" | "datatype" | "table" | "schema" => RaiseOption::Other,
                _ => {
                    return Err(Error::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized RAISE statement option \"{name}\""),
                    ));
                }
            };
            if raise
                .options
                .iter()
                .any(|(given, _)| *given == option && option != RaiseOption::Other)
            {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("RAISE option already specified: {}", name.to_ascii_uppercase()),
                ));
            }
            if !self.tokens.take(&Token::Assignment) {
                self.tokens.expect(&Token::Eq)?;
            }
            let value =
                self.tokens.until(|token| matches!(token, Token::Comma | Token::SemiColon))?;
            raise.options.push((option, value.expression()?));
            if !self.tokens.take(&Token::Comma) {
                return Ok(());
            }
        }
    }
}

/// `INTO [STRICT] target, …` at the cursor.
fn remove_into(tokens: &mut Tokens<'_>) -> Result<Into> {
    let mut length = 1;
    if is_word(tokens.peek_at(length), "strict") {
        length += 1;
    }
    // target {, target}: a target is name {. name}
    while let Token::Word(_) = tokens.peek_at(length) {
        length += 1;
        if matches!(tokens.peek_at(length), Token::Comma | Token::Period) {
            length += 1;
        } else {
            break;
        }
    }
    let removed = tokens.remove(length);
    let mut clause = Parser { tokens: removed, depth: 0 };
    clause.tokens.expect_word("into")?;
    let strict = clause.tokens.take_word("strict");
    let targets = clause.targets()?;
    Ok(Into { strict, targets })
}

/// As many `%` as arguments.
fn check_placeholders(raise: &Raise) -> Result<()> {
    let Some(format) = &raise.format else {
        return Ok(());
    };
    if raise.options.iter().any(|(option, _)| *option == RaiseOption::Message) {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "RAISE option already specified: MESSAGE"));
    }
    let placeholders = format.replace("%%", "").matches('%').count();
    let arguments = raise.arguments.len();
    let message = match placeholders.cmp(&arguments) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => "too many parameters specified for RAISE",
        std::cmp::Ordering::Greater => "too few parameters specified for RAISE",
    };
    Err(Error::new(SqlState::SYNTAX_ERROR, message))
}

/// `a[i] := x` is an assignment of `a` with another element.
fn with_element(path: &[String], index: syntax::Expr, value: syntax::Expr) -> syntax::Expr {
    let mut names: Vec<ast::Ident> =
        path.iter().map(|name| ast::Ident::with_quote('"', name)).collect();
    let whole = match names.len() {
        1 => ast::Expr::Identifier(names.remove(0)),
        _ => ast::Expr::CompoundIdentifier(names),
    };
    let of = |expr: ast::Expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
    let list = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args: vec![of(whole), of(*index), of(*value)],
        clauses: Vec::new(),
    };
    Box::new(ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::with_quote('"', SET_ELEMENT)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }))
}
