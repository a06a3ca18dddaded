//! The list of settings (SET, SHOW), in four classes.
//!
//! *Heeded.* Setting them has the effect that they promise, or they are read-only and report what
//! is the case.
//!
//! *Without effect.* PostgreSQL's settings for its planner, memory, files, log and internal ways of
//! writing. They are kept and shown, so that a client reads back what it has set, but change
//! nothing: no answer depends on them.
//!
//! *Fixed.* Settings that would change answers, or promise what is not done here. They accept the
//! one value that describes what happens, and reject all others (0A000).
//!
//! *Applications' own*, with names of two parts (`app.user_id`): kept for applications that read
//! them again. Their size is bounded, and the first part may not be `ledger` or `tally`.

use std::borrow::Cow;
use std::sync::LazyLock;

use types::{Error, Result, SqlState};

use super::{
    ACKNOWLEDGE, CATCH_UP_TIMEOUT, COMMIT_TIMEOUT, COPY_ROWS_PER_BLOCK, EXECUTOR, QUERY_MEMORY,
    SEEN_HEIGHT, TEMPORARY_MEMORY, TRANSACTION_KEY,
};

/// A setting that exists: its name as SHOW spells it and its default. Names compare without case.
#[derive(Clone, Debug)]
pub struct Known {
    pub name: Cow<'static, str>,
    pub default: &'static str,
    /// Clients are told when it changes (`ParameterStatus`).
    pub reported: bool,
    /// Changing it would not do what it says.
    pub fixed: bool,
}

impl Known {
    pub fn is_applications(&self) -> bool {
        is_applications(&self.name)
    }
}

const fn known(name: &'static str, default: &'static str) -> Known {
    Known { name: Cow::Borrowed(name), default, reported: false, fixed: false }
}

const fn reported(name: &'static str, default: &'static str) -> Known {
    Known { name: Cow::Borrowed(name), default, reported: true, fixed: false }
}

const fn fixed(name: &'static str, default: &'static str) -> Known {
    Known { name: Cow::Borrowed(name), default, reported: false, fixed: true }
}

/// Every level of isolation runs as SERIALIZABLE, which is more than any of them promises.
static HEEDED: &[Known] = &[
    reported("application_name", ""),
    known("role", "none"),
    reported("session_authorization", ""),
    known("bytea_output", "hex"),
    reported("client_encoding", "UTF8"),
    known("check_function_bodies", "on"),
    reported("DateStyle", "ISO, MDY"),
    reported("IntervalStyle", "postgres"),
    fixed("default_table_access_method", "heap"),
    known("default_transaction_deferrable", "off"),
    known("client_min_messages", "notice"),
    known("default_transaction_isolation", "serializable"),
    reported("default_transaction_read_only", "off"),
    known("extra_float_digits", "1"),
    known("idle_in_transaction_session_timeout", "0"),
    known("idle_session_timeout", "0"),
    fixed("in_hot_standby", "off"),
    fixed("integer_datetimes", "on"),
    known("lock_timeout", "0"),
    fixed("max_identifier_length", "63"),
    fixed("max_index_keys", "32"),
    fixed("max_prepared_transactions", "0"),
    known("search_path", super::DEFAULT_SEARCH_PATH),
    fixed("server_encoding", "UTF8"),
    fixed("server_version", types::version::SERVER_VERSION),
    fixed("server_version_num", types::version::SERVER_VERSION_NUM),
    known("standard_conforming_strings", "on"),
    known("statement_timeout", "0"),
    known(ACKNOWLEDGE, "quorum"),
    known("tally.as_of_block", ""),
    known(CATCH_UP_TIMEOUT, "5s"),
    known(COMMIT_TIMEOUT, "30s"),
    known(COPY_ROWS_PER_BLOCK, "0"),
    known("tally.endorse", "off"),
    known(EXECUTOR, "auto"),
    known("tally.fetch_timeout", "10min"),
    known(QUERY_MEMORY, "256MB"),
    fixed("tally.last_snapshot_block", ""),
    known("tally.linearizable_reads", "off"),
    known("tally.report_seen_height", "off"),
    known("tally.report_snapshot", "off"),
    known(SEEN_HEIGHT, "0"),
    fixed("tally.snapshot_block", ""),
    known(TEMPORARY_MEMORY, "256MB"),
    known(TRANSACTION_KEY, ""),
    reported("TimeZone", "UTC"),
    known("transaction_deferrable", "off"),
    fixed("transaction_isolation", "serializable"),
    fixed("transaction_read_only", "off"),
];

/// Names and PostgreSQL's defaults.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("backend_flush_after", "0"),
    ("commit_siblings", "5"),
    ("compute_query_id", "auto"),
    ("constraint_exclusion", "partition"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("cursor_tuple_fraction", "0.1"),
    ("deadlock_timeout", "1s"),
    ("debug_pretty_print", "on"),
    ("debug_print_parse", "off"),
    ("debug_print_plan", "off"),
    ("debug_print_rewritten", "off"),
    ("default_statistics_target", "100"),
    ("default_toast_compression", "pglz"),
    ("effective_cache_size", "4GB"),
    ("effective_io_concurrency", "1"),
    ("enable_async_append", "on"),
    ("enable_bitmapscan", "on"),
    ("enable_gathermerge", "on"),
    ("enable_hashagg", "on"),
    ("enable_hashjoin", "on"),
    ("enable_incremental_sort", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_parallel_append", "on"),
    ("enable_parallel_hash", "on"),
    ("enable_partition_pruning", "on"),
    ("enable_partitionwise_aggregate", "off"),
    ("enable_partitionwise_join", "off"),
    ("enable_presorted_aggregate", "on"),
    ("enable_seqscan", "on"),
    ("enable_sort", "on"),
    ("enable_tidscan", "on"),
    ("escape_string_warning", "on"),
    ("exit_on_error", "off"),
    ("from_collapse_limit", "8"),
    ("geqo", "on"),
    ("geqo_effort", "5"),
    ("geqo_threshold", "12"),
    ("gin_fuzzy_search_limit", "0"),
    ("gin_pending_list_limit", "4MB"),
    ("hash_mem_multiplier", "2"),
    ("jit", "off"),
    ("jit_above_cost", "100000"),
    ("jit_inline_above_cost", "500000"),
    ("jit_optimize_above_cost", "500000"),
    ("join_collapse_limit", "8"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("log_duration", "off"),
    ("log_error_verbosity", "default"),
    ("log_lock_waits", "off"),
    ("log_min_duration_sample", "-1"),
    ("log_min_duration_statement", "-1"),
    ("log_min_error_statement", "error"),
    ("log_min_messages", "warning"),
    ("log_parameter_max_length", "-1"),
    ("log_parameter_max_length_on_error", "0"),
    ("log_statement", "none"),
    ("log_statement_sample_rate", "1"),
    ("log_temp_files", "-1"),
    ("logical_decoding_work_mem", "64MB"),
    ("maintenance_io_concurrency", "10"),
    ("maintenance_work_mem", "64MB"),
    ("max_parallel_maintenance_workers", "2"),
    ("max_parallel_workers", "8"),
    ("max_parallel_workers_per_gather", "2"),
    ("max_stack_depth", "2MB"),
    ("min_parallel_index_scan_size", "512kB"),
    ("min_parallel_table_scan_size", "8MB"),
    ("parallel_leader_participation", "on"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("plan_cache_mode", "auto"),
    ("random_page_cost", "4"),
    ("recursive_worktable_factor", "10"),
    ("row_security", "on"),
    ("seq_page_cost", "1"),
    ("stats_fetch_consistency", "cache"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("tcp_keepalives_count", "0"),
    ("tcp_keepalives_idle", "0"),
    ("tcp_keepalives_interval", "0"),
    ("tcp_user_timeout", "0"),
    ("temp_buffers", "8MB"),
    ("temp_file_limit", "-1"),
    ("track_activities", "on"),
    ("track_counts", "on"),
    ("track_functions", "none"),
    ("track_io_timing", "off"),
    ("vacuum_cost_delay", "0"),
    ("vacuum_cost_limit", "200"),
    ("vacuum_cost_page_dirty", "20"),
    ("vacuum_cost_page_hit", "1"),
    ("vacuum_cost_page_miss", "2"),
    ("vacuum_failsafe_age", "1600000000"),
    ("vacuum_freeze_min_age", "50000000"),
    ("vacuum_freeze_table_age", "150000000"),
    ("wal_compression", "off"),
    ("wal_sender_timeout", "1min"),
    ("work_mem", "4MB"),
];

/// Names, and the value that each can have.
const ONLY: &[(&str, &str)] = &[
    ("array_nulls", "on"),
    ("backslash_quote", "safe_encoding"),
    ("client_connection_check_interval", "0"),
    ("createrole_self_grant", ""),
    ("debug_parallel_query", "off"),
    ("default_tablespace", ""),
    ("default_text_search_config", "pg_catalog.simple"),
    ("event_triggers", "on"),
    ("lo_compat_privileges", "off"),
    ("quote_all_identifiers", "off"),
    ("session_replication_role", "origin"),
    ("temp_tablespaces", ""),
    ("transaction_timeout", "0"),
    ("transform_null_equals", "off"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
];

/// Encodings that a client may have, and other names for them.
pub const CLIENT_ENCODINGS: &[(&str, &[&str])] = &[
    ("UTF8", &["unicode"]),
    ("SQL_ASCII", &[]),
    ("ISO_8859_5", &[]),
    ("ISO_8859_6", &[]),
    ("ISO_8859_7", &[]),
    ("ISO_8859_8", &[]),
    ("KOI8R", &["koi8"]),
    ("KOI8U", &[]),
    ("LATIN1", &["iso88591"]),
    ("LATIN2", &["iso88592"]),
    ("LATIN3", &["iso88593"]),
    ("LATIN4", &["iso88594"]),
    ("LATIN5", &["iso88599"]),
    ("LATIN6", &["iso885910"]),
    ("LATIN7", &["iso885913"]),
    ("LATIN8", &["iso885914"]),
    ("LATIN9", &["iso885915"]),
    ("LATIN10", &["iso885916"]),
    ("WIN874", &["windows874"]),
    ("WIN1250", &["windows1250"]),
    ("WIN1251", &["windows1251", "win"]),
    ("WIN1252", &["windows1252"]),
    ("WIN1253", &["windows1253"]),
    ("WIN1254", &["windows1254"]),
    ("WIN1255", &["windows1255"]),
    ("WIN1256", &["windows1256"]),
    ("WIN1257", &["windows1257"]),
    ("WIN1258", &["windows1258"]),
    ("WIN866", &["windows866", "alt"]),
];

/// An encoding by any of its names, in which only letters and digits count.
pub fn encoding(name: &str) -> Option<&'static str> {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let wanted = plain(name);
    let mut all = CLIENT_ENCODINGS.iter();
    let found = all.find(|(known, others)| {
        plain(known) == wanted || others.iter().any(|other| *other == wanted)
    });
    found.map(|(known, _)| *known)
}

/// The value that a setting cannot leave, if there is one.
pub fn only(name: &str) -> Option<&'static str> {
    ONLY.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let kept = WITHOUT_EFFECT.iter().chain(ONLY).map(|&(name, default)| known(name, default));
    let mut all: Vec<Known> = HEEDED.iter().cloned().chain(kept).collect();
    all.sort_by_key(|known| known.name.to_ascii_lowercase());
    all
});

/// All settings but applications' own, by name.
pub fn all() -> &'static [Known] {
    &ALL
}

pub fn find(name: &str) -> Result<Known> {
    let spelt = match name.to_ascii_lowercase().as_str() {
        "names" => "client_encoding".to_owned(),
        "time zone" => "timezone".to_owned(),
        "session characteristics" => "default_transaction_isolation".to_owned(),
        other => other.to_owned(),
    };
    let found = ALL.binary_search_by(|known| known.name.to_ascii_lowercase().cmp(&spelt));
    match found {
        Ok(place) => Ok(ALL[place].clone()),
        Err(_) if is_applications(&spelt) => Ok(Known { name: Cow::Owned(spelt), ..known("", "") }),
        Err(_) => Err(unrecognized(name)),
    }
}

pub fn unrecognized(name: &str) -> Error {
    let what = format!("unrecognized configuration parameter \"{name}\"");
    Error::new(SqlState::UNDEFINED_OBJECT, what)
        .with_hint("SHOW ALL lists the parameters that there are.")
}

/// Whether a name is one that applications may give: of two parts or more, none of them ours.
pub fn is_applications(name: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    let ours = ["ledger", "tally"];
    name.len() <= NAME_BYTES_MAX
        && name.contains('.')
        && name.split('.').all(is_word)
        && !ours.contains(&name.split('.').next().unwrap_or_default())
}

const NAME_BYTES_MAX: usize = 128;

const APPLICATION_NAME_BYTES_MAX: usize = 63;

/// Cut where PostgreSQL cuts names, with `?` for each byte that is no printable ASCII: logs and
/// other sessions show it.
pub fn printable(name: &str) -> String {
    let shown = |byte: &u8| if matches!(byte, 0x20..=0x7e) { char::from(*byte) } else { '?' };
    name.as_bytes()[..name.len().min(APPLICATION_NAME_BYTES_MAX)].iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_found_by_its_name_once() {
        for known in all() {
            let found = find(&known.name.to_uppercase()).unwrap();
            assert_eq!((found.name.as_ref(), found.default), (known.name.as_ref(), known.default));
        }
        let mut names: Vec<_> = all().iter().map(|known| known.name.to_lowercase()).collect();
        names.dedup();
        assert_eq!(names.len(), all().len());
        assert!(find("app.user_id").is_ok() && find("a.b.c").is_ok());
        for name in ["tally.nope", "ledger.protocol", "a.", ".b", "1.2", "a b.c", "nope"] {
            assert_eq!(find(name).unwrap_err().code(), SqlState::UNDEFINED_OBJECT, "{name}");
        }
    }
}
