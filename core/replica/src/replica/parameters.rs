//! A ledger's parameters: which values can be in force, what a change requires, and the errors that
//! refuse it.

use std::sync::Arc;

use concurrency::{Protocol, SimulationRules};
use ledger::votes::electors::{ELECTORS, LIARS, VOTES};
use ledger::{Electors, LedgerId, Parameters};
use types::{Error, SqlState};

use crate::images;
use crate::limits::{Limits, MEMBERS, ORDERER, OWNER};
use crate::members::{FORMER_MEMBERS, LAST_MEMBER};

use super::halt::Halt;

pub fn protocol_of(parameters: &Parameters) -> Result<Arc<dyn Protocol>, Halt> {
    protocols::by_name(&parameters.protocol)
        .map_err(|error| Halt(format!("the ledger's parameters are unknown: {}", error.message())))
}

/// How transactions are simulated before they are ordered.
pub fn simulation_rules(parameters: &Parameters) -> Result<SimulationRules, Error> {
    Ok(protocols::by_name(&parameters.protocol)?.simulation())
}

/// A protocol that a ledger can run under: sessions between blocks can be shown the states of one
/// whose transactions pass one block at most.
pub fn check_protocol(text: &str) -> Result<(), Error> {
    let protocol = protocols::by_name(text)?;
    match protocol.snapshot_lag() {
        1 | 2 => Ok(()),
        lag => {
            let what = format!("protocol \"{text}\" cannot run a ledger");
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
                .with_detail(format!(
                    "Its blocks read the snapshot {lag} blocks before; a ledger's may read the one \
                     before the last."
                ))
                .with_hint("It can be measured: tally bench ycsb --protocol."))
        }
    }
}

/// Refuses a protocol whose order is known only when its transactions have run, where nodes have to
/// agree on the order before.
pub(super) fn check_order_first(parameters: &Parameters, protocol: &str) -> Result<(), Error> {
    let Some(orderer) = Limits::orderer(parameters) else { return Ok(()) };
    if protocols::by_name(protocol)?.info().deterministic {
        return Ok(());
    }
    let what = format!("protocol \"{protocol}\" cannot run a ledger of several nodes");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
        .with_detail(format!(
            "It fixes the order by running the transactions; here {orderer} orders them first, and \
             every node runs them in that order."
        ))
        .with_hint("Choose a deterministic protocol, such as harmony, aria or calvin."))
}

/// Refuses a state root where blocks hold rows and are not computed again: what is behind such a
/// block is only known when they have been put in.
pub(super) fn check_state_root(parameters: &Parameters) -> Result<(), Error> {
    let protocol = &parameters.protocol;
    let are_kept = images::are_kept(protocols::by_name(protocol)?.info());
    if !(are_kept && Limits::of(parameters)?.state_root) {
        return Ok(());
    }
    let what =
        format!("protocol \"{protocol}\" cannot run a ledger whose headers name state roots");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
        .with_detail("It gives no serial order, so its blocks hold the rows that they left.")
        .with_hint("Set ledger.state_root to 0, or choose a protocol that is serializable."))
}

/// Whether a ledger can be ordered by whom its parameters name.
pub fn check_first_order(parameters: &Parameters) -> Result<(), Error> {
    check_order_first(parameters, &parameters.protocol)
}

pub fn shown_parameter(parameters: &Parameters, name: &str) -> Option<String> {
    match name {
        "protocol" => Some(parameters.protocol.clone()),
        ORDERER => Some(Limits::orderer(parameters).unwrap_or("solo").to_owned()),
        OWNER => parameters.others.get(name).cloned().or_else(|| Some("tally".to_owned())),
        MEMBERS | LAST_MEMBER | FORMER_MEMBERS | ELECTORS => parameters.others.get(name).cloned(),
        VOTES | LIARS => {
            // The rule for as many members as there are now.
            let rule = Electors::under(LedgerId::default(), parameters).ok()?;
            Some(if name == VOTES { rule.votes } else { rule.liars }.to_string())
        }
        _ => Limits::show(parameters, name),
    }
}

pub fn unknown_parameter(name: &str) -> Error {
    let names: Vec<_> = ["protocol"].into_iter().chain(Limits::names()).collect();
    let what = format!("unrecognized ledger parameter \"{name}\"");
    Error::new(SqlState::UNDEFINED_OBJECT, what)
        .with_hint(format!("The ledger's parameters are: {}.", names.join(", ")))
}
