//! `cargo xtask unicode`: the tables of `types::unicode`, from those of the toolchain that runs
//! this.
//!
//! The standard library maps a character to as many as Unicode's SpecialCasing says; the tables are
//! the simple mappings, of one character to one. The two differ where SpecialCasing has an entry:
//! there the simple mapping is the character itself, but for [`SIMPLE`].

use std::fmt::Write;

/// Characters whose case mapping is several characters, and whose simple one is another: first,
/// last, what is added. The small Greek letters with iota below, and the I with a dot above.
const SIMPLE: [(u32, u32, i32); 7] = [
    (0x130, 0x130, 0x69 - 0x130),
    (0x1f80, 0x1f87, 8),
    (0x1f90, 0x1f97, 8),
    (0x1fa0, 0x1fa7, 8),
    (0x1fb3, 0x1fb3, 9),
    (0x1fc3, 0x1fc3, 9),
    (0x1ff3, 0x1ff3, 9),
];

/// Characters `first`, `first + step`, … `last`, each of which becomes itself plus `delta`.
struct Run {
    first: u32,
    last: u32,
    step: u32,
    delta: i32,
}

pub fn tables() -> String {
    let (major, minor, update) = char::UNICODE_VERSION;
    let version = format!("Unicode {major}.{minor}.{update}");
    let mut out = format!(
        "//! Simple case mappings and letters of {version}, made by `cargo xtask unicode`.\n//! \
         Another version is another executor.\n\n\
         /// Characters from the first to the last, this many apart, and what is added to each of \
         them.\npub(super) type Run = (u32, u32, u32, i32);\n"
    );
    put_runs("TO_UPPER", &runs(|c| simple(c, c.to_uppercase())), &mut out);
    put_runs("TO_LOWER", &runs(|c| simple(c, c.to_lowercase())), &mut out);
    put_ranges("ALPHABETIC", &ranges(char::is_alphabetic), &mut out);
    out
}

fn characters() -> impl Iterator<Item = char> {
    (0..=0x0010_ffff).filter_map(char::from_u32)
}

fn simple(c: char, mut mapped: impl Iterator<Item = char>) -> i32 {
    let first = mapped.next().unwrap_or(c);
    if mapped.next().is_none() {
        return first as i32 - c as i32;
    }
    let of = |&&(first, last, _): &&(u32, u32, i32)| (first..=last).contains(&u32::from(c));
    SIMPLE.iter().find(of).map_or(0, |(.., delta)| *delta)
}

fn runs(delta: impl Fn(char) -> i32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for c in characters() {
        let (delta, c) = (delta(c), u32::from(c));
        if delta == 0 {
            continue;
        }
        if let Some(run) = runs.last_mut().filter(|run| run.delta == delta) {
            let step = c - run.last;
            if run.first == run.last && step <= 2 || step == run.step {
                (run.last, run.step) = (c, step);
                continue;
            }
        }
        runs.push(Run { first: c, last: c, step: 1, delta });
    }
    runs
}

fn ranges(holds: impl Fn(char) -> bool) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for c in characters().filter(|c| holds(*c)).map(u32::from) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == c => *last = c,
            _ => ranges.push((c, c)),
        }
    }
    ranges
}

fn put_runs(name: &str, runs: &[Run], out: &mut String) {
    let items = runs.iter().map(|Run { first, last, step, delta }| {
        format!("({first:#x}, {last:#x}, {step}, {delta})")
    });
    put(name, "Run", runs.len(), items, out);
}

fn put_ranges(name: &str, ranges: &[(u32, u32)], out: &mut String) {
    let items = ranges.iter().map(|(first, last)| format!("({first:#x}, {last:#x})"));
    put(name, "(u32, u32)", ranges.len(), items, out);
}

fn put(name: &str, of: &str, count: usize, items: impl Iterator<Item = String>, out: &mut String) {
    const COLUMNS: usize = 99;
    let _ = write!(out, "\n#[rustfmt::skip]\npub(super) const {name}: [{of}; {count}] = [");
    let mut line = String::new();
    for item in items {
        if line.is_empty() || line.len() + item.len() + 2 > COLUMNS {
            let _ = write!(out, "{line}\n");
            line = format!("    {item},");
        } else {
            let _ = write!(line, " {item},");
        }
    }
    let _ = write!(out, "{line}\n];\n");
}
