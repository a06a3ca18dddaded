//! What may only improve.
//!
//! `ratchet.txt` holds one line for each measure and subject (a crate, a file, a function) with the
//! value that was reached last. A worse value is a fault, and so is a better one until
//! `cargo xtask ratchet --write` has put it into the file, so that what was won is kept. A subject
//! without a line has to meet the aim. To accept a worse value (code that moves to another crate
//! takes its counts along) is to edit the line by hand, where a review sees it.
//!
//! | measure | subject | value | aim |
//! |---|---|---|---|
//! | `cycle` | crate | files in the largest cycle of imports ([`cycles`]) | 0 |
//! | `file` | file of source | its lines, where more than 700 | 700 |
//! | `function` | function | its lines, where more than 70 | 70 |
//! | `assertions` | crate of the core | assertions a thousand lines of code, to a tenth below | 4 |
//! | `pronouns` | crate, or `docs` | pronouns of persons in comments and pages | 0 |
//! | `string_errors` | crate | types `Result<_, String>` | 0 |
//!
//! Code is what is compiled without tests: files are found as the compiler finds them, from `mod`
//! to `mod`, and what is under `#[cfg(test)]` is passed over. Only `pronouns` also reads tests,
//! examples and benchmarks.

mod comments;
mod conditions;
mod counts;
mod crates;
pub mod cycles;
mod measure;
pub mod modules;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use measure::{Key, MEASURES, Values, measure_of};

const FILE: &str = "tools/xtask/ratchet.txt";

/// The limits of the file, each with its line number.
type Limits = BTreeMap<Key, (u64, usize)>;

/// Every value that is not what the file says.
pub fn faults(root: &Path) -> io::Result<Vec<String>> {
    let values = crates::measure(root)?;
    let limits = parse(&fs::read_to_string(root.join(FILE))?)?;
    let mut faults = worse(&values, &limits);
    faults.extend(better(&values, &limits));
    Ok(faults)
}

/// Tightens the limits to the values, loosens none, and says what is worse than its limit.
pub fn write(root: &Path) -> io::Result<Vec<String>> {
    let values = crates::measure(root)?;
    let path = root.join(FILE);
    let limits = parse(&fs::read_to_string(&path)?)?;
    fs::write(path, render(&values, &limits))?;
    Ok(worse(&values, &limits))
}

/// Where a value comes from.
pub fn places(root: &Path, measure: &str, subject: &str) -> io::Result<Vec<String>> {
    let Some(measure) = measure_of(measure) else {
        let names: Vec<&str> = MEASURES.iter().map(|measure| measure.name).collect();
        return Err(io::Error::other(format!("no such measure; there are {}", names.join(", "))));
    };
    let mut values = crates::measure(root)?;
    let key = (measure.name, subject.to_owned());
    Ok(values.remove(&key).map(|measured| measured.places).unwrap_or_default())
}

fn worse(values: &Values, limits: &Limits) -> Vec<String> {
    let mut faults = Vec::new();
    for (key, measured) in values {
        let measure = measure_of(key.0).expect("values are of measures");
        let (limit, line) = match limits.get(key) {
            Some((limit, line)) => (*limit, format!("{FILE}:{line}")),
            None => (measure.aim, format!("the aim, as {FILE} has no line")),
        };
        if !measure.worse(measured.value, limit) {
            continue;
        }
        let bound = if measure.more_is_better { "at least" } else { "at most" };
        let mut fault = format!(
            "{}: {} {}, {bound} {} ({line})",
            key.1,
            measure.show(measured.value),
            measure.unit,
            measure.show(limit),
        );
        const SHOWN_MAX: usize = 40;
        for place in measured.places.iter().take(SHOWN_MAX) {
            fault.push_str(&format!("\n    {place}"));
        }
        if let Some(left @ 1..) = measured.places.len().checked_sub(SHOWN_MAX) {
            fault.push_str(&format!(
                "\n    and {left} more: cargo xtask ratchet --places {} {}",
                key.0, key.1
            ));
        }
        faults.push(fault);
    }
    faults
}

fn better(values: &Values, limits: &Limits) -> Vec<String> {
    let mut faults = Vec::new();
    for (key, (limit, line)) in limits {
        let measure = measure_of(key.0).expect("limits are of measures");
        let place = format!("{FILE}:{line}");
        match values.get(key) {
            None => faults.push(format!(
                "{place}: {} {} is within the aim or gone; `cargo xtask ratchet --write`",
                key.0, key.1
            )),
            Some(measured)
                if measured.value != *limit && !measure.worse(measured.value, *limit) =>
            {
                faults.push(format!(
                    "{place}: {} {} is {}, better than {}; `cargo xtask ratchet --write`",
                    key.0,
                    key.1,
                    measure.show(measured.value),
                    measure.show(*limit)
                ));
            }
            Some(_) => {}
        }
    }
    faults
}

/// `measure subject value`, and comments.
fn parse(text: &str) -> io::Result<Limits> {
    let mut limits = Limits::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| io::Error::other(format!("{FILE}:{line_number}: {why}: {line}"));
        let parts: Vec<&str> = line.split(' ').collect();
        let [name, subject, value] = parts[..] else {
            return Err(wrong("not `measure subject value`"));
        };
        let measure = measure_of(name).ok_or_else(|| wrong("no such measure"))?;
        let value = measure.read(value).ok_or_else(|| wrong("not a value of this measure"))?;
        let key = (measure.name, subject.to_owned());
        if limits.insert(key, (value, line_number)).is_some() {
            return Err(wrong("twice"));
        }
    }
    Ok(limits)
}

/// The file with the better of value and limit for each subject that has a line. One without has to
/// meet the aim, and gets no line.
fn render(values: &Values, limits: &Limits) -> String {
    let mut text = String::from(
        "# What may only improve: `measure subject value`, as tools/xtask/src/ratchet explains.\n\
         # `cargo xtask ratchet --write` tightens it; a worse value is written by hand.\n",
    );
    for measure in MEASURES {
        text.push('\n');
        for (key, (limit, _)) in limits.iter().filter(|(key, _)| key.0 == measure.name) {
            let Some(measured) = values.get(key) else { continue };
            let worse = measure.worse(measured.value, *limit);
            let kept = if worse { *limit } else { measured.value };
            // A count of none is the aim; a line for it would only be another to keep.
            if worse || measure.worse(kept, measure.aim) {
                text.push_str(&format!("{} {} {}\n", key.0, key.1, measure.show(kept)));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::measure::{ASSERTIONS, CYCLE, FILE_LINES, Measure, Measured, PRONOUNS};
    use super::*;

    #[test]
    fn nothing_got_worse() {
        let faults = faults(&crate::root()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    fn values(of: &[(&Measure, &str, u64)]) -> Values {
        let value = |value| Measured { value, places: vec!["here".to_owned()] };
        of.iter().map(|(m, subject, v)| ((m.name, (*subject).to_owned()), value(*v))).collect()
    }

    const TEXT: &str = "# c\n\ncycle a 5\npronouns b 7\nassertions c 0.3\nassertions d 3.9\n";

    #[test]
    fn a_worse_value_is_named_with_its_limit() {
        let limits = parse(TEXT).unwrap();
        let measured = values(&[(&CYCLE, "a", 6), (&PRONOUNS, "b", 7), (&ASSERTIONS, "c", 2)]);
        assert_eq!(
            worse(&measured, &limits),
            [
                "c: 0.2 assertions a thousand lines, at least 0.3 (tools/xtask/ratchet.txt:5)\n    here",
                "a: 6 files in one cycle of imports, at most 5 (tools/xtask/ratchet.txt:3)\n    here",
            ]
        );
    }

    #[test]
    fn a_subject_without_a_line_has_to_meet_the_aim() {
        let limits = parse(TEXT).unwrap();
        let found = |of: &[(&Measure, &str, u64)]| worse(&values(of), &limits).len();
        assert_eq!(found(&[(&CYCLE, "new", 2)]), 1);
        assert_eq!(found(&[(&ASSERTIONS, "new", 39)]), 1);
        assert_eq!(found(&[(&ASSERTIONS, "new", 40), (&FILE_LINES, "new", 700)]), 0);
    }

    #[test]
    fn a_better_value_is_a_fault_until_it_is_written() {
        let limits = parse(TEXT).unwrap();
        let measured = values(&[
            (&CYCLE, "a", 4),
            (&PRONOUNS, "b", 8),
            (&ASSERTIONS, "c", 4),
            (&ASSERTIONS, "d", 41),
        ]);
        assert_eq!(better(&measured, &limits).len(), 3);
        let text = render(&measured, &limits);
        let written = parse(&text).unwrap();
        assert_eq!(written[&("cycle", "a".to_owned())].0, 4);
        assert_eq!(written[&("pronouns", "b".to_owned())].0, 7, "it is not loosened");
        assert_eq!(written[&("assertions", "c".to_owned())].0, 4);
        assert!(!written.contains_key(&("assertions", "d".to_owned())), "it has met the aim");
        assert_eq!(worse(&measured, &written).len(), 1);
        assert!(better(&measured, &written).is_empty());
    }

    #[test]
    fn what_is_gone_leaves_the_file() {
        let limits = parse(TEXT).unwrap();
        let none = Values::new();
        assert_eq!(better(&none, &limits).len(), 4);
        assert!(parse(&render(&none, &limits)).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        for line in [
            "cycle a",
            "cycle a 1 2",
            "round a 1",
            "cycle a 1.5",
            "assertions a 1",
            "assertions a 1.25",
            "cycle a 1\ncycle a 2",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
