//! Snapshots alone: table 2.1, figures 2.4 to 2.6.

use std::time::Duration;

use anker::areas::{Physical, Private, Rewired, Slabs, mappings_max};
use anyhow::Result;

use super::short;
use crate::freezing::{Cost, Erosion, Sizes, erode, measure, measure_fork, product, scans};
use crate::paper::{Findings, Lab, Lines, near, times};
use crate::table::Table;

/// A fifth of the thesis's columns of 200 MB.
fn sizes(lab: &Lab<'_>) -> Sizes {
    match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => Sizes { columns: 3, column_bytes: 128 << 10 },
        (_, true) => Sizes { columns: 50, column_bytes: 4 << 20 },
        _ => Sizes { columns: 50, column_bytes: 40 << 20 },
    }
}

/// The thesis modifies 0, 500, 5,000 and 50,000 of 51,200 pages.
const MODIFIED_PER_51200: [usize; 4] = [0, 500, 5_000, 50_000];

fn modified(sizes: Sizes, at: usize) -> usize {
    sizes.pages() * MODIFIED_PER_51200[at] / 51_200
}

type Measure<'a> = (&'static str, usize, Box<dyn Fn() -> Result<Cost> + 'a>);

fn costs(lab: &mut Lab<'_>, sizes: Sizes) -> Result<Vec<Cost>> {
    let rows_too = Sizes { column_bytes: sizes.column_bytes / 10, ..sizes };
    let mut wanted: Vec<Measure<'_>> = vec![
        ("physical", 0, Box::new(|| measure::<Physical>(sizes, 0))),
        ("fork", 0, Box::new(|| measure_fork(sizes))),
    ];
    for at in 0..MODIFIED_PER_51200.len() {
        let pages = modified(sizes, at);
        wanted.push(("rewired", pages, Box::new(move || measure::<Rewired>(sizes, pages))));
        wanted.push(("private", pages, Box::new(move || measure::<Private>(sizes, pages))));
        wanted.push(("slabs", pages, Box::new(move || measure::<Slabs>(sizes, pages))));
    }
    for at in [0, 3] {
        let pages = modified(rows_too, at);
        let rows = move || product::measure(rows_too, pages);
        wanted.push(("pin + images", pages, Box::new(rows)));
    }
    let total = wanted.len();
    let mut found = Vec::new();
    for (done, (name, pages, measure)) in wanted.into_iter().enumerate() {
        lab.tell(done, total, &format!("{name}, {pages} pages modified in each column"));
        found.push(measure()?);
    }
    Ok(found)
}

fn milliseconds(cost: &Cost, columns: usize) -> String {
    match cost.freeze_ms(columns) {
        None => "-".to_owned(),
        Some((ms, false)) => short(ms),
        Some((ms, true)) => format!("~{}", short(ms)),
    }
}

fn costs_table(costs: &[Cost], columns: [usize; 3]) -> Table {
    let row = |cost: &Cost| {
        let mut cells = vec![cost.technique.to_owned(), cost.modified_pages.to_string()];
        cells.extend(columns.map(|columns| milliseconds(cost, columns)));
        cells.push(short(cost.first_store.as_secs_f64() * 1e6));
        cells.push(short(cost.first_scan.as_secs_f64() * 1e3));
        cells.push(short(cost.later_scan.as_secs_f64() * 1e3));
        cells
    };
    let heads = ["technique", "modified"].map(str::to_owned).into_iter();
    let heads = heads.chain(columns.map(|columns| format!("{columns} col, ms")));
    let tail = ["first store, us", "first scan, ms", "later scan, ms"].map(str::to_owned);
    Table { heads: heads.chain(tail).collect(), rows: costs.iter().map(row).collect() }
}

pub fn table(lab: &mut Lab<'_>) -> Result<Findings> {
    let sizes = sizes(lab);
    let (all, pages) = (sizes.columns, sizes.pages());
    let costs = costs(lab, sizes)?;
    let mut findings = Findings::default();
    let title = format!("{all} columns of {} KB, {pages} pages each", sizes.column_bytes >> 10);
    findings.tables.push((title, costs_table(&costs, [1, all.div_ceil(2), all])));
    let of = |technique: &str, at: usize, columns: usize| {
        let mut found = costs.iter().filter(|cost| cost.technique == technique);
        let found = found.find(|cost| cost.modified_pages == modified(sizes, at));
        found.and_then(|cost| cost.freeze_ms(columns)).map_or(f64::NAN, |(ms, _)| ms)
    };
    let mut ratio = |claim: &str, paper: f64, over: f64, under: f64| {
        findings.ratio(claim, paper, over / under);
    };
    let (physical, fork) = (of("physical", 0, all), of("fork", 0, all));
    ratio("physical: all columns over one", 49.8, physical, of("physical", 0, 1));
    ratio("all columns: physical over fork", 49.7, physical, fork);
    ratio("one column: fork over rewired, nothing modified", 5_414.0, fork, of("rewired", 0, 1));
    let (little, much) = (of("rewired", 1, all), of("rewired", 3, all));
    ratio("all columns: fork over rewired, 1 % modified", 1.75, fork, little);
    ratio("all columns: rewired over physical, all modified", 1.57, much, physical);
    ratio(
        "one column: all modified over none, rewired",
        8_464.0,
        of("rewired", 3, 1),
        of("rewired", 0, 1),
    );
    ratio(
        "one column: rewired over slabs, all modified",
        68.0,
        of("rewired", 3, 1),
        of("slabs", 3, 1),
    );
    ratio(
        "one column: rewired over private, all modified",
        68.0,
        of("rewired", 3, 1),
        of("private", 3, 1),
    );
    let limit = mappings_max();
    findings.remark(&format!(
        "the thesis has 200 MB a column. ~ is projected from as many columns as fit: \
         vm.max_map_count is {limit}, and every page modified out of order is two mappings more."
    ));
    findings.remark(
        "the 68 is the thesis's vm_snapshot over rewired, whose place slabs and private take. pin \
         + images has a tenth of the rows (a pin does not depend on them), and its store is the \
         update of a row in a block, undo version included; its first scan patches the image.",
    );
    Ok(findings)
}

type Point = (usize, Duration, Duration);

pub fn erosion(lab: &mut Lab<'_>) -> Result<Findings> {
    const POINTS: usize = 10;
    let pages = match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => 40,
        (_, true) => 1_024,
        _ => 5_120,
    };
    let run = |lab: &mut Lab<'_>, done: usize| -> Result<Erosion> {
        let name = ["rewired", "private", "slabs"][done];
        lab.tell(done, 3, &format!("{name}, a snapshot after each of {pages} stores"));
        match done {
            0 => erode::<Rewired>(pages, POINTS, |area| Some(area.mappings())),
            1 => erode::<Private>(pages, POINTS, |_| None),
            _ => erode::<Slabs>(pages, POINTS, |_| None),
        }
    };
    let found = [run(lab, 0)?, run(lab, 1)?, run(lab, 2)?];
    let places: Vec<String> = found[2].points.iter().map(|point| point.0.to_string()).collect();
    let x_label = "pages modified".to_owned();
    let lines = |title: &str, value: &dyn Fn(&Point) -> Duration| Lines {
        title: title.to_owned(),
        x_label: x_label.clone(),
        unit: "us".to_owned(),
        digits: 1,
        places: places.clone(),
        lines: found
            .iter()
            .map(|erosion| {
                let value = |at: usize| {
                    erosion.points.get(at).map(|point| value(point).as_secs_f64() * 1e6)
                };
                (erosion.technique.to_owned(), (0..places.len()).map(value).collect())
            })
            .collect(),
    };
    let mut findings = Findings::default();
    findings.series.push(lines("Creating a snapshot (2.4a)", &|point| point.1));
    findings.series.push(lines("Storing to a page (2.4b)", &|point| point.2));
    let mappings = found[0].mappings.iter().map(|&mappings| Some(mappings as f64)).collect();
    findings.series.push(Lines {
        title: "Mappings of the rewired column (2.4a)".to_owned(),
        x_label: x_label.clone(),
        unit: "mappings".to_owned(),
        digits: 0,
        places: places.clone(),
        lines: vec![("rewired".to_owned(), mappings)],
    });
    let last = |erosion: &Erosion| erosion.points.last().map_or(f64::NAN, |p| p.1.as_secs_f64());
    let first = |erosion: &Erosion| erosion.points.first().map_or(f64::NAN, |p| p.1.as_secs_f64());
    let store = |erosion: &Erosion| erosion.points.last().map_or(f64::NAN, |p| p.2.as_secs_f64());
    for substitute in &found[1..] {
        let name = substitute.technique;
        let flat = last(substitute) / first(substitute);
        let claim = format!("{name}: last snapshot over the first ones");
        findings.judge(&claim, "flat", times(flat), near(1.0, flat), flat < 3.0);
        let faster = last(&found[0]) / last(substitute);
        let claim = format!("rewired over {name}, all pages modified");
        findings.ratio(&claim, 68.0, faster);
        let cheaper = store(&found[0]) / store(substitute);
        let claim = format!("a first store: rewired over {name}");
        findings.ratio(&claim, 6.0, cheaper);
    }
    findings.remark(&format!(
        "{pages} pages instead of 51,200, so that all snapshots fit the limit on mappings; the \
         older snapshot is alive while the next is made, so private copies each page twice."
    ));
    Ok(findings)
}

pub fn versions(lab: &mut Lab<'_>) -> Result<Findings> {
    let rows = match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => 5_000,
        (_, true) => 400_000,
        _ => 4_000_000,
    };
    let percents = [0, 1, 5, 10, 25, 50, 75, 100];
    lab.tell(0, 1, &format!("{rows} rows, up to all versioned"));
    let found = scans::versioned(rows, &percents, lab.effort.rounds().max(2))?;
    let ms = |time: Duration| Some(time.as_secs_f64() * 1e3);
    let line = |value: &dyn Fn(&scans::Versioned) -> Option<f64>| -> Vec<Option<f64>> {
        found.iter().map(value).collect()
    };
    let mut findings = Findings::default();
    findings.series.push(Lines {
        title: "A full scan in place".to_owned(),
        x_label: "rows with a version, %".to_owned(),
        unit: "ms".to_owned(),
        digits: 2,
        places: percents.map(|percent| percent.to_string()).to_vec(),
        lines: vec![
            ("new values are wanted".to_owned(), line(&|v| ms(v.as_of_now))),
            ("old versions are wanted".to_owned(), line(&|v| ms(v.as_of_before))),
        ],
    });
    let (first, last) = (&found[0], &found[found.len() - 1]);
    let slower = last.as_of_before.as_secs_f64() / first.as_of_before.as_secs_f64();
    let claim = "all rows versioned over none, zones on";
    findings.ratio(claim, 5.0, slower);
    let stamps = last.as_of_now.as_secs_f64() / first.as_of_now.as_secs_f64();
    findings.claim("the same by a reader newer than all", "-", times(stamps), stamps > 1.0);
    findings.remark(&format!("one column of {rows} rows; the thesis scans three TPC-H tables."));
    Ok(findings)
}

/// Columns of TPC-H's tables that are numbers or dates, and rows of each in thousands at scale 1.
const TPCH: [(&str, usize, usize); 3] =
    [("LINEITEM", 11, 6_000), ("ORDERS", 5, 1_500), ("PART", 3, 200)];

pub fn tables(lab: &mut Lab<'_>) -> Result<Findings> {
    let divisor = match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => 1_000,
        (_, true) => 20,
        _ => 2,
    };
    let mut rows = Vec::new();
    let mut sums = [0.0; 3];
    let mut bytes = 0;
    for (at, (name, columns, thousands)) in TPCH.into_iter().enumerate() {
        let column_bytes = thousands * 1_000 / divisor * 8 / 4_096 * 4_096;
        let sizes = Sizes { columns, column_bytes: column_bytes.max(4_096) };
        bytes += columns * sizes.column_bytes;
        lab.tell(at, TPCH.len() + 1, &name);
        let pages = sizes.pages() / 100;
        let found = [
            measure::<Slabs>(sizes, pages)?,
            measure::<Private>(sizes, pages)?,
            measure::<Rewired>(sizes, pages)?,
        ];
        let mut row = vec![name.to_owned(), columns.to_string()];
        for (sum, cost) in sums.iter_mut().zip(&found) {
            *sum += cost.freeze_ms(columns).map_or(0.0, |(ms, _)| ms);
            row.push(milliseconds(cost, columns));
        }
        rows.push(row);
    }
    lab.tell(TPCH.len(), TPCH.len() + 1, &"fork");
    // A process of about three times the tables, as the thesis's was.
    let fork = measure_fork(Sizes { columns: 3, column_bytes: bytes.next_multiple_of(4_096) })?;
    let fork_ms = fork.freeze_ms(1).map_or(f64::NAN, |(ms, _)| ms);
    let all = sums.map(short).to_vec();
    rows.push([vec!["all".to_owned(), "19".to_owned()], all].concat());
    let heads = ["table", "columns", "slabs, ms", "private, ms", "rewired, ms"];
    let mut findings = Findings::default();
    let title = format!("Snapshots of {} MB of columns; fork: {} ms", bytes >> 20, short(fork_ms));
    findings.tables.push((title, Table { heads: heads.map(str::to_owned).to_vec(), rows }));
    for (name, sum) in ["slabs", "private", "rewired"].into_iter().zip(sums) {
        let claim = format!("fork over {name}, all columns of all tables");
        let faster = fork_ms / sum;
        findings.judge(&claim, "considerably", times(faster), faster >= 2.0, faster > 1.0);
    }
    findings.remark("1 % of the pages are modified before; the forked process has three times the tables, as the thesis's 5.2 GB are to its 1.5 GB.");
    Ok(findings)
}
