//! Protocols of studies: what can be named beside the product's own, in programs that have it.
//!
//! A study registers itself when its program begins, since nothing below may know it. From then on
//! its protocols are named, chosen and measured as any other.

use std::sync::{Arc, PoisonError, RwLock};

use types::Error;

use crate::{Protocol, ProtocolInfo};

/// What a study brings along.
pub struct Study {
    /// One for each name that a text can begin with, before its options.
    pub infos: &'static [&'static ProtocolInfo],
    /// The protocol that a text names whose beginning is one of these.
    pub by_name: fn(&str) -> Result<Arc<dyn Protocol>, Error>,
}

static REGISTERED: RwLock<Vec<&'static Study>> = RwLock::new(Vec::new());

/// From now on its protocols can be named. A second time changes nothing.
pub fn register(study: &'static Study) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().any(|other| std::ptr::eq(*other, study)) {
        return;
    }
    let names = |study: &&'static Study| study.infos.iter().map(|info| info.name);
    for name in names(&study) {
        assert!(!registered.iter().flat_map(names).any(|other| other == name), "{name} is named");
    }
    registered.push(study);
}

/// Those that were registered, in that order.
pub fn registered() -> Vec<&'static Study> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The protocol of a study that a text such as `name:option=value` names; `None`: of none.
pub fn by_name(text: &str) -> Option<Result<Arc<dyn Protocol>, Error>> {
    let name = text.split_once(':').map_or(text, |(name, _)| name);
    let has_it = |study: &&Study| study.infos.iter().any(|info| info.name == name);
    let study = registered().into_iter().find(has_it)?;
    let made = (study.by_name)(text);
    if let Ok(protocol) = &made {
        assert_eq!(protocol.info().name, name, "a study makes what it is asked for");
    }
    Some(made)
}
