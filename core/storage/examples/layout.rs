//! Row-major in place against columns in place: the measurement after the record layout.
//!
//! Both layouts hold 1,000,000 rows of ten 8-byte integers, give every row the same header (stamp,
//! undo chain, key, protocol word) and obey the same protocol: a reader comes from the hash index,
//! so it compares the key, and checks the stamp before and after it copies; a writer saves the old
//! values (the whole row where rows are contiguous, only the changed columns otherwise), links
//! them, then writes between two stores of the stamp. Where one column is accessed, it is a
//! different one from row to row. Repetitions of the layouts alternate; medians are printed.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use kit::random::Random;
use rustix::time::{ClockId, clock_gettime};

const ROWS: usize = 1_000_000;
const COLUMNS: usize = 10;
/// Stamp, undo chain, key view (2), protocol word, null bitmap; then the columns.
const HEADER_WORDS: usize = 6;
const NEWEST: usize = 1;
const KEY: usize = 2;
/// Headers apart from their columns: one to a cache line.
const HEADER_STRIDE: usize = 8;
const STRIDE: usize = HEADER_WORDS + COLUMNS;
const POINT_OPS: usize = 2_000_000;
const REPETITIONS: usize = 7;
const BUSY: u64 = 1;

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|i| AtomicU64::new(i as u64 & !BUSY)).collect()
}

/// The first of `columns` columns to access.
fn first_column(row: usize, columns: usize) -> usize {
    row % (COLUMNS + 1 - columns)
}

/// One layout: where the header and the columns of a row lie, and what a write must save.
trait Layout {
    fn header(&self, row: usize) -> &[AtomicU64];
    fn column(&self, row: usize, column: usize) -> &AtomicU64;
    fn save(&self, row: usize, columns: usize, undo: &mut [u64; STRIDE]);

    fn read(&self, row: usize, columns: usize) -> u64 {
        let header = self.header(row);
        if header[KEY].load(Ordering::Relaxed) == u64::MAX {
            return 0;
        }
        loop {
            let before = header[0].load(Ordering::Acquire);
            let mut sum = 0u64;
            let first = first_column(row, columns);
            for column in first..first + columns {
                sum = sum.wrapping_add(self.column(row, column).load(Ordering::Relaxed));
            }
            fence(Ordering::Acquire);
            if before & BUSY == 0 && header[0].load(Ordering::Relaxed) == before {
                return sum;
            }
        }
    }

    fn write(&self, row: usize, columns: usize, value: u64, undo: &mut [u64; STRIDE]) {
        let header = self.header(row);
        self.save(row, columns, undo);
        header[NEWEST].store(value, Ordering::Release);
        let stamp = header[0].load(Ordering::Relaxed);
        header[0].store(stamp | BUSY, Ordering::Relaxed);
        fence(Ordering::Release);
        let first = first_column(row, columns);
        for column in first..first + columns {
            self.column(row, column).store(value, Ordering::Relaxed);
        }
        header[0].store(stamp + 2, Ordering::Release);
    }

    fn scan(&self, columns: usize) -> u64;
}

struct RowMajor(Vec<AtomicU64>);

impl Layout for RowMajor {
    fn header(&self, row: usize) -> &[AtomicU64] {
        &self.0[row * STRIDE..][..HEADER_WORDS]
    }

    fn column(&self, row: usize, column: usize) -> &AtomicU64 {
        &self.0[row * STRIDE + HEADER_WORDS + column]
    }

    fn save(&self, row: usize, _columns: usize, undo: &mut [u64; STRIDE]) {
        let record = &self.0[row * STRIDE..][..STRIDE];
        for (old, word) in undo.iter_mut().zip(record) {
            *old = word.load(Ordering::Relaxed);
        }
    }

    fn scan(&self, columns: usize) -> u64 {
        (0..ROWS).fold(0u64, |sum, row| sum.wrapping_add(self.read(row, columns)))
    }
}

struct ColumnMajor {
    headers: Vec<AtomicU64>,
    columns: Vec<Vec<AtomicU64>>,
}

impl Layout for ColumnMajor {
    fn header(&self, row: usize) -> &[AtomicU64] {
        &self.headers[row * HEADER_STRIDE..][..HEADER_WORDS]
    }

    fn column(&self, row: usize, column: usize) -> &AtomicU64 {
        &self.columns[column][row]
    }

    fn save(&self, row: usize, columns: usize, undo: &mut [u64; STRIDE]) {
        let first = first_column(row, columns);
        for (old, column) in undo.iter_mut().zip(&self.columns[first..first + columns]) {
            *old = column[row].load(Ordering::Relaxed);
        }
    }

    fn scan(&self, columns: usize) -> u64 {
        // The stamps are checked once a row, the columns summed one after the other.
        let stamps =
            (0..ROWS).fold(0, |all, row| all | self.header(row)[0].load(Ordering::Relaxed));
        self.columns[..columns].iter().fold(stamps, |sum, column| {
            column.iter().fold(sum, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
        })
    }
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn cpu_ns_per(operations: usize, work: impl FnOnce() -> u64) -> f64 {
    let start_ns = cpu_ns();
    black_box(work());
    (cpu_ns() - start_ns) as f64 / operations as f64
}

fn point_read(layout: &impl Layout, columns: usize) -> f64 {
    let mut random = Random::new(1);
    cpu_ns_per(POINT_OPS, || {
        (0..POINT_OPS).fold(0u64, |sum, _| {
            sum.wrapping_add(layout.read(random.below(ROWS as u64) as usize, columns))
        })
    })
}

fn point_write(layout: &impl Layout, columns: usize) -> f64 {
    let mut random = Random::new(2);
    let mut undo = vec![[0u64; STRIDE]; 4096];
    cpu_ns_per(POINT_OPS, || {
        for op in 0..POINT_OPS {
            let row = random.below(ROWS as u64) as usize;
            layout.write(row, columns, op as u64, &mut undo[op % 4096]);
        }
        undo[0][0]
    })
}

fn scan(layout: &impl Layout, columns: usize) -> f64 {
    cpu_ns_per(ROWS, || layout.scan(columns))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let rows = RowMajor(words(ROWS * STRIDE));
    let columns = ColumnMajor {
        headers: words(ROWS * HEADER_STRIDE),
        columns: (0..COLUMNS).map(|_| words(ROWS)).collect(),
    };
    println!("{:<28}{:>12}{:>12}", "CPU ns per operation", "row-major", "columns");
    for width in [1, COLUMNS] {
        type Case<L> = (&'static str, fn(&L, usize) -> f64);
        let by_row: [Case<RowMajor>; 3] =
            [("point read", point_read), ("point write", point_write), ("scan, per row", scan)];
        let by_column: [Case<ColumnMajor>; 3] =
            [("point read", point_read), ("point write", point_write), ("scan, per row", scan)];
        for ((name, row_case), (_, column_case)) in by_row.into_iter().zip(by_column) {
            let samples: Vec<(f64, f64)> = (0..REPETITIONS)
                .map(|_| (row_case(&rows, width), column_case(&columns, width)))
                .collect();
            let (r, c) = samples.into_iter().unzip();
            println!(
                "{:<28}{:>12.1}{:>12.1}",
                format!("{name}, {width} columns"),
                median(r),
                median(c)
            );
        }
    }
}
