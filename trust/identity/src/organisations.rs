//! Organisations, whose keys sign for their users.
//!
//! ```text
//!   organisation ── root key ─┬─ says which keys there are, and whose
//!                             ├─ keys of users ──► sign as the client
//!                             └─ keys of nodes ──► sign for any user of the organisation, but for
//!                                                  those whose client has to sign
//! ```
//!
//! Whatever changes within an organisation bears its root key's signature, so no superuser of the
//! ledger can give it a user or a key. A key that was revoked stays known: it can never be one of
//! the organisation again. Keys are judged by where a transaction stands, not by when it was
//! signed.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{Error, Height, Result, SqlState};

use crate::role::RoleId;
use crate::roles::{Roles, check_name};

/// An ed25519 public key, which is its own name.
pub type KeyId = [u8; 32];

/// Of one ledger.
const ORGANISATIONS_MAX: usize = 1_000;

/// Of one organisation, revoked ones too.
const KEYS_MAX: usize = 10_000;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Organisations {
    all: BTreeMap<String, Arc<Organisation>>,
    users: BTreeMap<RoleId, User>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Organisation {
    pub name: String,
    pub root: KeyId,
    /// The root key and its predecessors among them.
    keys: BTreeMap<KeyId, Key>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    pub holder: Holder,
    /// The block that made it one.
    pub since: Height,
    /// The block that revoked it.
    pub revoked: Option<Height>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Holder {
    Root,
    Node(String),
    User(RoleId),
    /// A user that is one no more, by the name that it had.
    Former(String),
}

/// A role as one of an organisation.
#[derive(Clone, PartialEq, Debug)]
pub struct User {
    pub organisation: String,
    /// No node can sign for it.
    pub client_signature: bool,
}

/// Who has signed a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SignedBy {
    Node,
    Client,
}

/// Whose signature a transaction has to bear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// None, and none counts.
    Nothing,
    Node,
    Client,
}

fn unknown_object(what: String) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, what)
}

fn not_signed(what: String) -> Error {
    Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what)
}

fn duplicate(what: String) -> Error {
    Error::new(SqlState::DUPLICATE_OBJECT, what)
}

/// A key as errors show it.
pub fn shown(key: &KeyId) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Organisation {
    /// All that it ever had, by their bytes.
    pub fn keys(&self) -> impl Iterator<Item = (&KeyId, &Key)> {
        self.keys.iter()
    }

    pub(crate) fn key(&self, id: &KeyId) -> Option<&Key> {
        self.keys.get(id)
    }

    fn add(&mut self, id: KeyId, holder: Holder, since: Height) -> Result<()> {
        if let Some(known) = self.keys.get(&id) {
            let what = format!("organisation \"{}\" has had the key {}", self.name, shown(&id));
            let detail = match known.revoked {
                Some(_) => "It was revoked, which is for good.",
                None => "It is in force.",
            };
            return Err(duplicate(what).with_detail(detail));
        }
        if self.keys.len() >= KEYS_MAX {
            let what = format!("an organisation can have had at most {KEYS_MAX} keys");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        self.keys.insert(id, Key { holder, since, revoked: None });
        Ok(())
    }
}

impl Organisations {
    /// By name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Organisation>> {
        self.all.values()
    }

    pub fn users(&self) -> impl Iterator<Item = (RoleId, &User)> {
        self.users.iter().map(|(role, user)| (*role, user))
    }

    pub fn user(&self, role: RoleId) -> Option<&User> {
        self.users.get(&role)
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// # Errors
    /// 42704: there is none.
    pub fn named(&self, name: &str) -> Result<&Arc<Organisation>> {
        let missing = || unknown_object(format!("organisation \"{name}\" does not exist"));
        self.all.get(name).ok_or_else(missing)
    }

    fn named_mut(&mut self, name: &str) -> Result<&mut Organisation> {
        let missing = || unknown_object(format!("organisation \"{name}\" does not exist"));
        self.all.get_mut(name).map(Arc::make_mut).ok_or_else(missing)
    }

    /// # Errors
    /// The name is taken or no name; there are too many.
    pub fn create(&mut self, name: &str, root: KeyId, at: Height) -> Result<()> {
        check_name(name)?;
        if self.all.contains_key(name) {
            return Err(duplicate(format!("organisation \"{name}\" already exists")));
        }
        if self.all.len() >= ORGANISATIONS_MAX {
            let what = format!("a ledger can have at most {ORGANISATIONS_MAX} organisations");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        let key = Key { holder: Holder::Root, since: at, revoked: None };
        let (name, keys) = (name.to_owned(), BTreeMap::from([(root, key)]));
        self.all.insert(name.clone(), Arc::new(Organisation { name, root, keys }));
        Ok(())
    }

    /// # Errors
    /// 2BP01: it has users.
    pub fn drop(&mut self, name: &str) -> Result<()> {
        self.named(name)?;
        let users = self.users.values().filter(|user| user.organisation == name).count();
        if users > 0 {
            let what = format!("organisation \"{name}\" cannot be dropped because it has users");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(format!("There are {users} of them.")));
        }
        self.all.remove(name);
        Ok(())
    }

    /// # Errors
    /// 42710: the role is of an organisation already.
    pub fn add_user(&mut self, name: &str, role: (RoleId, &str), client: bool) -> Result<()> {
        self.named(name)?;
        let (role, role_name) = role;
        if let Some(user) = self.users.get(&role) {
            let of = &user.organisation;
            return Err(duplicate(format!(
                "role \"{role_name}\" belongs to organisation \"{of}\""
            )));
        }
        let user = User { organisation: name.to_owned(), client_signature: client };
        self.users.insert(role, user);
        Ok(())
    }

    fn of_it(&mut self, name: &str, (role, role_name): (RoleId, &str)) -> Result<&mut User> {
        let user = self.users.get_mut(&role).filter(|user| user.organisation == name);
        user.ok_or_else(|| {
            let what = format!("role \"{role_name}\" is no user of organisation \"{name}\"");
            unknown_object(what)
        })
    }

    /// # Errors
    /// 42704: it is no user of it.
    pub fn alter_user(&mut self, name: &str, role: (RoleId, &str), client: bool) -> Result<()> {
        self.named(name)?;
        self.of_it(name, role)?.client_signature = client;
        Ok(())
    }

    /// Its keys are revoked.
    ///
    /// # Errors
    /// 42704: it is no user of it.
    pub fn drop_user(&mut self, name: &str, role: (RoleId, &str), at: Height) -> Result<()> {
        self.named(name)?;
        self.of_it(name, role)?;
        self.forget(role, at);
        Ok(())
    }

    /// The role is gone, or of the organisation no more.
    pub fn forget(&mut self, (role, role_name): (RoleId, &str), at: Height) {
        let Some(user) = self.users.remove(&role) else { return };
        let Some(organisation) = self.all.get_mut(&user.organisation) else { return };
        for key in Arc::make_mut(organisation).keys.values_mut() {
            if key.holder == Holder::User(role) {
                key.holder = Holder::Former(role_name.to_owned());
                key.revoked.get_or_insert(at);
            }
        }
    }

    /// # Errors
    /// The organisation has had the key; the holder is no user of it.
    pub fn add_key(&mut self, name: &str, id: KeyId, holder: Holder, at: Height) -> Result<()> {
        self.named_mut(name)?.add(id, holder, at)
    }

    /// # Errors
    /// 42704: there is no such key in force. 55000: it is the root key.
    pub fn revoke(&mut self, name: &str, id: &KeyId, at: Height) -> Result<()> {
        let organisation = self.named_mut(name)?;
        if *id == organisation.root {
            let what = format!("the root key of organisation \"{name}\" cannot be revoked");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                .with_hint("ALTER ORGANISATION … ROTATE KEY puts another one in its place."));
        }
        let key = organisation.keys.get_mut(id).filter(|key| key.revoked.is_none());
        let missing =
            || unknown_object(format!("organisation \"{name}\" has no key {} in force", shown(id)));
        key.ok_or_else(missing)?.revoked = Some(at);
        Ok(())
    }

    /// Another root key in place of the one that there is.
    ///
    /// # Errors
    /// 42710: the organisation has had it.
    pub fn rotate(&mut self, name: &str, root: KeyId, at: Height) -> Result<()> {
        let organisation = self.named_mut(name)?;
        organisation.add(root, Holder::Root, at)?;
        let before = std::mem::replace(&mut organisation.root, root);
        if let Some(key) = organisation.keys.get_mut(&before) {
            key.revoked = Some(at);
        }
        Ok(())
    }

    /// Whether one of the signers is the root key.
    ///
    /// # Errors
    /// 42501: none is.
    pub fn check_root(&self, name: &str, signers: &[KeyId]) -> Result<()> {
        let root = self.named(name)?.root;
        if signers.contains(&root) {
            return Ok(());
        }
        let what = format!("the root key of organisation \"{name}\" has to sign this");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
            .with_detail(format!("It is {}.", shown(&root)))
            .with_hint("tally sign makes such a transaction, tally_submit_signed() takes it."))
    }

    /// Of any of them.
    fn is_root(&self, id: &KeyId) -> bool {
        self.all.values().any(|organisation| organisation.root == *id)
    }

    /// What a transaction of that principal, as that role, has to bear.
    pub fn wanted(&self, roles: &Roles, principal: &str, role: Option<&str>) -> Wanted {
        let user = |name| self.users.get(&roles.find(name)?.id);
        let Some(principal) = user(principal) else { return Wanted::Nothing };
        let acting = role.and_then(user).is_some_and(|user| user.client_signature);
        match principal.client_signature || acting {
            true => Wanted::Client,
            false => Wanted::Node,
        }
    }

    /// Who stands after a transaction, whose signatures are right; `None`: none has to. A root key
    /// may sign beside those, as a schema change of its organisation asks for.
    ///
    /// # Errors
    /// 28000: a signer is none of those that may sign for the principal, or one is missing.
    pub fn check(
        &self,
        roles: &Roles,
        (principal, role): (&str, Option<&str>),
        signers: &[KeyId],
    ) -> Result<Option<SignedBy>> {
        let wanted = self.wanted(roles, principal, role);
        let own = roles.find(principal).map(|role| role.id);
        let user = own.and_then(|id| self.users.get(&id));
        let (Some(own), Some(user)) = (own, user) else {
            return match signers.iter().find(|id| !self.is_root(id)) {
                None => Ok(None),
                Some(key) => {
                    let what = format!("the key {} is none of role \"{principal}\"", shown(key));
                    Err(not_signed(what).with_detail("The role belongs to no organisation."))
                }
            };
        };
        let organisation = self.named(&user.organisation)?;
        let mut signed = None;
        for id in signers {
            match organisation.signs(id, own, principal) {
                Ok(by) => signed = signed.max(Some(by)),
                Err(_) if self.is_root(id) => {}
                Err(error) => return Err(error),
            }
        }
        let name = &organisation.name;
        match (wanted, signed) {
            (Wanted::Client, Some(SignedBy::Client)) | (Wanted::Node, Some(_)) => Ok(signed),
            (Wanted::Client, _) => {
                let what = format!("role \"{principal}\" has to sign its transactions itself");
                let detail = format!("Organisation \"{name}\" has it WITH CLIENT SIGNATURE.");
                Err(not_signed(what).with_detail(detail).with_hint(
                    "tally sign and the clients' libraries make such transactions, \
                     tally_submit_signed() takes them.",
                ))
            }
            _ => {
                let what = format!("a transaction of role \"{principal}\" bears no signature");
                Err(not_signed(what)
                    .with_detail(format!("The role belongs to organisation \"{name}\"."))
                    .with_hint(
                        "A key of the role has to sign it, or one of a node of the organisation.",
                    ))
            }
        }
    }
}

impl Organisation {
    /// As what a key signs for a user.
    fn signs(&self, id: &KeyId, user: RoleId, principal: &str) -> Result<SignedBy> {
        let name = &self.name;
        let refuse = |detail: String| {
            let what = format!("the key {} does not sign for role \"{principal}\"", shown(id));
            Err(not_signed(what).with_detail(detail))
        };
        let Some(key) = self.keys.get(id) else {
            return refuse(format!(
                "Organisation \"{name}\", which the role is of, has no such key."
            ));
        };
        if let Some(height) = key.revoked {
            return refuse(format!("It was revoked in block {height}."));
        }
        match &key.holder {
            Holder::Root => Ok(SignedBy::Client),
            Holder::User(of) if *of == user => Ok(SignedBy::Client),
            Holder::Node(_) => Ok(SignedBy::Node),
            Holder::User(_) | Holder::Former(_) => {
                refuse(format!("It is one of another user of organisation \"{name}\"."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::{Attributes, Role};

    const ROOT: KeyId = [1; 32];
    const NODE: KeyId = [2; 32];
    const ADA: KeyId = [3; 32];
    const BOB: KeyId = [4; 32];

    fn world() -> (Roles, Organisations, RoleId, RoleId) {
        let mut roles = Roles::default();
        let mut role = |name: &str| {
            let attributes = Attributes { logs_in: true, ..Attributes::NEW };
            let (verifier, valid_until_us) = (None, None);
            let (id, name) = (RoleId(0), name.to_owned());
            roles.create(Role { id, name, attributes, verifier, valid_until_us }).unwrap()
        };
        let (ada, bob) = (role("ada"), role("bob"));
        let mut organisations = Organisations::default();
        organisations.create("bank_a", ROOT, 5).unwrap();
        organisations.create("bank_b", [9; 32], 5).unwrap();
        organisations.add_user("bank_a", (ada, "ada"), false).unwrap();
        organisations.add_user("bank_a", (bob, "bob"), true).unwrap();
        let node = Holder::Node("one".to_owned());
        organisations.add_key("bank_a", NODE, node, 6).unwrap();
        organisations.add_key("bank_a", ADA, Holder::User(ada), 6).unwrap();
        organisations.add_key("bank_a", BOB, Holder::User(bob), 6).unwrap();
        (roles, organisations, ada, bob)
    }

    #[test]
    fn a_key_signs_for_whom_its_organisation_says() {
        let (roles, organisations, ..) = world();
        let check = |principal: &str, signers: &[KeyId]| {
            let checked = organisations.check(&roles, (principal, None), signers);
            checked.map_err(|error| error.code().as_str().to_owned())
        };
        let refused = || Err("28000".to_owned());
        assert_eq!(check("tally", &[]), Ok(None));
        assert_eq!(check("tally", &[NODE]), refused());
        assert_eq!(check("tally", &[ROOT]), Ok(None));
        assert_eq!(check("tally", &[ROOT, ADA]), refused());
        assert_eq!(check("nobody", &[ADA]), refused());
        assert_eq!(check("ada", &[]), refused());
        assert_eq!(check("ada", &[NODE]), Ok(Some(SignedBy::Node)));
        assert_eq!(check("ada", &[ADA]), Ok(Some(SignedBy::Client)));
        assert_eq!(check("ada", &[ADA, NODE]), Ok(Some(SignedBy::Client)));
        assert_eq!(check("ada", &[ROOT]), Ok(Some(SignedBy::Client)));
        assert_eq!(check("ada", &[ADA, [9; 32]]), Ok(Some(SignedBy::Client)));
        assert_eq!(check("ada", &[[9; 32]]), refused(), "another organisation's root key");
        for other in [BOB, [77; 32]] {
            assert_eq!(check("ada", &[other]), refused());
            assert_eq!(check("ada", &[ADA, other]), refused(), "each has to be one of them");
        }
        assert_eq!(check("bob", &[NODE]), refused());
        assert_eq!(check("bob", &[BOB]), Ok(Some(SignedBy::Client)));
        assert_eq!(organisations.wanted(&roles, "ada", Some("bob")), Wanted::Client);
        assert!(organisations.check(&roles, ("ada", Some("bob")), &[NODE]).is_err());
    }

    #[test]
    fn what_is_revoked_is_so_for_good() {
        let (roles, mut organisations, ada, bob) = world();
        organisations.revoke("bank_a", &ADA, 8).unwrap();
        assert_eq!(organisations.revoke("bank_a", &ADA, 9).unwrap_err().code().as_str(), "42704");
        let refused = organisations.check(&roles, ("ada", None), &[ADA]).unwrap_err();
        assert_eq!(refused.fields().detail.as_deref(), Some("It was revoked in block 8."));
        let again = organisations.add_key("bank_a", ADA, Holder::User(ada), 9).unwrap_err();
        assert_eq!(again.code().as_str(), "42710");
        organisations.rotate("bank_a", [7; 32], 9).unwrap();
        assert!(organisations.check(&roles, ("ada", None), &[ROOT]).is_err());
        assert!(organisations.check_root("bank_a", &[ROOT]).is_err());
        organisations.check_root("bank_a", &[ADA, [7; 32]]).unwrap();
        assert_eq!(organisations.rotate("bank_a", ROOT, 9).unwrap_err().code().as_str(), "42710");
        assert!(organisations.revoke("bank_a", &[7; 32], 9).is_err(), "there is one at all times");
        organisations.forget((bob, "bob"), 10);
        let bank = organisations.named("bank_a").unwrap();
        let (_, key) = bank.keys().find(|(id, _)| **id == BOB).unwrap();
        let former = Holder::Former("bob".to_owned());
        assert_eq!(*key, Key { holder: former, since: 6, revoked: Some(10) });
        assert_eq!(organisations.drop("bank_a").unwrap_err().code().as_str(), "2BP01");
        organisations.drop_user("bank_a", (ada, "ada"), 11).unwrap();
        organisations.drop("bank_a").unwrap();
        assert!(!organisations.is_empty());
    }
}
