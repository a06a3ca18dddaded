//! Measurements arranged by protocol and by one parameter that varies, and tables made of them.

use crate::Measurement;
use crate::table::Table;

/// Measurements by protocol and by one thing that varies.
pub(super) struct Grid {
    pub(super) cells: Vec<Measurement>,
    pub(super) place: fn(&Measurement) -> String,
}

impl Grid {
    pub(super) fn get(&self, protocol: &str, place: &str) -> Option<&Measurement> {
        self.cells.iter().find(|m| m.protocol == protocol && (self.place)(m) == place)
    }

    pub(super) fn row(&self, protocol: &str) -> impl Iterator<Item = &Measurement> {
        self.cells.iter().filter(move |m| m.protocol == protocol)
    }

    pub(super) fn places(&self) -> Vec<String> {
        distinct(self.cells.iter().map(self.place))
    }

    pub(super) fn protocols(&self) -> Vec<String> {
        distinct(self.cells.iter().map(|m| m.protocol.clone()))
    }

    /// Protocols downwards, places across.
    pub(super) fn table(&self, head: &str, cell: fn(&Measurement) -> String) -> Table {
        let places = self.places();
        let rows = self.protocols().into_iter().map(|protocol| {
            let cells = places
                .iter()
                .map(|place| self.get(&protocol, place).map_or_else(|| "-".to_owned(), cell));
            let cells: Vec<String> = cells.collect();
            std::iter::once(protocol).chain(cells).collect()
        });
        let rows = rows.collect();
        Table { heads: std::iter::once(head.to_owned()).chain(places).collect(), rows }
    }
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

pub(super) fn theta_of(measurement: &Measurement) -> String {
    measurement.theta.map_or_else(|| "-".to_owned(), |theta| theta.to_string())
}

/// One of the settings that were given; empty if it was not.
pub(super) fn setting(measurement: &Measurement, name: &str) -> String {
    measurement.settings.get(name).cloned().unwrap_or_default()
}
