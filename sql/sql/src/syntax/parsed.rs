//! A statement as its text says it, before it is checked against a catalog.

use std::sync::Arc;

use kit::pool::Lease;
use sqlparser::ast;
use types::{Error, Result};

use crate::copy::CopyOptions;
use crate::syntax::as_of::AsOf;
use crate::syntax::changes::{modifying, names_changes};
use crate::syntax::ddl::Ddl;
use crate::syntax::explain::ExplainOptions;
use crate::syntax::merge;
use crate::syntax::names::{PG_TEMP, fold, object_name};
use crate::syntax::place::{Source, Start};
use crate::syntax::table_as::Definition;

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub text: String,
    pub(crate) body: Body,
    /// The largest n of a `$n` in it.
    pub(crate) placeholders: usize,
    /// The block that it reads, if its text says so.
    pub as_of: Option<AsOf>,
    pub(crate) cover: Cover,
    /// Its text begins with the search path that its names were settled by.
    pub(crate) has_path: bool,
    /// Where it stands in what the client sent; `None`: it is not the client's own text.
    pub(crate) start: Option<Start>,
}

/// What covers a statement's tree in the memory of all sessions, where it is large. It is no part
/// of what the statement says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cover {
    _lease: Option<Arc<Lease>>,
}

impl From<Lease> for Cover {
    fn from(lease: Lease) -> Cover {
        Cover { _lease: Some(Arc::new(lease)) }
    }
}

impl PartialEq for Cover {
    fn eq(&self, _: &Cover) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Statement(Box<ast::Statement>),
    CreateRoutine {
        procedure: bool,
        definition: Box<ast::CreateFunction>,
    },
    DropRoutine {
        procedure: bool,
        definition: ast::DropFunction,
    },
    /// SET CONSTRAINTS, with the names of those that are to be set.
    SetConstraints {
        names: Vec<ast::ObjectName>,
        deferred: bool,
    },
    /// Accepted without effect; the command tag.
    Nothing(&'static str),
    Rollback,
    /// CREATE TABLE AS, SELECT INTO.
    TableAs(Box<Definition>),
    /// REFRESH MATERIALIZED VIEW.
    Refresh {
        name: ast::ObjectName,
        concurrently: bool,
        with_data: bool,
    },
    /// A block without a name.
    Do {
        language: String,
        body: String,
    },
    /// What sqlparser has no tree for.
    Ddl(Box<Ddl>),
    Declare {
        declaration: Declaration,
        query: Box<Parsed>,
    },
    /// FETCH, or MOVE.
    Fetch {
        name: String,
        direction: Direction,
        moves: bool,
    },
    /// `None`: all of them.
    CloseCursor(Option<String>),
    Empty,
}

impl Parsed {
    /// Leaves an empty statement.
    pub(crate) fn take_body(&mut self) -> Body {
        std::mem::replace(&mut self.body, Body::Empty)
    }

    /// The query of a SELECT, or of a COPY that writes what a query finds.
    pub fn query(&self) -> Option<&ast::Query> {
        let Body::Statement(statement) = &self.body else { return None };
        match &**statement {
            ast::Statement::Query(query) if modifying(query).is_none() && !names_changes(query) => {
                Some(query)
            }
            ast::Statement::Copy { source: ast::CopySource::Query(query), to: true, .. } => {
                Some(query)
            }
            _ => None,
        }
    }

    /// The statement that an EXPLAIN is of, and how it is to be explained.
    pub(crate) fn explained(&self) -> Result<Option<(Parsed, ExplainOptions)>> {
        let Body::Statement(statement) = &self.body else { return Ok(None) };
        let ast::Statement::Explain { statement, analyze, options, format, .. } = &**statement
        else {
            return Ok(None);
        };
        let given = options.as_deref().unwrap_or_default();
        let options = ExplainOptions::from_ast(*analyze, format.as_ref(), given)?;
        let body = Body::Statement(statement.clone());
        let text = merge::shown(&statement.to_string());
        let Parsed { placeholders, as_of, .. } = *self;
        let cover = self.cover.clone();
        let has_path = false;
        let explained = Parsed { text, body, placeholders, as_of, cover, has_path, start: None };
        Ok(Some((explained, options)))
    }

    /// What a DECLARE says, and its query.
    pub(crate) fn declared(&self) -> Option<(&Declaration, Parsed)> {
        match &self.body {
            Body::Declare { declaration, query } => {
                Some((declaration, Parsed { cover: self.cover.clone(), ..(**query).clone() }))
            }
            _ => None,
        }
    }

    /// How a COPY that writes what a query finds writes it.
    pub(crate) fn copy_options(&self) -> Result<Option<CopyOptions>> {
        let Body::Statement(statement) = &self.body else { return Ok(None) };
        match &**statement {
            ast::Statement::Copy { to: true, options, legacy_options, .. } => {
                CopyOptions::from_ast(options, legacy_options).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether the text had no statement in it.
    pub fn is_empty(&self) -> bool {
        self.body == Body::Empty
    }

    pub(crate) fn source(&self) -> Option<Source<'_>> {
        self.start.map(|start| Source { text: &self.text, start })
    }

    pub(crate) fn is_execute(&self) -> bool {
        matches!(&self.body, Body::Statement(s) if matches!(**s, ast::Statement::Execute { .. }))
    }

    /// Whether its columns are those of something that the session calls by a name.
    pub(crate) fn names_what_it_answers(&self) -> bool {
        self.is_execute() || matches!(self.body, Body::Fetch { .. })
    }

    /// What the constraints are called that a recorded text begins to defer.
    pub(crate) fn deferred(&self) -> Option<Vec<String>> {
        match &self.body {
            Body::SetConstraints { names, deferred: true } => {
                let keys = names.iter().map(object_name).collect::<Result<Vec<_>>>().ok()?;
                (!keys.is_empty()).then_some(keys)
            }
            _ => None,
        }
    }

    /// Whether it makes a table or a view for the session alone: it says so, by a word or by the
    /// schema, or says no schema where that is the `first` of the path. Then it says so by the
    /// word.
    pub(crate) fn makes_temporary(&mut self, first: Option<&str>) -> bool {
        let (mut is_named, is_sequence) = (false, matches!(self.body, Body::Ddl(_)));
        let (name, says) = match &mut self.body {
            Body::Statement(statement) => match &mut **statement {
                ast::Statement::CreateTable(create) => (&create.name, &mut create.temporary),
                ast::Statement::CreateView(create) => (&create.name, &mut create.temporary),
                _ => return false,
            },
            Body::TableAs(definition) => (&definition.name, &mut definition.temporary),
            Body::Ddl(ddl) => match &mut **ddl {
                Ddl::CreateSequence { name, .. } if name.0.len() > 1 => (&*name, &mut is_named),
                _ => return false,
            },
            _ => return false,
        };
        let schema = match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(schema), _] => Some(fold(schema)),
            _ => None,
        };
        // A sequence says so by its schema alone, and has the session's own once it was settled.
        let numbered = |rest: &str| rest.starts_with('_');
        let own = |schema: &str| is_sequence && schema.strip_prefix(PG_TEMP).is_some_and(numbered);
        let says_so = |schema: &str| schema == PG_TEMP || own(schema);
        *says |= schema.as_deref().or(first).is_some_and(says_so);
        *says
    }

    /// What is kept to be run later reads what is newest then.
    pub(crate) fn reads_newest(&self) -> Result<()> {
        match self.as_of {
            None => Ok(()),
            Some(_) => Err(Error::unsupported("AS OF in what is stored")
                .with_hint("It can stand in statements that a client sends.")),
        }
    }

    pub(super) fn is_prepare(body: &Body) -> bool {
        matches!(body, Body::Statement(s) if matches!(**s, ast::Statement::Prepare { .. }))
    }
}

/// What DECLARE says beside the query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub name: String,
    /// `None`: it says neither.
    pub scroll: Option<bool>,
    pub hold: bool,
    pub binary: bool,
}

/// As many rows as there are.
pub const ALL: u64 = u64::MAX;

/// Where FETCH and MOVE go from where a cursor stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// So many rows, each of which is answered; zero: the row that it stands on.
    Forward(u64),
    Backward(u64),
    /// To one row, counted from the first; from after the last, if negative.
    Absolute(i64),
    /// To one row, counted from here.
    Relative(i64),
}
