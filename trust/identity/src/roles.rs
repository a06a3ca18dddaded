//! All roles of a ledger, and who is a member of which.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use types::{Error, Result, SqlState};

use crate::acl::INVALID_GRANT_OPERATION;
use crate::closure::Closure;
use crate::role::{Attributes, BOOTSTRAP, FIRST_OWN, Membership, Role, RoleId};

/// Roles of one ledger. A schema change copies their table.
const ROLES_MAX: usize = 10_000;

/// Members of roles, over all roles.
const MEMBERSHIPS_MAX: usize = 100_000;

/// Bytes of a name, as PostgreSQL has them.
pub const NAME_BYTES_MAX: usize = 63;

/// Who asks for a change: the principal of its transaction, and the role that it acts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actor {
    pub session: RoleId,
    pub current: RoleId,
}

impl Actor {
    /// The superuser that the ledger began with.
    pub const BOOTSTRAP: Actor = Actor { session: BOOTSTRAP, current: BOOTSTRAP };
}

#[derive(Clone, PartialEq, Debug)]
pub struct Roles {
    by_id: BTreeMap<RoleId, Arc<Role>>,
    names: BTreeMap<String, RoleId>,
    /// By role, then by member.
    memberships: BTreeMap<(RoleId, RoleId), Membership>,
    next: u32,
}

impl Default for Roles {
    fn default() -> Roles {
        Roles::bootstrap("tally")
    }
}

impl Roles {
    /// Those of a ledger without blocks: a superuser of that name, and the predefined ones.
    pub fn bootstrap(owner: &str) -> Roles {
        let owner = Role {
            id: BOOTSTRAP,
            name: owner.to_owned(),
            attributes: Attributes::ALL,
            verifier: None,
            valid_until_us: None,
        };
        let mut roles = Roles {
            by_id: BTreeMap::new(),
            names: BTreeMap::new(),
            memberships: BTreeMap::new(),
            next: FIRST_OWN,
        };
        for role in [owner].into_iter().chain(Role::predefined()) {
            roles.put(role);
        }
        roles
    }

    fn put(&mut self, role: Role) {
        self.names.insert(role.name.clone(), role.id);
        self.by_id.insert(role.id, Arc::new(role));
    }

    /// All of them, by number.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.by_id.values()
    }

    pub fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.memberships.values()
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Role>> {
        self.by_id.get(self.names.get(name)?)
    }

    pub fn role(&self, id: RoleId) -> Option<&Arc<Role>> {
        self.by_id.get(&id)
    }

    /// Of one that is there.
    pub fn name(&self, id: RoleId) -> &str {
        self.role(id).map_or("", |role| &role.name)
    }

    /// # Errors
    /// 42704: there is none.
    pub fn named(&self, name: &str) -> Result<&Arc<Role>> {
        self.find(name).ok_or_else(|| {
            Error::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
        })
    }

    pub fn is_superuser(&self, id: RoleId) -> bool {
        self.role(id).is_some_and(|role| role.attributes.superuser)
    }

    /// What a transaction is refused for, whose principal may ask for nothing.
    ///
    /// # Errors
    /// 28000: it does not exist, or does not log in.
    pub fn principal(&self, name: &str) -> Result<&Arc<Role>> {
        let refuse = |what| Err(Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what));
        match self.find(name) {
            None => refuse(format!("role \"{name}\" does not exist")),
            Some(role) if !role.attributes.logs_in => {
                refuse(format!("role \"{name}\" is not permitted to log in"))
            }
            Some(role) => Ok(role),
        }
    }

    /// Who a transaction is of: its principal, as the role that it names.
    ///
    /// # Errors
    /// 28000, or 42501 for a role that the principal is no member of.
    pub fn actor(&self, principal: &str, role: Option<&str>) -> Result<Actor> {
        let session = self.principal(principal)?;
        let Some(name) = role else {
            return Ok(Actor { session: session.id, current: session.id });
        };
        let role = self.named(name)?;
        match self.is_member(session.id, role.id) {
            true => Ok(Actor { session: session.id, current: role.id }),
            false => {
                let what = format!("permission denied to set role \"{name}\"");
                Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what))
            }
        }
    }

    /// Whether it may act as that role: as a superuser, itself, or a member, however far away.
    pub fn is_member(&self, member: RoleId, role: RoleId) -> bool {
        self.is_superuser(member) || self.reached(member, false).contains(&role)
    }

    /// Whether it has what that role has, without asking for it.
    pub fn has_privileges_of(&self, member: RoleId, role: RoleId) -> bool {
        self.is_superuser(member) || self.reached(member, true).contains(&role)
    }

    /// All roles whose privileges it has.
    pub fn closure(&self, role: RoleId) -> Closure {
        let all = self.reached(role, true).into_iter().collect();
        Closure::new(role, self.is_superuser(role), all)
    }

    /// Roles that it is a member of, itself among them; `inherited`: only by roles that inherit.
    fn reached(&self, member: RoleId, inherited: bool) -> BTreeSet<RoleId> {
        let mut reached = BTreeSet::from([member]);
        let mut open = vec![member];
        while let Some(member) = open.pop() {
            let inherits = self.role(member).is_some_and(|role| role.attributes.inherits);
            if inherited && !inherits {
                continue;
            }
            for membership in self.memberships.values().filter(|one| one.member == member) {
                if reached.insert(membership.role) {
                    open.push(membership.role);
                }
            }
        }
        reached
    }

    /// A role and all its members, however far away.
    pub(crate) fn with_members(&self, role: RoleId) -> BTreeSet<RoleId> {
        let mut all = BTreeSet::from([role]);
        let mut open = vec![role];
        while let Some(role) = open.pop() {
            let members = self.memberships.range((role, RoleId(0))..=(role, RoleId(u32::MAX)));
            for membership in members.map(|(_, membership)| membership) {
                if all.insert(membership.member) {
                    open.push(membership.member);
                }
            }
        }
        all
    }

    /// Whether it may make others members of that role.
    pub fn is_admin(&self, member: RoleId, role: RoleId) -> bool {
        let reached = self.reached(member, false);
        self.is_superuser(member)
            || self
                .memberships
                .values()
                .any(|one| one.role == role && one.admin && reached.contains(&one.member))
    }

    /// # Errors
    /// The name is taken, reserved or too long; there are too many.
    pub fn create(&mut self, role: Role) -> Result<RoleId> {
        check_name(&role.name)?;
        if self.names.contains_key(&role.name) {
            let what = format!("role \"{}\" already exists", role.name);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, what));
        }
        if self.by_id.len() >= ROLES_MAX {
            let what = format!("a ledger can have at most {ROLES_MAX} roles");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        let id = RoleId(self.next);
        self.next += 1;
        self.put(Role { id, ..role });
        Ok(id)
    }

    pub fn change(&mut self, id: RoleId, change: impl FnOnce(&mut Role)) {
        if let Some(role) = self.by_id.get_mut(&id) {
            change(Arc::make_mut(role));
        }
    }

    /// # Errors
    /// As for [`Roles::create`].
    pub fn rename(&mut self, id: RoleId, name: &str) -> Result<()> {
        check_name(name)?;
        if self.names.contains_key(name) {
            let what = format!("role \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, what));
        }
        let Some(role) = self.by_id.get(&id) else { return Ok(()) };
        self.names.remove(&role.name);
        let role = Role { name: name.to_owned(), ..(**role).clone() };
        self.put(role);
        Ok(())
    }

    /// With all that it was a member of, and all members that it had.
    pub fn drop(&mut self, id: RoleId) {
        if let Some(role) = self.by_id.remove(&id) {
            self.names.remove(&role.name);
        }
        self.memberships.retain(|(role, member), _| *role != id && *member != id);
    }

    /// Makes one role a member of another; `false`: it is already, in that way.
    ///
    /// # Errors
    /// 0LP01: the role is a member of that member.
    pub fn add_member(&mut self, made: Membership) -> Result<bool> {
        let Membership { role, member, .. } = made;
        if role == member || self.reached(role, false).contains(&member) {
            let (role, member) = (self.name(role), self.name(member));
            let what = format!("role \"{role}\" is a member of role \"{member}\"");
            return Err(Error::new(INVALID_GRANT_OPERATION, what));
        }
        let known = self.memberships.get(&(role, member));
        if known.is_some_and(|known| known.admin || !made.admin) {
            return Ok(false);
        }
        if self.memberships.len() >= MEMBERSHIPS_MAX {
            let what = format!("a ledger can have at most {MEMBERSHIPS_MAX} members of roles");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        self.memberships.insert((role, member), made);
        Ok(true)
    }

    /// `option_only`: no more than that it makes others members. `false`: it is no member.
    pub fn remove_member(&mut self, role: RoleId, member: RoleId, option_only: bool) -> bool {
        match option_only {
            false => self.memberships.remove(&(role, member)).is_some(),
            true => match self.memberships.get_mut(&(role, member)) {
                Some(membership) => {
                    membership.admin = false;
                    true
                }
                None => false,
            },
        }
    }
}

/// # Errors
/// 42939, 42602: no role can have this name.
pub fn check_name(name: &str) -> Result<()> {
    const RESERVED_NAME: SqlState = SqlState(*b"42939");
    let reserved = || Error::new(RESERVED_NAME, format!("role name \"{name}\" is reserved"));
    if let Some(prefix) = ["pg_", "tally_"].into_iter().find(|prefix| name.starts_with(prefix)) {
        let what = format!("Role names starting with \"{prefix}\" are reserved.");
        return Err(reserved().with_detail(what));
    }
    if let "public" | "none" = name {
        return Err(reserved());
    }
    if name.len() > NAME_BYTES_MAX || name.is_empty() || name.contains('\0') {
        let what = format!("a role's name has from 1 to {NAME_BYTES_MAX} bytes");
        return Err(Error::new(SqlState(*b"42602"), what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, inherits: bool) -> Role {
        let attributes = Attributes { inherits, logs_in: true, ..Attributes::NEW };
        let (verifier, valid_until_us) = (None, None);
        Role { id: RoleId(0), name: name.to_owned(), attributes, verifier, valid_until_us }
    }

    fn member(role: RoleId, member: RoleId, admin: bool) -> Membership {
        Membership { role, member, grantor: BOOTSTRAP, admin }
    }

    #[test]
    fn members_have_what_their_roles_have_where_they_inherit() {
        let mut roles = Roles::default();
        let top = roles.create(role("top", true)).unwrap();
        let middle = roles.create(role("middle", false)).unwrap();
        let low = roles.create(role("low", true)).unwrap();
        assert!(roles.add_member(member(top, middle, true)).unwrap());
        assert!(roles.add_member(member(middle, low, false)).unwrap());
        assert!(roles.is_member(low, top) && !roles.has_privileges_of(low, top));
        assert!(roles.has_privileges_of(low, middle) && !roles.is_member(top, low));
        assert!(roles.is_admin(low, top) && !roles.is_admin(low, middle));
        assert!(roles.closure(low).has(middle) && !roles.closure(low).has(top));
        assert!(roles.closure(BOOTSTRAP).has(top));
        assert!(!roles.add_member(member(top, middle, false)).unwrap());
        let refused = roles.add_member(member(low, top, false)).unwrap_err();
        assert_eq!(refused.code().as_str(), "0LP01");
        assert_eq!(refused.message(), "role \"low\" is a member of role \"top\"");
        assert!(roles.add_member(member(low, low, false)).is_err());
        roles.drop(middle);
        assert!(!roles.is_member(low, top));
        assert_eq!(roles.memberships().count(), 0);
    }

    #[test]
    fn principals_log_in_and_act_as_what_they_are_members_of() {
        let mut roles = Roles::bootstrap("ada");
        let bob = roles.create(role("bob", true)).unwrap();
        let ops = roles.create(Role { attributes: Attributes::NEW, ..role("ops", true) }).unwrap();
        let code = |result: Result<Actor>| result.map_err(|error| error.code().as_str().to_owned());
        assert_eq!(code(roles.actor("tally", None)), Err("28000".to_owned()));
        assert_eq!(code(roles.actor("ops", None)), Err("28000".to_owned()));
        assert_eq!(code(roles.actor("bob", Some("ops"))), Err("42501".to_owned()));
        assert_eq!(code(roles.actor("bob", Some("eve"))), Err("42704".to_owned()));
        roles.add_member(member(ops, bob, false)).unwrap();
        let actor = roles.actor("bob", Some("ops")).unwrap();
        assert_eq!(actor, Actor { session: bob, current: ops });
        assert_eq!(roles.actor("ada", Some("ops")).unwrap().session, BOOTSTRAP);
    }

    #[test]
    fn names_are_checked() {
        let mut roles = Roles::default();
        for (name, code) in [
            ("tally", "42710"),
            ("pg_x", "42939"),
            ("tally_x", "42939"),
            ("public", "42939"),
            ("none", "42939"),
            ("", "42602"),
            (&"x".repeat(64), "42602"),
        ] {
            let refused = roles.create(role(name, true)).unwrap_err();
            assert_eq!(refused.code().as_str(), code, "{name}");
        }
        let ada = roles.create(role("ada", true)).unwrap();
        roles.rename(ada, "a\"b; --").unwrap();
        assert!(roles.find("ada").is_none());
        assert_eq!(roles.named("a\"b; --").unwrap().id, ada);
        assert_eq!(roles.rename(ada, "tally").unwrap_err().code().as_str(), "42710");
    }
}
