//! Approval policies: setting them, and enforcing them for schema changes.
//!
//! To change an object's rows, its definition or its policy, a transaction needs the approvals that
//! the policy asks for. The ledger's own policy applies to every transaction except ALTER
//! ORGANISATION: an organisation must be able to revoke a lost key alone and at once.

use std::sync::Arc;

use identity::{Party, Policy, RoleId};
use types::{Error, Result, SqlState, TableId};

use super::StoreChange;
use super::apply::Transition;
use crate::schema::catalog::{ApprovalPolicy, Catalog, Commented, Table};
use crate::syntax::ddl::Ddl;
use crate::syntax::grants::Owned;
use crate::syntax::names::{DATABASES, simple_name};
use crate::syntax::organisations::OrganisationStatement;
use crate::syntax::policies::PolicyStatement;

/// Of one ledger.
const POLICIES_MAX: usize = 10_000;

impl Transition {
    pub(super) fn approval_policy(&mut self, statement: &PolicyStatement) -> Result<()> {
        let Some(object) = self.guarded(statement)? else { return Ok(()) };
        let Some(set) = &statement.set else {
            let (kind, name) = self.catalog.called(&object);
            return match self.policies_mut().remove(&object) {
                Some(_) => Ok(()),
                None => {
                    let what = format!("{kind} \"{name}\" has no approval policy");
                    Err(Error::new(SqlState::UNDEFINED_OBJECT, what))
                }
            };
        };
        let policy = Policy::parse(&set.text)?;
        if !set.force {
            let checked = self.catalog.organisations.check_policy(&self.catalog.roles, &policy);
            checked.map_err(forcible)?;
        }
        let is_new = !self.catalog.policies.contains_key(&object);
        if is_new && self.catalog.policies.len() >= POLICIES_MAX {
            let what = format!("a ledger can have at most {POLICIES_MAX} approval policies");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        let since = self.height;
        self.policies_mut().insert(object, ApprovalPolicy { policy, since });
        Ok(())
    }

    /// What a statement is about; `None`: it is not there, and need not be.
    fn guarded(&self, statement: &PolicyStatement) -> Result<Option<Commented>> {
        let PolicyStatement { of, if_exists, name, .. } = statement;
        if *of == Owned::Database {
            let name = simple_name(name)?;
            if !DATABASES.contains(&name.as_str()) {
                let what = format!("database \"{name}\" does not exist");
                return Err(Error::new(SqlState::INVALID_CATALOG_NAME, what));
            }
            let what = "set the approval policy of the ledger";
            let role = self.actor.current;
            let needed = RoleId::SET_PARAMETERS;
            crate::schema::access::must_be(&self.catalog.roles, role, needed, what)?;
            return Ok(Some(Commented::Database));
        }
        let Some(object) = self.owned_object(*of, name, *if_exists)? else { return Ok(None) };
        match (&object, of) {
            (Commented::Table(_), Owned::Table) | (Commented::Routine(_), _) => {}
            (object, _) => {
                let (_, name) = self.catalog.called(object);
                let what = format!("\"{name}\" is not a table");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
            }
        }
        self.check_owns(&object)?;
        Ok(Some(object))
    }

    fn policies_mut(&mut self) -> &mut std::collections::BTreeMap<Commented, ApprovalPolicy> {
        Arc::make_mut(&mut self.catalog.policies)
    }

    /// Whether a change has the approvals that it needs, by the policies and keys before it.
    ///
    /// # Errors
    /// 42T01: it has not.
    pub(super) fn check_approved(&self, before: &Catalog, ddl: &Ddl) -> Result<()> {
        if !before.has_policies() {
            return Ok(());
        }
        let agreed = before.agreed(&self.signers, &self.approvers);
        let of_one_organisation = matches!(
            ddl,
            Ddl::Organisation(statement)
                if matches!(**statement, OrganisationStatement::Alter { .. })
        );
        let all = before.policies().map(|(object, _)| object);
        let (ledger, objects): (Vec<_>, Vec<_>) =
            all.cloned().partition(|object| *object == Commented::Database);
        if !of_one_organisation {
            before.check_approved(ledger, &agreed)?;
        }
        let changed = objects.into_iter().filter(|object| self.has_changed(before, object));
        before.check_approved(changed, &agreed)
    }

    fn has_changed(&self, before: &Catalog, object: &Commented) -> bool {
        let after = &self.catalog;
        let changed = match object {
            Commented::Table(id) => {
                let is_emptied = |change: &StoreChange| *change == StoreChange::Truncate(*id);
                self.store.iter().any(is_emptied)
                    || differs(before, after, *id)
                    || before.identities(*id) != after.identities(*id)
            }
            Commented::Routine(name) => {
                let definition = |catalog: &'_ Catalog| {
                    catalog.routine(name).map(|routine| routine.definition.clone())
                };
                definition(before) != definition(after)
            }
            _ => false,
        };
        changed || before.policies.get(object) != after.policies.get(object)
    }

    /// What policies name stays able to approve: else a change of roles would lock out who has to
    /// agree, and a role that takes a name over would agree in place of another.
    ///
    /// # Errors
    /// 2BP01: it would not.
    pub(super) fn check_approvers(&self, before: &Catalog) -> Result<()> {
        let after = &self.catalog;
        let same = Arc::ptr_eq(&before.roles, &after.roles)
            && Arc::ptr_eq(&before.organisations, &after.organisations);
        if same || !after.has_policies() {
            return Ok(());
        }
        let can = |catalog: &Catalog, party: &Party| {
            catalog.organisations.can_approve(&catalog.roles, party)
        };
        for (object, set) in after.policies() {
            for party in set.policy.parties() {
                if can(before, party) && !can(after, party) {
                    let (kind, name) = after.called(object);
                    let what = format!("{party} could not approve any more");
                    return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                        .with_detail(format!("The approval policy of {kind} \"{name}\" names it."))
                        .with_hint("ALTER … SET APPROVAL POLICY puts another one in its place."));
                }
            }
        }
        Ok(())
    }

    /// Policies of what is no longer there go.
    pub(super) fn drop_orphaned_policies(&mut self) {
        let catalog = &self.catalog;
        if catalog.policies.keys().all(|object| catalog.has(object)) {
            return;
        }
        let mut policies = (*catalog.policies).clone();
        policies.retain(|object, _| catalog.has(object));
        self.catalog.policies = Arc::new(policies);
    }
}

/// What points at a table is no part of it.
fn differs(before: &Catalog, after: &Catalog, id: TableId) -> bool {
    let bare = |table: &Arc<Table>| Table { referenced_by: Vec::new(), ..(**table).clone() };
    match (before.table_by_id(id), after.table_by_id(id)) {
        (Some(before), Some(after)) => !Arc::ptr_eq(before, after) && bare(before) != bare(after),
        _ => true,
    }
}

fn forcible(error: Error) -> Error {
    let hint = "FORCE sets it nevertheless: transactions that it concerns are refused until it \
                is met.";
    error.with_hint(hint)
}
