//! The strategies: one folder each, one line in [`ALL`].
//!
//! A protocol is named as `name` or `name:option=value:…`; its `info` lists the options.
//!
//! Absence: no SQL, no ledger, and no protocol uses another; what they share lives in
//! `concurrency`, or, where transactions run as they arrive, in [`online`].
//!
//! A study's are named in the same way, in programs where it has registered itself
//! ([`concurrency::studies`]). They are not in [`ALL`], which is what the product has.

use std::sync::Arc;

use concurrency::{OptionValues, Options, Protocol, ProtocolInfo, Watch, studies};
use types::{Error, SqlState};

pub mod aria;
pub mod block_stm;
pub mod bohm;
pub mod calvin;
pub mod conflict_graph;
mod entry;
pub mod fabric;
pub mod fabric_pp;
pub mod harmony;
pub mod online;
pub mod quecc;
pub mod rbc;
pub mod serial;

pub use entry::Entry;

/// Every protocol of the product.
pub static ALL: &[Entry] = &[
    serial::ENTRY,
    calvin::ENTRY,
    bohm::ENTRY,
    conflict_graph::ENTRY,
    aria::ENTRY,
    rbc::ENTRY,
    harmony::ENTRY,
    quecc::ENTRY,
    fabric::ENTRY,
    fabric_pp::ENTRY,
    block_stm::ENTRY,
    online::two_phase_locking::ENTRY,
    online::occ::ENTRY,
    online::silo::ENTRY,
    online::tictoc::ENTRY,
    online::hybrid::ENTRY,
    online::healing::ENTRY,
    online::partitioned::ENTRY,
];

/// What `ordered` and `online` stand for where a protocol is chosen: the best of each family, by
/// measurement (docs/transactions.md).
const FAMILIES: [(&str, &str); 2] = [("ordered", "harmony"), ("online", "silo")];

/// The name that goes into the ledger, which must say the same for ever: a family's is replaced by
/// its protocol's, options stay.
pub fn recorded_name(text: &str) -> String {
    let (name, options) = text.split_at(text.find(':').unwrap_or(text.len()));
    let name = FAMILIES.iter().find(|(family, _)| *family == name).map_or(name, |(_, of)| of);
    format!("{name}{options}")
}

/// The infos of all that can be named: of [`ALL`], and of the studies that this program has.
pub fn infos() -> impl Iterator<Item = &'static ProtocolInfo> {
    let studied = studies::registered().into_iter().flat_map(|study| study.infos);
    ALL.iter().map(|entry| entry.info).chain(studied.copied())
}

/// Names of every protocol as it is by default and with any one choice made otherwise: what a
/// test should run to have seen them all.
pub fn variants() -> Vec<String> {
    let mut names = Vec::new();
    for ProtocolInfo { name, options, .. } in ALL.iter().map(|entry| entry.info) {
        names.push((*name).to_owned());
        for option in *options {
            if let OptionValues::OneOf([_, others @ ..]) = option.values {
                let named = |value: &&str| format!("{name}:{}", option.named(value));
                names.extend(others.iter().map(named));
            }
        }
    }
    names
}

/// The protocol that a text such as `harmony` or `harmony:reordering=off` names.
pub fn by_name(text: &str) -> Result<Arc<dyn Protocol>, Error> {
    made(text, |options| options)
}

/// The same, with what only a program can ask for: see [`Options`].
pub fn made(text: &str, with: impl FnOnce(Options) -> Options) -> Result<Arc<dyn Protocol>, Error> {
    if let Some(studied) = studies::by_name(text) {
        return studied;
    }
    let (entry, options) = parse(text)?;
    Ok((entry.make)(&with(options)))
}

/// One that is to be measured: told to `watch`, with so many transactions of each worker under way
/// at once, or with what it should look at again left as it was. The last is no protocol, but a
/// bound to compare with: what validation and its conflicts cost.
pub fn measured(
    text: &str,
    validates: bool,
    interleaved: usize,
    watch: Option<Arc<Watch>>,
) -> Result<Arc<dyn Protocol>, Error> {
    made(text, |options| {
        let options = options.interleaving(interleaved).with_watch(watch);
        if validates { options } else { options.with_mutant("reads_unvalidated") }
    })
}

/// One with a bug, which a test must find.
#[cfg(feature = "mutants")]
pub fn mutant(text: &str, mutant: &'static str) -> Result<Arc<dyn Protocol>, Error> {
    let (entry, options) = parse(text)?;
    assert!(entry.mutants.contains(&mutant), "{text} has no mutant {mutant}");
    Ok((entry.make)(&options.with_mutant(mutant)))
}

fn parse(text: &str) -> Result<(&'static Entry, Options), Error> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let entry = ALL.iter().find(|entry| entry.info.name == name).ok_or_else(|| {
        let names: Vec<_> = infos().map(|info| info.name).collect();
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unknown protocol \"{name}\""))
            .with_hint(format!(
                "Protocols are: {}; or the best of a family: ordered, online.",
                names.join(", ")
            ))
    })?;
    Ok((entry, Options::parse(entry.info, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_stands_for_one_protocol_which_is_what_is_recorded() {
        for (family, name) in FAMILIES {
            assert_eq!(recorded_name(family), name);
            assert_eq!(recorded_name(&format!("{family}:a=b:c=d")), format!("{name}:a=b:c=d"));
            let deterministic = by_name(name).unwrap().info().deterministic;
            assert_eq!(deterministic, family == "ordered");
            assert!(infos().all(|info| info.name != family));
        }
        assert_eq!(recorded_name("aria:reordering=off"), "aria:reordering=off");
    }

    #[test]
    fn a_protocol_is_named_once_and_what_it_does_not_know_is_refused() {
        for (at, entry) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.info.name != entry.info.name));
            assert!(by_name(entry.info.name).is_ok());
            let error = by_name(&format!("{}:no_such_option=1", entry.info.name)).err();
            assert!(error.is_some_and(|e| e.message().contains("no_such_option")));
        }
        assert!(infos().all(|info| by_name(info.name).is_ok_and(|p| p.info().name == info.name)));
        for name in variants() {
            assert!(by_name(&name).is_ok(), "{name}");
        }
        let error = by_name("nothing").err().expect("there is no such protocol");
        assert!(error.fields().hint.as_ref().is_some_and(|hint| hint.contains("serial")));
    }
}
