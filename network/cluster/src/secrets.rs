//! A member's private part of its data folder: its number and its keys.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::own::Own;
use crate::plan::Plan;

/// Which member it is, and its keys.
pub struct Secrets {
    pub id: u64,
    pub own: Arc<Own>,
}

impl Plan {
    /// Of a node's data folder; `None`: it is in no cluster.
    pub fn read(data: &Path) -> io::Result<Option<(Plan, Secrets)>> {
        let Some((plan, id)) = Plan::read_of_node(data)? else { return Ok(None) };
        let certificate = plan.member(id).map_or("", |member| &member.certificate);
        let own = Arc::new(Own::read(data, certificate)?);
        Ok(Some((plan, Secrets { id, own })))
    }
}
