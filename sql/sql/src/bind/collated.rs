//! By which collation an expression's texts are compared, as the standard derives it.
//!
//! | Expression | Derivation |
//! |---|---|
//! | `x COLLATE c` | explicit: `c` |
//! | a column | implicit: its own, where it has one |
//! | a constant, a parameter | the default one, which yields to any other |
//! | an operator, a function, CASE | the explicit one of its inputs, else the implicit one |
//!
//! Two that are explicit have to be the same; two that are implicit and not the same leave it open,
//! which is an error where texts are compared.
//!
//! What compares by another order than that of bytes compares keys instead
//! ([`collation`](procedure::collation)), so that no plan takes an index's order for it:
//!
//! ```text
//!   a < b COLLATE "sv-x-icu"     sort_key(a, 'sv') < sort_key(b, 'sv')
//!   a = b COLLATE "sv-x-icu"     a = b: texts that are equal have the same bytes
//! ```

use std::sync::Arc;

use procedure::BinaryOp;
use types::{Error, Result, SqlState};

use crate::schema::collations::Collation;

/// A collation, and whether it was asked for.
#[derive(Clone, Debug, Default)]
pub enum Collated {
    #[default]
    Default,
    Implicit(Arc<Collation>),
    Explicit(Arc<Collation>),
    /// Of columns with these.
    Unclear(Arc<Collation>, Arc<Collation>),
}

/// Two that are compared alike.
impl PartialEq for Collated {
    fn eq(&self, other: &Collated) -> bool {
        self.named() == other.named()
    }
}

impl Collated {
    /// Of a column of the query that shows it.
    pub(super) fn of_output(&self) -> Collated {
        match self {
            Collated::Explicit(collation) => Collated::Implicit(Arc::clone(collation)),
            other => other.clone(),
        }
    }

    pub(crate) fn named(&self) -> Option<&Arc<Collation>> {
        match self {
            Collated::Implicit(collation) | Collated::Explicit(collation) => Some(collation),
            Collated::Default | Collated::Unclear(..) => None,
        }
    }

    /// # Errors
    /// 42P21: two explicit ones that differ.
    pub(super) fn with(&self, other: &Collated) -> Result<Collated> {
        use Collated as C;
        Ok(match (self, other) {
            (C::Explicit(a), C::Explicit(b)) if a.oid != b.oid => {
                let what = format!(
                    "collation mismatch between explicit collations \"{}\" and \"{}\"",
                    a.name(),
                    b.name()
                );
                return Err(Error::new(SqlState(*b"42P21"), what));
            }
            (C::Explicit(_), _) => self.clone(),
            (_, C::Explicit(_)) => other.clone(),
            (C::Unclear(..), _) => self.clone(),
            (_, C::Unclear(..)) => other.clone(),
            (C::Implicit(a), C::Implicit(b)) if a.oid != b.oid => {
                C::Unclear(Arc::clone(a), Arc::clone(b))
            }
            (C::Default, other) => other.clone(),
            (own, _) => own.clone(),
        })
    }

    /// The collation whose keys are compared, where texts are not by their bytes.
    ///
    /// # Errors
    /// 42P22: it is unclear.
    pub(super) fn order(&self, op: BinaryOp) -> Result<Option<&Collation>> {
        let is_equality = matches!(
            op,
            BinaryOp::Equal
                | BinaryOp::NotEqual
                | BinaryOp::IsDistinctFrom
                | BinaryOp::IsNotDistinctFrom
        );
        let collation = match self {
            Collated::Unclear(..) => {
                let what = "could not determine which collation to use for string comparison";
                return Err(Error::new(SqlState(*b"42P22"), what)
                    .with_hint("Use the COLLATE clause to set the collation explicitly."));
            }
            other => other.named(),
        };
        let keyed =
            |it: &&Arc<Collation>| it.locale.is_some() && !(is_equality && it.deterministic);
        Ok(collation.filter(keyed).map(|it| &**it))
    }

    /// # Errors
    /// 0A000: texts are looked for by their bytes, and by it those are equal that have others.
    pub(super) fn check_equality(&self) -> Result<()> {
        match self.named() {
            Some(collation) if !collation.deterministic => {
                let what = "groups, lists and distinct values under a nondeterministic collation";
                Err(Error::unsupported(what)
                    .with_hint("Compare by = and OR, or lower(…) COLLATE \"C\"."))
            }
            _ => Ok(()),
        }
    }

    /// Functions that look for a text in another.
    ///
    /// # Errors
    /// 0A000, as with PostgreSQL.
    pub(super) fn check_call(&self, name: &str) -> Result<()> {
        match name {
            "position" | "strpos" | "replace" | "split_part" | "starts_with"
            | "string_to_array" => self.check_patterns("substring searches"),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// 0A000, as with PostgreSQL.
    pub(super) fn check_patterns(&self, what: &str) -> Result<()> {
        match self.named() {
            Some(collation) if !collation.deterministic => {
                let what = format!("nondeterministic collations are not supported for {what}");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what))
            }
            _ => Ok(()),
        }
    }
}
