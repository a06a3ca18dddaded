//! Evaluates an approval policy: do the keys that signed and approved a transaction satisfy it?
//!
//! A policy names parties: an organisation, or a role within one. A key that is not revoked counts
//! for these parties:
//!
//! ```text
//!   approval by a node's key or the root key ──► the organisation
//!            by a user's key ──────────────────► each role of the organisation that the user has
//!            by the root key ──────────────────► each role that any user of it has
//!   signature on the transaction itself ───────► the same, except that a node's does not count
//! ```
//!
//! A node signs whatever its users submit, so its signature is not an approval. It approves
//! separately, after it has examined what the transaction does.

use std::collections::BTreeSet;

use types::{Error, Result, SqlState};

use crate::organisations::{Holder, KeyId, Organisation, Organisations, shown};
use crate::policy::{APPROVAL_MISSING, Party, Policy};
use crate::role::RoleId;
use crate::roles::Roles;

/// The keys by which a transaction is signed and approved, each with a signature that is right.
#[derive(Clone, Copy, Debug)]
pub struct Agreed<'a> {
    pub organisations: &'a Organisations,
    pub roles: &'a Roles,
    pub signers: &'a [KeyId],
    pub approvers: &'a [KeyId],
}

impl Agreed<'_> {
    /// Whether a policy is met.
    pub fn meets(&self, policy: &Policy) -> bool {
        policy.is_met(&mut |party| self.fits(party))
    }

    /// Whether it is by nodes that have simulated the transaction: see
    /// [`check_endorsed`](Self::check_endorsed).
    pub fn meets_endorsed(&self, policy: &Policy) -> bool {
        policy.is_met(&mut |party| self.endorses(&party.organisation))
    }

    /// # Errors
    /// 42T01: a policy is not met, which is one of `what`.
    pub fn check(&self, policy: &Policy, what: &str) -> Result<()> {
        let Some(missing) = policy.missing(&mut |party| self.fits(party)) else { return Ok(()) };
        let message = format!("the transaction lacks approvals that {what} asks for");
        let mut detail = format!("The policy is {policy}: {missing}.");
        for key in self.approvers {
            if let Some(why) = self.why_idle(key) {
                detail.push_str(&format!(" The key {} does not count: {why}.", shown(key)));
            }
        }
        Err(Error::new(APPROVAL_MISSING, message).with_detail(detail).with_hint(
            "Keys of those whom the policy names have to approve the transaction, which \
             tally_submit_signed() takes with their approvals.",
        ))
    }

    /// The same of what a transaction was simulated to write, which is believed for its endorsers'
    /// sake: of every organisation that the policy names, or whose users it does, a node has to
    /// have simulated it. What users sign is no simulation.
    ///
    /// # Errors
    /// 42T01: a policy is not met so.
    pub fn check_endorsed(&self, policy: &Policy, what: &str) -> Result<()> {
        let Some(missing) = policy.missing(&mut |party| self.endorses(&party.organisation)) else {
            return Ok(());
        };
        let message = format!("the transaction lacks endorsements that {what} asks for");
        Err(Error::new(APPROVAL_MISSING, message)
            .with_detail(format!("The policy is {policy}, of nodes: {missing}."))
            .with_hint(
                "tally_approve() on a node of an organisation simulates the transaction, and \
                 endorses what it came to if the node comes to the same.",
            ))
    }

    fn endorses(&self, organisation: &str) -> bool {
        let Ok(organisation) = self.organisations.named(organisation) else { return false };
        self.approvers
            .iter()
            .any(|key| matches!(holder(organisation, key), Some(Holder::Root | Holder::Node(_))))
    }

    fn fits(&self, party: &Party) -> bool {
        let Ok(organisation) = self.organisations.named(&party.organisation) else { return false };
        match &party.role {
            None => {
                let signed = self.signers.iter().map(|key| (key, false));
                let approved = self.approvers.iter().map(|key| (key, true));
                signed.chain(approved).any(|(key, approves)| match holder(organisation, key) {
                    Some(Holder::Root) => true,
                    Some(Holder::Node(_)) => approves,
                    _ => false,
                })
            }
            Some(role) => {
                let users = self.organisations.users_in(self.roles, &organisation.name, role);
                let mut all = self.signers.iter().chain(self.approvers);
                all.any(|key| match holder(organisation, key) {
                    Some(Holder::Root) => !users.is_empty(),
                    Some(Holder::User(user)) => users.contains(user),
                    _ => false,
                })
            }
        }
    }

    /// Why an approval can count nowhere.
    fn why_idle(&self, id: &KeyId) -> Option<String> {
        let mut keys = self.organisations.all().filter_map(|one| Some((one, one.key(id)?)));
        let mut ended = None;
        loop {
            match (keys.next(), ended) {
                (None, None) => return Some("no organisation has it".to_owned()),
                (None, Some(height)) => return Some(format!("it was revoked in block {height}")),
                (Some((_, key)), _) => ended = Some(key.revoked?),
            }
        }
    }
}

/// Of a key in force.
fn holder<'o>(organisation: &'o Organisation, id: &KeyId) -> Option<&'o Holder> {
    let key = organisation.key(id).filter(|key| key.revoked.is_none())?;
    Some(&key.holder)
}

impl Organisations {
    /// Its users that are a role, or members of it, and may log in.
    fn users_in(&self, roles: &Roles, organisation: &str, role: &str) -> BTreeSet<RoleId> {
        let Some(role) = roles.find(role) else { return BTreeSet::new() };
        let mut users = roles.with_members(role.id);
        users.retain(|user| {
            let is_its = self.user(*user).is_some_and(|user| user.organisation == organisation);
            is_its && roles.role(*user).is_some_and(|role| role.attributes.logs_in)
        });
        users
    }

    /// Whether there may be an approval by a party.
    pub fn can_approve(&self, roles: &Roles, party: &Party) -> bool {
        let Ok(organisation) = self.named(&party.organisation) else { return false };
        let users = |role: &String| self.users_in(roles, &organisation.name, role);
        party.role.as_ref().is_none_or(|role| !users(role).is_empty())
    }

    /// Whether a policy says what it seems to, and can be met.
    ///
    /// # Errors
    /// 42704: it names what there is not. 55000: it cannot be met.
    pub fn check_policy(&self, roles: &Roles, policy: &Policy) -> Result<()> {
        for party in policy.parties() {
            self.named(&party.organisation)?;
            if let Some(role) = &party.role {
                roles.named(role)?;
            }
        }
        let Some(missing) = policy.missing(&mut |party| self.can_approve(roles, party)) else {
            return Ok(());
        };
        let what = format!("the policy {policy} cannot be met");
        let code = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        Err(Error::new(code, what)
            .with_detail(format!("Where all approve that can, {missing}."))
            .with_hint("An organisation needs a user that is the role, or a member of it."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::{Attributes, BOOTSTRAP, Membership, Role};

    const ROOT_A: KeyId = [1; 32];
    const NODE_A: KeyId = [2; 32];
    const ADA: KeyId = [3; 32];
    const ROOT_B: KeyId = [4; 32];
    const NODE_B: KeyId = [5; 32];
    const EVE: KeyId = [6; 32];
    const NONE: KeyId = [7; 32];

    struct World {
        roles: Roles,
        organisations: Organisations,
        tellers: RoleId,
        ada: RoleId,
    }

    /// Ada of bank_a is a teller by way of its staff; eve of bank_b is none.
    fn world() -> World {
        let mut roles = Roles::default();
        let mut role = |name: &str, logs_in: bool| {
            let attributes = Attributes { logs_in, ..Attributes::NEW };
            let (verifier, valid_until_us) = (None, None);
            let (id, name) = (RoleId(0), name.to_owned());
            roles.create(Role { id, name, attributes, verifier, valid_until_us }).unwrap()
        };
        let (ada, eve) = (role("ada", true), role("eve", true));
        let (tellers, staff) = (role("teller", false), role("staff", false));
        let member = |role, member| Membership { role, member, grantor: BOOTSTRAP, admin: false };
        roles.add_member(member(tellers, staff)).unwrap();
        roles.add_member(member(staff, ada)).unwrap();
        let mut organisations = Organisations::default();
        organisations.create("bank_a", ROOT_A, 5).unwrap();
        organisations.create("bank_b", ROOT_B, 5).unwrap();
        organisations.add_user("bank_a", (ada, "ada"), false).unwrap();
        organisations.add_user("bank_b", (eve, "eve"), false).unwrap();
        let node = || Holder::Node("one".to_owned());
        organisations.add_key("bank_a", NODE_A, node(), 6).unwrap();
        organisations.add_key("bank_b", NODE_B, node(), 6).unwrap();
        organisations.add_key("bank_a", ADA, Holder::User(ada), 6).unwrap();
        organisations.add_key("bank_b", EVE, Holder::User(eve), 6).unwrap();
        World { roles, organisations, tellers, ada }
    }

    impl World {
        fn lacks(&self, policy: &str, signers: &[KeyId], approvers: &[KeyId]) -> Option<String> {
            let World { roles, organisations, .. } = self;
            let agreed = Agreed { organisations, roles, signers, approvers };
            let refused = agreed.check(&Policy::parse(policy).unwrap(), "table \"t\"").err()?;
            assert_eq!(refused.code(), APPROVAL_MISSING);
            assert!(refused.message().ends_with("table \"t\" asks for"), "{refused}");
            refused.fields().detail.clone()
        }

        fn code(&self, policy: &str) -> String {
            let policy = Policy::parse(policy).unwrap();
            let checked = self.organisations.check_policy(&self.roles, &policy);
            checked.map_or_else(|error| error.code().as_str().to_owned(), |()| "00000".to_owned())
        }
    }

    #[test]
    fn keys_approve_as_what_they_are() {
        let world = world();
        let met = |policy, approvers: &[KeyId]| world.lacks(policy, &[], approvers).is_none();
        assert!(met("bank_a", &[NODE_A]) && met("bank_a", &[ROOT_A]));
        assert!(!met("bank_a", &[ADA]), "a user is not its organisation");
        for other in [NODE_B, ROOT_B, EVE, NONE] {
            assert!(!met("bank_a", &[other]) && !met("bank_a.ada", &[other]));
        }
        for policy in ["bank_a.ada", "bank_a.staff", "bank_a.teller"] {
            assert!(met(policy, &[ADA]) && met(policy, &[ROOT_A]), "{policy}");
            assert!(!met(policy, &[NODE_A]), "a node has not asked its user");
        }
        assert!(!met("bank_b.teller", &[EVE]) && !met("bank_b.teller", &[ROOT_B]));
        assert!(!met("bank_b.ada", &[ADA]) && !met("bank_a.eve", &[EVE]));
        assert!(met("OUTOF(2, bank_a, bank_a.ada, bank_b)", &[NODE_B, ADA]));
        assert!(met("AND(bank_a, bank_a.teller)", &[ROOT_A]), "at every place that it fits");
    }

    #[test]
    fn a_user_that_signs_need_not_approve_and_a_node_has_to() {
        let world = world();
        assert!(world.lacks("bank_a.ada", &[ADA], &[]).is_none());
        assert!(world.lacks("bank_a", &[ROOT_A], &[]).is_none());
        assert!(world.lacks("bank_a", &[NODE_A], &[]).is_some());
        assert!(world.lacks("bank_a", &[NODE_A], &[NODE_A]).is_none());
    }

    #[test]
    fn endorsers_are_nodes_whatever_users_a_policy_names() {
        let World { roles, organisations, .. } = &world();
        let endorsed = |policy: &str, approvers: &[KeyId]| {
            let signers = &[ROOT_A, ROOT_B];
            let agreed = Agreed { organisations, roles, signers, approvers };
            agreed.check_endorsed(&Policy::parse(policy).unwrap(), "table \"t\"").is_ok()
        };
        assert!(endorsed("bank_a.ada", &[NODE_A]) && endorsed("bank_a.ada", &[ROOT_A]));
        assert!(!endorsed("bank_a.ada", &[ADA]) && !endorsed("bank_a", &[NODE_B, EVE, NONE]));
        assert!(!endorsed("AND(bank_a, bank_b.eve)", &[NODE_A]));
        assert!(endorsed("AND(bank_a, bank_b.eve)", &[NODE_B, NODE_A]));
    }

    #[test]
    fn it_is_said_what_is_missing_and_what_does_not_count() {
        let mut world = world();
        let both = "AND(bank_a, bank_b)";
        let lacks = |world: &World, approvers: &[KeyId]| world.lacks(both, &[], approvers).unwrap();
        assert_eq!(
            lacks(&world, &[NODE_A]),
            "The policy is AND(bank_a, bank_b): bank_b is missing."
        );
        let detail = lacks(&world, &[NODE_A, NONE]);
        assert!(detail.ends_with(" does not count: no organisation has it."), "{detail}");
        world.organisations.revoke("bank_b", &NODE_B, 8).unwrap();
        let detail = lacks(&world, &[NODE_A, NODE_B]);
        assert!(detail.ends_with(" does not count: it was revoked in block 8."), "{detail}");
        world.organisations.add_key("bank_a", NODE_B, Holder::Node("two".into()), 9).unwrap();
        assert!(!lacks(&world, &[NODE_B]).contains("count"), "it is one of another by now");
    }

    #[test]
    fn what_ends_an_approver_ends_its_approvals() {
        let mut world = world();
        let met = |world: &World| world.lacks("bank_a.teller", &[ADA], &[ADA]).is_none();
        assert!(met(&world));
        let bar = |logs_in| move |role: &mut Role| role.attributes.logs_in = logs_in;
        world.roles.change(world.ada, bar(false));
        assert!(!met(&world), "barred");
        world.roles.change(world.ada, bar(true));
        let mut without = world.roles.clone();
        let staff = without.named("staff").unwrap().id;
        without.remove_member(world.tellers, staff, false);
        std::mem::swap(&mut without, &mut world.roles);
        assert!(!met(&world), "a teller no more");
        world.roles = without;
        world.organisations.drop_user("bank_a", (world.ada, "ada"), 9).unwrap();
        assert!(!met(&world), "of the organisation no more");
    }

    #[test]
    fn a_policy_names_what_there_is_and_can_be_met() {
        let world = world();
        for (policy, code) in [
            ("OR(bank_a, bank_b.eve)", "00000"),
            ("AND(bank_a.teller, bank_b)", "00000"),
            ("bank_c", "42704"),
            ("OR(bank_a, bank_c)", "42704"),
            ("bank_a.nothing", "42704"),
            ("bank_b.teller", "55000"),
            ("AND(bank_a, bank_b.ada)", "55000"),
            ("OR(bank_a, bank_b.teller)", "00000"),
        ] {
            assert_eq!(world.code(policy), code, "{policy}");
        }
        // A superuser is not a member of every role here.
        assert_eq!(world.code("bank_a.pg_read_all_data"), "55000");
    }
}
