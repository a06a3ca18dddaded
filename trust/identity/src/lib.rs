//! Who is who: the roles of a ledger, who is a member of which, what they may do with what, and
//! which keys sign for them.
//!
//! A value, and a function of the transactions before it. No network, no clock, no file and no hash
//! of a name on the way of a transaction: a compiler of one asks once, for the schema version in
//! force, and keeps the answer with the program.
//!
//! ```text
//! Roles ── role ─► attributes (SUPERUSER, LOGIN, …), verifier of a password
//!   └ members ─► closure: all roles whose privileges one has
//! Acl ── grants of one object ─► Privileges that a closure of roles has
//! Organisations ── users, keys ─► who stands after a transaction
//!   └ Agreed ── signatures, approvals ─► whether they are what a Policy asks for
//! ```
//!
//! *PostgreSQL 15's rules*, in its words and with its SQLSTATEs, but for two departures. A role is
//! no administrator of itself. And what a role is barred from holds for transactions to come,
//! those of its open sessions included: a principal that was dropped, or may not log in any more,
//! has no transaction committed after that one.

mod acl;
mod agreed;
mod closure;
mod organisations;
mod policy;
mod privilege;
mod role;
mod roles;

pub use acl::{Acl, Grant, Grantee};
pub use agreed::Agreed;
pub use closure::Closure;
pub use organisations::{
    Holder, Key, KeyId, Organisation, Organisations, SignedBy, User, Wanted, shown,
};
pub use policy::{APPROVAL_MISSING, APPROVALS_MAX, Party, Policy};
pub use privilege::{ALL_OF, Kind, Privileges};
pub use role::{Attributes, BOOTSTRAP, Membership, Role, RoleId};
pub use roles::{Actor, NAME_BYTES_MAX, Roles, check_name};
