//! The study against those who check it. More seeds: `TALLY_ORACLE_SEEDS=20`.

mod anomalies;
mod collecting;
mod hammer;
mod interleaved;
mod mutants;
mod script;
mod worlds;

/// How many seeds a test runs.
fn seeds(default: u64) -> u64 {
    let asked = std::env::var("TALLY_ORACLE_SEEDS").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(default)
}

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
