//! Workloads as the bench meets them: by name and settings, and their conditions on a store.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::str::FromStr;

use storage::Store;
use types::{Error, Result, SqlState, Value};
use workloads::{Entry, Settings, State};

/// A workload and its settings, as `name` or `name:setting=value:…`. A plan sets the skew.
#[derive(Clone)]
pub struct Workload {
    entry: &'static Entry,
    settings: Settings,
}

impl Workload {
    pub fn named(name: &str) -> Result<Workload> {
        let entry = workloads::by_name(name).ok_or_else(|| {
            let names: Vec<_> = workloads::ALL.iter().map(|entry| entry.name).collect();
            Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unknown workload \"{name}\""))
                .with_hint(format!("Workloads are: {}.", names.join(", ")))
        })?;
        Ok(Workload::of(entry))
    }

    /// One that need not be on the list.
    pub fn of(entry: &'static Entry) -> Workload {
        Workload { entry, settings: Settings::default() }
    }

    #[must_use]
    pub fn with(mut self, setting: &str, value: impl fmt::Display) -> Workload {
        self.settings.set(setting, value);
        self
    }

    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter()
    }

    /// The value of a setting, given or default; `None` if the workload has no such setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let given = self.settings.iter().find(|(given, _)| *given == name);
        let known = self.entry.settings.iter().find(|known| known.name == name);
        given.map(|(_, value)| value).or(known.map(|known| known.default))
    }

    /// Whether the popularity of its keys can be set.
    pub fn has_theta(&self) -> bool {
        self.entry.has("theta")
    }

    pub fn make(&self, theta: Option<f64>) -> Result<Box<dyn workloads::Workload>> {
        match theta {
            Some(theta) => self.entry.make(&self.settings.clone().with("theta", theta)),
            None => self.entry.make(&self.settings),
        }
    }
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        (self.name(), &self.settings) == (other.name(), &other.settings)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, ":{name}={value}"))
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let with_hint = |error: Error| match &error.fields().hint {
            Some(hint) => format!("{}. {hint}", error.message()),
            None => error.message().to_owned(),
        };
        let mut workload = Workload::named(name).map_err(with_hint)?;
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            workload = workload.with(name, value);
        }
        workload.make(None).map_err(with_hint)?;
        Ok(workload)
    }
}

/// Where the programs of a run come from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Programs {
    /// Compiled from the workload's SQL, as a client's calls are.
    #[default]
    Sql,
    /// Made by the IR's builder.
    Ir,
}

impl FromStr for Programs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sql" => Ok(Programs::Sql),
            "ir" => Ok(Programs::Ir),
            _ => Err("programs come from sql or ir".to_owned()),
        }
    }
}

/// The newest state of a store, for [`workloads::Workload::check`].
pub struct Newest<'a>(pub &'a Store);

impl State for Newest<'_> {
    fn each_row(
        &self,
        table: &str,
        columns: &[&str],
        visit: &mut dyn FnMut(&[Value]),
    ) -> Result<()> {
        let unknown = |what: &str| Error::new(SqlState::UNDEFINED_TABLE, format!("no {what}"));
        let tables = self.0.tables();
        let named = tables.iter().find(|known| known.schema().name == table);
        let table = named.ok_or_else(|| unknown(table))?;
        let columns =
            columns.iter().map(|name| table.schema().column(name).ok_or_else(|| unknown(name)));
        let columns: Vec<_> = columns.collect::<Result<_>>()?;
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        table.scan(0, low, high, false, storage::LATEST, &columns, &mut |_, _, row| {
            visit(row);
            ControlFlow::Continue(())
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_named_with_its_settings() {
        let workload: Workload = "ycsb:rows=50:operations=4".parse().unwrap();
        assert_eq!(workload.setting("rows"), Some("50"));
        assert_eq!(workload.setting("columns"), Some("10"));
        assert_eq!(workload.setting("warehouses"), None);
        assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
        for wrong in ["nonesuch", "ycsb:no_such=1", "ycsb:rows=none"] {
            assert!(wrong.parse::<Workload>().is_err(), "{wrong}");
        }
    }
}
