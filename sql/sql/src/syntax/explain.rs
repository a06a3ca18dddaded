//! The options of EXPLAIN.

use sqlparser::ast;
use types::{Error, Result, SqlState};

/// What EXPLAIN is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExplainOptions {
    /// The statement is to run.
    pub analyze: bool,
    pub format: ExplainFormat,
    /// Whether ANALYZE tells the time.
    pub without_time: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ExplainFormat {
    #[default]
    Text,
    Json,
    Xml,
    Yaml,
}

/// Options that say whether, and nothing else. Those after the first four need ANALYZE.
const SWITCHES: [&str; 11] = [
    "timing",
    "wal",
    "serialize",
    "analyze",
    "verbose",
    "costs",
    "settings",
    "generic_plan",
    "buffers",
    "summary",
    "memory",
];

const OF_RUNS: usize = 3;

impl ExplainOptions {
    /// # Errors
    /// Options that PostgreSQL does not know, or not together.
    pub(crate) fn from_ast(
        analyze: bool,
        format: Option<&ast::AnalyzeFormatKind>,
        options: &[ast::UtilityOption],
    ) -> Result<ExplainOptions> {
        let mut read = ExplainOptions { analyze, ..ExplainOptions::default() };
        let mut timing = None;
        let mut of_runs = None;
        for option in options {
            let name = option.name.value.to_ascii_lowercase();
            let value = option.arg.as_ref().map(text_of);
            match (name.as_str(), SWITCHES.iter().position(|switch| *switch == name)) {
                ("format", _) => read.format = format_of(value.as_deref())?,
                (_, Some(place)) => {
                    let on = is_on(&name, value.as_deref())?;
                    match name.as_str() {
                        "analyze" => read.analyze = on,
                        "timing" => timing = Some(on),
                        _ => {}
                    }
                    if place < OF_RUNS && on {
                        of_runs = Some(name.to_uppercase());
                    }
                }
                _ => {
                    let what = format!("unrecognized EXPLAIN option \"{name}\"");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, what));
                }
            }
        }
        match of_runs {
            Some(name) if !read.analyze => {
                let what = format!("EXPLAIN option {name} requires ANALYZE");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
            _ => {}
        }
        if let Some(kind) = format {
            let kind = kind.to_string();
            let name = kind.rsplit([' ', '=']).next().map(str::to_ascii_lowercase);
            read.format = format_of(name.as_deref())?;
        }
        read.without_time = timing == Some(false);
        Ok(read)
    }
}

fn text_of(argument: &ast::Expr) -> String {
    argument.to_string().trim_matches(['\'', '"']).to_ascii_lowercase()
}

fn is_on(name: &str, value: Option<&str>) -> Result<bool> {
    match value {
        None | Some("on" | "true" | "1") => Ok(true),
        Some("off" | "false" | "0" | "none") => Ok(false),
        Some("text" | "binary") if name == "serialize" => Ok(true),
        Some(_) => {
            Err(Error::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value")))
        }
    }
}

fn format_of(name: Option<&str>) -> Result<ExplainFormat> {
    Ok(match name {
        Some("text") => ExplainFormat::Text,
        Some("json") => ExplainFormat::Json,
        Some("xml") => ExplainFormat::Xml,
        Some("yaml") => ExplainFormat::Yaml,
        other => {
            let other = other.unwrap_or_default();
            let what = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
    })
}
