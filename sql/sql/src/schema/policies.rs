//! Approval policies: what of the schema has one, and what a transaction owes them.

use identity::{APPROVAL_MISSING, Agreed, KeyId};
use types::{Error, Result, TableId};

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
            // What is said of one that is not met takes longer than to see that it is.
            if agreed.meets(&set.policy) {
                return Ok(());
            }
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

    /// Whether the policies of all of these are met.
    pub(crate) fn are_approved(
        &self,
        objects: impl IntoIterator<Item = Commented>,
        agreed: &Agreed<'_>,
    ) -> bool {
        let set = |object| self.policies.get(&object);
        objects.into_iter().filter_map(set).all(|set| agreed.meets(&set.policy))
    }

    /// Whether [`check_endorsed`](Self::check_endorsed) finds nothing.
    pub(crate) fn are_endorsed(
        &self,
        tables: impl IntoIterator<Item = TableId>,
        agreed: &Agreed<'_>,
    ) -> bool {
        let of_ledger = self.policies.get(&Commented::Database);
        let is_met = |set: &ApprovalPolicy| agreed.meets_endorsed(&set.policy);
        of_ledger.is_none_or(is_met)
            && tables.into_iter().all(|table| {
                let of_table = self.policies.get(&Commented::Table(table));
                of_table.map_or(of_ledger.is_some(), is_met)
            })
    }

    /// Whether those have endorsed what is written to tables whose word counts for it: by each
    /// table's own policy and the ledger's, of which there has to be one.
    ///
    /// # Errors
    /// 42T01: for which table they have not.
    pub(crate) fn check_endorsed(
        &self,
        tables: impl IntoIterator<Item = TableId>,
        agreed: &Agreed<'_>,
    ) -> Result<()> {
        let of_ledger = self.policies.get(&Commented::Database);
        if let Some(set) = of_ledger {
            agreed.check_endorsed(&set.policy, "the ledger")?;
        }
        tables.into_iter().try_for_each(|table| {
            let object = Commented::Table(table);
            let set = self.policies.get(&object);
            if set.is_some_and(|set| agreed.meets_endorsed(&set.policy)) {
                return Ok(());
            }
            let (kind, name) = self.called(&object);
            match set {
                Some(set) => agreed
                    .check_endorsed(&set.policy, &format!("{kind} \"{name}\""))
                    .map_err(|error| error.with_table(name)),
                None if of_ledger.is_some() => Ok(()),
                None => {
                    let what = format!("table \"{name}\" takes no endorsed transactions");
                    Err(Error::new(APPROVAL_MISSING, what)
                        .with_detail(
                            "Neither it nor the ledger has a policy, so there are none whose word \
                             counts for what is written to it.",
                        )
                        .with_hint("ALTER TABLE … SET APPROVAL POLICY … says whose does.")
                        .with_table(name))
                }
            }
        })
    }
}
