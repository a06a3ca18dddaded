//! Which measurements must have led to the same state, and whether they did.
//!
//! Two runs had the same transactions in the same order when workload, skew, rows, number and seed
//! agree. Then they must end in the same state
//! - if both protocols' serial order was block order: whatever the protocol, the number of threads,
//!   the size of the blocks, with sealing or without;
//! - if the protocol is the same, and so are the blocks and the snapshots that they are prepared
//!   on: whatever the number of threads, with sealing or without.

use crate::Measurement;
use crate::named;

/// A measurement whose digest is not that of another one which it must agree with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    pub message: String,
}

/// Sets `digest_agrees` of each measurement to whether it agrees with all that it must agree with.
pub(crate) fn mark(measurements: &mut [Measurement]) {
    let agree: Vec<bool> = measurements
        .iter()
        .map(|one| {
            let mut others = measurements.iter().filter(|other| must_agree(one, other));
            one.digest_agrees && others.all(|other| one.digest == other.digest)
        })
        .collect();
    for (measurement, agrees) in measurements.iter_mut().zip(agree) {
        measurement.digest_agrees = agrees;
    }
}

fn must_agree(one: &Measurement, other: &Measurement) -> bool {
    let same_input = one.workload == other.workload
        && one.theta == other.theta
        && one.warehouses == other.warehouses
        && one.settings == other.settings
        && one.transactions == other.transactions
        && one.seed == other.seed;
    let same_protocol = one.protocol == other.protocol
        && one.block_transactions == other.block_transactions
        && gives_same_bytes(&one.protocol);
    same_input && (same_protocol || (one.block_order && other.block_order))
}

/// Whether two runs of the same blocks must agree; where transactions run as they arrive, each
/// run has an order of its own.
pub(crate) fn gives_same_bytes(protocol: &str) -> bool {
    named::protocol(protocol).is_ok_and(|protocol| protocol.info().deterministic)
}

/// What is to be said loudly.
pub fn mismatches(measurements: &[Measurement]) -> Vec<Mismatch> {
    let wrong = measurements.iter().filter(|measurement| !measurement.digest_agrees);
    wrong
        .map(|one| {
            let other = measurements.iter().find(|o| must_agree(one, o) && o.digest != one.digest);
            let against = other.map_or_else(
                || "another run of the same cell".to_owned(),
                |o| format!("{} ({})", o.protocol, &o.digest[..12]),
            );
            Mismatch {
                message: format!(
                    "{}, {} threads, blocks of {}: state {} differs from that of {against}",
                    one.protocol,
                    one.threads,
                    one.block_transactions,
                    &one.digest[..12],
                ),
            }
        })
        .collect()
}
