//! The study of version storages against its checkers.

mod anomalies;
mod collecting;
mod hammer;
mod interleaved;
mod mutants;
mod script;
mod worlds;

use crate::seeds;

/// Runs generic code for a rule by its name.
macro_rules! with_rule {
    ($name:expr, $rule:ident => $body:expr) => {
        match $name {
            "mvto" => {
                type $rule = multiversion::rules::mvto::Mvto;
                $body
            }
            "mvocc" => {
                type $rule = multiversion::rules::mvocc::Mvocc;
                $body
            }
            "mv2pl" => {
                type $rule = multiversion::rules::mv2pl::Mv2pl;
                $body
            }
            "ssi" => {
                type $rule = multiversion::rules::ssi::Ssi;
                $body
            }
            "ssn" => {
                type $rule = multiversion::rules::ssn::Ssn;
                $body
            }
            "si" => {
                type $rule = multiversion::rules::si::Si;
                $body
            }
            other => panic!("no rule {other}"),
        }
    };
}
pub(crate) use with_rule;

/// Rules that name a serial order.
const SERIALIZABLE: [&str; 5] = ["mvto", "mvocc", "mv2pl", "ssi", "ssn"];
