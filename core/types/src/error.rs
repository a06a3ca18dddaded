//! Errors as PostgreSQL clients read them, and the three ways a transaction can stop.

use std::fmt;

use kit::pool::Exhausted;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

macro_rules! sqlstates {
    ($($name:ident = $code:literal;)*) => {
        impl SqlState { $(pub const $name: SqlState = SqlState(*$code);)* }
    };
}

sqlstates! {
    SUCCESSFUL_COMPLETION = b"00000";
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007";
    PROTOCOL_VIOLATION = b"08P01";
    FEATURE_NOT_SUPPORTED = b"0A000";
    CARDINALITY_VIOLATION = b"21000";
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    INVALID_DATETIME_FORMAT = b"22007";
    NULL_VALUE_NOT_ALLOWED = b"22004";
    DATETIME_FIELD_OVERFLOW = b"22008";
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = b"22009";
    DIVISION_BY_ZERO = b"22012";
    ARRAY_SUBSCRIPT_ERROR = b"2202E";
    INTERVAL_FIELD_OVERFLOW = b"22015";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    INVALID_PARAMETER_VALUE = b"22023";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = b"2200H";
    INVALID_TEXT_REPRESENTATION = b"22P02";
    INVALID_BINARY_REPRESENTATION = b"22P03";
    BAD_COPY_FILE_FORMAT = b"22P04";
    UNTRANSLATABLE_CHARACTER = b"22P05";
    NOT_NULL_VIOLATION = b"23502";
    FOREIGN_KEY_VIOLATION = b"23503";
    UNIQUE_VIOLATION = b"23505";
    CHECK_VIOLATION = b"23514";
    ACTIVE_SQL_TRANSACTION = b"25001";
    READ_ONLY_SQL_TRANSACTION = b"25006";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    INVALID_SQL_STATEMENT_NAME = b"26000";
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    INVALID_PASSWORD = b"28P01";
    INVALID_CURSOR_NAME = b"34000";
    SERIALIZATION_FAILURE = b"40001";
    DEADLOCK_DETECTED = b"40P01";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    INVALID_CATALOG_NAME = b"3D000";
    INVALID_SCHEMA_NAME = b"3F000";
    GENERATED_ALWAYS = b"428C9";
    SYNTAX_ERROR = b"42601";
    INSUFFICIENT_PRIVILEGE = b"42501";
    DUPLICATE_COLUMN = b"42701";
    AMBIGUOUS_COLUMN = b"42702";
    UNDEFINED_COLUMN = b"42703";
    INVALID_NAME = b"42602";
    UNDEFINED_OBJECT = b"42704";
    DUPLICATE_OBJECT = b"42710";
    GROUPING_ERROR = b"42803";
    DATATYPE_MISMATCH = b"42804";
    WRONG_OBJECT_TYPE = b"42809";
    INVALID_FOREIGN_KEY = b"42830";
    CANNOT_COERCE = b"42846";
    UNDEFINED_FUNCTION = b"42883";
    DUPLICATE_FUNCTION = b"42723";
    UNDEFINED_TABLE = b"42P01";
    UNDEFINED_PARAMETER = b"42P02";
    DUPLICATE_CURSOR = b"42P03";
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    DUPLICATE_TABLE = b"42P07";
    INVALID_COLUMN_REFERENCE = b"42P10";
    INVALID_CURSOR_DEFINITION = b"42P11";
    INDETERMINATE_DATATYPE = b"42P18";
    INVALID_OBJECT_DEFINITION = b"42P17";
    INVALID_TABLE_DEFINITION = b"42P16";
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    LOCK_NOT_AVAILABLE = b"55P03";
    DISK_FULL = b"53100";
    OUT_OF_MEMORY = b"53200";
    TOO_MANY_CONNECTIONS = b"53300";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    OBJECT_IN_USE = b"55006";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CANNOT_CONNECT_NOW = b"57P03";
    SNAPSHOT_TOO_OLD = b"72000";
    IO_ERROR = b"58030";
    NO_DATA_FOUND = b"P0002";
    RAISE_EXCEPTION = b"P0001";
    TOO_MANY_ROWS = b"P0003";
    INTERNAL_ERROR = b"XX000";
    DATA_CORRUPTED = b"XX001";
    BLOCK_SKIPPED = b"XXT01";
}

impl SqlState {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// A SQLSTATE named in SQL text, as in `RAISE … USING ERRCODE = '22012'`.
    pub fn parse(text: &str) -> Option<SqlState> {
        let bytes: [u8; 5] = text.as_bytes().try_into().ok()?;
        let valid = bytes.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        valid.then_some(SqlState(bytes))
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a client is told: never a panic, always a SQLSTATE. Boxed, so that `Result` stays small.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorFields>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorFields {
    pub code: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Of the table that the error is about, where that is another than `public`. No ledger
    /// records it.
    pub schema: Option<String>,
    /// Table, column and constraint that the error is about, where one is.
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
    /// 1-based character offset in the statement's text.
    pub position: Option<u32>,
    /// The function of PostgreSQL's source that reports this: drivers know some errors by it alone.
    /// No ledger records it.
    pub routine: Option<&'static str>,
}

/// Bytes of each text of an error that a ledger records.
pub const TEXT_BYTES_MAX: usize = 4096;

impl Error {
    pub fn new(code: SqlState, message: impl Into<String>) -> Self {
        Error(Box::new(ErrorFields {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            position: None,
            routine: None,
        }))
    }

    /// `0A000`, naming what is not supported.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// `40001`: another transaction was first; the same one may be tried again.
    pub fn serialization(detail: impl Into<String>) -> Self {
        Error::new(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access due to concurrent update",
        )
        .with_detail(detail)
        .with_hint("The transaction might succeed if retried.")
    }

    pub fn with_code(mut self, code: SqlState) -> Self {
        self.0.code = code;
        self
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self
    }

    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.0.table = Some(table.into());
        self
    }

    pub fn with_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    pub fn with_position(mut self, position: u32) -> Self {
        self.0.position = Some(position);
        self
    }

    pub fn with_routine(mut self, routine: &'static str) -> Self {
        self.0.routine = Some(routine);
        self
    }

    /// 0A000: a prepared statement's rows are others than the client was told. Drivers that read
    /// the routine prepare the statement again by themselves.
    pub fn changed_result_type(hint: &str) -> Self {
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
            .with_hint(hint)
            .with_routine("RevalidateCachedQuery")
    }

    /// With every text cut to [`TEXT_BYTES_MAX`]: a program may raise what it likes, but a block
    /// has to hold it.
    pub fn cut(mut self) -> Self {
        cut(&mut self.0.message);
        let ErrorFields { detail, hint, table, column, constraint, .. } = &mut *self.0;
        [detail, hint, table, column, constraint].into_iter().flatten().for_each(cut);
        self
    }

    pub fn code(&self) -> SqlState {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn fields(&self) -> &ErrorFields {
        &self.0
    }
}

/// The setting that bounds what all sessions hold together.
pub const SESSION_MEMORY: &str = "session_memory_bytes_max";

/// 53200: what sessions hold is all that they may.
impl From<Exhausted> for Error {
    fn from(exhausted: Exhausted) -> Self {
        let Exhausted { wanted_bytes, leased_bytes, bytes_max } = exhausted;
        Error::new(SqlState::OUT_OF_MEMORY, "the sessions of this node hold too much memory")
            .with_detail(format!(
                "They hold {leased_bytes} bytes of the {bytes_max} that {SESSION_MEMORY} allows; \
                 this one wants {wanted_bytes} more."
            ))
            .with_hint(format!(
                "Read results to their end, close portals and statements, ask for fewer rows or \
                 shorter values at once, or raise {SESSION_MEMORY}."
            ))
    }
}

impl From<ErrorFields> for Error {
    fn from(fields: ErrorFields) -> Self {
        Error(Box::new(fields))
    }
}

fn cut(text: &mut String) {
    const SIGN: &str = "…";
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - SIGN.len()));
        text.push_str(SIGN);
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Why a transaction stopped, sorted by what must happen next.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// Deterministic: every replica comes to the same answer, and the block records it.
    Rejected(Error),
    /// A conflict; the client may try the same transaction again (`40001`).
    Retry(Error),
    /// This replica is sick. It must stop before it diverges.
    Halt(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        if error.code() == SqlState::SERIALIZATION_FAILURE {
            Stop::Retry(error)
        } else {
            Stop::Rejected(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_short_ones_are_not() {
        for filler in ["a", "é", "…", "🦀"] {
            for prefix in ["", "1", "12", "123"] {
                let long = prefix.to_owned() + &filler.repeat(TEXT_BYTES_MAX + 1);
                let error =
                    Error::new(SqlState::RAISE_EXCEPTION, long.clone()).with_hint(long).cut();
                for text in [error.message(), error.fields().hint.as_deref().unwrap()] {
                    assert!((TEXT_BYTES_MAX - 3..=TEXT_BYTES_MAX).contains(&text.len()));
                    assert!(text.starts_with(prefix) && text.ends_with('…'));
                }
            }
        }
        let whole = Error::new(SqlState::RAISE_EXCEPTION, "x".repeat(TEXT_BYTES_MAX));
        assert_eq!(whole.clone().cut(), whole);
    }
}
