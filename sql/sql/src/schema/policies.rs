//! Approval policies: what of the schema has one, and what a transaction owes them.

use identity::{Agreed, KeyId};
use types::Result;

use crate::schema::catalog::{ApprovalPolicy, Catalog, Commented};

impl Catalog {
    /// All of them, by what they are of.
    pub fn policies(&self) -> impl Iterator<Item = (&Commented, &ApprovalPolicy)> {
        self.policies.iter()
    }

    pub fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    pub(crate) fn agreed<'a>(&'a self, signers: &'a [KeyId], approvers: &'a [KeyId]) -> Agreed<'a> {
        let (organisations, roles) = (&*self.organisations, &*self.roles);
        Agreed { organisations, roles, signers, approvers }
    }

    /// The policies of the first of these that asks for more than was agreed to.
    ///
    /// # Errors
    /// 42T01: which one, and what is missing.
    pub(crate) fn check_approved(
        &self,
        objects: impl IntoIterator<Item = Commented>,
        agreed: &Agreed<'_>,
    ) -> Result<()> {
        objects.into_iter().try_for_each(|object| {
            let Some(set) = self.policies.get(&object) else { return Ok(()) };
            let (kind, name) = self.called(&object);
            let (what, table) = match object {
                Commented::Database => ("the ledger".to_owned(), None),
                Commented::Table(_) => (format!("{kind} \"{name}\""), Some(name)),
                _ => (format!("{kind} \"{name}\""), None),
            };
            agreed.check(&set.policy, &what).map_err(|error| match table {
                Some(name) => error.with_table(name),
                None => error,
            })
        })
    }
}
