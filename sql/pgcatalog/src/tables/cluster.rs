//! The database and what is around it: schemas, roles, settings, sessions.

use identity::{Holder, Kind};
use sql::Commented;
use sql::session::shared_state::activity::State;
use types::{Height, Value};

use super::facts::{Facts, Rows, granted, oid, owner, shown};
use crate::memory::{Memory, Used};
use crate::oid as number;
use crate::world::Locked;

pub fn pg_namespace(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for (this, name) in facts.world.namespaces() {
        rows.row(&[
            ("oid", oid(this)),
            ("nspname", Value::text(name)),
            ("nspowner", owner(facts.world, &Commented::Schema(name.to_owned()))),
            ("nspacl", granted(facts.world, &Commented::Schema(name.to_owned()))),
        ]);
    }
}

/// Verifiers are shown to none: those who have one can play the server.
pub fn pg_authid(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for role in facts.world.catalog.roles().all() {
        let has = role.attributes;
        let until = role.valid_until_us.map_or(Value::Null, Value::Timestamptz);
        let masked = role.verifier.as_ref().map_or(Value::Null, |_| Value::text("********"));
        rows.row(&[
            ("oid", oid(role.id.0)),
            ("rolname", Value::text(&role.name)),
            ("rolsuper", Value::Bool(has.superuser)),
            ("rolinherit", Value::Bool(has.inherits)),
            ("rolcreaterole", Value::Bool(has.creates_roles)),
            ("rolcreatedb", Value::Bool(has.creates_databases)),
            ("rolcanlogin", Value::Bool(has.logs_in)),
            ("rolreplication", Value::Bool(has.replicates)),
            ("rolbypassrls", Value::Bool(has.bypasses_row_security)),
            ("rolconnlimit", Value::Int(-1)),
            ("rolpassword", masked),
            ("rolvaliduntil", until),
        ]);
    }
}

pub fn pg_auth_members(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for membership in facts.world.catalog.roles().memberships() {
        rows.row(&[
            ("roleid", oid(membership.role.0)),
            ("member", oid(membership.member.0)),
            ("grantor", oid(membership.grantor.0)),
            ("admin_option", Value::Bool(membership.admin)),
        ]);
    }
}

pub fn pg_default_acl(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let namespaces = facts.world.namespaces();
    for (number, (of, acl)) in (1..).zip(facts.world.catalog.defaults()) {
        let schema = namespaces.iter().find(|(_, name)| Some(*name) == of.schema.as_deref());
        let kind = match of.kind {
            Kind::Sequence => "S",
            Kind::Routine => "f",
            Kind::Schema => "n",
            Kind::Table | Kind::Column | Kind::Database => "r",
        };
        rows.row(&[
            ("oid", oid(number)),
            ("defaclrole", oid(of.role.0)),
            ("defaclnamespace", oid(schema.map_or(0, |(number, _)| *number))),
            ("defaclobjtype", Value::text(kind)),
            ("defaclacl", shown(facts.world, acl)),
        ]);
    }
}

pub fn pg_settings(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for (name, value) in &facts.session.settings {
        rows.row(&[
            ("name", Value::text(name)),
            ("setting", Value::text(value)),
            ("category", Value::text("Client Connection Defaults")),
            ("short_desc", Value::text("")),
            ("context", Value::text("user")),
            ("vartype", Value::text("string")),
            ("source", Value::text("session")),
            ("pending_restart", Value::Bool(false)),
        ]);
    }
}

pub fn pg_cursors(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for cursor in &facts.session.cursors {
        rows.row(&[
            ("name", Value::text(&cursor.name)),
            ("statement", Value::text(&cursor.text)),
            ("is_holdable", Value::Bool(cursor.hold)),
            ("is_binary", Value::Bool(cursor.binary)),
            ("is_scrollable", Value::Bool(cursor.scroll)),
            ("creation_time", Value::Timestamptz(cursor.created_us)),
        ]);
    }
}

pub fn tally_cluster(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let count = |count: Option<u64>| count.map_or(Value::Null, |it| Value::Int(it.cast_signed()));
    let seconds = |us: Option<i64>| us.map_or(Value::Null, |us| Value::Float(us as f64 / 1e6));
    for member in (facts.session.members.all)() {
        rows.row(&[
            ("member", Value::Int(member.number.cast_signed())),
            ("address", Value::text(member.address)),
            ("is_own", Value::Bool(member.is_own)),
            ("role", Value::text(member.role)),
            ("term", count(member.term)),
            ("height", count(member.height)),
            ("lag_blocks", count(member.lag_blocks)),
            ("lag_seconds", seconds(member.lag_us)),
            ("voted_height", count(member.voted)),
            ("certified_height", count(member.certified)),
            ("deviating_height", count(member.deviating)),
            ("clock_offset_seconds", seconds(member.clock_ahead_us)),
            ("heard_seconds", seconds(member.heard_us)),
            ("trouble", member.trouble.map_or(Value::Null, Value::text)),
        ]);
    }
}

pub fn tally_misbehaviour(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for found in (facts.session.members.misbehaviour)() {
        rows.row(&[
            ("member", Value::Int(found.member.cast_signed())),
            ("height", Value::Int(found.height.cast_signed())),
            ("kind", Value::text(found.kind)),
            ("time", Value::Timestamptz(found.time_us)),
        ]);
    }
}

pub fn tally_memory(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let used = facts.session.memory.as_ref().map(Memory::used).unwrap_or_default();
    for Used { part, name, bytes } in used {
        rows.row(&[
            ("part", Value::text(part)),
            ("name", name.map_or(Value::Null, Value::text)),
            ("bytes", Value::Int(bytes.cast_signed())),
        ]);
    }
}

/// What a session of another user does is for superusers and members of that user's role.
pub fn pg_stat_activity(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let roles = facts.world.catalog.roles();
    let own = roles.find(&facts.session.role).map(|role| role.id);
    let time = |us: Option<i64>| us.map_or(Value::Null, Value::Timestamptz);
    for session in (facts.session.sessions.0)() {
        let user = roles.find(&session.user).map(|role| role.id);
        let is_own = session.process == facts.session.backend_pid;
        let sees = own.zip(user).is_some_and(|(own, user)| {
            roles.is_superuser(own) || roles.has_privileges_of(own, user)
        });
        let mut all = vec![
            ("datid", oid(facts.session.database_number())),
            ("datname", Value::text(&session.database)),
            ("pid", Value::Int(session.process.into())),
            ("usesysid", oid(user.map_or(0, |id| id.0))),
            ("usename", Value::text(&session.user)),
            ("application_name", Value::text(&session.application)),
        ];
        match sees || is_own {
            false => all.push(("query", Value::text("<insufficient privilege>"))),
            true => all.extend([
                (
                    "client_addr",
                    session.client.map_or(Value::Null, |it| Value::from(it.ip().to_string())),
                ),
                ("client_port", Value::Int(session.client.map_or(-1, |it| it.port().into()))),
                ("backend_start", Value::Timestamptz(session.began_us)),
                ("xact_start", time(session.transaction_us)),
                ("query_start", time(session.statement_us)),
                ("state_change", Value::Timestamptz(session.changed_us)),
                // Its rows are made as they are sent, after what it calls its statement.
                ("state", Value::text(if is_own { State::Active } else { session.state }.name())),
                ("query", Value::text(&session.text)),
                ("backend_type", Value::text("client backend")),
            ]),
        }
        rows.row(&all);
    }
}

/// A row for each session, table or number, and mode, however many rows are locked.
pub fn pg_locks(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for lock in (facts.session.locks.0)() {
        let mode = if lock.exclusive { "ExclusiveLock" } else { "ShareLock" };
        let (kind, on) = match lock.on {
            Locked::Rows(table) => ("tuple", vec![("relation", oid(number::table(table)))]),
            Locked::Advisory { class, object, sub } => {
                let (class, object) = (("classid", oid(class)), ("objid", oid(object)));
                ("advisory", vec![class, object, ("objsubid", Value::Int(sub.into()))])
            }
        };
        let all = [
            ("locktype", Value::text(kind)),
            ("database", oid(facts.session.database_number())),
            ("pid", Value::Int(lock.pid.into())),
            ("mode", Value::text(mode)),
            ("granted", Value::Bool(lock.granted)),
        ];
        rows.row(&[&all[..], &on].concat());
    }
}

fn counted(number: usize) -> Value {
    Value::Int(number as i64)
}

fn block(height: Height) -> Value {
    Value::Int(height.cast_signed())
}

pub fn tally_organisations(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let organisations = facts.world.catalog.organisations();
    for organisation in organisations.all() {
        let name = &organisation.name;
        let in_force = || organisation.keys().filter(|(_, key)| key.revoked.is_none());
        let nodes = in_force().filter(|(_, key)| matches!(key.holder, Holder::Node(_))).count();
        let users = organisations.users().filter(|(_, user)| user.organisation == *name).count();
        rows.row(&[
            ("organisation", Value::text(name)),
            ("root_key", Value::from(identity::shown(&organisation.root))),
            ("users", counted(users)),
            ("nodes", counted(nodes)),
            ("keys", counted(in_force().count())),
        ]);
    }
}

pub fn tally_keys(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let catalog = &facts.world.catalog;
    let (organisations, roles) = (catalog.organisations(), catalog.roles());
    for organisation in organisations.all() {
        for (id, key) in organisation.keys() {
            let (kind, holder, client) = match &key.holder {
                Holder::Root => ("root", Value::Null, Value::Null),
                Holder::Node(name) => ("node", Value::text(name), Value::Null),
                Holder::Former(name) => ("user", Value::text(name), Value::Null),
                Holder::User(role) => {
                    let user = organisations.user(*role);
                    let client = user.map(|user| Value::Bool(user.client_signature));
                    ("user", Value::text(roles.name(*role)), client.unwrap_or(Value::Null))
                }
            };
            rows.row(&[
                ("organisation", Value::text(&organisation.name)),
                ("key", Value::from(identity::shown(id))),
                ("kind", Value::text(kind)),
                ("holder", holder),
                ("client_signature", client),
                ("since_block", block(key.since)),
                ("revoked_block", key.revoked.map_or(Value::Null, block)),
            ]);
        }
    }
}

pub fn tally_policies(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let catalog = &facts.world.catalog;
    let (organisations, roles) = (catalog.organisations(), catalog.roles());
    for (object, set) in catalog.policies() {
        let (kind, name) = catalog.called(object);
        let (kind, schema, name) = match object {
            Commented::Database => ("ledger", Value::Null, Value::Null),
            object => (kind, Value::from(catalog.schema_of(object)), Value::from(name)),
        };
        let can_be_met = set.policy.is_met(&mut |party| organisations.can_approve(roles, party));
        rows.row(&[
            ("kind", Value::text(kind)),
            ("schema", schema),
            ("name", name),
            ("policy", Value::from(set.policy.to_string())),
            ("can_be_met", Value::Bool(can_be_met)),
            ("since_block", block(set.since)),
        ]);
    }
}
