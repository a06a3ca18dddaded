//! Domains: types with rules of their own.
//!
//! A value of a domain is one of its base type, in rows, keys, hashes, on the wire and to every
//! operator, as with PostgreSQL, which gives clients the base type's number. So a domain stands at
//! two places alone:
//!
//! ```text
//!   columns          Table::domains     a row is looked at before it is written, as CHECK is
//!   value::domain    CASE WHEN value IS NULL THEN fault WHEN NOT check THEN fault ELSE value END
//! ```
//!
//! A domain over another has the rules of both; those of the other come first, and within a domain
//! they go by their names. Changing one touches no row.
//!
//! *Departures.* `pg_typeof` and the columns of views and of CREATE TABLE AS say the base type.
//! Arrays of domains, parameters and variables of routines that have one are refused. A default
//! keeps what a cast in it came to; a domain's rules do not change while a constraint, an index or
//! a generated column casts to it, and cast to no domain themselves.

use std::sync::Arc;

use procedure::{Expr, Function};
use types::{DataType, Error, Result, TableId, Value};

use crate::schema::collations::{Collation, FIRST_USER};
use crate::syntax::names::{self, bare};

/// What VALUE is called among the columns of a rule's row, which has no other.
pub const VALUE: &str = "value";

/// Domains over domains.
pub(crate) const DEPTH_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// By its number; that of its arrays is the next one.
    pub id: TableId,
    /// Its key.
    pub name: String,
    /// What its values are.
    pub base: DataType,
    /// The domain that it is over.
    pub of: Option<TableId>,
    pub not_null: bool,
    pub default: Option<DomainDefault>,
    /// Over a row of one column, VALUE.
    pub checks: Vec<CheckConstraint>,
    /// Where it is not the default one.
    pub collation: Option<Arc<Collation>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DomainDefault {
    pub value: Expr,
    pub text: String,
}

/// A rule of a table's rows, or of a domain's values.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckConstraint {
    pub name: String,
    /// Over the row: `Column(c)` is column `c` of the table; of a domain VALUE is the one.
    pub condition: Expr,
    pub text: String,
    /// Not NOT VALID.
    pub validated: bool,
}

impl Domain {
    pub fn oid(&self) -> u32 {
        FIRST_USER + self.id.0
    }

    pub fn array_oid(&self) -> u32 {
        self.oid() + 1
    }
}

/// What a value of a domain must satisfy.
pub(crate) struct Rule {
    /// Over VALUE: it is broken where this is true.
    pub broken: Expr,
    pub fault: Fault,
}

/// How a rule is called that a value breaks.
pub(crate) struct Fault {
    domain: String,
    /// `None`: NOT NULL.
    constraint: Option<String>,
}

impl Fault {
    pub fn new(domain: &Domain, constraint: Option<&str>) -> Fault {
        Fault { domain: domain.name.clone(), constraint: constraint.map(str::to_owned) }
    }

    pub fn error(&self) -> Error {
        procedure::domain_fault(&self.domain, self.constraint.as_deref())
            .with_schema(names::schema_of(&self.domain))
    }

    /// An expression that has no value.
    fn raised(&self) -> Expr {
        let constraint = self.constraint.as_deref().map_or(Value::Null, Value::text);
        let schema = Value::text(names::schema_of(&self.domain));
        let arguments = [Value::text(&self.domain), constraint, schema].map(Expr::Const);
        let (function, result) = (Function::DomainFault, DataType::Unknown);
        Expr::Call { function, arguments: arguments.into(), result }
    }
}

/// `value`, or an error where it breaks a rule.
pub(crate) fn checked(
    rules: Vec<Rule>,
    value: &Expr,
    mut again: impl FnMut(&Expr) -> Result<Expr>,
) -> Result<Expr> {
    if rules.is_empty() {
        return Ok(value.clone());
    }
    let mut whens = Vec::with_capacity(rules.len());
    for Rule { broken, fault } in rules {
        let mut failed = Ok(());
        let mut condition = again(&broken)?;
        condition.map_columns(&mut |_| match again(value) {
            Ok(value) => value,
            Err(error) => {
                failed = Err(error);
                Expr::Const(Value::Null)
            }
        });
        failed?;
        whens.push((condition, fault.raised()));
    }
    Ok(Expr::Case { whens: whens.into(), otherwise: Box::new(value.clone()) })
}

/// What is not done with values of a domain.
pub(crate) fn not_here(domain: &Domain) -> Error {
    Error::unsupported(format_args!("the domain {} in this place", bare(&domain.name)))
        .with_hint("Columns and casts have domains; name its base type here.")
}
