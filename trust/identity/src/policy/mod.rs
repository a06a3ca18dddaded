//! Whose agreement a transaction needs, as a value.
//!
//! ```text
//!   policy = AND(policy, …) | OR(policy, …) | OUTOF(n, policy, …) | party
//!   party  = organisation               the organisation itself: a node of it, or its root key
//!          | organisation.role          a user of it that is the role, or a member of it
//! ```
//!
//! A policy has no NOT, so what meets one is not undone by a further approval. One approval counts
//! at every place that it fits.
//!
//! *Canonical*: policies that are read alike but for order, repetition, brackets that say nothing,
//! spaces, letters of keywords, are one value with one text.

mod formula;
mod missing;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use types::{Error, Result, SqlState};

use formula::Node;
pub use formula::Party;

/// Approvals that one may need: as many as a transaction can bear.
pub const APPROVALS_MAX: usize = 16;

/// A transaction lacks approvals that a policy asks for.
pub const APPROVAL_MISSING: SqlState = SqlState(*b"42T01");

/// In canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Policy(Node);

impl Policy {
    /// # Errors
    /// 42601: the text is no policy. 22023: it asks for more than there is. 54000, 54001: it is too
    /// long, or too deep.
    pub fn parse(text: &str) -> Result<Policy> {
        let policy = Policy(parse::policy(text)?);
        // Its own text is read again.
        parse::check_length(&policy.to_string())?;
        let fewest = policy.0.fewest();
        if fewest > APPROVALS_MAX {
            let what = format!("a transaction can bear at most {APPROVALS_MAX} approvals");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(format!("The policy may need {fewest}.")));
        }
        Ok(policy)
    }

    /// Whether what fits is enough.
    pub fn is_met(&self, fits: &mut dyn FnMut(&Party) -> bool) -> bool {
        self.0.is_met(fits)
    }

    /// What is still missing, in words; `None`: nothing.
    pub fn missing(&self, fits: &mut dyn FnMut(&Party) -> bool) -> Option<String> {
        missing::missing(&self.0, fits).map(|rest| missing::in_words(&rest))
    }

    /// All that it names, each as often as it does.
    pub fn parties(&self) -> Vec<&Party> {
        let mut parties = Vec::new();
        self.0.each_party(&mut |party| parties.push(party));
        parties
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
