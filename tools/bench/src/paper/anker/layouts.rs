//! The two layouts beside each other: why the product's tables are row-major.

use anyhow::Result;

use super::short;
use crate::freezing::layouts::{ConcurrentWork, Layout, NAMES, Size, measure};
use crate::paper::{Findings, Lab, times};
use crate::table::{Table, thousands};

fn size(lab: &Lab<'_>) -> Size {
    match (lab.effort.smoke, lab.effort.quick) {
        (true, _) => Size { rows: 3_000, blocks: 10 },
        (_, true) => Size { rows: 200_000, blocks: 30 },
        _ => Size { rows: 1_000_000, blocks: 100 },
    }
}

/// The best of several runs: what disturbs can only cost.
fn best(layouts: &[Layout]) -> Layout {
    let mut best = layouts[0];
    for layout in layouts {
        best.transactions_per_cpu_second =
            best.transactions_per_cpu_second.max(layout.transactions_per_cpu_second);
        best.changed_scan = best.changed_scan.min(layout.changed_scan);
        best.quiet_scan = best.quiet_scan.min(layout.quiet_scan);
    }
    best
}

pub fn compare(lab: &mut Lab<'_>) -> Result<Findings> {
    let (size, rounds) = (size(lab), lab.effort.rounds());
    let total = rounds * NAMES.len() * ConcurrentWork::ALL.len();
    let mut runs = vec![vec![Vec::new(); ConcurrentWork::ALL.len()]; NAMES.len()];
    let mut done = 0;
    for _ in 0..rounds {
        for (layout, name) in NAMES.iter().enumerate() {
            for (at, work) in ConcurrentWork::ALL.into_iter().enumerate() {
                lab.tell(done, total, &format!("{name}, beside {work:?}"));
                runs[layout][at].push(measure(layout, size, work)?);
                done += 1;
            }
        }
    }
    let found: Vec<Vec<Layout>> =
        runs.iter().map(|runs| runs.iter().map(|runs| best(runs)).collect()).collect();
    let row = |(name, of): (&&str, &Vec<Layout>)| {
        let mut cells = vec![(*name).to_owned()];
        cells.extend(of.iter().map(|layout| thousands(layout.transactions_per_cpu_second)));
        cells.push(short(of[2].quiet_scan.as_secs_f64() * 1e3));
        cells.push(short(of[2].changed_scan.as_secs_f64() * 1e3));
        cells
    };
    let heads = [
        "tx/CPU-s of 10 operations",
        "alone",
        "a snapshot a block",
        "a scan every 10",
        "quiet scan, ms",
        "changed scan, ms",
    ];
    let rows = NAMES.iter().zip(&found).map(row).collect();
    let mut findings = Findings::default();
    let title = format!("{} rows of 8 columns, blocks of 1,000 transactions", size.rows);
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows };
    findings.tables.push((title, table));
    let rate = |layout: usize, at: usize| found[layout][at].transactions_per_cpu_second;
    let work = ["alone", "with a snapshot a block", "with scans"];
    for (at, work) in work.iter().enumerate() {
        let ours = rate(0, at) / rate(1, at);
        let claim = format!("transactions {work}: rows over columns");
        findings.ratio(&claim, (1.4, 2.3), ours);
    }
    let microseconds = 1e6 / rate(1, 1) - 1e6 / rate(1, 0);
    let claim = "copying slabs once a block, for each transaction";
    let holds = (4.0..=30.0).contains(&microseconds);
    findings.claim(claim, "4 to 30 us", format!("{} us", short(microseconds)), holds);
    let scan = |layout: usize| found[layout][2].changed_scan.as_secs_f64();
    let ours = scan(0) / scan(1);
    findings.claim("a scan after 10 blocks: images over slabs", "-", times(ours), ours > 1.0);
    findings.remark("'paper' are the design's first estimates. One thread, processor time, the best of the repetitions; a scan's own time is not the transactions'.");
    Ok(findings)
}
