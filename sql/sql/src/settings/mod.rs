//! A session's settings: what SET, SHOW and drivers' startup parameters speak of.

mod known;
mod memory;
pub mod session_info;
mod undo;
mod units;
pub mod zones;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use procedure::NoticeLevel;
use types::interval::Style;
use types::{DataType, Error, Height, Result, SqlState, Value, Zone};

pub use known::CLIENT_ENCODINGS;
use known::{Known, all, find};
pub use undo::SettingsMark;
use undo::{Pending, UndoLog, put};
use units::{duration, memory, shown};

/// Texts by name; those that are an application's own have two parts.
type Values = BTreeMap<Cow<'static, str>, String>;

#[derive(Clone, Debug, Default)]
pub struct Settings {
    changed: Values,
    /// What the open transaction's end makes of them; `None` while it has set nothing.
    pending: Option<Pending>,
    /// What its savepoints lead back to.
    undo: UndoLog,
    /// Told to the client with the next answer.
    unreported: Vec<(String, String)>,
    timeouts: Timeouts,
    zone: Zone,
    executor: Executor,
    /// The session's cursors at the time of a query, which system tables show.
    pub cursors: Vec<CursorSeen>,
}

/// What others may know of a cursor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CursorSeen {
    pub name: String,
    pub text: String,
    pub hold: bool,
    pub binary: bool,
    pub scroll: bool,
    /// Microseconds since 2000-01-01.
    pub created_us: i64,
}

/// Which executor runs queries that only read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Executor {
    /// The router says.
    #[default]
    Auto,
    /// Row by row, where that can run them.
    Rows,
    /// By columns, or not at all.
    Columns,
}

impl Executor {
    fn of(values: &Values) -> Executor {
        match values.get(EXECUTOR).map(String::as_str) {
            Some("rows") => Executor::Rows,
            Some("columns") => Executor::Columns,
            _ => Executor::Auto,
        }
    }
}

/// What the settings of these names say, since every statement asks; zero: none.
#[derive(Clone, Debug)]
struct Timeouts {
    statement: Duration,
    idle_session: Duration,
    idle_in_transaction: Duration,
    fetch: Duration,
    lock: Duration,
    catch_up: Duration,
    commit: Duration,
}

/// What all that a session has set may take.
const BYTES_MAX: usize = 256 << 10;

/// The setting that says how much a query may hold, and what it says unless it is set.
pub const QUERY_MEMORY: &str = "tally.query_memory";
pub const QUERY_MEMORY_BYTES: u64 = 256 << 20;

/// The same of what the temporary tables of a session may take.
pub const TEMPORARY_MEMORY: &str = "tally.temporary_memory";
const TEMPORARY_MEMORY_BYTES: u64 = 256 << 20;

const TRANSACTION_KEY: &str = "tally.transaction_key";

/// Rows of a COPY outside of a transaction that are a transaction of their own; 0: all are one.
pub(crate) const COPY_ROWS_PER_BLOCK: &str = "tally.copy_rows_per_block";

/// How long a session waits until its node has what others have ordered.
pub(crate) const CATCH_UP_TIMEOUT: &str = "tally.catch_up_timeout";

/// How long a transaction waits for a cluster that cannot decide.
pub(crate) const COMMIT_TIMEOUT: &str = "tally.commit_timeout";

/// What a transaction's answer says of it.
pub(crate) const ACKNOWLEDGE: &str = "tally.acknowledge";
const ACKNOWLEDGES: [&str; 3] = ["local", "quorum", CERTIFIED];
const CERTIFIED: &str = "certified";

/// Which executor runs queries.
pub(crate) const EXECUTOR: &str = "tally.executor";

/// The newest block that a session has seen, here or elsewhere.
pub(crate) const SEEN_HEIGHT: &str = "tally.seen_height";

/// What an envelope can hold.
const TRANSACTION_KEY_BYTES_MAX: usize = 255;

pub(crate) const DEFAULT_SEARCH_PATH: &str = "\"$user\", public";

const TIMEOUTS: [&str; 7] = [
    "statement_timeout",
    "idle_session_timeout",
    "idle_in_transaction_session_timeout",
    "tally.fetch_timeout",
    "lock_timeout",
    CATCH_UP_TIMEOUT,
    COMMIT_TIMEOUT,
];

impl Timeouts {
    fn of(values: &Values) -> Timeouts {
        let of = |name| {
            let value = values.get(name).map(String::as_str);
            let value = value.or(find(name).ok().map(|known| known.default));
            value.and_then(duration).unwrap_or_default()
        };
        let [statement, idle_session, idle_in_transaction, fetch, lock, catch_up, commit] =
            TIMEOUTS.map(of);
        Timeouts { statement, idle_session, idle_in_transaction, fetch, lock, catch_up, commit }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts::of(&BTreeMap::new())
    }
}

impl Settings {
    /// What `client_min_messages` says; `None`: none but errors.
    pub fn least_notice(&self) -> Option<NoticeLevel> {
        let text = self.show("client_min_messages").map(|(_, text)| text).unwrap_or_default();
        match text.to_ascii_lowercase().as_str() {
            "error" | "fatal" | "panic" => None,
            "warning" => Some(NoticeLevel::Warning),
            "log" => Some(NoticeLevel::Log),
            "debug" | "debug1" | "debug2" | "debug3" | "debug4" | "debug5" => {
                Some(NoticeLevel::Debug)
            }
            _ => Some(NoticeLevel::Notice),
        }
    }

    pub fn show(&self, name: &str) -> Result<(Cow<'static, str>, String)> {
        let known = find(name)?;
        let value = self.changed.get(&known.name).cloned();
        if value.is_none() && known.is_applications() {
            return Err(known::unrecognized(name));
        }
        Ok((known.name, value.unwrap_or_else(|| known.default.to_owned())))
    }

    /// Whether something has changed that clients are told of and have not been.
    pub fn has_changes(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// `application_name`.
    pub fn application(&self) -> String {
        self.show("application_name").map(|(_, value)| value).unwrap_or_default()
    }

    /// All but those of applications that are not set.
    pub fn show_all(&self) -> Vec<(Cow<'static, str>, String)> {
        let shown = |known: &Known| {
            let value = self.changed.get(&known.name).map(String::as_str);
            (known.name.clone(), value.unwrap_or(known.default).to_owned())
        };
        let own = |(name, _): &(&Cow<'static, str>, &String)| known::is_applications(name);
        let own = self.changed.iter().filter(own);
        let own = own.map(|(name, value)| (name.clone(), value.clone()));
        all().iter().map(shown).chain(own).collect()
    }

    /// `None`: back to the default.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let known = find(name)?;
        if known.fixed && value.is_some_and(|value| value != known.default) {
            // Any level of isolation may be asked for, and gets the strongest.
            if known.name == "transaction_isolation" {
                return value.map_or(Ok(()), |value| check("default_transaction_isolation", value));
            }
            return Err(Error::new(
                SqlState::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{}\" cannot be changed", known.name),
            ));
        }
        if let Some(value) = value {
            check(&known.name, value)?;
            self.check_room(&known, value)?;
        }
        let value = value.map(|value| canonical(&known.name, value));
        match &value {
            Some(value) => self.changed.insert(known.name.clone(), value.clone()),
            None => self.changed.remove(&known.name),
        };
        self.timeouts = Timeouts::of(&self.changed);
        self.zone = zone_of(&self.changed);
        self.executor = Executor::of(&self.changed);
        if known.reported {
            let value = value.unwrap_or_else(|| known.default.to_owned());
            self.unreported.push((known.name.into_owned(), value));
        }
        Ok(())
    }

    /// What a session sets is kept, so it is bounded.
    fn check_room(&self, known: &Known, value: &str) -> Result<()> {
        let others = self.changed.iter().filter(|(name, _)| **name != known.name);
        let held: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        match held + known.name.len() + value.len() <= BYTES_MAX {
            true => Ok(()),
            false => Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a session's settings can take at most {BYTES_MAX} bytes"),
            )),
        }
    }

    pub fn reset_all(&mut self) {
        for known in all().iter().filter(|known| self.changed.contains_key(&known.name)) {
            if known.reported {
                self.unreported.push((known.name.to_string(), known.default.to_owned()));
            }
        }
        self.changed.clear();
        self.timeouts = Timeouts::default();
        self.zone = Zone::default();
        self.executor = Executor::default();
    }

    /// SET ROLE.
    pub fn role(&self) -> Option<&str> {
        self.changed.get("role").map(String::as_str).filter(|role| *role != "none")
    }

    /// SET SESSION AUTHORIZATION.
    pub fn session_authorization(&self) -> Option<&str> {
        self.changed.get("session_authorization").map(String::as_str)
    }

    /// Where names without a schema are looked for.
    pub fn search_path(&self) -> &str {
        self.changed.get("search_path").map_or(DEFAULT_SEARCH_PATH, String::as_str)
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    pub fn executor(&self) -> Executor {
        self.executor
    }

    /// How long a statement waits for a lock.
    pub fn lock_timeout(&self) -> Option<Duration> {
        Some(self.timeouts.lock).filter(|timeout| !timeout.is_zero())
    }

    pub fn statement_timeout(&self) -> Option<Duration> {
        Some(self.timeouts.statement).filter(|timeout| !timeout.is_zero())
    }

    /// How long a client may leave the session without work, inside a transaction block or not.
    pub fn idle_timeout(&self, in_transaction: bool) -> Option<Duration> {
        let Timeouts { idle_session, idle_in_transaction, .. } = self.timeouts;
        let timeout = if in_transaction { idle_in_transaction } else { idle_session };
        Some(timeout).filter(|timeout| !timeout.is_zero())
    }

    /// How long the rows of a query that runs may wait for their client; `None`: for ever.
    pub fn fetch_timeout(&self) -> Option<Duration> {
        Some(self.timeouts.fetch).filter(|timeout| !timeout.is_zero())
    }

    /// How long a session waits for its node to have what others have; `None`: not at all.
    pub fn catch_up_timeout(&self) -> Option<Duration> {
        Some(self.timeouts.catch_up).filter(|timeout| !timeout.is_zero())
    }

    /// How long a transaction waits to be decided where it may never be; `None`: as long as it
    /// takes.
    pub fn commit_timeout(&self) -> Option<Duration> {
        Some(self.timeouts.commit).filter(|timeout| !timeout.is_zero())
    }

    /// Whether a transaction is answered no sooner than its result is certified. The other two ways
    /// differ in nothing: a lone node's disk is all there is, and a cluster executes nothing that
    /// its orderer does not vouch for.
    pub fn acknowledges_certified(&self) -> bool {
        self.changed.get(ACKNOWLEDGE).is_some_and(|value| value == CERTIFIED)
    }

    /// Whether what is read has to be the newest of all nodes.
    pub fn linearizable_reads(&self) -> bool {
        self.changed.get("tally.linearizable_reads").is_some_and(|value| is_on(value))
    }

    /// What the client says that it has seen.
    pub fn seen_height(&self) -> Height {
        self.changed.get(SEEN_HEIGHT).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub fn report_seen_height(&self) -> bool {
        self.changed.get("tally.report_seen_height").is_some_and(|value| is_on(value))
    }

    /// Whether what a routine names has to be there when the routine is made.
    pub fn check_function_bodies(&self) -> bool {
        self.changed.get("check_function_bodies").is_none_or(|value| is_on(value))
    }

    /// Rows of a COPY that are a transaction of their own; `None`: all are one.
    pub fn copy_rows_per_block(&self) -> Option<usize> {
        let said = self.changed.get(COPY_ROWS_PER_BLOCK)?.parse().ok();
        said.filter(|rows| *rows > 0)
    }

    pub fn take_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.unreported)
    }

    /// The block that statements read; `None`: the newest.
    pub fn as_of_block(&self) -> Option<Height> {
        self.changed.get("tally.as_of_block")?.parse().ok()
    }

    /// The key of the next transaction that is ordered, which it uses up.
    pub fn has_transaction_key(&self) -> bool {
        self.changed.get(TRANSACTION_KEY).is_some_and(|key| !key.is_empty())
    }

    pub fn take_transaction_key(&mut self) -> Option<String> {
        if let Some(pending) = &mut self.pending {
            let both = [&mut pending.after_rollback, &mut pending.after_commit];
            pending.keys_taken = both.map(|values| values.remove(TRANSACTION_KEY));
        }
        self.changed.remove(TRANSACTION_KEY).filter(|key| !key.is_empty())
    }

    /// After a transaction that was not ordered.
    pub fn put_transaction_key_back(&mut self, key: Option<String>) {
        let Some(key) = key else { return };
        self.changed.insert(Cow::Borrowed(TRANSACTION_KEY), key);
        if let Some(pending) = &mut self.pending {
            let [rollback, commit] = std::mem::take(&mut pending.keys_taken);
            put(&mut pending.after_rollback, Cow::Borrowed(TRANSACTION_KEY), rollback);
            put(&mut pending.after_commit, Cow::Borrowed(TRANSACTION_KEY), commit);
        }
    }

    /// Whether transactions are endorsed before they are ordered.
    pub fn endorses(&self) -> bool {
        self.changed.get("tally.endorse").is_some_and(|value| is_on(value))
    }

    pub fn report_snapshot(&self) -> bool {
        self.changed.get("tally.report_snapshot").is_some_and(|value| is_on(value))
    }

    /// Tells the client a value that is not set but found.
    pub fn report(&mut self, name: &str, value: String) {
        self.unreported.push((name.to_owned(), value));
    }

    /// Asked of every statement: no search among all that there are.
    pub fn read_only(&self) -> bool {
        let value = self.changed.get("default_transaction_read_only");
        value.is_some_and(|value| is_on(value))
    }
}

/// As the values say it.
fn zone_of(values: &Values) -> Zone {
    let name = values.get("TimeZone");
    let zone = name.and_then(|name| zones::find(name).ok()).unwrap_or_default();
    let style = values.get("IntervalStyle").and_then(|style| Style::parse(style));
    zone.styled(style.unwrap_or_default())
}

const BOOLEANS: [&str; 8] = [
    "default_transaction_deferrable",
    "check_function_bodies",
    "default_transaction_read_only",
    "tally.endorse",
    "tally.linearizable_reads",
    "tally.report_seen_height",
    "tally.report_snapshot",
    "transaction_deferrable",
];

/// As [`Settings`] keep it.
fn is_on(value: &str) -> bool {
    value == "on"
}

pub(crate) fn boolean(name: &str, value: &str) -> Result<bool> {
    match Value::read_text(&DataType::Bool, value) {
        Ok(Value::Bool(is_on)) => Ok(is_on),
        _ => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("parameter \"{name}\" requires a Boolean value"),
        )
        .with_hint("Use on or off.")),
    }
}

/// Whether a value says what the only one says.
fn is_like(only: &str, value: &str) -> bool {
    let truth = |text: &str| Value::read_text(&DataType::Bool, text).ok();
    let both = truth(only).zip(truth(value));
    only.eq_ignore_ascii_case(value) || both.is_some_and(|(only, value)| only == value)
}

/// A setting's name as it is spelt in answers.
pub(crate) fn spelt(name: &str) -> Option<Cow<'static, str>> {
    find(name).ok().map(|known| known.name)
}

const INTERVAL_STYLES: [&str; 4] = ["sql_standard", "postgres", "postgres_verbose", "iso_8601"];

fn check(name: &str, value: &str) -> Result<()> {
    let invalid = |hint: &str| {
        Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{name}\": \"{value}\""),
        )
        .with_hint(hint))
    };
    let is = |accepted: &[&str]| accepted.iter().any(|a| a.eq_ignore_ascii_case(value));
    match name {
        "client_encoding" if known::encoding(value).is_none() => {
            invalid("Use UTF8, or an encoding of one byte for each character.")
        }
        "TimeZone" => zones::find(value).map(drop),
        "bytea_output" if !is(&["hex"]) => invalid("Use hex."),
        "DateStyle" if !value.to_ascii_uppercase().starts_with("ISO") => invalid("Use ISO, MDY."),
        "IntervalStyle" if !is(&INTERVAL_STYLES) => {
            invalid("Available values: sql_standard, postgres, postgres_verbose, iso_8601.")
        }
        name if known::only(name).is_some_and(|only| !is_like(only, value)) => {
            Err(Error::unsupported(format_args!("the value \"{value}\" of parameter \"{name}\"")))
        }
        name if BOOLEANS.contains(&name) => boolean(name, value).map(drop),
        QUERY_MEMORY | TEMPORARY_MEMORY if memory(value).is_none() => {
            invalid("Use 64kB to 64GB: a number of bytes, or one with kB, MB or GB.")
        }
        name if TIMEOUTS.contains(&name) && duration(value).is_none() => {
            invalid("Use a number of milliseconds, or a number with one of us, ms, s, min, h, d.")
        }
        "default_transaction_isolation" if !is(&LEVELS) => {
            invalid("Use serializable, repeatable read, read committed, or read uncommitted.")
        }
        "tally.as_of_block" if !value.is_empty() && value.parse::<Height>().is_err() => {
            invalid("Use a block's number, or an empty string for the newest block.")
        }
        COPY_ROWS_PER_BLOCK if value.parse::<u32>().is_err() => {
            invalid("Use a number of rows, or 0 for all of them together.")
        }
        ACKNOWLEDGE if !is(&ACKNOWLEDGES) => invalid("Use local, quorum, or certified."),
        EXECUTOR if !is(&["auto", "rows", "columns"]) => invalid("Use auto, rows, or columns."),
        "client_min_messages" if !is(&MESSAGE_LEVELS) => {
            invalid("Use debug5 to debug1, log, notice, warning, or error.")
        }
        SEEN_HEIGHT if value.parse::<Height>().is_err() => invalid("Use a block's number."),
        TRANSACTION_KEY if value.len() > TRANSACTION_KEY_BYTES_MAX => {
            invalid("A key has at most 255 bytes.")
        }
        "standard_conforming_strings" if !is(&["on", "true", "1"]) => {
            invalid("Backslashes have no special meaning here; use E'' strings.")
        }
        _ => Ok(()),
    }
}

const MESSAGE_LEVELS: [&str; 12] = [
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning",
    "error", "fatal",
];

const LEVELS: [&str; 4] = ["serializable", "repeatable read", "read committed", "read uncommitted"];

fn canonical(name: &str, value: &str) -> String {
    match name {
        "client_encoding" => known::encoding(value).unwrap_or("UTF8").into(),
        "DateStyle" => "ISO, MDY".into(),
        "IntervalStyle" => value.to_ascii_lowercase(),
        "application_name" => known::printable(value),
        "TimeZone" => zones::spelled(value),
        name if BOOLEANS.contains(&name) => match boolean(name, value) {
            Ok(true) => "on".into(),
            _ => "off".into(),
        },
        name if TIMEOUTS.contains(&name) => duration(value).map(shown).unwrap_or_default(),
        ACKNOWLEDGE | EXECUTOR => value.to_ascii_lowercase(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case_and_changes_are_reported_once() {
        let mut settings = Settings::default();
        settings.set("Application_Name", Some("psql")).unwrap();
        assert_eq!(settings.show("APPLICATION_NAME").unwrap().1, "psql");
        assert_eq!(settings.take_changes(), [("application_name".into(), "psql".into())]);
        assert!(settings.take_changes().is_empty());
        settings.reset_all();
        assert_eq!(settings.show("application_name").unwrap().1, "");
        settings.set("application_name", Some("a\nb é")).unwrap();
        assert_eq!(settings.show("application_name").unwrap().1, "a?b ??");
        settings.set("application_name", Some(&"x".repeat(70))).unwrap();
        assert_eq!(settings.show("application_name").unwrap().1.len(), 63);
        settings.set("application_name", None).unwrap();
        settings.take_changes();
    }

    #[test]
    fn a_transactions_end_decides_over_its_settings() {
        let shown = |settings: &Settings| settings.show("application_name").unwrap().1;
        let mut settings = Settings::default();
        settings.set("application_name", Some("before")).unwrap();
        settings.set_in_transaction("application_name", Some("kept"), false).unwrap();
        settings.set_in_transaction("application_name", Some("local"), true).unwrap();
        settings.set_in_transaction("statement_timeout", Some("5"), true).unwrap();
        assert_eq!(shown(&settings), "local");
        settings.take_changes();
        settings.transaction_ended(true);
        assert_eq!(shown(&settings), "kept");
        assert_eq!(settings.statement_timeout(), None);
        assert_eq!(settings.take_changes(), [("application_name".into(), "kept".into())]);
        settings.set_in_transaction("application_name", Some("lost"), false).unwrap();
        settings.transaction_ended(false);
        assert_eq!(shown(&settings), "kept");
    }

    #[test]
    fn a_setting_without_effect_is_refused() {
        let mut settings = Settings::default();
        let escape = settings.set("bytea_output", Some("escape")).unwrap_err();
        assert_eq!(escape.code(), SqlState::INVALID_PARAMETER_VALUE);
    }

    #[test]
    fn the_zone_follows_its_setting() {
        let mut settings = Settings::default();
        settings.set("timezone", Some("europe/berlin")).unwrap();
        assert_eq!(settings.show("TimeZone").unwrap().1, "Europe/Berlin");
        assert_eq!(settings.take_changes(), [("TimeZone".into(), "Europe/Berlin".into())]);
        settings.set_in_transaction("timezone", Some("GMT"), true).unwrap();
        assert!(settings.zone().is_utc());
        assert_eq!(settings.show("TimeZone").unwrap().1, "GMT");
        settings.transaction_ended(true);
        assert_eq!(settings.zone().name(), "Europe/Berlin");
        let unknown = settings.set("TimeZone", Some("Mars")).unwrap_err();
        assert_eq!(unknown.code(), SqlState::INVALID_PARAMETER_VALUE);
        settings.reset_all();
        assert!(settings.zone().is_utc());
    }

    #[test]
    fn an_executor_is_one_of_three_and_that_of_a_transaction_ends_with_it() {
        let mut settings = Settings::default();
        assert_eq!(settings.executor(), Executor::Auto);
        settings.set("tally.executor", Some("COLUMNS")).unwrap();
        assert_eq!(settings.show("tally.executor").unwrap().1, "columns");
        assert_eq!(settings.executor(), Executor::Columns);
        let error = settings.set("tally.executor", Some("fast")).unwrap_err();
        assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
        settings.set_in_transaction("tally.executor", Some("rows"), false).unwrap();
        assert_eq!(settings.executor(), Executor::Rows);
        settings.transaction_ended(false);
        assert_eq!(settings.executor(), Executor::Columns);
        settings.reset_all();
        assert_eq!(settings.executor(), Executor::Auto);
    }

    #[test]
    fn timeouts_are_read_and_shown_in_any_unit() {
        let mut settings = Settings::default();
        assert_eq!(settings.statement_timeout(), None);
        let cases = [
            ("1500", "1500ms", 1_500),
            ("2000", "2s", 2_000),
            ("3 min", "3min", 180_000),
            ("1d", "1d", 86_400_000),
            ("700us", "1ms", 1),
            ("0", "0", 0),
        ];
        for (given, shown, ms) in cases {
            settings.set("statement_timeout", Some(given)).unwrap();
            assert_eq!(settings.show("statement_timeout").unwrap().1, shown);
            let timeout = Some(Duration::from_millis(ms)).filter(|t| !t.is_zero());
            assert_eq!(settings.statement_timeout(), timeout);
        }
        assert_eq!(settings.fetch_timeout(), Some(Duration::from_secs(600)));
        settings.set("tally.fetch_timeout", Some("1500")).unwrap();
        assert_eq!(settings.fetch_timeout(), Some(Duration::from_millis(1_500)));
        settings.set("tally.fetch_timeout", Some("0")).unwrap();
        assert_eq!(settings.fetch_timeout(), None);
        for wrong in ["", "-1", "1 week", "soon", "3000000000", "99999999999999999999d"] {
            let error = settings.set("statement_timeout", Some(wrong)).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
        }
        settings.set("statement_timeout", Some("5")).unwrap();
        settings.reset_all();
        assert_eq!(settings.statement_timeout(), None);
    }

    #[test]
    fn patience_depends_on_whether_a_transaction_waits() {
        let mut settings = Settings::default();
        settings.set("idle_session_timeout", Some("1h")).unwrap();
        settings
            .set_in_transaction("idle_in_transaction_session_timeout", Some("5"), true)
            .unwrap();
        assert_eq!(settings.idle_timeout(false), Some(Duration::from_secs(3_600)));
        assert_eq!(settings.idle_timeout(true), Some(Duration::from_millis(5)));
        settings.transaction_ended(true);
        assert_eq!(settings.idle_timeout(true), None);
    }

    #[test]
    fn levels_of_isolation_are_those_of_sql() {
        let mut settings = Settings::default();
        for level in ["read committed", "SERIALIZABLE"] {
            settings.set("default_transaction_isolation", Some(level)).unwrap();
            settings.set("transaction_isolation", Some(level)).unwrap();
        }
        for name in ["default_transaction_isolation", "transaction_isolation"] {
            let error = settings.set(name, Some("chaos")).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
        }
    }

    #[test]
    fn unknown_and_fixed_parameters_are_errors() {
        let mut settings = Settings::default();
        let unknown = settings.set("no_such_thing", Some("1")).unwrap_err();
        assert_eq!(unknown.code(), SqlState::UNDEFINED_OBJECT);
        let fixed = settings.set("server_encoding", Some("LATIN1")).unwrap_err();
        assert_eq!(fixed.code(), SqlState::CANT_CHANGE_RUNTIME_PARAM);
    }
}
