//! Plans that were made, for queries that come again.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use types::DataType;

use crate::plan::Plan;

/// A plan's text with its tables, functions and types comes to some ten kilobytes.
const PLANS_MAX: usize = 256;

/// A plan is some times as large as its text, and long ones are seldom repeated.
const TEXT_BYTES_MAX: usize = 4096;

/// What a plan depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) text: String,
    /// Of the schema.
    pub(crate) version: u64,
    pub(crate) agreeing: bool,
    pub(crate) parameter_types: Vec<Option<DataType>>,
}

/// The plans that were asked for last.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: FxHashMap<Asked, Kept>,
    /// Counts what was asked.
    asked: u64,
}

struct Kept {
    plan: Arc<Plan>,
    /// Which request came for it last.
    last: u64,
}

impl PlanCache {
    pub(crate) fn find(&mut self, asked: &Asked) -> Option<Arc<Plan>> {
        self.asked += 1;
        let kept = self.plans.get_mut(asked)?;
        kept.last = self.asked;
        Some(kept.plan.clone())
    }

    /// In the place of the one that was not asked for the longest. A search, but beside planning it
    /// costs nothing.
    pub(crate) fn keep(&mut self, asked: Asked, plan: Arc<Plan>) {
        if asked.text.len() > TEXT_BYTES_MAX {
            return;
        }
        if self.plans.len() >= PLANS_MAX {
            let oldest = self.plans.iter().min_by_key(|(_, kept)| kept.last);
            if let Some(oldest) = oldest.map(|(asked, _)| asked.clone()) {
                self.plans.remove(&oldest);
            }
        }
        self.plans.insert(asked, Kept { plan, last: self.asked });
    }
}
