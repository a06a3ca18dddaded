//! Scans in place over rows that have older versions: how much following the version chains costs
//! against a column whose rows have none.

use std::time::{Duration, Instant};

use anker::areas::Slabs;
use anker::{ColumnId, Configuration, Engine, SumAndCount};
use anyhow::Result;
use kit::random::Random;

use super::shuffled;

const C: ColumnId = ColumnId(0);

/// A scan by a reader that is as old as the values in place, and by one that is older than every
/// version, when so many percent of the rows have one.
pub struct Versioned {
    pub percent: usize,
    pub as_of_now: Duration,
    pub as_of_before: Duration,
}

/// Rows get one version each, in no order.
pub fn versioned(rows: usize, percents: &[usize], repetitions: usize) -> Result<Vec<Versioned>> {
    let engine: Engine<Slabs> = Engine::new(Configuration::SeeSi, &[rows])?;
    let order = shuffled(rows, &mut Random::new(3));
    let mut found = Vec::new();
    let mut done = 0;
    let old = engine.begin();
    for &percent in percents {
        let wanted = rows * percent / 100;
        for part in order[done..wanted.max(done)].chunks(1_000) {
            let mut writer = engine.begin();
            part.iter().for_each(|row| writer.write(C, *row as u32, 1));
            writer.commit()?;
        }
        done = wanted.max(done);
        let mut times = (Duration::MAX, Duration::MAX);
        for _ in 0..repetitions {
            times.0 = times.0.min(engine.query(&SumAndCount::new(C))?.reading);
            let start = Instant::now();
            std::hint::black_box(old.query(&SumAndCount::new(C))?);
            times.1 = times.1.min(start.elapsed());
        }
        found.push(Versioned { percent, as_of_now: times.0, as_of_before: times.1 });
    }
    Ok(found)
}
