//! Functions of PostgreSQL that are known by name and refused, so that a client is told why rather
//! than that they do not exist.

use types::Error;

/// Functions of PostgreSQL that give another answer each time, and what to do instead.
const NON_DETERMINISTIC: &[(&str, &str)] = &[
    ("setseed", "Each transaction has a seed of its own, from which random() draws."),
    ("random_normal", "Let the client choose the value and pass it as a parameter."),
    ("gen_random_bytes", "Let the client make the bytes and pass them as a parameter."),
    ("uuid_generate_v1", "Use uuidv7() or gen_random_uuid()."),
    ("pg_sleep_for", "Sleep in the client."),
    ("txid_current", "Keep an identifier of your own in the row."),
    ("pg_current_xact_id", "Keep an identifier of your own in the row."),
    ("dblink", "A ledger's transactions see the ledger alone."),
];

const WOULD_DIFFER: &str = "Its answer would differ between replicas.";

/// Whose last digits depend on the machine's mathematical library.
const MACHINE_DEPENDENT: &[&str] = &[
    "acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "cot", "degrees", "exp", "ln", "log",
    "log10", "radians", "sin", "sinh", "tan", "tanh",
];

/// Which of them are there for another type.
const OF_NUMERIC: &[&str] = &["exp", "ln", "log", "log10"];

/// What a node answers that is asked for it alone: it waits, reads the ledger's files or signs,
/// none of which a program does.
const ALONE: &[&str] = &[
    "tally_absence_proof",
    "tally_approve",
    "tally_consistency_proof",
    "tally_head_proof",
    "tally_last_commit",
    "tally_outcome",
    "tally_prefix_proof",
    "tally_propose",
    "tally_range_proof",
    "tally_receipt",
    "tally_row_proof",
    "tally_signed_head",
    "tally_submit_signed",
    "tally_verifier_key",
];

/// Everything else that clients and people are known to ask for.
const MISSING: &[&str] = &[
    "col_description",
    "corr",
    "covar_pop",
    "covar_samp",
    "current_schemas",
    "current_setting",
    "factorial",
    "format",
    "format_type",
    "gcd",
    "has_database_privilege",
    "has_schema_privilege",
    "has_table_privilege",
    "inet_client_addr",
    "inet_server_addr",
    "lcm",
    "obj_description",
    "pg_client_encoding",
    "pg_encoding_to_char",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_get_userbyid",
    "pg_relation_size",
    "pg_size_pretty",
    "pg_table_is_visible",
    "pg_table_size",
    "pg_total_relation_size",
    "quote_ident",
    "row",
    "to_char",
    "to_date",
    "to_number",
    "to_regclass",
    "width_bucket",
];

pub(super) fn non_deterministic(name: &str) -> Option<Error> {
    let (_, hint) = NON_DETERMINISTIC.iter().find(|(n, _)| *n == name)?;
    let error = Error::unsupported(format_args!("function {name}()")).with_detail(WOULD_DIFFER);
    Some(error.with_hint(*hint))
}

/// Whether an error says that no engine has an answer which all replicas agree on.
pub(crate) fn would_differ(error: &Error) -> bool {
    error.fields().detail.as_deref() == Some(WOULD_DIFFER)
}

pub(super) fn not_there_yet(name: &str) -> Option<Error> {
    let missing = || {
        Error::unsupported(format_args!("function {name}()")).with_hint("Compute it in the client.")
    };
    let known = || MISSING.contains(&name).then(missing);
    machine_dependent(name).or_else(known).or_else(|| within_others(name))
}

/// One that is there, and stands within what it cannot.
pub(super) fn within_others(name: &str) -> Option<Error> {
    ALONE.contains(&name).then(|| {
        Error::unsupported(format_args!("{name}() within a larger statement"))
            .with_hint(format!("A SELECT of it alone gives its answer: SELECT {name}(…)."))
    })
}

/// Why no engine has a function of this name.
fn machine_dependent(name: &str) -> Option<Error> {
    MACHINE_DEPENDENT.contains(&name).then(|| {
        let what = if OF_NUMERIC.contains(&name) { " of double precision" } else { "" };
        let hint = match OF_NUMERIC.contains(&name) {
            true => format!("Of numeric there is one: {name}(x::numeric)."),
            false => "Compute it in the client and pass the result as a parameter.".to_owned(),
        };
        Error::unsupported(format_args!("function {name}(){what}"))
            .with_detail("Its last digits would differ between machines.")
            .with_hint(hint)
    })
}
