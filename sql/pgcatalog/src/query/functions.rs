//! Functions of one row: what PostgreSQL's tools call when they read catalogs.
//!
//! A table of (name, how many arguments, their types, the result's type, how). Whatever depends on
//! a catalog's contents is in [`describe`](crate::describe).

use identity::{Acl, Kind, Privileges, RoleId};
use types::value::VALUE_WEIGHT;
use types::{DataType, Result, SystemType, Value};

use super::around::Around;
use super::made::{Made, check_text_bytes};
use super::privileges::PRIVILEGES;
use super::signature::{Function, Gives, Takes, function, lax, oid_of, str_of, yes};
use super::text_functions as text;
use crate::describe;
use crate::oid;
use crate::relation;
use crate::tables::shown_privileges;

impl Takes {
    pub fn data_type(self) -> Option<DataType> {
        Some(match self {
            Any => return None,
            Text => DataType::Text,
            Int => DataType::Int8,
            Bool => DataType::Bool,
            Oid => DataType::System(SystemType::Oid),
            Reg(system) => DataType::System(system),
        })
    }
}

pub fn result_type(function: &Function, arguments: &[DataType]) -> DataType {
    let first = || arguments.first().cloned().unwrap_or(DataType::Text);
    let array = |element| DataType::Array(Box::new(element));
    match function.gives {
        Gives::Text => DataType::Text,
        Gives::Name => DataType::System(SystemType::Name),
        Gives::Names => array(DataType::System(SystemType::Name)),
        Gives::Texts => array(DataType::Text),
        Gives::Bool => DataType::Bool,
        Gives::Int4 => DataType::Int4,
        Gives::Int8 => DataType::Int8,
        Gives::Ints => array(DataType::Int4),
        Gives::Oid => DataType::System(SystemType::Oid),
        Gives::Timestamptz => DataType::Timestamptz(None),
        Gives::Date => DataType::Date,
        Gives::Inet => DataType::System(SystemType::Inet),
        Gives::Json => DataType::Json,
        Gives::Reg(system) => DataType::System(system),
        Gives::First => first(),
    }
}

pub fn find(name: &str, arguments: usize) -> Option<&'static Function> {
    let fits = |f: &&Function| {
        f.name == name && arguments >= f.least && (f.variadic || arguments <= f.takes.len())
    };
    all().find(fits)
}

/// Whether it is of catalogs and sessions alone: no other function has its name.
pub fn is_of_catalogs(name: &str) -> bool {
    const OF_TIME: [&str; 6] = [
        "now",
        "current_timestamp",
        "transaction_timestamp",
        "statement_timestamp",
        "clock_timestamp",
        "current_date",
    ];
    let own = VISIBLE.iter().chain(CATALOG).chain(SESSION).chain(PRIVILEGES);
    let mut named = own.filter(|function| !OF_TIME.contains(&function.name));
    named.any(|function| function.name == name)
}

pub fn is_known(name: &str) -> bool {
    all().any(|function| function.name == name)
}

fn all() -> impl Iterator<Item = &'static Function> {
    let own = VISIBLE.iter().chain(CATALOG).chain(SESSION).chain(PRIVILEGES);
    own.chain(ARRAYS).chain(text::TEXT)
}

use Takes::{Any, Bool, Int, Oid, Reg, Text};

fn text_or_null(text: Option<String>) -> Result<Value> {
    Ok(text.map_or(Value::Null, Value::text))
}

/// What was said of an object, or of its column; without a catalog's name of any object with this
/// number.
fn comment(run: &Around, catalog: Option<&str>, object: &Value, column: i32) -> Value {
    let class = catalog.map(|name| {
        relation::place("pg_catalog", name).map_or(0, |place| relation::all()[place].oid)
    });
    let object = object.as_int().and_then(|number| u32::try_from(number).ok());
    let is_it = |(of, number, at): &(u32, u32, i32)| {
        Some(*number) == object && *at == column && class.is_none_or(|class| class == *of)
    };
    let comments = run.world.comments();
    let found = match (class, object) {
        (Some(class), Some(object)) => comments.get(&(class, object, column)),
        _ => comments.iter().find(|(at, _)| is_it(at)).map(|(_, text)| text),
    };
    found.map_or(Value::Null, Value::text)
}

fn nothing(_: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::Null)
}

fn no(_: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::Bool(false))
}

/// Whether its name alone means it, by the search path.
fn relation_is_visible(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let this = oid_of(&a[0]);
    let known = run.world.names().relations.get(&this);
    let is_meant = |(_, name): &(String, String)| run.world.relation_oid(None, name) == Some(this);
    Ok(known.map_or(Value::Null, |name| Value::Bool(is_meant(name))))
}

static VISIBLE: &[Function] = &[
    function("pg_table_is_visible", 1, &[Oid], Gives::Bool, relation_is_visible),
    function("pg_type_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_function_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_operator_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_opclass_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_opfamily_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_collation_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_conversion_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_statistics_obj_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_ts_config_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_ts_dict_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_ts_parser_is_visible", 1, &[Oid], Gives::Bool, yes),
    function("pg_ts_template_is_visible", 1, &[Oid], Gives::Bool, yes),
];

static CATALOG: &[Function] = &[
    Function {
        strict: false,
        ..function("format_type", 1, &[Oid, Int], Gives::Text, |run, a, _| {
            if a[0].is_null() {
                return Ok(Value::Null);
            }
            let modifier = a.get(1).and_then(Value::as_int).unwrap_or(-1);
            let modifier = i32::try_from(modifier).unwrap_or(-1);
            Ok(Value::text(describe::format_type(&run.world, oid_of(&a[0]), modifier)))
        })
    },
    function("pg_get_expr", 2, &[Text, Oid, Bool], Gives::Text, |_, a, _| Ok(a[0].clone())),
    function("pg_get_indexdef", 1, &[Oid, Int, Bool], Gives::Text, |run, a, _| {
        let column = a.get(1).and_then(Value::as_int).unwrap_or(0);
        let pretty = a.get(2).and_then(Value::as_bool).unwrap_or(false);
        text_or_null(describe::index_definition(&run.world, oid_of(&a[0]), column, pretty))
    }),
    function("pg_get_constraintdef", 1, &[Oid, Bool], Gives::Text, |run, a, _| {
        let pretty = a.get(1).and_then(Value::as_bool).unwrap_or(false);
        text_or_null(describe::constraint_definition(&run.world, oid_of(&a[0]), pretty))
    }),
    function("pg_get_viewdef", 1, &[Reg(SystemType::Regclass), Any], Gives::Text, |run, a, _| {
        text_or_null(describe::view_definition(&run.world, oid_of(&a[0])))
    }),
    function("pg_get_functiondef", 1, &[Oid], Gives::Text, |run, a, _| {
        text_or_null(describe::routine_definition(&run.world, oid_of(&a[0])))
    }),
    function("pg_get_function_arguments", 1, &[Oid], Gives::Text, |run, a, _| {
        text_or_null(describe::routine_arguments(&run.world, oid_of(&a[0]), true))
    }),
    function("pg_get_function_identity_arguments", 1, &[Oid], Gives::Text, |run, a, _| {
        text_or_null(describe::routine_arguments(&run.world, oid_of(&a[0]), false))
    }),
    function("pg_get_function_result", 1, &[Oid], Gives::Text, |run, a, _| {
        text_or_null(describe::routine_result(&run.world, oid_of(&a[0])))
    }),
    function("pg_get_function_arg_default", 2, &[Oid, Int], Gives::Text, |run, a, _| {
        let place = a[1].as_int().unwrap_or(0);
        text_or_null(describe::argument_default(&run.world, oid_of(&a[0]), place))
    }),
    function("pg_get_function_sqlbody", 1, &[Oid], Gives::Text, nothing),
    function("pg_get_triggerdef", 1, &[Oid, Bool], Gives::Text, nothing),
    function("pg_get_ruledef", 1, &[Oid, Bool], Gives::Text, nothing),
    function("pg_get_partkeydef", 1, &[Oid], Gives::Text, nothing),
    function("pg_get_partition_constraintdef", 1, &[Oid], Gives::Text, nothing),
    function("pg_get_statisticsobjdef", 1, &[Oid], Gives::Text, nothing),
    function("pg_get_statisticsobjdef_columns", 1, &[Oid], Gives::Text, nothing),
    function("pg_get_serial_sequence", 2, &[Text, Text], Gives::Text, |run, a, _| {
        let (table, column) = (a[0].to_string(), a[1].to_string());
        Ok({
            let world = &run.world;
            let owned = world.catalog.serial_sequence(&world.path, &table, &column)?;
            owned.map_or(Value::Null, Value::text)
        })
    }),
    function("pg_sequence_last_value", 1, &[Oid], Gives::Int8, nothing),
    function("obj_description", 1, &[Oid, Text], Gives::Text, |run, a, _| {
        Ok(comment(run, a.get(1).map(str_of), &a[0], 0))
    }),
    function("shobj_description", 2, &[Oid, Text], Gives::Text, |run, a, _| {
        Ok(comment(run, Some(str_of(&a[1])), &a[0], 0))
    }),
    function("col_description", 2, &[Oid, Int], Gives::Text, |run, a, _| {
        let column = a[1].as_int().and_then(|column| i32::try_from(column).ok()).unwrap_or(0);
        Ok(comment(run, Some("pg_class"), &a[0], column))
    }),
    function("pg_get_userbyid", 1, &[Oid], Gives::Name, |run, a, _| {
        let id = RoleId(oid_of(&a[0]));
        Ok(Value::text(match run.world.catalog.roles().role(id) {
            Some(role) => role.name.clone(),
            None => format!("unknown (OID={})", id.0),
        }))
    }),
    function("pg_encoding_to_char", 1, &[Int], Gives::Name, |_, a, _| {
        Ok(Value::text(if a[0].as_int() == Some(6) { "UTF8" } else { "" }))
    }),
    function("pg_char_to_encoding", 1, &[Text], Gives::Int4, |_, a, _| {
        let is_utf8 = a[0].as_text().is_some_and(|name| {
            matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode")
        });
        Ok(Value::Int(if is_utf8 { 6 } else { -1 }))
    }),
    function("pg_relation_is_publishable", 1, &[Reg(SystemType::Regclass)], Gives::Bool, no),
    function("pg_relation_is_updatable", 2, &[Oid, Bool], Gives::Int4, |_, a, _| {
        let is_table = oid_of(&a[0]) >= oid::FIRST_USER;
        // INSERT, UPDATE and DELETE.
        Ok(Value::Int(if is_table { 28 } else { 0 }))
    }),
    // Sizes are the storage's to know, and the catalog is not told.
    function("pg_relation_size", 1, &[Reg(SystemType::Regclass), Text], Gives::Int8, nothing),
    function("pg_table_size", 1, &[Reg(SystemType::Regclass)], Gives::Int8, nothing),
    function("pg_indexes_size", 1, &[Reg(SystemType::Regclass)], Gives::Int8, nothing),
    function("pg_total_relation_size", 1, &[Reg(SystemType::Regclass)], Gives::Int8, nothing),
    function("pg_database_size", 1, &[Any], Gives::Int8, nothing),
    function("pg_tablespace_size", 1, &[Any], Gives::Int8, nothing),
    function("pg_stat_get_numscans", 1, &[Oid], Gives::Int8, nothing),
    function("pg_stat_get_live_tuples", 1, &[Oid], Gives::Int8, nothing),
    function("pg_stat_get_dead_tuples", 1, &[Oid], Gives::Int8, nothing),
    function("pg_tablespace_location", 1, &[Oid], Gives::Text, |_, _, _| Ok(Value::text(""))),
    function("pg_relation_filenode", 1, &[Reg(SystemType::Regclass)], Gives::Oid, nothing),
    function("pg_size_pretty", 1, &[Int], Gives::Text, |_, a, _| {
        Ok(Value::text(text::size(a[0].as_int().unwrap_or(0))))
    }),
    function("to_regclass", 1, &[Text], Gives::Reg(SystemType::Regclass), |run, a, _| {
        to_reg(run, a, SystemType::Regclass)
    }),
    function("to_regtype", 1, &[Text], Gives::Reg(SystemType::Regtype), |run, a, _| {
        to_reg(run, a, SystemType::Regtype)
    }),
    function("to_regproc", 1, &[Text], Gives::Reg(SystemType::Regproc), |run, a, _| {
        to_reg(run, a, SystemType::Regproc)
    }),
    function("to_regnamespace", 1, &[Text], Gives::Reg(SystemType::Regnamespace), |run, a, _| {
        to_reg(run, a, SystemType::Regnamespace)
    }),
    function("pg_indexam_has_property", 2, &[Oid, Text], Gives::Bool, |_, a, _| {
        let has = ["can_order", "can_unique", "can_multi_col"].contains(&str_of(&a[1]));
        Ok(Value::Bool(has))
    }),
    function("pg_index_column_has_property", 3, &[Oid, Int, Text], Gives::Bool, |_, a, _| {
        let has = ["asc", "nulls_last", "orderable", "returnable"].contains(&str_of(&a[2]));
        Ok(Value::Bool(has))
    }),
    function("pg_my_temp_schema", 0, &[], Gives::Oid, |run, _, _| {
        let (world, own) = (&run.world, run.world.catalog.temporary_schema());
        Ok(Value::Int(own.map_or(0, |own| world.numbers.namespace(own)).into()))
    }),
    function("pg_is_other_temp_schema", 1, &[Oid], Gives::Bool, no),
    function("age", 1, &[Oid], Gives::Int4, |_, _, _| Ok(Value::Int(0))),
    lax("pg_typeof", 1, &[Any], Gives::Reg(SystemType::Regtype), |_, _, types| {
        Ok(types.first().map_or(Value::Null, |t| Value::Int(t.oid().into())))
    }),
    lax("acldefault", 2, &[Any, Any], Gives::Texts, |run, a, _| {
        let (Value::Text(kind), Some(owner)) = (&a[0], a[1].as_int()) else {
            return Ok(Value::Null);
        };
        // What of them there is: of a type or a language nothing can be granted.
        let kind = match kind.as_str() {
            "r" => Kind::Table,
            "c" => Kind::Column,
            "s" => Kind::Sequence,
            "f" => Kind::Routine,
            "n" => Kind::Schema,
            "d" => Kind::Database,
            _ => return Ok(Value::Null),
        };
        // An owner has nothing of a column that is not the table's.
        let all = if kind == Kind::Column { Privileges::NONE } else { kind.all() };
        let owner = RoleId(u32::try_from(owner).unwrap_or_default());
        Ok(shown_privileges(&run.world, &Acl::of_new(owner, all, kind.of_public())))
    }),
];

fn to_reg(run: &Around, a: &[Value], system: SystemType) -> Result<Value> {
    let found = run.names().find(str_of(&a[0]), system);
    Ok(found.map_or(Value::Null, |oid| Value::Int(oid.into())))
}

static SESSION: &[Function] =
    &[
        function("version", 0, &[], Gives::Text, |run, _, _| {
            let version = &run.session.server_version;
            Ok(Value::text(format!("PostgreSQL {version} (Tallystick)")))
        }),
        function("current_database", 0, &[], Gives::Name, database),
        function("current_catalog", 0, &[], Gives::Name, database),
        function("current_schema", 0, &[], Gives::Name, |run, _, _| {
            let first = run.world.path.first(&run.world.catalog);
            Ok(first.map_or(Value::Null, Value::text))
        }),
        function("current_user", 0, &[], Gives::Name, role),
        function("session_user", 0, &[], Gives::Name, user),
        function("current_role", 0, &[], Gives::Name, user),
        function("user", 0, &[], Gives::Name, user),
        function("getdatabaseencoding", 0, &[], Gives::Name, |_, _, _| Ok(Value::text("UTF8"))),
        function("pg_client_encoding", 0, &[], Gives::Name, |run, _, _| {
            let settings = run.session.settings.iter();
            let found = settings.clone().find(|(name, _)| name == "client_encoding");
            Ok(Value::text(found.map_or("UTF8", |(_, value)| value)))
        }),
        function("current_schemas", 1, &[Bool], Gives::Names, |run, a, _| {
            let implicit = (a[0].as_bool() == Some(true)).then_some("pg_catalog");
            let (world, all) = (&run.world, a[0].as_bool() == Some(true));
            let is_shown = |schema: &&str| all || Some(*schema) != world.catalog.temporary_schema();
            let schemas = implicit.into_iter().chain(world.schemas().filter(is_shown));
            Ok(Value::from(schemas.map(Value::text).collect::<Vec<_>>()))
        }),
        function("pg_backend_pid", 0, &[], Gives::Int4, |run, _, _| {
            Ok(Value::Int(run.session.backend_pid.into()))
        }),
        function("pg_is_in_recovery", 0, &[], Gives::Bool, no),
        function("pg_is_wal_replay_paused", 0, &[], Gives::Bool, no),
        function("pg_export_snapshot", 0, &[], Gives::Text, nothing),
        function("pg_blocking_pids", 1, &[Int], Gives::Ints, |_, _, _| Ok(Value::array([]))),
        function("inet_server_addr", 0, &[], Gives::Inet, nothing),
        function("inet_server_port", 0, &[], Gives::Int4, nothing),
        function("inet_client_addr", 0, &[], Gives::Inet, nothing),
        function("inet_client_port", 0, &[], Gives::Int4, nothing),
        function("current_setting", 1, &[Text, Bool], Gives::Text, |run, a, _| {
            let name = str_of(&a[0]);
            let settings = &run.session.settings;
            let known = settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            match (known, a.get(1).and_then(Value::as_bool)) {
                (Some((_, value)), _) => Ok(Value::text(value)),
                (None, Some(true)) => Ok(Value::Null),
                (None, _) => Err(types::Error::new(
                    types::SqlState::UNDEFINED_OBJECT,
                    format!("unrecognized configuration parameter \"{name}\""),
                )),
            }
        }),
        // A session's own SET changes settings: this is for those who set what is set.
        function("set_config", 3, &[Text, Text, Bool], Gives::Text, |run, a, _| {
            let settings = &run.session.settings;
            let same = |(name, value): &&(String, String)| {
                name.eq_ignore_ascii_case(str_of(&a[0])) && value == str_of(&a[1])
            };
            match settings.iter().find(same) {
                Some((_, value)) => Ok(Value::text(value)),
                None => Err(types::Error::unsupported("set_config() to another value")
                    .with_hint("Use SET.")),
            }
        }),
        function("now", 0, &[], Gives::Timestamptz, now),
        function("current_timestamp", 0, &[], Gives::Timestamptz, now),
        function("transaction_timestamp", 0, &[], Gives::Timestamptz, now),
        function("statement_timestamp", 0, &[], Gives::Timestamptz, now),
        function("clock_timestamp", 0, &[], Gives::Timestamptz, now),
        function("current_date", 0, &[], Gives::Date, |run, _, _| {
            Ok(Value::Date(types::datetime::timestamp_to_date(run.session.now_us)))
        }),
    ];

fn database(run: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::text(&run.session.database))
}

fn role(run: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::text(&run.session.role))
}

fn user(run: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::text(&run.session.user))
}

fn now(run: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::Timestamptz(run.session.now_us))
}

/// The number of an array's first element.
fn origin(data_type: Option<&DataType>) -> i64 {
    let vector =
        |system: &SystemType| matches!(system, SystemType::Int2Vector | SystemType::OidVector);
    i64::from(!matches!(data_type, Some(DataType::System(system)) if vector(system)))
}

/// The bounds of an array that has elements, in its only dimension.
pub fn bounds(a: &[Value], types: &[DataType]) -> Option<(i64, i64)> {
    let elements = a[0].as_array().filter(|elements| !elements.is_empty())?;
    let first = origin(types.first());
    (a.get(1).and_then(Value::as_int).unwrap_or(1) == 1)
        .then(|| (first, first + elements.len() as i64 - 1))
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().unwrap_or(&[])
}

fn int_or_null(number: Option<i64>) -> Result<Value> {
    Ok(number.map_or(Value::Null, Value::Int))
}

static ARRAYS: &[Function] = &[
    function("array_lower", 2, &[Any, Int], Gives::Int4, |_, a, types| {
        int_or_null(bounds(a, types).map(|(first, _)| first))
    }),
    function("array_upper", 2, &[Any, Int], Gives::Int4, |_, a, types| {
        int_or_null(bounds(a, types).map(|(_, last)| last))
    }),
    function("array_length", 2, &[Any, Int], Gives::Int4, |_, a, types| {
        int_or_null(bounds(a, types).map(|(first, last)| last - first + 1))
    }),
    function("array_ndims", 1, &[Any], Gives::Int4, |_, a, types| {
        int_or_null(bounds(a, types).map(|_| 1))
    }),
    function("cardinality", 1, &[Any], Gives::Int4, |_, a, _| {
        Ok(Value::Int(elements(&a[0]).len() as i64))
    }),
    function("array_position", 2, &[Any, Any], Gives::Int4, |_, a, types| {
        let place = elements(&a[0]).iter().position(|element| *element == a[1]);
        int_or_null(place.map(|place| place as i64 + origin(types.first())))
    }),
    lax("array_append", 2, &[Any, Any], Gives::First, |_, a, _| {
        Ok(Value::array([elements(&a[0]), &a[1..2]].concat()))
    }),
    lax("array_cat", 2, &[Any, Any], Gives::First, |_, a, _| {
        Ok(Value::array([elements(&a[0]), elements(&a[1])].concat()))
    }),
    lax("array_remove", 2, &[Any, Any], Gives::First, |_, a, _| {
        let kept = elements(&a[0]).iter().filter(|element| **element != a[1]);
        Ok(Value::from(kept.cloned().collect::<Vec<_>>()))
    }),
    lax("array_to_string", 2, &[Any, Text, Text], Gives::Text, |run, a, types| {
        let (Some(list), Some(separator)) = (a[0].as_array(), a[1].as_text()) else {
            return Ok(Value::Null);
        };
        let of = match types.first() {
            Some(DataType::Array(element)) => (**element).clone(),
            _ => DataType::Int8,
        };
        let missing = a.get(2).and_then(Value::as_text);
        let (mut made, mut is_first) = (Made::default(), true);
        for value in list {
            let text = match (value, missing) {
                (Value::Null, None) => continue,
                (Value::Null, Some(missing)) => missing.to_owned(),
                (value, _) => run.names().text(value, &of)?,
            };
            if !std::mem::take(&mut is_first) {
                made.push(separator)?;
            }
            made.push(&text)?;
        }
        Ok(made.into_value())
    }),
    function("string_to_array", 2, &[Text, Text], Gives::Texts, |_, a, _| {
        let parts = || str_of(&a[0]).split(str_of(&a[1]));
        check_text_bytes(parts().count() * VALUE_WEIGHT)?;
        Ok(Value::from(parts().map(Value::text).collect::<Vec<_>>()))
    }),
    function("operator &&", 2, &[Any, Any], Gives::Bool, |_, a, _| {
        let found = elements(&a[0]).iter().any(|element| elements(&a[1]).contains(element));
        Ok(Value::Bool(found))
    }),
    function("operator @>", 2, &[Any, Any], Gives::Bool, |_, a, _| {
        let found = elements(&a[1]).iter().all(|element| elements(&a[0]).contains(element));
        Ok(Value::Bool(found))
    }),
    function("operator <@", 2, &[Any, Any], Gives::Bool, |_, a, _| {
        let found = elements(&a[0]).iter().all(|element| elements(&a[1]).contains(element));
        Ok(Value::Bool(found))
    }),
    lax("json_build_object", 0, &[Any], Gives::Json, build_object),
    lax("jsonb_build_object", 0, &[Any], Gives::Json, build_object),
    lax("greatest", 1, &[Any], Gives::First, |_, a, _| extreme(a, std::cmp::Ordering::is_gt)),
    lax("least", 1, &[Any], Gives::First, |_, a, _| extreme(a, std::cmp::Ordering::is_lt)),
];

fn extreme(values: &[Value], better: fn(std::cmp::Ordering) -> bool) -> Result<Value> {
    let values = values.iter().filter(|value| !value.is_null());
    let best = values.reduce(|best, value| {
        match types::compare::compare(value, best).is_some_and(better) {
            true => value,
            false => best,
        }
    });
    Ok(best.cloned().unwrap_or_default())
}

fn build_object(run: &Around, a: &[Value], types: &[DataType]) -> Result<Value> {
    let mut made = Made::default();
    made.push("{")?;
    for (place, (pair, types)) in a.chunks(2).zip(types.chunks(2)).enumerate() {
        made.push(if place > 0 { ", " } else { "" })?;
        let ([key, value], [key_type, value_type]) = (pair, types) else { continue };
        let key = Value::text(run.names().text(key, key_type)?);
        made.push(&json(run, &key, &DataType::Text)?)?;
        made.push(" : ")?;
        made.push(&json(run, value, value_type)?)?;
    }
    made.push("}")?;
    Ok(made.into_value())
}

/// A value as JSON.
pub fn json(run: &Around, value: &Value, data_type: &DataType) -> Result<String> {
    Ok(match (value, data_type) {
        (Value::Null, _) => "null".to_owned(),
        (Value::Bool(truth), _) => truth.to_string(),
        (Value::Int(_), DataType::System(system)) if system.is_object() => {
            quoted_json(&run.names().text(value, data_type)?)
        }
        (Value::Float(x), _) if !x.is_finite() => format!("\"{}\"", value.to_text(data_type)),
        (Value::Numeric(d), _) if !d.is_finite() => format!("\"{d}\""),
        (Value::Int(_) | Value::Float(_) | Value::Numeric(_), _) => value.to_text(data_type),
        (Value::Text(text), DataType::Json) => text.to_string(),
        (Value::Jsonb(json), _) => json.as_str().to_owned(),
        (Value::Array(list), DataType::Array(element)) => {
            let items = list.iter().map(|item| json(run, item, element));
            let items = items.collect::<Result<Vec<String>>>()?;
            check_text_bytes(items.iter().map(String::len).sum())?;
            format!("[{}]", items.join(","))
        }
        _ => quoted_json(&run.names().text(value, data_type)?),
    })
}

fn quoted_json(text: &str) -> String {
    let mut quoted = String::new();
    types::json::write::push_string(text, &mut quoted);
    quoted
}
