//! Transactions and outcomes in words: what a receipt shows and what `verify` names. Nothing in
//! them acts on a terminal.

use concurrency::{Load, Statement};
use types::codec::{decode_bytes, decode_u64};
use types::printable::printable;
use types::{Origin, Value};

use crate::transaction::outcome::{Reported, ReportedError, split_images};
use crate::transaction::{Body, StatementText, decode_rows};

impl Body {
    /// On one line, shortened where it is long.
    pub fn describe(&self) -> String {
        match self {
            Body::Statement(Statement { procedure: StatementText { text, types }, arguments }) => {
                let mut line = one_line(text);
                if !arguments.is_empty() {
                    line += &format!(" with {}", listed(arguments));
                }
                if !types.is_empty() {
                    line += &format!(" as ({})", printable(&types.to_string()));
                }
                line
            }
            Body::Call(Statement { procedure, arguments }) => {
                format!("call of {}{}", one_line(procedure), listed(arguments))
            }
            Body::Load(Load { procedure, rows, .. }) => {
                format!("{}: {} rows", one_line(procedure), rows.len())
            }
            Body::Interactive { transaction, .. } => {
                let requirements = transaction.rows.len() + transaction.ranges.len();
                let is_change = |(write, _): &&(Body, _)| matches!(write, Body::Schema { .. });
                let changes = transaction.writes.iter().filter(is_change).count();
                let writes = transaction.writes.len() - changes;
                let line = format!(
                    "COMMIT with {requirements} requirements and {writes} writing statements"
                );
                match changes {
                    0 => line,
                    _ => format!("{line}, {changes} schema changes"),
                }
            }
            Body::Schema { text } => one_line(text),
            Body::Parameter { name, value } => one_line(&format!("SET ledger.{name} = '{value}'")),
            Body::Checkpoint { height, digest } => {
                format!("checkpoint of block {height}, digest {}", ledger::hash::to_hex(digest))
            }
            Body::Skip { first, reason, .. } => {
                one_line(&format!("skip from block {first} on: {reason}"))
            }
            Body::Endorsed(endorsed) => {
                let reads = endorsed.rows.len() + endorsed.ranges.len();
                let writes = endorsed.writes.len();
                let proposal = endorsed.proposal.describe();
                format!("endorsed, {reads} reads and {writes} writes: {proposal}")
            }
        }
    }
}

/// An outcome as a block records it. Answers that stand in it whole are shown.
pub fn describe_outcome(bytes: &[u8]) -> String {
    match Reported::decode(bytes) {
        Ok(Reported::Committed { .. }) => describe_committed(bytes),
        Ok(Reported::Rejected(error)) => format!("rejected, {}", describe_error(&error)),
        Ok(Reported::Retry(error)) => format!("not serializable, {}", describe_error(&error)),
        Ok(Reported::Deferred) => "deferred to a later block".into(),
        Ok(Reported::Repeat(Origin { height, index })) => {
            format!("a copy of transaction {index} of block {height}")
        }
        Err(_) => "unreadable".into(),
    }
}

fn describe_error(error: &ReportedError) -> String {
    let ReportedError { code, table, column, constraint } = error;
    let mut said = String::from_utf8_lossy(code).into_owned();
    for (kind, name) in [("table", table), ("column", column), ("constraint", constraint)] {
        if let Some(name) = name {
            said += &format!(", {kind} {name}");
        }
    }
    one_line(&said)
}

/// With or without images.
fn describe_committed(bytes: &[u8]) -> String {
    let (images, outcome) = match split_images(bytes) {
        Ok((images, outcome)) => (Some(images.len()), outcome),
        Err(_) => (None, bytes),
    };
    let answer = outcome.split_first().and_then(|(_, rest)| describe_answer(rest));
    let answer = answer.unwrap_or_else(|| "unreadable".into());
    match images {
        Some(images) => format!("{answer}, left {images} rows"),
        None => answer,
    }
}

fn describe_answer(mut rest: &[u8]) -> Option<String> {
    let count = decode_u64(&mut rest).ok()?;
    let (kind, mut rest) = rest.split_first()?;
    if *kind != 1 {
        return Some(format!("committed, row count {count}"));
    }
    let rows = decode_rows(&mut decode_bytes(&mut rest).ok()?).ok()?;
    let rows: Vec<String> = rows.iter().map(|row| listed(row)).collect();
    Some(format!("committed, answered {}", one_line(&rows.join(", "))))
}

fn listed(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    one_line(&format!("({})", texts.join(", ")))
}

fn one_line(text: &str) -> String {
    const CHARACTERS_MAX: usize = 160;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = printable(&words.join(" ")).into_owned();
    match line.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use concurrency::Outcome;
    use procedure::ProgramResult;

    use super::*;
    use crate::transaction::encode_outcome;

    #[test]
    fn long_statements_are_cut_at_a_character() {
        assert_eq!(one_line("SELECT\n  1"), "SELECT 1");
        assert_eq!(one_line(&"é".repeat(200)).chars().count(), 161);
    }

    #[test]
    fn what_acts_on_a_terminal_is_spelled_out() {
        const EVIL: &str = "\x1b[2K\rsound\u{202e}";
        let statement = StatementText { text: EVIL.into(), types: Default::default() };
        let arguments = vec![Value::text(EVIL)];
        let schema = Body::Schema { text: EVIL.into() };
        let parameter = Body::Parameter { name: EVIL.into(), value: EVIL.into() };
        let statement = Statement { procedure: statement, arguments: arguments.clone().into() };
        for body in [schema, parameter, Body::call(EVIL, arguments), Body::Statement(statement)] {
            let shown = body.describe();
            assert!(shown.contains("\\u{1b}[2K"), "{shown}");
            assert!(!shown.contains(char::is_control) && !shown.contains('\u{202e}'), "{shown}");
        }
        let rows = vec![vec![Value::text(EVIL)].into_boxed_slice()];
        let answer = ProgramResult { count: 1, rows, ..ProgramResult::default() };
        let shown = describe_outcome(&encode_outcome(&Outcome::Committed(answer)));
        assert!(shown.contains("\\u{1b}") && !shown.contains(char::is_control), "{shown}");
    }

    #[test]
    fn calls_and_their_answers_are_shown() {
        let arguments = vec![Value::Int(1), Value::text("a b"), Value::Null];
        let call = Body::call("pay", arguments);
        assert_eq!(call.describe(), "call of pay(1, a b, NULL)");
        let rows = vec![vec![Value::Int(7), Value::Null].into_boxed_slice()];
        let answer = ProgramResult { count: 1, rows, ..ProgramResult::default() };
        let bytes = encode_outcome(&Outcome::Committed(answer));
        assert_eq!(describe_outcome(&bytes), "committed, answered (7, NULL)");
        for cut in 1..bytes.len() {
            describe_outcome(&bytes[..cut]);
        }
        assert_eq!(describe_outcome(&[]), "unreadable");
        let taken = types::Error::new(types::SqlState::UNIQUE_VIOLATION, "taken");
        let taken = taken.with_table("t").with_constraint("t_pkey");
        let shown = describe_outcome(&encode_outcome(&Outcome::Rejected(taken)));
        assert_eq!(shown, "rejected, 23505, table t, constraint t_pkey");
    }
}
