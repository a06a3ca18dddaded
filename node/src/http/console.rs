//! What the web console asks of this node: implements [`web_console::Node`].

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use ledger::hash::to_hex;
use serde_json::{Value as Json, json};
use web_console::SqlAddress;

use super::guard::Guard;
use super::{blocks, changes, conflicts};
use crate::observed::{Observed, Phase};
use crate::{cluster, secrets};

/// The node, as `console` asks it.
pub struct Shown {
    pub observed: Arc<Observed>,
    pub guard: Arc<Guard>,
    pub places: blocks::Places,
}

impl web_console::Node for Shown {
    fn sql_address(&self) -> Option<SqlAddress> {
        self.observed.sql_address.get().cloned()
    }

    fn has_passwords(&self) -> bool {
        self.observed.has_passwords.get().copied().unwrap_or(true)
    }

    fn owner(&self) -> String {
        self.observed.owner.get().cloned().unwrap_or_default()
    }

    fn is_token(&self, shown: &str) -> bool {
        self.guard.is_expected(shown.as_bytes())
    }

    fn random(&self) -> std::io::Result<[u8; 32]> {
        secrets::random()
    }

    fn overview(&self) -> Json {
        let phase = match self.observed.phase() {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Stopping => "stopping",
            Phase::Halted => "reads only",
        };
        let metrics = self.observed.metrics.page().unwrap_or_default();
        let mut overview = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "phase": phase,
            "metrics": web_console::of_open_metrics(&metrics),
        });
        if let Some(engine) = self.observed.engine() {
            let head = engine.head();
            overview["ledger_id"] = json!(to_hex(&engine.ledger_id()));
            overview["height"] = json!(head.height);
            overview["head"] = json!(to_hex(&head.hash));
            overview["protocol"] = json!(engine.protocol());
            overview["hindrance"] = json!(engine.hindrance());
            overview["cluster"] = cluster::shown(engine).map_or(Json::Null, |shown| shown);
        }
        if let Some(standing) = self.observed.metrics.votes.get() {
            let standing = standing();
            overview["votes"] = json!({
                "signed": standing.signed.map(|it| it.0),
                "certified": standing.certified.map(|it| it.0),
                "certificates": standing.certificates,
                "needed": standing.needed,
                "diverged": standing.diverged,
                "members": standing.members,
            });
        }
        overview
    }

    fn blocks(&self, below: Option<u64>, count: usize) -> Result<Json> {
        blocks::list(&self.observed, &self.places, below, count)
    }

    fn block(&self, height: u64, from: usize, count: usize) -> Result<Option<Json>> {
        blocks::one(&self.observed, &self.places, height, from, count)
    }

    fn find(&self, hash: &str) -> Result<Json> {
        blocks::find(&self.observed, &self.places, hash)
    }

    fn search(&self, text: &str, below: Option<u64>) -> Result<Json> {
        blocks::search(&self.observed, &self.places, text, below)
    }

    fn changes(&self, height: u64, places: Range<u32>) -> Result<Option<Json>> {
        changes::of_block(&self.observed, height, &places)
    }

    fn conflicts(&self, blocks: usize) -> Result<Json> {
        conflicts::of_newest(&self.observed, &self.places, blocks)
    }
}
