//! Answers of two databases to one question, compared.
//!
//! Rows come in the order in which they were given, cells as PostgreSQL writes them. Two cells are
//! the same if
//!
//! - both are NULL, or both are the same text but for blanks at its end, which `char(n)` may have;
//! - both are floating (one has an exponent), and agree to nine digits.

use types::numeric::Numeric;

const FLOAT_TOLERANCE: f64 = 1e-9;
/// Rows of an answer that a message shows.
const SHOWN_ROWS: usize = 3;

/// What a database answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

/// A database that can be loaded and asked.
pub trait Answerer {
    /// For people: `PostgreSQL 15.3`.
    fn name(&self) -> String;

    /// Makes the workload's tables and loads them; whatever was there before goes.
    ///
    /// # Errors
    /// The database's own.
    fn load(&mut self, workload: &workloads::analytical::Analytical) -> anyhow::Result<()>;

    /// All rows that a query gives.
    ///
    /// # Errors
    /// The database's own.
    fn ask(&mut self, query: &str) -> anyhow::Result<Answer>;
}

impl Answer {
    /// From lines of cells between tabs, the first with the columns' names, `\N` for NULL.
    pub fn from_lines(text: &str) -> Answer {
        let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = text.lines().map(cells);
        let columns = lines.next().unwrap_or_default();
        let value = |cell: String| (cell != "\\N").then_some(cell);
        Answer { columns, rows: lines.map(|row| row.into_iter().map(value).collect()).collect() }
    }

    pub fn to_lines(&self) -> String {
        let line = |row: &Vec<Option<String>>| {
            let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("\\N"));
            cells.collect::<Vec<_>>().join("\t") + "\n"
        };
        self.columns.join("\t") + "\n" + &self.rows.iter().map(line).collect::<String>()
    }
}

/// What differs, for people; `None`: nothing does.
pub fn difference(ours: &Answer, theirs: &Answer) -> Option<String> {
    if ours.columns != theirs.columns {
        return Some(format!("columns {:?}, and not {:?}", ours.columns, theirs.columns));
    }
    if ours.rows.len() != theirs.rows.len() {
        return Some(format!("{} rows, and not {}", ours.rows.len(), theirs.rows.len()));
    }
    let same = |(a, b): &(&Vec<_>, &Vec<_>)| a.iter().zip(*b).all(|(a, b)| same_cell(a, b));
    let pairs = ours.rows.iter().zip(&theirs.rows).enumerate();
    let different = pairs.filter(|(_, pair)| !same(pair));
    let shown = different.take(SHOWN_ROWS).map(|(at, (a, b))| {
        let cells = ours.columns.iter().zip(a.iter().zip(b));
        let cells = cells.filter(|(_, (a, b))| !same_cell(a, b));
        let cells = cells.map(|(name, (a, b))| format!("{name} is {a:?}, and not {b:?}"));
        format!("row {}: {}", at + 1, cells.collect::<Vec<_>>().join("; "))
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join("\n"))
}

fn same_cell(ours: &Option<String>, theirs: &Option<String>) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return ours == theirs };
    if ours.trim_end_matches(' ') == theirs.trim_end_matches(' ') {
        return true;
    }
    // Numbers with other digits, and no floats.
    let is_exact = |text: &str| text.parse::<Numeric>().is_ok() && !text.contains('e');
    if is_exact(ours) && is_exact(theirs) {
        return false;
    }
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(ours), Ok(theirs)) => {
            (ours - theirs).abs() <= FLOAT_TOLERANCE * ours.abs().max(theirs.abs())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_same_digits() {
        let cell = |text: &str| (text != "-").then(|| text.to_owned());
        for (a, b) in [("a ", "a"), ("0.0400", "0.0400"), ("-", "-")] {
            assert!(same_cell(&cell(a), &cell(b)), "{a} {b}");
        }
        for (a, b) in [("1.50", "1.51"), ("2", "2.00"), ("a", "b"), ("-", "0"), ("0.333", "0.3333")]
        {
            assert!(!same_cell(&cell(a), &cell(b)), "{a} {b}");
        }
        assert!(same_cell(&cell("1.0000000001e10"), &cell("1e10")));
        assert!(!same_cell(&cell("1.00001e10"), &cell("1e10")));
    }

    #[test]
    fn a_difference_says_where() {
        let answer = Answer::from_lines("a\tb\n1\tx\n2\t\\N\n");
        assert_eq!(Answer::from_lines(&answer.to_lines()), answer);
        assert_eq!(difference(&answer, &answer), None);
        let mut other = answer.clone();
        other.rows[1][1] = Some("y".to_owned());
        let text = difference(&answer, &other).expect("a difference");
        assert_eq!(text, "row 2: b is None, and not Some(\"y\")");
        other.rows.pop();
        assert!(difference(&answer, &other).expect("a difference").contains("2 rows, and not 1"));
    }
}
