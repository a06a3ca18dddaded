//! Who may do what with one object.
//!
//! ```text
//! owner ─ a ─► ada (with grant option) ─ b ─► bob
//! ```
//!
//! A grant says who gave it, and stands for as long as its giver may give it: revoking `a` revokes
//! `b` too, or is refused where it does not say CASCADE.

use types::{Error, Result, SqlState};

use crate::closure::Closure;
use crate::privilege::Privileges;
use crate::role::RoleId;

/// Who a grant is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Grantee {
    /// All roles, those to come as well.
    Public,
    Role(RoleId),
}

/// What one role has given to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub grantee: Grantee,
    pub grantor: RoleId,
    pub privileges: Privileges,
    /// Those of them that it may give to others.
    pub grantable: Privileges,
}

/// The grants of one object, in the order in which they were made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl(Vec<Grant>);

/// Grants of one object: a list beyond that is no list that a person keeps.
const GRANTS_MAX: usize = 10_000;

pub(crate) const INVALID_GRANT_OPERATION: SqlState = SqlState(*b"0LP01");

impl Acl {
    /// What an object has that no grant was made of.
    pub fn of_new(owner: RoleId, all: Privileges, public: Privileges) -> Acl {
        let none = Privileges::NONE;
        let public =
            Grant { grantee: Grantee::Public, grantor: owner, privileges: public, grantable: none };
        let own = Grant {
            grantee: Grantee::Role(owner),
            grantor: owner,
            privileges: all,
            grantable: none,
        };
        Acl([public, own].into_iter().filter(|grant| !grant.privileges.is_empty()).collect())
    }

    pub fn grants(&self) -> &[Grant] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a role may do with the object, owners and superusers left aside.
    pub fn privileges(&self, closure: &Closure) -> Privileges {
        self.collect(closure, |grant| grant.privileges)
    }

    /// What it may give to others, owners and superusers left aside.
    pub fn grantable(&self, closure: &Closure) -> Privileges {
        self.collect(closure, |grant| grant.grantable)
    }

    fn collect(&self, closure: &Closure, what: impl Fn(&Grant) -> Privileges) -> Privileges {
        let counts = |grant: &&Grant| match grant.grantee {
            Grantee::Public => true,
            Grantee::Role(role) => closure.holds(role),
        };
        let all = self.0.iter().filter(counts);
        all.fold(Privileges::NONE, |sum, grant| sum | what(grant))
    }

    /// The role in whose name another gives a privilege: the owner, where it has what the owner
    /// has; else one that it has the privileges of, and that may give most of them.
    pub fn grantor(&self, by: &Closure, owner: RoleId, wanted: Privileges) -> (RoleId, Privileges) {
        if by.has(owner) {
            return (owner, wanted);
        }
        let mut best = (by.role(), Privileges::NONE);
        for grant in &self.0 {
            if let Grantee::Role(role) = grant.grantee
                && by.holds(role)
            {
                let given = self.given_to(role) & wanted;
                let more = given.each().count() > best.1.each().count();
                let own = role == by.role() && given.contains(best.1) && !given.is_empty();
                if more || own {
                    best = (role, given);
                }
            }
        }
        best
    }

    /// What one role by itself may give.
    fn given_to(&self, role: RoleId) -> Privileges {
        let own = self.0.iter().filter(|grant| grant.grantee == Grantee::Role(role));
        own.fold(Privileges::NONE, |sum, grant| sum | grant.grantable)
    }

    /// # Errors
    /// 0LP01 for a grant option that would come back to who gave it; 54000 for too many grants.
    pub fn grant(&mut self, made: Grant, owner: RoleId) -> Result<()> {
        if !made.grantable.is_empty() {
            self.check_cycle(&made, owner)?;
        }
        let same =
            |grant: &&mut Grant| grant.grantee == made.grantee && grant.grantor == made.grantor;
        let count = self.0.len();
        match self.0.iter_mut().find(same) {
            Some(grant) => {
                grant.privileges |= made.privileges;
                grant.grantable |= made.grantable;
            }
            None if count >= GRANTS_MAX => {
                let what = format!("an object can have at most {GRANTS_MAX} grants");
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
            }
            None => self.0.push(made),
        }
        Ok(())
    }

    /// A grant option may not lead back to the role that gives it: without that grant, the grantor
    /// must have the option still.
    fn check_cycle(&self, made: &Grant, owner: RoleId) -> Result<()> {
        let Grantee::Role(grantee) = made.grantee else { return Ok(()) };
        if grantee == owner || made.grantor == owner {
            return Ok(());
        }
        let mut without = self.clone();
        // What the grantee gives away, with all that rests on it, is not there for a moment.
        loop {
            let theirs = |grant: &Grant| {
                grant.grantee == made.grantee && !(grant.grantable & made.grantable).is_empty()
            };
            let Some(place) = without.0.iter().position(theirs) else { break };
            let taken = without.0[place].grantable & made.grantable;
            without.0[place].grantable = without.0[place].grantable & !taken;
            without.revoke_dependent(owner);
        }
        match without.given_to(made.grantor).contains(made.grantable) {
            true => Ok(()),
            false => {
                let what = "grant options cannot be granted back to your own grantor";
                Err(Error::new(INVALID_GRANT_OPERATION, what))
            }
        }
    }

    /// Takes back what a grantor gave; `option_only`: no more than that it can be given on. Whether
    /// something was taken.
    ///
    /// # Errors
    /// 2BP01: others have it from the grantee, and it does not say CASCADE.
    pub fn revoke(
        &mut self,
        taken: Grant,
        owner: RoleId,
        (option_only, cascade): (bool, bool),
    ) -> Result<bool> {
        let before = self.clone();
        for grant in &mut self.0 {
            if grant.grantee == taken.grantee && grant.grantor == taken.grantor {
                if !option_only {
                    grant.privileges = grant.privileges & !taken.privileges;
                }
                grant.grantable = grant.grantable & !taken.privileges;
            }
        }
        self.0.retain(|grant| !grant.privileges.is_empty());
        let depends = self.revoke_dependent(owner);
        if depends && !cascade {
            *self = before;
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                "dependent privileges exist",
            )
            .with_hint("Use CASCADE to revoke them too."));
        }
        Ok(*self != before)
    }

    /// Takes away what was given by roles that may not give it any more; whether there was any.
    fn revoke_dependent(&mut self, owner: RoleId) -> bool {
        let mut any = false;
        loop {
            let mut changed = false;
            for place in 0..self.0.len() {
                let grant = self.0[place];
                if grant.grantor == owner {
                    continue;
                }
                let may = self.given_to(grant.grantor);
                let kept = grant.privileges & may;
                if kept != grant.privileges {
                    self.0[place].privileges = kept;
                    self.0[place].grantable = grant.grantable & kept;
                    changed = true;
                }
            }
            self.0.retain(|grant| !grant.privileges.is_empty());
            any |= changed;
            if !changed {
                return any;
            }
        }
    }

    /// All that a role was given or has given: what keeps it from being dropped.
    pub fn names(&self, role: RoleId) -> bool {
        let is_it = |grant: &Grant| grant.grantor == role || grant.grantee == Grantee::Role(role);
        self.0.iter().any(is_it)
    }

    /// Takes away all that a role was given, and what it has given: DROP OWNED.
    pub fn forget(&mut self, role: RoleId, owner: RoleId) {
        let keeps = |grant: &Grant| {
            grant.grantee != Grantee::Role(role) && (grant.grantor != role || role == owner)
        };
        self.0.retain(keeps);
        self.revoke_dependent(owner);
    }

    /// The object has another owner, who stands for the old one in all grants.
    pub fn change_owner(&mut self, old: RoleId, new: RoleId) {
        let mut all = std::mem::take(&mut self.0);
        for grant in &mut all {
            if grant.grantor == old {
                grant.grantor = new;
            }
            if grant.grantee == Grantee::Role(old) {
                grant.grantee = Grantee::Role(new);
            }
        }
        all.into_iter().for_each(|grant| self.add(grant));
    }

    /// All that both say.
    pub fn with(mut self, other: &Acl) -> Acl {
        other.0.iter().for_each(|grant| self.add(*grant));
        self
    }

    /// In the order of those that something was granted to, as PostgreSQL keeps what new objects
    /// have.
    pub fn sorted(mut self) -> Acl {
        self.0.sort_by_key(|grant| (grant.grantee, grant.grantor));
        self
    }

    fn add(&mut self, grant: Grant) {
        let same = |one: &&mut Grant| one.grantee == grant.grantee && one.grantor == grant.grantor;
        match self.0.iter_mut().find(same) {
            Some(one) => {
                one.privileges |= grant.privileges;
                one.grantable |= grant.grantable;
            }
            None => self.0.push(grant),
        }
    }

    /// Each grant as PostgreSQL writes it, `grantee=privileges/grantor`.
    pub fn texts(&self, name: impl Fn(RoleId) -> String) -> Vec<String> {
        let text = |grant: &Grant| {
            let mut text = match grant.grantee {
                Grantee::Public => String::new(),
                Grantee::Role(role) => name(role),
            };
            text.push('=');
            for one in grant.privileges.each() {
                text.push(one.letter());
                if grant.grantable.contains(one) {
                    text.push('*');
                }
            }
            text.push('/');
            text.push_str(&name(grant.grantor));
            text
        };
        self.0.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privilege::Kind;

    const OWNER: RoleId = RoleId(1);
    const ADA: RoleId = RoleId(2);
    const BOB: RoleId = RoleId(3);
    const READ: Privileges = Privileges::SELECT;

    fn closure(role: RoleId) -> Closure {
        Closure::new(role, false, vec![role])
    }

    fn grant(grantor: RoleId, grantee: RoleId, grantable: bool) -> Grant {
        let none = Privileges::NONE;
        let grantable = if grantable { READ } else { none };
        Grant { grantee: Grantee::Role(grantee), grantor, privileges: READ, grantable }
    }

    fn new() -> Acl {
        Acl::of_new(OWNER, Kind::Table.all(), Privileges::NONE)
    }

    #[test]
    fn what_was_given_on_goes_with_what_it_rests_on() {
        let mut acl = new();
        acl.grant(grant(OWNER, ADA, true), OWNER).unwrap();
        assert_eq!(acl.grantor(&closure(ADA), OWNER, READ), (ADA, READ));
        acl.grant(grant(ADA, BOB, false), OWNER).unwrap();
        assert!(acl.privileges(&closure(BOB)).contains(READ));
        let refused = acl.revoke(grant(OWNER, ADA, true), OWNER, (false, false)).unwrap_err();
        assert_eq!(refused.code().as_str(), "2BP01");
        assert!(acl.privileges(&closure(BOB)).contains(READ), "a refused change changes nothing");
        assert!(acl.revoke(grant(OWNER, ADA, true), OWNER, (false, true)).unwrap());
        assert_eq!(acl, new());
    }

    #[test]
    fn grant_options_form_no_cycles() {
        let mut acl = new();
        acl.grant(grant(OWNER, ADA, true), OWNER).unwrap();
        acl.grant(grant(ADA, BOB, true), OWNER).unwrap();
        let refused = acl.grant(grant(BOB, ADA, true), OWNER).unwrap_err();
        assert_eq!(refused.code().as_str(), "0LP01");
        acl.grant(grant(OWNER, BOB, true), OWNER).unwrap();
        acl.grant(grant(BOB, ADA, true), OWNER).unwrap();
    }

    #[test]
    fn texts_are_postgresqls() {
        let mut acl = new();
        acl.grant(grant(OWNER, ADA, true), OWNER).unwrap();
        let public = Grant { grantee: Grantee::Public, ..grant(OWNER, ADA, false) };
        acl.grant(public, OWNER).unwrap();
        let name = |role: RoleId| ["", "owner", "ada"][role.0 as usize].to_owned();
        assert_eq!(acl.texts(name), ["owner=arwdDxt/owner", "ada=r*/owner", "=r/owner"]);
        assert!(acl.names(ADA) && !acl.names(BOB));
        acl.change_owner(OWNER, ADA);
        assert_eq!(acl.texts(name), ["ada=ar*wdDxt/ada", "=r/ada"]);
    }
}
