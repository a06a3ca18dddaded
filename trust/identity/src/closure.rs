//! The transitive closure of role memberships: all roles whose privileges a role has, at one
//! version of the roles.

use crate::role::RoleId;

/// Of one role, at one version of the roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Closure {
    role: RoleId,
    superuser: bool,
    /// Ascending, itself among them.
    all: Box<[RoleId]>,
}

impl Closure {
    pub(crate) fn new(role: RoleId, superuser: bool, mut all: Vec<RoleId>) -> Closure {
        all.sort_unstable();
        all.dedup();
        Closure { role, superuser, all: all.into() }
    }

    pub fn role(&self) -> RoleId {
        self.role
    }

    /// It may do everything.
    pub fn is_superuser(&self) -> bool {
        self.superuser
    }

    /// Whether it has what that role has.
    pub fn has(&self, role: RoleId) -> bool {
        self.superuser || self.all.binary_search(&role).is_ok()
    }

    /// The same, superuser or not.
    pub(crate) fn holds(&self, role: RoleId) -> bool {
        self.all.binary_search(&role).is_ok()
    }
}
