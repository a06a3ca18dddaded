//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

use concurrency::endorsement::{Endorsed, ReadSet};

/// What a careless implementation would leave out of a read set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// The versions of rows.
    NoVersionCheck,
    /// Ranges are not read again.
    NoPhantomCheck,
    /// Row counts and failed inserts are not taken for reads.
    NoExistenceCheck,
    /// A transaction that ends in an error is not validated.
    UncheckedErrors,
}

impl Mutant {
    pub const NAMES: &[&str] =
        &["no_version_check", "no_phantom_check", "no_existence_check", "unchecked_errors"];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_version_check" => Mutant::NoVersionCheck,
            "no_phantom_check" => Mutant::NoPhantomCheck,
            "no_existence_check" => Mutant::NoExistenceCheck,
            "unchecked_errors" => Mutant::UncheckedErrors,
            _ => return None,
        })
    }

    pub fn spoil(self, endorsed: &mut Endorsed) {
        let Endorsed { run, reads, .. } = endorsed;
        match self {
            Mutant::NoVersionCheck => reads.rows.clear(),
            Mutant::NoPhantomCheck => reads.ranges.clear(),
            Mutant::NoExistenceCheck => {
                reads.rows.retain(|read| read.value);
                reads.absent.clear();
            }
            Mutant::UncheckedErrors if run.is_err() => *reads = ReadSet::default(),
            Mutant::UncheckedErrors => {}
        }
    }
}
