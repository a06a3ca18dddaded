//! Anomalies by the names of Adya (1999), of Berenson et al. (1995) and of Fekete, O'Neil and
//! O'Neil (2004): which rule lets which of them happen.
//!
//! | | read committed would | si | mvto, mvocc, mv2pl, ssi, ssn |
//! |---|---|---|---|
//! | G0, G1a, G1b, G1c | no | no | no |
//! | P4 lost update, G-single read skew, PMP | yes | no | no |
//! | G2-item write skew, G2 phantom skew, read-only anomaly | yes | **yes** | no |

use multiversion::mutant::{self, Mutant};
use multiversion::{Rule, TableSpec};

use crate::study::script::{
    Act, Model, Program, Run, Stage, check, database, is_serializable, schema,
};
use crate::study::{SERIALIZABLE, with_rule};

struct Script {
    name: &'static str,
    programs: Vec<Program>,
    /// Whose turn it is; the turn after a transaction's last step commits it.
    schedule: &'static [usize],
    /// Plain snapshot isolation lets it happen.
    in_si: bool,
}

fn program(acts: &[Act]) -> Program {
    Program::from(acts)
}

fn scripts() -> Vec<Script> {
    use Act::{Add, Insert, Keys, Read, Set, SetLast};
    let script = |name, programs, schedule, in_si| Script { name, programs, schedule, in_si };
    vec![
        script(
            "G0 dirty write",
            vec![program(&[Set(0, 10), Set(1, 10)]), program(&[Set(0, 20), Set(1, 20)])],
            &[0, 1, 0, 1, 0, 1],
            false,
        ),
        script(
            "G1a aborted read",
            vec![Program { fails: true, ..program(&[Set(0, 10)]) }, program(&[Read(0), Read(0)])],
            &[0, 1, 0, 1, 1],
            false,
        ),
        script(
            "G1b intermediate read",
            vec![program(&[Set(0, 10), Set(0, 11)]), program(&[Read(0), Read(0)])],
            &[0, 1, 0, 0, 1, 1],
            false,
        ),
        script(
            "G1c circular information flow",
            vec![program(&[Set(0, 10), Read(1)]), program(&[Set(1, 20), Read(0)])],
            &[0, 1, 0, 1, 0, 1],
            true,
        ),
        script(
            "P4 lost update",
            vec![program(&[Read(0), SetLast(0, 1)]), program(&[Read(0), SetLast(0, 2)])],
            &[0, 1, 0, 0, 1, 1],
            false,
        ),
        script(
            "G-single read skew",
            vec![program(&[Read(0), Read(1)]), program(&[Set(0, 10), Set(1, 10)])],
            &[0, 1, 1, 1, 0, 0],
            false,
        ),
        script(
            "PMP predicate with many preceders",
            vec![program(&[Keys(0, 9), Keys(0, 9)]), program(&[Insert(5, 5)])],
            &[0, 1, 1, 0, 0],
            false,
        ),
        script(
            "G2-item write skew",
            vec![program(&[Read(0), SetLast(1, 10)]), program(&[Read(1), SetLast(0, 20)])],
            &[0, 1, 0, 1, 0, 1],
            true,
        ),
        script(
            "G2 phantom skew",
            vec![program(&[Keys(0, 9), Insert(5, 5)]), program(&[Keys(0, 9), Insert(6, 6)])],
            &[0, 1, 0, 1, 0, 1],
            true,
        ),
        script(
            "read-only anomaly",
            vec![
                program(&[Read(0), Read(1), SetLast(0, -11)]),
                program(&[Read(1), SetLast(1, 20)]),
                program(&[Read(0), Read(1)]),
            ],
            // The first takes its snapshot, the second commits, the third reads, the first commits.
            &[0, 0, 1, 1, 1, 2, 2, 2, 0, 0],
            true,
        ),
        script(
            "read-only anomaly, the reader last",
            vec![
                program(&[Read(0), Read(1), SetLast(0, -11)]),
                program(&[Read(1), SetLast(1, 20)]),
                program(&[Read(0), Read(1)]),
            ],
            &[0, 0, 1, 1, 1, 2, 2, 0, 0, 2],
            true,
        ),
        script(
            "two who add to one row",
            vec![program(&[Add(0, 1)]), program(&[Add(0, 2)])],
            &[0, 1, 0, 1],
            false,
        ),
    ]
}

fn play<R: Rule>(script: &Script, mutant: Option<Mutant>) -> (Model, Vec<Run>, Model) {
    let before = Model::from([(0, 1), (1, 2)]);
    let mut db = database::<R>(TableSpec::default(), script.programs.len());
    db.mutant = mutant;
    let db = db;
    let mut stage = Stage::<R>::new(&db);
    stage.reset(&before);
    let runs = stage.play(&script.programs, script.schedule);
    let after = stage.state();
    mutant::enter(None);
    (before, runs, after)
}

/// Whether a script shows a bug.
pub fn shown<R: Rule>(mutant: Mutant) -> bool {
    scripts().iter().any(|script| {
        let (before, runs, after) = play::<R>(script, Some(mutant));
        match R::NAME {
            "si" => !script.in_si && !is_serializable(&before, &script.programs, &runs, &after),
            _ => check(&before, &script.programs, &runs, &after).is_err(),
        }
    })
}

#[test]
fn no_anomaly_happens_under_a_serializable_rule() {
    for script in scripts() {
        for name in SERIALIZABLE {
            let (before, runs, after) = with_rule!(name, R => play::<R>(&script, None));
            let verdict = check(&before, &script.programs, &runs, &after);
            assert_eq!(verdict, Ok(()), "{name}: {}: {runs:#?}", script.name);
        }
    }
}

#[test]
fn snapshot_isolation_shows_just_the_anomalies_that_it_is_known_for() {
    for script in scripts() {
        let (before, runs, after) = with_rule!("si", R => play::<R>(&script, None));
        let ours = is_serializable(&before, &script.programs, &runs, &after);
        assert_eq!(ours, !script.in_si, "{}: {runs:#?}", script.name);
    }
}

/// Whether a writer that began in a block that is closed by now is turned away.
pub fn refuses_closed_blocks<R: Rule>(mutant: Option<Mutant>) -> bool {
    let before = Model::from([(0, 1), (1, 2)]);
    let mut db = database::<R>(TableSpec::default(), 2);
    db.mutant = mutant;
    let db = db;
    let mut stage = Stage::<R>::new(&db);
    stage.reset(&before);
    let late = [Program::from(&[Act::Read(0), Act::Set(1, 9)][..])];
    // Two steps, then the block is closed, then the commit.
    let runs = stage.play_with(&late, &[0, 0, 0], 2);
    mutant::enter(None);
    runs[0].csn.is_none()
}

/// Whether of two who found a unique value free, and take it, both commit.
pub fn unique_values_skew<R: Rule>(mutant: Option<Mutant>) -> bool {
    let mut unique = (*schema()).clone();
    unique.indexes[0].unique = true;
    let spec = TableSpec::default();
    let mut db = multiversion::Database::new([unique.into()], |_| spec, 3, R::STRIPED);
    db.mutant = mutant;
    let db = db;
    let mut stage = Stage::<R>::new(&db);
    let take = |key| program(&[Act::Values(5, 5), Act::Insert(key, 5)]);
    let runs = stage.play(&[take(3), take(4)], &[0, 1, 0, 1, 0, 1]);
    mutant::enter(None);
    runs.iter().all(|run| run.committed)
}

#[test]
fn unique_values_stay_unique_under_every_rule() {
    for name in SERIALIZABLE.into_iter().chain(["si"]) {
        assert!(!with_rule!(name, R => unique_values_skew::<R>(None)), "{name}");
    }
}

/// A skew over two blocks: what stands before one of a closed block must not write.
#[test]
fn nobody_writes_into_a_closed_block() {
    let refused = refuses_closed_blocks::<multiversion::rules::mvto::Mvto>(None);
    assert!(refused, "its timestamp is of the closed block");
    for name in ["mvocc", "mv2pl", "ssi", "ssn"] {
        let refused = with_rule!(name, R => refuses_closed_blocks::<R>(None));
        assert!(!refused, "{name} commits in the new block");
    }
}
