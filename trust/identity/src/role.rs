//! [`Role`]: number, name, attributes, password verifier.

use std::sync::Arc;

/// Numbers of roles, which PostgreSQL calls OIDs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RoleId(pub u32);

/// The superuser that a ledger begins with.
pub const BOOTSTRAP: RoleId = RoleId(10);

/// The first number of a role that a transaction has made.
pub(crate) const FIRST_OWN: u32 = 16_384;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    pub id: RoleId,
    pub name: String,
    pub attributes: Attributes,
    /// What a password is checked by: never the password.
    pub verifier: Option<Arc<str>>,
    /// When the password ends, in microseconds since 2000-01-01 UTC.
    pub valid_until_us: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    pub superuser: bool,
    /// Has the privileges of the roles that it is a member of, without SET ROLE.
    pub inherits: bool,
    pub creates_roles: bool,
    pub creates_databases: bool,
    pub logs_in: bool,
    pub replicates: bool,
    pub bypasses_row_security: bool,
}

impl Attributes {
    /// What CREATE ROLE without any option says.
    pub const NEW: Attributes = Attributes {
        superuser: false,
        inherits: true,
        creates_roles: false,
        creates_databases: false,
        logs_in: false,
        replicates: false,
        bypasses_row_security: false,
    };

    pub(crate) const ALL: Attributes = Attributes {
        superuser: true,
        inherits: true,
        creates_roles: true,
        creates_databases: true,
        logs_in: true,
        replicates: true,
        bypasses_row_security: true,
    };
}

/// That one role is a member of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    pub role: RoleId,
    pub member: RoleId,
    pub grantor: RoleId,
    /// It may make others members.
    pub admin: bool,
}

impl Role {
    /// Those that every ledger has, beside the one that it begins with.
    pub(crate) fn predefined() -> impl Iterator<Item = Role> {
        let attributes = Attributes::NEW;
        PREDEFINED.iter().map(move |(id, name)| Role {
            id: *id,
            name: (*name).to_owned(),
            attributes,
            verifier: None,
            valid_until_us: None,
        })
    }

    pub fn is_predefined(&self) -> bool {
        PREDEFINED.iter().any(|(id, _)| *id == self.id)
    }
}

impl RoleId {
    /// Reads every table, view and sequence.
    pub const READ_ALL_DATA: RoleId = RoleId(6181);
    /// Writes every table, view and sequence.
    pub const WRITE_ALL_DATA: RoleId = RoleId(6182);
    /// Ends sessions of other users that are no superusers.
    pub const SIGNAL_BACKEND: RoleId = RoleId(4200);
    /// Sets the ledger's parameters, but for its members.
    pub const SET_PARAMETERS: RoleId = RoleId(9101);
    /// Changes who the members of the ledger's cluster are.
    pub const CHANGE_MEMBERS: RoleId = RoleId(9102);
    /// Records that a block is skipped.
    pub const SKIP_BLOCKS: RoleId = RoleId(9103);
    /// Keeps old blocks readable.
    pub const PIN_BLOCKS: RoleId = RoleId(9104);
    /// Makes and ends organisations.
    pub const MANAGE_ORGANISATIONS: RoleId = RoleId(9105);
    /// Has nodes approve transactions.
    pub const APPROVE_CALLS: RoleId = RoleId(9106);
}

const PREDEFINED: &[(RoleId, &str)] = &[
    (RoleId::READ_ALL_DATA, "pg_read_all_data"),
    (RoleId::WRITE_ALL_DATA, "pg_write_all_data"),
    (RoleId::SIGNAL_BACKEND, "pg_signal_backend"),
    (RoleId::SET_PARAMETERS, "tally_set_parameters"),
    (RoleId::CHANGE_MEMBERS, "tally_change_members"),
    (RoleId::SKIP_BLOCKS, "tally_skip_blocks"),
    (RoleId::PIN_BLOCKS, "tally_pin_blocks"),
    (RoleId::MANAGE_ORGANISATIONS, "tally_manage_organisations"),
    (RoleId::APPROVE_CALLS, "tally_approve_calls"),
];
