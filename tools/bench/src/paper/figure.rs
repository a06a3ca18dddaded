//! [`Figure`]: a figure or table of a paper, with the function that measures it.

use anyhow::Result;

use super::findings::Findings;
use super::lab::{Effort, Lab};
use crate::Report;
use crate::named;

/// A figure or table of a paper.
pub struct Figure {
    pub name: &'static str,
    pub about: &'static str,
    /// Where the paper has it.
    pub source: &'static str,
    pub(super) protocols: &'static [&'static str],
    pub(super) find: fn(&mut Lab<'_>) -> Result<Findings>,
}

impl Figure {
    /// What its name begins with.
    pub fn group(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(group, _)| group)
    }

    /// Those of its protocols that this program does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.protocols.iter().filter(|name| named::protocol(name).is_err());
        missing.copied().collect()
    }

    /// Measure it, with the protocols that there are. `None`: there are none.
    pub fn find(&self, effort: Effort, report: Report<'_>) -> Result<Option<Findings>> {
        let present = self.protocols.iter().filter(|name| named::protocol(name).is_ok());
        let protocols: Vec<String> = present.map(|&name| name.to_owned()).collect();
        if protocols.is_empty() {
            return Ok(None);
        }
        let mut findings = (self.find)(&mut Lab { effort, protocols, report })?;
        findings.refuse_misnamed(self.subject());
        Ok(Some(findings))
    }

    /// The protocol that it is about.
    fn subject(&self) -> &'static str {
        match self.group() {
            "fabric" => "fabric_pp",
            group => group,
        }
    }
}
