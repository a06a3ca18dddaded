//! Every seeded bug is found, or the oracle is blind.

use concurrency::Crew;
use concurrency::trial::{Flaw, Trial};
use oracle::families::FAMILIES;
use oracle::subjects::{Subject, names_of_variants};

/// Seeds of each family that a bug may survive.
const SEEDS_MAX: u64 = 400;

/// Who found a bug: the family, and after how many worlds of all families.
struct Kill {
    family: &'static str,
    worlds: usize,
}

/// The first world that shows the bug, among those of all families in turn.
fn kill(subjects: &[Subject], crew: &Crew, trial: Trial) -> Option<Kill> {
    let mut worlds = 0;
    for seed in 0..SEEDS_MAX {
        // The large ones are slow, and seldom find what the others do not.
        let families = FAMILIES.iter().filter(|f| f.name != "large transactions" || seed % 4 == 0);
        for family in families {
            for subject in subjects {
                worlds += 1;
                if family.world(seed).run(&*subject.protocol, crew, trial).is_err() {
                    return Some(Kill { family: family.name, worlds });
                }
            }
        }
    }
    None
}

/// Prints the table of kills (`--nocapture`) and fails with the names of all survivors.
fn report(kills: impl Iterator<Item = (String, Option<Kill>)>) {
    let mut survivors = Vec::new();
    for (name, kill) in kills {
        match kill {
            Some(Kill { family, worlds }) => println!("{name:<50} {family:<26} {worlds:>6}"),
            None => survivors.push(name),
        }
    }
    assert!(survivors.is_empty(), "nobody found {survivors:?}");
}

#[test]
fn every_seeded_bug_of_every_protocol_is_found() {
    let crew = Crew::new(2);
    let flaws = protocols::ALL.iter().flat_map(|e| e.flaws.iter().map(move |&flaw| (e, flaw)));
    report(flaws.map(|(entry, flaw)| {
        let name = entry.info.name;
        let names = std::iter::once(name.to_owned()).chain(names_of_variants(entry));
        let mutants: Vec<_> = names
            .map(|name| {
                let protocol = protocols::mutant(&name, flaw).expect("a variant of the protocol");
                Subject { name, protocol }
            })
            .collect();
        (format!("{name}: {flaw}"), kill(&mutants, &crew, Trial::default()))
    }));
}

/// Of what all protocols are made of: each is found under one of those that use it.
#[test]
fn every_seeded_bug_of_the_shared_parts_is_found() {
    let crew = Crew::new(4);
    let subjects = ["serial", "harmony"].map(Subject::named);
    report(Flaw::ALL.into_iter().map(|flaw| {
        // Shaken, since small blocks are then shared among workers as well.
        let trial = Trial { shake: Some(1), flaw: Some(flaw) };
        (format!("{flaw:?}"), kill(&subjects, &crew, trial))
    }));
}
