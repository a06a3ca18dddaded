//! The rules by which the embedded orderer cuts. What it shares with every other one is
//! in `orderers`.

use order::{Limits, Refused, Solo};
use types::{Error, SqlState};

fn waiting(limits: Limits, sizes: &[usize]) -> Solo<usize> {
    let mut solo = Solo::new(limits, [0; 32]);
    for (number, bytes) in sizes.iter().enumerate() {
        solo.submit(vec![0; *bytes].into(), number).unwrap();
    }
    solo
}

fn sizes(solo: &mut Solo<usize>) -> Vec<usize> {
    std::iter::from_fn(|| Some(solo.cut(0)?.1.len())).take(100).collect()
}

#[test]
fn batches_are_bounded_in_transactions_and_bytes_but_take_one_of_any_size() {
    let limits = Limits { transactions_max: 3, bytes_max: 100, ..Limits::default() };
    let mut solo = waiting(limits, &[1, 1, 1, 1, 60, 60, 500, 1]);
    assert_eq!(sizes(&mut solo), [3, 2, 1, 1, 1]);
}

#[test]
fn what_goes_along_stays_with_its_envelope() {
    let limits = Limits { transactions_max: 3, ..Limits::default() };
    let mut solo = waiting(limits, &[5, 4, 3, 2, 1]);
    let mut sequence = 0;
    while let Some((proposal, attached)) = solo.cut(7) {
        sequence += 1;
        assert_eq!((solo.sequence(), proposal.time_us), (sequence, 7));
        for (envelope, number) in proposal.envelopes.iter().zip(attached) {
            assert_eq!(envelope.len(), 5 - number);
        }
    }
    assert_eq!((sequence, solo.waiting()), (2, 0));
}

#[test]
fn a_block_has_room_for_the_longest_outcomes_and_what_cannot_fit_is_refused() {
    let limits = Limits {
        transactions_max: usize::MAX,
        bytes_max: usize::MAX,
        block_bytes_max: 1000,
        outcome_bytes_max: 90,
        ..Limits::default()
    };
    let mut solo = waiting(limits, &[10; 11]);
    assert_eq!(sizes(&mut solo), [10, 1]);
    let refused = solo.submit(vec![0; 911].into(), 0).unwrap_err();
    assert_eq!(refused, Refused::TooLarge { bytes: 911, bytes_max: 910 });
    assert_eq!(Error::from(refused).code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    solo.submit(vec![0; 910].into(), 0).unwrap();
    assert_eq!(sizes(&mut solo), [1]);
}

#[test]
fn what_was_put_off_has_its_room_and_is_a_block_if_nothing_else_waits() {
    let limits = Limits {
        transactions_max: 4,
        block_bytes_max: 1000,
        outcome_bytes_max: 100,
        ..Limits::default()
    };
    let mut solo = waiting(limits, &[500, 500, 1, 1, 1]);
    let mut cut = |carried| Some(solo.cut_beside(0, carried)?.1.len());
    assert_eq!(cut(5), Some(0), "no room for a further one");
    assert_eq!(cut(3), Some(1), "four in all");
    assert_eq!(cut(2), Some(2), "four in all");
    assert_eq!(cut(1), Some(2));
    assert_eq!((cut(1), cut(0)), (Some(0), None));

    let mut solo = waiting(limits, &[900]);
    assert_eq!(solo.cut_beside(0, 1).unwrap().1.len(), 0, "it fits alone, and alone only");
    assert_eq!(solo.cut_beside(0, 0).unwrap().1.len(), 1);
}

#[test]
fn what_waits_is_counted_anew_as_it_goes() {
    let limits = Limits { queued_max: 3, queued_bytes_max: 100, ..Limits::default() };
    let mut solo = Solo::new(limits, [0; 32]);
    for _ in 0..3 {
        for _ in 0..2 {
            solo.submit(vec![0; 50].into(), 0).unwrap();
        }
        assert_eq!(solo.submit(vec![0].into(), 0), Err(Refused::Full));
        assert_eq!(sizes(&mut solo), [2]);
        solo.submit(vec![0; 500].into(), 0).unwrap();
        assert_eq!(solo.submit(vec![0].into(), 0), Err(Refused::Full));
        assert_eq!(sizes(&mut solo), [1]);
        for _ in 0..3 {
            solo.submit(vec![0].into(), 0).unwrap();
        }
        assert_eq!(solo.submit(vec![0].into(), 0), Err(Refused::Full));
        assert_eq!(sizes(&mut solo), [3]);
    }
}

#[test]
fn the_first_cause_of_closing_counts_and_what_waits_is_still_cut() {
    let mut solo = waiting(Limits::default(), &[1, 1]);
    let first = Error::new(SqlState::ADMIN_SHUTDOWN, "stopping");
    solo.close(first.clone());
    solo.close(Error::new(SqlState::IO_ERROR, "later"));
    assert_eq!(solo.submit(vec![0].into(), 9), Err(Refused::Closed(first.clone())));
    assert_eq!(solo.closed(), Some(&first));
    assert_eq!(sizes(&mut solo), [2]);
}
