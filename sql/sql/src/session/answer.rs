//! [`Answer`]: what a session returns for a statement: rows, a command tag, a COPY to begin.

use kit::pool::Lease;
use procedure::{Output, ProgramResult};
use types::Value;

use crate::copy::CopyFormatter;
use crate::plan::analytical_engine::RowBatches;

/// What a statement answers.
pub enum Answer {
    Rows {
        rows: Vec<Box<[Value]>>,
        tag: Tag,
        /// Covers the rows, where they are many, until the client has them.
        lease: Option<Lease>,
    },
    Stream {
        rows: RowBatches,
        tag: Tag,
    },
    Tag(Tag),
    /// Statements that the client prepared by protocol go, too: one, or all.
    Deallocated {
        name: Option<String>,
        tag: Tag,
    },
    /// The client's data follows.
    CopyIn {
        columns: usize,
        is_binary: bool,
    },
    CopyOut {
        columns: usize,
        rows: RowBatches,
        formatter: CopyFormatter,
    },
}

impl Answer {
    /// The lines of EXPLAIN.
    pub(super) fn explained(lines: &[String]) -> Answer {
        let rows = lines.iter().map(|line| [Value::from(line.as_str())].into()).collect();
        Answer::Rows { rows, tag: Tag::Plain("EXPLAIN".into()), lease: None }
    }

    /// Of each row the values at these places.
    pub(super) fn only_columns(self, places: &[usize]) -> Answer {
        let Answer::Rows { rows, tag, lease } = self else { return self };
        let chosen = |row: Box<[Value]>| places.iter().map(|&place| row[place].clone()).collect();
        Answer::Rows { rows: rows.into_iter().map(chosen).collect(), tag, lease }
    }
}

/// A command tag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tag {
    /// The number of rows sent follows.
    Select,
    /// `INSERT 0`, `UPDATE`, `DELETE`, `COPY` and how many rows.
    Counted(String, u64),
    Plain(String),
}

pub(super) fn plain(tag: &str) -> Answer {
    Answer::Tag(Tag::Plain(tag.to_owned()))
}

pub(super) fn answer(
    tag: &str,
    output: &Output,
    result: ProgramResult,
    lease: Option<Lease>,
) -> Answer {
    let tag = match tag {
        "SELECT" => Tag::Select,
        "CALL" | "DO" => Tag::Plain(tag.to_owned()),
        counted => Tag::Counted(counted.to_owned(), result.count),
    };
    match output {
        Output::Rows(_) => Answer::Rows { rows: result.rows, tag, lease },
        Output::Tag => Answer::Tag(tag),
    }
}
