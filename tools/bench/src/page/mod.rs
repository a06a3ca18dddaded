//! A comparison as a page: plots, a table under each, and what it was measured on.
//!
//! One file, without scripts and without anything from elsewhere; light or dark as its reader
//! prefers. One of the things that the measurements vary becomes the plots' x-axis, the one with
//! the most values; each combination of the others has a section of its own.

mod plot;

use std::fmt::Write;

use crate::Measurement;
use crate::agreement;
use crate::paper::{Figure, Findings, Lines, Tally};
use crate::table::{self, on_off, thousands};
use plot::{Line, Plot, Point, escape};

const STYLE: &str = include_str!("style.css");

/// What the page says besides the measurements, in pairs of a name and a value.
pub type Facts = [(&'static str, String)];

pub fn render(title: &str, measurements: &[Measurement], facts: &Facts) -> String {
    let mut page = head(title, &table::heading(measurements), facts);
    warnings(measurements, &mut page);
    let axis = Axis::of(measurements);
    let protocols = distinct(measurements, |m| m.protocol.clone());
    for section in axis.sections(measurements) {
        let title = axis.title(section[0], measurements);
        let _ = writeln!(page, "<h2>{}</h2>\n<div class=\"plots\">", escape(&title));
        section_of(&axis, &section, &protocols, &mut page);
        page.push_str("</div>\n");
    }
    page.push_str(NOTES);
    page.push_str("</main>\n</html>\n");
    page
}

fn head(title: &str, lead: &str, facts: &Facts) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n<main>\n<header>\n<h1>{0}</h1>\n<p class=\"lead\">{1}</p>\n",
        escape(title),
        escape(lead)
    );
    facts_list(facts, &mut page);
    page.push_str("</header>\n");
    page
}

/// Figures of papers, one after the other.
pub fn figures(title: &str, found: &[(&Figure, Findings)], facts: &Facts) -> String {
    let tally = Tally::of(found.iter().flat_map(|(_, findings)| &findings.claims));
    let lead = format!("Figures of papers, measured again. {tally}");
    let mut page = head(title, &lead, facts);
    for (figure, findings) in found {
        let (name, about) = (escape(figure.name), escape(figure.about));
        let _ = writeln!(page, "<h2>{name}: {about}</h2>\n<p>{}</p>", escape(figure.source));
        findings_of(findings, &mut page);
    }
    page.push_str("</main>\n</html>\n");
    page
}

/// What was found by something that is no figure.
pub fn findings(title: &str, lead: &str, findings: &Findings, facts: &Facts) -> String {
    let mut page = head(title, lead, facts);
    findings_of(findings, &mut page);
    page.push_str("</main>\n</html>\n");
    page
}

fn findings_of(findings: &Findings, page: &mut String) {
    if let Some(simulation) = &findings.simulation {
        let what = escape(&simulation.what);
        let _ = writeln!(page, "<p><strong>Simulated:</strong> {what}</p>");
    }
    page.push_str("<div class=\"plots\">\n");
    findings.series.iter().chain(&findings.plots).for_each(|lines| lines_of(lines, page));
    page.push_str("</div>\n");
    let text = Findings { series: Vec::new(), ..findings.clone() }.render();
    let _ = writeln!(page, "<pre>{}</pre>", escape(&text));
}

fn lines_of(lines: &Lines, page: &mut String) {
    let point = |value: &Option<f64>| value.map(exactly);
    let of_line = |(colour, (name, values)): (usize, &(String, Vec<Option<f64>>))| Line {
        name: name.clone(),
        colour,
        points: values.iter().map(point).collect(),
    };
    let plot = Plot {
        x_label: lines.x_label.clone(),
        y_label: lines.unit.clone(),
        places: lines.places.clone(),
        lines: lines.lines.iter().enumerate().map(of_line).collect(),
    };
    let (title, unit) = (escape(&lines.title), escape(&lines.unit));
    let caption = format!("<figcaption><h3>{title}</h3><p>{unit}</p></figcaption>");
    let _ = writeln!(page, "<figure>\n{caption}\n{}", plot.svg());
    rows_of(&plot, lines.digits, |_| None, page);
    page.push_str("</figure>\n");
}

fn facts_list(facts: &Facts, page: &mut String) {
    page.push_str("<dl>\n");
    for (name, value) in facts {
        let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    page.push_str("</dl>\n");
}

fn warnings(measurements: &[Measurement], page: &mut String) {
    let mismatches = agreement::mismatches(measurements);
    if mismatches.is_empty() {
        return;
    }
    page.push_str("<div class=\"wrong\"><h2>Wrong results</h2><p>States differ that must be ");
    page.push_str("equal; figures of these cells mean nothing.</p><ul>\n");
    for mismatch in mismatches {
        let _ = writeln!(page, "<li>{}</li>", escape(&mismatch.message));
    }
    page.push_str("</ul></div>\n");
}

/// Something that cells differ in.
struct Dimension {
    label: &'static str,
    value: fn(&Measurement) -> String,
    /// As a section's title has it.
    words: fn(&Measurement) -> String,
}

const DIMENSIONS: &[Dimension] = &[
    Dimension {
        label: "skew (Zipf theta)",
        value: |m| m.theta.map_or_else(|| "-".to_owned(), |theta| theta.to_string()),
        words: |m| m.theta.map_or_else(String::new, |theta| format!("theta {theta}")),
    },
    Dimension {
        label: "warehouses",
        value: |m| m.warehouses.map_or_else(|| "-".to_owned(), |count| count.to_string()),
        words: |m| m.warehouses.map_or_else(String::new, |count| format!("{count} warehouses")),
    },
    Dimension {
        label: "transactions of a block",
        value: |m| thousands(m.block_transactions as f64),
        words: |m| format!("blocks of {}", thousands(m.block_transactions as f64)),
    },
    Dimension {
        label: "threads",
        value: |m| m.threads.to_string(),
        words: |m| match m.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        },
    },
    Dimension {
        label: "sealing",
        value: |m| on_off(m.sealing).to_owned(),
        words: |m| format!("sealing {}", on_off(m.sealing)),
    },
    Dimension {
        label: "durability",
        value: |m| on_off(m.durability).to_owned(),
        words: |m| format!("durability {}", on_off(m.durability)),
    },
    Dimension { label: "workload", value: table::workload, words: table::workload },
];

/// The dimension that the plots' x-axis has.
struct Axis(&'static Dimension);

impl Axis {
    fn of(measurements: &[Measurement]) -> Axis {
        let most = DIMENSIONS
            .iter()
            .rev()
            .max_by_key(|dimension| distinct(measurements, dimension.value).len());
        Axis(most.unwrap_or(&DIMENSIONS[0]))
    }

    /// Measurements that differ in nothing but the axis and the protocol.
    fn sections<'a>(&self, measurements: &'a [Measurement]) -> Vec<Vec<&'a Measurement>> {
        let others = |m: &Measurement| -> Vec<String> {
            let others = DIMENSIONS.iter().filter(|dimension| dimension.label != self.0.label);
            others.map(|dimension| (dimension.value)(m)).collect()
        };
        let mut sections: Vec<Vec<&Measurement>> = Vec::new();
        for measurement in measurements {
            let place = sections.iter().position(|s| others(s[0]) == others(measurement));
            match place {
                Some(place) => sections[place].push(measurement),
                None => sections.push(vec![measurement]),
            }
        }
        sections
    }

    /// What sets a section apart from the others.
    fn title(&self, one: &Measurement, all: &[Measurement]) -> String {
        let others = DIMENSIONS.iter().filter(|dimension| dimension.label != self.0.label);
        let apart = others.filter(|dimension| distinct(all, dimension.value).len() > 1);
        let words: Vec<String> = apart.map(|dimension| (dimension.words)(one)).collect();
        if words.is_empty() { "Results".to_owned() } else { words.join(", ") }
    }
}

/// What is plotted.
struct Quantity {
    title: &'static str,
    /// Of the numbers on the y-axis and in the table.
    unit: &'static str,
    point: fn(&Measurement) -> Point,
    digits: usize,
    more_is_better: bool,
    /// Not worth a plot where it is zero throughout.
    optional: bool,
}

const fn exactly(value: f64) -> Point {
    Point { value, min: value, max: value }
}

const QUANTITIES: &[Quantity] = &[
    Quantity {
        title: "Throughput per CPU-second",
        unit: "committed transactions per second of processor time",
        point: |m| Point {
            value: m.committed_per_cpu_second,
            min: m.committed_per_cpu_second_min,
            max: m.committed_per_cpu_second_max,
        },
        digits: 0,
        more_is_better: true,
        optional: false,
    },
    Quantity {
        title: "Throughput",
        unit: "committed transactions per second",
        point: |m| Point {
            value: m.committed_per_second,
            min: m.committed_per_second_min,
            max: m.committed_per_second_max,
        },
        digits: 0,
        more_is_better: true,
        optional: false,
    },
    Quantity {
        title: "Aborted",
        unit: "% of executions turned away for the sake of concurrency",
        point: |m| exactly(100.0 * m.abort_share),
        digits: 1,
        more_is_better: false,
        optional: true,
    },
    Quantity {
        title: "Deferred",
        unit: "% of executions deferred to the next block",
        point: |m| exactly(100.0 * m.deferred_share),
        digits: 1,
        more_is_better: false,
        optional: true,
    },
    Quantity {
        title: "Latency, 50th percentile",
        unit: "ms until the block that decides a transaction ends",
        point: |m| exactly(m.latency_us_p50 as f64 / 1e3),
        digits: 1,
        more_is_better: false,
        optional: false,
    },
    Quantity {
        title: "Latency, 99th percentile",
        unit: "ms until the block that decides a transaction ends",
        point: |m| exactly(m.latency_us_p99 as f64 / 1e3),
        digits: 1,
        more_is_better: false,
        optional: false,
    },
];

fn section_of(axis: &Axis, cells: &[&Measurement], protocols: &[String], page: &mut String) {
    for quantity in QUANTITIES {
        let points = || cells.iter().map(|cell| (quantity.point)(cell).value);
        if quantity.optional && points().all(|value| value == 0.0) {
            continue;
        }
        let plot = plot_of(axis, quantity, cells, protocols);
        let _ = writeln!(
            page,
            "<figure>\n<figcaption><h3>{}</h3><p>{}</p></figcaption>\n{}",
            quantity.title,
            quantity.unit,
            plot.svg()
        );
        table_of(quantity, &plot, page);
        page.push_str("</figure>\n");
    }
}

fn plot_of(axis: &Axis, quantity: &Quantity, cells: &[&Measurement], protocols: &[String]) -> Plot {
    let mut places: Vec<String> = Vec::new();
    for cell in cells {
        let place = (axis.0.value)(cell);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let point = |protocol: &str, place: &String| {
        let cell = cells.iter().find(|m| m.protocol == protocol && (axis.0.value)(m) == *place);
        cell.map(|cell| (quantity.point)(cell))
    };
    let lines = protocols
        .iter()
        .enumerate()
        .map(|(colour, name)| Line {
            name: name.clone(),
            colour,
            points: places.iter().map(|place| point(name, place)).collect(),
        })
        .collect();
    Plot { x_label: axis.0.label.to_owned(), y_label: quantity.unit.to_owned(), places, lines }
}

/// The plot's numbers; the best of each column stands out.
fn table_of(quantity: &Quantity, plot: &Plot, page: &mut String) {
    let best = |at: usize| {
        let values = plot.lines.iter().filter_map(|line| line.points[at]).map(|p| p.value);
        match quantity.more_is_better {
            true => values.max_by(f64::total_cmp),
            false => values.min_by(f64::total_cmp),
        }
    };
    rows_of(plot, quantity.digits, best, page);
}

fn rows_of(plot: &Plot, digits: usize, best: impl Fn(usize) -> Option<f64>, page: &mut String) {
    let _ = write!(page, "<table>\n<tr><th>{}</th>", escape(&plot.x_label));
    for place in &plot.places {
        let _ = write!(page, "<th>{}</th>", escape(place));
    }
    page.push_str("</tr>\n");
    let best: Vec<Option<f64>> = (0..plot.places.len()).map(best).collect();
    for line in &plot.lines {
        let colour = line.colour % plot::COLOURS;
        let name = escape(&line.name);
        let _ = write!(page, "<tr><th><i class=\"c{colour}\"></i>{name}</th>");
        for (point, best) in line.points.iter().zip(&best) {
            let value = point.map(|point| point.value);
            let class = if value.is_some() && value == *best { " class=\"best\"" } else { "" };
            let text = value.map_or_else(|| "–".to_owned(), |v| number(v, digits));
            let _ = write!(page, "<td{class}>{text}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn number(value: f64, digits: usize) -> String {
    if digits == 0 { thousands(value) } else { format!("{value:.digits$}") }
}

/// Each once, in the order of their first appearance.
fn distinct(measurements: &[Measurement], of: fn(&Measurement) -> String) -> Vec<String> {
    let mut values = Vec::new();
    for value in measurements.iter().map(of) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

const NOTES: &str = "\
<footer>
<h2>How to read this</h2>
<p>The engine alone: no clients, no sockets, all transactions drawn and compiled before the clock
starts, a fresh copy of the loaded tables for every run. Points are medians of the repetitions,
which alternate between the protocols; whiskers reach from the least to the greatest. Places on the
x-axis are equally spaced, whatever their values.</p>
<p>Processor time is that of all threads of the process, so throughput per CPU-second charges a
protocol for the threads that it keeps busy. A transaction&rsquo;s latency is the time from the
start of the first block that it is in to the end of the block that decides it. An execution is
aborted if the protocol turned it away, be it to run again in the same block, to be deferred to the
next one, or to fail with SQLSTATE&nbsp;40001; a transaction that is deferred counts as an execution
in each of its blocks.</p>
<p>Every run ends in a digest of the whole state. Protocols whose serial order is block order
agreed on it, and each protocol agreed with itself over repetitions, threads and sealing, unless a
box at the top says otherwise.</p>
</footer>
";

#[cfg(test)]
mod tests {
    use crate::{Plan, measure};

    #[test]
    fn a_page_has_its_plots_tables_and_facts() {
        let plan = Plan {
            workloads: vec!["ycsb:rows=100".parse().unwrap()],
            protocols: vec!["serial".into(), "harmony".into()],
            thetas: vec![0.0, 0.5, 0.9],
            threads: vec![1, 2],
            transactions: 60,
            block_transactions: vec![20],
            repetitions: 1,
            ..Plan::default()
        };
        let mut measurements = measure(&plan, &mut |_, _, _| {}).unwrap();
        let facts = [("processor", "a <fast> one".to_owned())];
        let page = super::render("tally bench: ycsb", &measurements, &facts);
        for text in ["<h2>1 thread</h2>", "<h2>2 threads</h2>", "skew (Zipf theta)", "0.5"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.contains("a &lt;fast&gt; one"));
        assert_eq!(page.matches("<svg").count(), page.matches("<table").count());
        assert!(page.matches("<svg").count() >= 8);
        for foreign in ["<script", "http:", "https:", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(!page.contains("Wrong results"));
        measurements[1].digest_agrees = false;
        assert!(super::render("x", &measurements, &[]).contains("Wrong results"));
    }
}
