use std::sync::atomic::{AtomicBool, Ordering};

use kit::pool::Pool;
use types::SqlState;

use super::*;

struct Flag(AtomicBool);

impl Interrupt for Flag {
    fn check(&self) -> Result<(), Error> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Error::new(SqlState::QUERY_CANCELED, "enough")),
            false => Ok(()),
        }
    }
}

#[test]
fn exactly_the_allowance_can_be_spent_with_and_without_an_interrupt() {
    let interrupts: [Option<Arc<dyn Interrupt>>; 2] =
        [None, Some(Arc::new(Flag(AtomicBool::new(false))))];
    for interrupt in interrupts {
        for part in [1, 7, 1023, 1024, 1025, 5000] {
            let meter = Meter::new(5000, interrupt.clone());
            for _ in 0..2 {
                for _ in 0..5000 / part {
                    meter.spend(part).unwrap();
                }
                meter.spend(5000 % part).unwrap();
                let error = meter.spend(1).unwrap_err();
                assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
                meter.refill();
            }
        }
    }
}

/// Which of them runs out first is a part of the answer.
#[test]
fn an_update_costs_at_once_what_its_parts_cost() {
    let mut ways = [0; 3];
    for seed in 0..4000 {
        let random = &mut kit::random::Random::new(seed);
        let most = [20, 400, 1 << 21][seed as usize % 3];
        let mut below = |most: u64| random.below(most);
        let texts = (0..below(4)).map(|_| Value::from("x".repeat(below(most) as usize)));
        let mut inputs: Vec<Value> = texts.collect();
        inputs.push(Value::Int(1));
        let (units, text_bytes) = (below(30), below(most) as usize);
        let budget = Budget { units_max: below(most + 80), bytes_max: below(5 * most) };
        let made = || {
            let pool = Pool::new(1 << 22);
            let lease = seed % 2 == 0;
            let meter = Meter::of(budget);
            if lease { meter.with_lease(pool.lease()) } else { meter }
        };
        let (at_once, in_parts) = (made(), made());
        let answer = at_once.pay_update(units, text_bytes, &inputs);
        assert_eq!(answer, in_parts.pay_update_in_parts(units, text_bytes, &inputs));
        let left = |meter: &Meter| (meter.left(), meter.memory_left());
        assert_eq!(left(&at_once), left(&in_parts), "seed {seed}");
        ways[match answer {
            Ok(()) => 0,
            Err(error) if error.code() == SqlState::STATEMENT_TOO_COMPLEX => 1,
            Err(_) => 2,
        }] += 1;
    }
    assert!(ways.iter().all(|count| *count > 100), "{ways:?}");
}

#[test]
fn an_interrupt_is_noticed_soon() {
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let meter = Meter::new(u64::MAX, Some(flag.clone()));
    meter.spend(1).unwrap();
    flag.0.store(true, Ordering::Relaxed);
    let noticed = (0..2 * UNITS_PER_LOOK).find_map(|_| meter.spend(1).err());
    assert_eq!(noticed.unwrap().code(), SqlState::QUERY_CANCELED);
}

#[test]
fn what_is_held_and_long_values_that_are_made_are_covered_by_a_lease() {
    let pool = Pool::new(8 << 20);
    let meter = Meter::new(u64::MAX, None).with_lease(pool.lease());
    meter.hold(SMALL_BYTES as usize).unwrap();
    assert_eq!(pool.leased_bytes(), 0);
    meter.hold(1 << 20).unwrap();
    assert!((1 << 20..3 << 20).contains(&pool.leased_bytes()));
    meter.spend_bytes(2 << 20).unwrap();
    assert!(pool.leased_bytes() >= 7 << 20);
    let error = meter.hold(2 << 20).unwrap_err();
    assert_eq!(error.code(), SqlState::OUT_OF_MEMORY);
    assert!(error.fields().hint.as_deref().unwrap().contains("session_memory_bytes_max"));
    let before = meter.memory_left();
    meter.refill();
    assert_eq!(pool.leased_bytes(), 0);
    meter.hold(4 << 20).unwrap();
    let given = meter.hand_over(meter.memory_left() + (3 << 20)).unwrap();
    assert_eq!(given.bytes(), 3 << 20);
    assert!(meter.memory_left() > before - (1 << 20));
    meter.refill();
    assert_eq!(pool.leased_bytes(), 3 << 20);
    drop(given);
    assert_eq!(pool.leased_bytes(), 0);
}

#[test]
fn memory_is_counted_until_it_is_released_or_the_transaction_ends() {
    let meter = Meter::default();
    let half = BYTES_MAX as usize / 2;
    for _ in 0..2 {
        meter.hold(half).unwrap();
        meter.hold(half).unwrap();
        assert_eq!(meter.hold(1).unwrap_err().code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        meter.release(half);
        meter.hold(half).unwrap();
        meter.refill();
    }
    let too_much = |bytes: u64| Error::new(SqlState::OUT_OF_MEMORY, format!("beyond {bytes}"));
    let meter = Meter::default().with_memory(1000, too_much);
    let error = meter.hold(1001).unwrap_err();
    assert_eq!(error.code(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error.message(), "beyond 1000");
}

/// Under every protocol, and in blocks alone: outside of them a run remembers nothing, or what it
/// has a lease for.
#[test]
fn what_is_read_by_keys_and_ranges_is_noted_until_the_transaction_ends() {
    use std::ops::Bound;

    use types::{Key, TableId};

    use crate::access::Range;

    let budget = Budget { bytes_max: 100 * 56, ..Budget::default() };
    let meter = Meter::of(budget);
    let key = Key::from_int(1);
    for _ in 0..100 {
        meter.note_row(&key).unwrap();
    }
    let error = meter.note_row(&key).unwrap_err();
    assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(meter.held(), 0, "beside what is held");
    meter.refill();
    let range = Range {
        table: TableId(1),
        index: 0,
        low: Bound::Included(key.clone()),
        high: Bound::Unbounded,
        reverse: false,
    };
    let of_range = 160 + 8;
    for _ in 0..budget.bytes_max / of_range {
        meter.note_range(&range).unwrap();
    }
    assert_eq!(meter.note_range(&range).unwrap_err().code(), SqlState::PROGRAM_LIMIT_EXCEEDED);

    let session = Meter::new(1000, Some(Arc::new(Flag(AtomicBool::new(false)))));
    session.set_budget(budget);
    (0..1000).for_each(|_| session.note_row(&key).unwrap());
}
