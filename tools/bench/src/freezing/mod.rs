//! Snapshot techniques, measured alone: what a snapshot costs, and what it costs afterwards.
//!
//! For one technique and one share of modified pages:
//!
//! ```text
//!   for each column:  freeze ─ store to some of its pages ─ drop ─ FREEZE, timed ─ keep
//!   afterwards:       STORE to pages that are frozen, timed
//!                     SCAN a frozen column, timed
//! ```
//!
//! The older snapshot is there while pages are modified, so that what is copied on write has
//! been copied; that it is dropped before the timed one bounds memory at twice the columns.
//!
//! * [`layouts`]: transactions and scans on the product's layout and on the study's;
//! * [`product`]: the same as here for heights and images;
//! * [`scans`]: a versioned column in place beside a frozen one.

pub mod layouts;
pub mod product;
pub mod scans;

use std::time::{Duration, Instant};

use anker::area::{Area, Frozen, zones};
use anker::areas::Physical;
use anker::areas::fork::{self, Inherited};
use anyhow::Result;
use kit::random::Random;

const PAGE_ROWS: usize = 512;
pub const PAGE_BYTES: usize = 4_096;

/// Pages stored to for the price of a first store.
const STORES: usize = 1_000;

/// How long a forked child stays, so that stores find pages shared with it.
const CHILD_STAYS: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub columns: usize,
    pub column_bytes: usize,
}

impl Sizes {
    pub fn pages(self) -> usize {
        self.column_bytes / PAGE_BYTES
    }

    pub fn rows(self) -> usize {
        self.pages() * PAGE_ROWS
    }
}

/// What one technique costs.
#[derive(Clone, Debug)]
pub struct Cost {
    pub technique: &'static str,
    pub modified_pages: usize,
    /// Of each column's snapshot; fewer than there are columns, where the kernel's limit on
    /// mappings came first.
    pub freezes: Vec<Duration>,
    /// Whether one freeze is of all columns, whatever is read.
    pub freezes_everything: bool,
    pub first_store: Duration,
    /// Of one column.
    pub first_scan: Duration,
    pub later_scan: Duration,
}

impl Cost {
    /// For so many columns, and whether it is projected from fewer.
    pub fn freeze_ms(&self, columns: usize) -> Option<(f64, bool)> {
        let of = |part: &[Duration]| part.iter().sum::<Duration>().as_secs_f64() * 1e3;
        match self.freezes.len() {
            0 => None,
            _ if self.freezes_everything => Some((of(&self.freezes[..1]), false)),
            there if there < columns => {
                Some((of(&self.freezes) / there as f64 * columns as f64, true))
            }
            _ => Some((of(&self.freezes[..columns]), false)),
        }
    }
}

/// Numbers below `count`, each once, in no order.
pub(crate) fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    numbers
}

/// Every page is there before anything is measured.
fn filled<A: Area>(rows: usize) -> Result<A> {
    let area = A::new(rows)?;
    (0..rows).step_by(PAGE_ROWS).for_each(|row| area.store(row, row as i64));
    Ok(area)
}

fn scan(frozen: &impl Frozen, rows: usize) -> Duration {
    let start = Instant::now();
    let sum = |zone| frozen.zone(zone).iter().fold(0i64, |sum, value| sum.wrapping_add(*value));
    std::hint::black_box((0..zones(rows)).fold(0i64, |total, zone| total.wrapping_add(sum(zone))));
    start.elapsed()
}

/// One store to each of some pages; the mean of what could be stored.
fn first_store<A: Area>(area: &A, random: &mut Random) -> Duration {
    let pages = shuffled(area.rows() / PAGE_ROWS, random);
    let start = Instant::now();
    let mut stored = 0;
    for page in pages.into_iter().take(STORES) {
        if area.admit(1).is_err() {
            break;
        }
        area.store(page * PAGE_ROWS, 2);
        stored += 1;
    }
    start.elapsed() / stored.max(1)
}

/// Freezes, modifies and freezes a column; an error is the kernel's limit on mappings.
fn freeze_again<A: Area>(
    area: &A,
    modified_pages: usize,
    random: &mut Random,
) -> types::Result<(A::Frozen, Duration)> {
    if modified_pages > 0 {
        let _older = area.freeze()?;
        let pages = shuffled(area.rows() / PAGE_ROWS, random);
        for page in pages.into_iter().take(modified_pages) {
            area.admit(1)?;
            area.store(page * PAGE_ROWS, 1);
        }
    }
    let start = Instant::now();
    let frozen = area.freeze()?;
    Ok((frozen, start.elapsed()))
}

pub fn measure<A: Area>(sizes: Sizes, modified_pages: usize) -> Result<Cost> {
    let mut random = Random::new(modified_pages as u64 + 1);
    let areas: Result<Vec<A>> = (0..sizes.columns).map(|_| filled(sizes.rows())).collect();
    let areas = areas?;
    let (mut kept, mut freezes) = (Vec::new(), Vec::new());
    for area in &areas {
        let Ok((frozen, took)) = freeze_again(area, modified_pages, &mut random) else {
            break;
        };
        kept.push(frozen);
        freezes.push(took);
    }
    let scans = |frozen: &A::Frozen| (scan(frozen, sizes.rows()), scan(frozen, sizes.rows()));
    let (first_scan, later_scan) = kept.first().map(scans).unwrap_or_default();
    Ok(Cost {
        technique: A::TECHNIQUE,
        modified_pages,
        freezes,
        freezes_everything: false,
        first_store: first_store(&areas[0], &mut random),
        first_scan,
        later_scan,
    })
}

pub fn measure_fork(sizes: Sizes) -> Result<Cost> {
    let mut random = Random::new(1);
    let areas: Result<Vec<Physical>> = (0..sizes.columns).map(|_| filled(sizes.rows())).collect();
    let areas = areas?;
    let columns: Vec<Inherited<'_>> =
        areas.iter().filter_map(|area| area.inherited().map(Inherited)).collect();
    let fold = |columns: &[&[i64]], answer: &mut [i64]| {
        for time in answer {
            let start = Instant::now();
            std::hint::black_box(columns[0].iter().fold(0i64, |sum, v| sum.wrapping_add(*v)));
            *time = start.elapsed().as_nanos() as i64;
        }
        std::thread::sleep(CHILD_STAYS);
    };
    let (mut slices, mut answer) = (vec![&[][..]; columns.len()], [0, 0]);
    let start = Instant::now();
    let child = fork::start(&columns, &mut slices, &mut answer, &fold)?;
    let took = start.elapsed();
    let first_store = first_store(&areas[0], &mut random);
    let scans = child.answer()?;
    let scan = |at: usize| Duration::from_nanos(scans[at] as u64);
    Ok(Cost {
        technique: "fork",
        modified_pages: 0,
        freezes: vec![took],
        freezes_everything: true,
        first_store,
        first_scan: scan(0),
        later_scan: scan(1),
    })
}

/// One page more is modified between any two snapshots of one column, until all are.
#[derive(Clone, Debug, Default)]
pub struct Erosion {
    pub technique: &'static str,
    /// Pages modified so far, what a snapshot then took and what a store to another page did.
    pub points: Vec<(usize, Duration, Duration)>,
    /// Mappings at each point; empty where the technique has none to count.
    pub mappings: Vec<usize>,
}

/// A snapshot after each store; points are means over as many as lie between two of them.
pub fn erode<A: Area>(
    pages: usize,
    points: usize,
    mappings: fn(&A) -> Option<usize>,
) -> Result<Erosion> {
    let mut random = Random::new(5);
    let area: A = filled(pages * PAGE_ROWS)?;
    let order = shuffled(pages, &mut random);
    let mut erosion = Erosion { technique: A::TECHNIQUE, ..Erosion::default() };
    let mut kept = area.freeze()?;
    for (at, part) in order.chunks(pages.div_ceil(points)).enumerate() {
        let (mut freezing, mut storing) = (Duration::ZERO, Duration::ZERO);
        for page in part {
            if area.admit(1).is_err() {
                return Ok(erosion);
            }
            let start = Instant::now();
            area.store(page * PAGE_ROWS, 1);
            storing += start.elapsed();
            let start = Instant::now();
            let Ok(frozen) = area.freeze() else {
                return Ok(erosion);
            };
            freezing += start.elapsed();
            // The older one goes outside of the measured time.
            kept = frozen;
        }
        let (count, modified) = (part.len() as u32, at * pages.div_ceil(points) + part.len());
        erosion.points.push((modified, freezing / count, storing / count));
        erosion.mappings.extend(mappings(&area));
    }
    drop(kept);
    Ok(erosion)
}
