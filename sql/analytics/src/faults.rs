//! DataFusion's errors as PostgreSQL's clients read them.
//!
//! What this crate raises itself travels through DataFusion whole ([`raise`]) and comes out as it
//! went in. Of DataFusion's own errors some have a kind; the rest only has words.

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use types::{Error, SqlState};

/// An error of ours on its way through DataFusion.
pub(crate) fn raise(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The row executor computes with any number of digits, and answers in its place where it can.
pub(crate) fn too_long() -> Error {
    Error::unsupported("numbers of more than 28 digits in this query")
}

/// What a client is told.
pub(crate) fn in_sql(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => external(inner),
        DataFusionError::ArrowError(inner, _) => arrow(*inner),
        DataFusionError::SchemaError(inner, _) => schema(*inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            in_sql(*inner)
        }
        DataFusionError::Shared(inner) => shared(&inner),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => in_sql(first),
            None => Error::new(SqlState::INTERNAL_ERROR, "an analytical query failed"),
        },
        DataFusionError::NotImplemented(what) => {
            Error::unsupported("this query").with_detail(first_line(&what))
        }
        DataFusionError::Plan(message) => planning(&message),
        DataFusionError::Execution(message) => execution(&message),
        DataFusionError::ResourcesExhausted(what) => out_of_memory(&what),
        DataFusionError::IoError(error) => {
            Error::new(SqlState::IO_ERROR, "cannot spill").with_detail(error.to_string())
        }
        other => internal(&other.to_string()),
    }
}

fn external(inner: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let inner = match inner.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(inner) => inner,
    };
    let inner = match inner.downcast::<DataFusionError>() {
        Ok(inner) => return in_sql(*inner),
        Err(inner) => inner,
    };
    match inner.downcast::<ArrowError>() {
        Ok(inner) => arrow(*inner),
        Err(inner) => internal(&inner.to_string()),
    }
}

/// Several operators wait for the same part of a plan, and each gets its error.
fn shared(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => ours.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => shared(inner),
                None => internal(&inner.to_string()),
            },
        },
        DataFusionError::ArrowError(inner, _) => match &**inner {
            ArrowError::DivideByZero => arrow(ArrowError::DivideByZero),
            ArrowError::ArithmeticOverflow(what) => {
                arrow(ArrowError::ArithmeticOverflow(what.clone()))
            }
            ArrowError::CastError(what) => arrow(ArrowError::CastError(what.clone())),
            ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => shared(inner),
                None => internal(&inner.to_string()),
            },
            other => internal(&other.to_string()),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => shared(inner),
        DataFusionError::Shared(inner) => shared(inner),
        DataFusionError::ResourcesExhausted(what) => out_of_memory(what),
        DataFusionError::Execution(message) => execution(message),
        other => internal(&other.to_string()),
    }
}

fn arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(what) => {
            Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range").with_detail(what)
        }
        ArrowError::CastError(what) | ArrowError::ParseError(what) => cast(&what),
        ArrowError::ExternalError(inner) => external(inner),
        ArrowError::InvalidArgumentError(what)
            if what.contains("is too large to store in a Decimal") =>
        {
            Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                .with_detail(what)
        }
        other => internal(&other.to_string()),
    }
}

fn cast(what: &str) -> Error {
    let out_of_range = ["Can't cast value", "out of range", "overflow", "too large"];
    if out_of_range.iter().any(|words| what.contains(words)) {
        return Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range")
            .with_detail(what);
    }
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax").with_detail(what)
}

fn column_name(column: &Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), column.name),
        None => format!("\"{}\"", column.name),
    }
}

fn schema(error: SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let known = |relation| {
                valid_fields.iter().any(|field| field.relation.as_ref() == Some(relation))
            };
            match &field.relation {
                Some(relation) if !known(relation) => Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("missing FROM-clause entry for table \"{}\"", relation.table()),
                ),
                _ => Error::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column {} does not exist", column_name(&field)),
                ),
            }
        }
        SchemaError::AmbiguousReference { field } => Error::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => Error::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column name \"{name}\" appears more than once"),
        )
        .with_hint("Give the columns of the subquery different names."),
    }
}

/// Errors of planning that have words alone.
fn planning(message: &str) -> Error {
    let message = first_line(message);
    let has = |words: &str| message.contains(words);
    let code = if has("must appear in the GROUP BY clause")
        || has("must be part of GROUP BY")
        || has("could not be resolved from available columns")
        || has("Aggregate functions are not allowed")
        || has("HAVING clause references non-aggregate values")
    {
        SqlState::GROUPING_ERROR
    } else if has("Invalid function")
        || has("does not support zero arguments")
        || has("No function matches")
        || has("Failed to coerce arguments")
        || has("Cannot infer common argument type")
        || has("There isn't a common type")
        || has("Function '")
    {
        SqlState::UNDEFINED_FUNCTION
    } else if has("The window ") && has(" is not defined") {
        SqlState::UNDEFINED_OBJECT
    } else if has("Cannot coerce") || has("Cannot automatically convert") || has("type_coercion") {
        SqlState::DATATYPE_MISMATCH
    } else if has("uery returned more than one row") {
        SqlState::CARDINALITY_VIOLATION
    } else if has("is not in select list") || has("Cannot find column with position") {
        SqlState::INVALID_COLUMN_REFERENCE
    } else {
        SqlState::SYNTAX_ERROR
    };
    Error::new(code, message)
}

fn execution(message: &str) -> Error {
    if message.contains("more than one row") {
        return Error::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    }
    if ["overflow", "out of range"].iter().any(|words| message.to_lowercase().contains(words)) {
        return Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, first_line(message));
    }
    if message.contains("ivide by zero") || message.contains("ivision by zero") {
        return Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    }
    Error::new(SqlState::INVALID_PARAMETER_VALUE, first_line(message))
}

fn out_of_memory(what: &str) -> Error {
    let full_disk = what.contains("disk") || what.contains("No space left");
    if full_disk {
        return Error::new(SqlState::DISK_FULL, "no room to spill to")
            .with_detail(first_line(what))
            .with_hint("Make room in `analytics_spill_folder`, or have the query hold less.");
    }
    Error::new(SqlState::OUT_OF_MEMORY, "out of memory for analytical queries")
        .with_detail(first_line(what))
        .with_hint(
            "Raise `analytics_memory_bytes_max`, or give sorts and joins room on disk with \
             `analytics_spill_folder`.",
        )
}

fn internal(what: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "an analytical query failed").with_detail(first_line(what))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
