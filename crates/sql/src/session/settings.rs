//! A session's settings: what SET, SHOW and drivers' startup parameters speak of.

use std::collections::BTreeMap;

use types::{Error, Result, SqlState};

/// A setting that exists: its name as SHOW spells it and its default. Names compare without case.
struct Known {
    name: &'static str,
    default: &'static str,
    /// Clients are told when it changes (`ParameterStatus`).
    reported: bool,
    /// Changing it would not do what it says.
    fixed: bool,
}

const fn known(name: &'static str, default: &'static str) -> Known {
    Known { name, default, reported: false, fixed: false }
}

const fn reported(name: &'static str, default: &'static str) -> Known {
    Known { name, default, reported: true, fixed: false }
}

const fn fixed(name: &'static str, default: &'static str) -> Known {
    Known { name, default, reported: false, fixed: true }
}

/// Every level of isolation runs as SERIALIZABLE, which is more than any of them promises.
static KNOWN: &[Known] = &[
    reported("application_name", ""),
    known("bytea_output", "hex"),
    reported("client_encoding", "UTF8"),
    known("client_min_messages", "notice"),
    reported("DateStyle", "ISO, MDY"),
    known("default_transaction_deferrable", "off"),
    known("default_transaction_isolation", "serializable"),
    reported("default_transaction_read_only", "off"),
    known("extra_float_digits", "1"),
    known("idle_in_transaction_session_timeout", "0"),
    fixed("integer_datetimes", "on"),
    reported("IntervalStyle", "postgres"),
    known("jit", "off"),
    known("lock_timeout", "0"),
    fixed("max_identifier_length", "63"),
    known("row_security", "on"),
    known("search_path", "\"$user\", public"),
    fixed("server_encoding", "UTF8"),
    fixed("server_version", crate::session::SERVER_VERSION),
    fixed("server_version_num", crate::session::SERVER_VERSION_NUM),
    known("standard_conforming_strings", "on"),
    known("statement_timeout", "0"),
    known("synchronous_commit", "on"),
    reported("TimeZone", "UTC"),
    fixed("transaction_isolation", "serializable"),
    known("transaction_read_only", "off"),
];

#[derive(Clone, Debug, Default)]
pub struct Settings {
    changed: BTreeMap<&'static str, String>,
    /// Told to the client with the next answer.
    unreported: Vec<(String, String)>,
}

impl Settings {
    pub fn show(&self, name: &str) -> Result<(&'static str, String)> {
        let known = find(name)?;
        let value = self.changed.get(known.name).cloned();
        Ok((known.name, value.unwrap_or_else(|| known.default.to_owned())))
    }

    pub fn show_all(&self) -> Vec<(&'static str, String)> {
        KNOWN
            .iter()
            .map(|known| {
                let value = self.changed.get(known.name).map(String::as_str);
                (known.name, value.unwrap_or(known.default).to_owned())
            })
            .collect()
    }

    /// `None`: back to the default.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let known = find(name)?;
        if known.fixed && value.is_some_and(|value| value != known.default) {
            // Any level of isolation may be asked for, and gets the strongest.
            if known.name == "transaction_isolation" {
                return Ok(());
            }
            return Err(Error::new(
                SqlState::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{}\" cannot be changed", known.name),
            ));
        }
        if let Some(value) = value {
            check(known.name, value)?;
        }
        let value = value.map(|value| canonical(known.name, value));
        match &value {
            Some(value) => self.changed.insert(known.name, value.clone()),
            None => self.changed.remove(known.name),
        };
        if known.reported {
            let value = value.unwrap_or_else(|| known.default.to_owned());
            self.unreported.push((known.name.to_owned(), value));
        }
        Ok(())
    }

    pub fn reset_all(&mut self) {
        for known in KNOWN.iter().filter(|known| self.changed.contains_key(known.name)) {
            if known.reported {
                self.unreported.push((known.name.to_owned(), known.default.to_owned()));
            }
        }
        self.changed.clear();
    }

    pub fn take_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.unreported)
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.show(name).is_ok_and(|(_, value)| matches!(value.as_str(), "on" | "true" | "1"))
    }
}

fn find(name: &str) -> Result<&'static Known> {
    let spelt = match name.to_ascii_lowercase().as_str() {
        "names" => "client_encoding".to_owned(),
        "time zone" => "timezone".to_owned(),
        "session characteristics" => "default_transaction_isolation".to_owned(),
        other => other.to_owned(),
    };
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(&spelt)).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )
        .with_hint("SHOW ALL lists the parameters that there are.")
    })
}

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
        "client_encoding" if !is(&["UTF8", "UTF-8", "UNICODE"]) => invalid("Use UTF8."),
        "DateStyle" if !value.to_ascii_uppercase().starts_with("ISO") => invalid("Use ISO, MDY."),
        "standard_conforming_strings" if !is(&["on", "true", "1"]) => {
            invalid("Backslashes have no special meaning here; use E'' strings.")
        }
        _ => Ok(()),
    }
}

fn canonical(name: &str, value: &str) -> String {
    match name {
        "client_encoding" => "UTF8".into(),
        "DateStyle" => "ISO, MDY".into(),
        // Timestamps are rendered in UTC whatever a client asks; it is told so.
        "TimeZone" => "UTC".into(),
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
