//! Each client's queries, against PostgreSQL's answers.
//!
//! Where the answer here is another one, and says why, `fixtures/CLIENT.own` has it, with the types
//! of its columns in a second line.

use std::collections::BTreeMap;

use crate::fixtures::{Server, read};

const SCHEMA: &str = include_str!("../fixtures/schema.sql");

/// PostgreSQL's answers by title, lines as they are.
fn expected(text: &str) -> BTreeMap<&str, &str> {
    let blocks = text.split("\n-- ").skip(1);
    blocks.filter_map(|block| block.split_once('\n')).collect()
}

/// Columns and rows as the answers are written.
fn shown(server: &Server, sent: &crate::fixtures::Sent) -> Result<String, String> {
    let table = server.answer(sent).map_err(|error| format!("{error:?}"))?;
    let lines = table.rows.iter().map(|row| row.join("|") + "\n");
    Ok(table.columns.join("|") + "\n" + &lines.collect::<String>())
}

/// Whether two answers are the same. Rows without an ORDER BY may come in any order.
fn same(query: &str, is: &str, should: &str) -> bool {
    let mut depth = 0;
    let outside = |c: &char| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    };
    let outside: String = query.chars().filter(outside).collect();
    if outside.to_lowercase().contains("order by") {
        return is == should;
    }
    let sorted = |answer: &str| {
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    sorted(is) == sorted(should)
}

/// An answer that is not PostgreSQL's.
fn own(server: &Server, sent: &crate::fixtures::Sent) -> Result<String, String> {
    let table = server.answer(sent).map_err(|error| format!("{error:?}"))?;
    let mut rows: Vec<String> = table.rows.iter().map(|row| row.join("|")).collect();
    if !sent.text.to_lowercase().contains("order by") {
        rows.sort_unstable();
    }
    let lines = [table.columns.join("|"), table.types.join("|")].into_iter().chain(rows);
    Ok(lines.map(|line| line + "\n").collect())
}

/// Runs a client's statements; what it says is wrong, and how.
fn check(client: &str, queries: &str, (answers, own_answers): (&str, &str)) {
    let server = Server::new(SCHEMA);
    let (expected, own_expected) = (expected(answers), expected(own_answers));
    let (mut wrong, mut all_own) = (Vec::new(), String::new());
    for sent in read(queries) {
        let title = &sent.title;
        let (is, expected) = match sent.differs {
            None => (shown(&server, &sent), &expected),
            Some(_) => (own(&server, &sent), &own_expected),
        };
        let should = expected.get(title.as_str()).copied().unwrap_or_default().trim();
        match is {
            Err(error) => wrong.push(format!("{title}: {error}")),
            Ok(is) => {
                let is_it = match sent.differs {
                    None => same(&sent.text, is.trim(), should),
                    Some(_) => is.trim() == should,
                };
                if !is_it {
                    wrong.push(format!("{title}:\n{is}---\n{should}\n"));
                }
                if sent.differs.is_some() {
                    all_own.push_str(&format!("\n-- {title}\n{is}"));
                }
            }
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        std::fs::write(format!("{folder}/{client}.own"), &all_own).unwrap();
    }
    assert!(wrong.is_empty(), "{client}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! clients {
    ($($name:ident $file:literal;)*) => {
        $(
            #[test]
            fn $name() {
                check(
                    $file,
                    include_str!(concat!("../fixtures/", $file, ".queries")),
                    (
                        include_str!(concat!("../fixtures/", $file, ".answers")),
                        include_str!(concat!("../fixtures/", $file, ".own")),
                    ),
                );
            }
        )*
    };
}

clients! {
    what_psql_sends_is_answered_as_postgresql_does "psql";
    what_pgjdbc_sends_is_answered_as_postgresql_does "pgjdbc";
    what_sqlalchemy_sends_is_answered_as_postgresql_does "sqlalchemy";
    what_django_sends_is_answered_as_postgresql_does "django";
    what_dbeaver_sends_is_answered_as_postgresql_does "dbeaver";
    what_metabase_sends_is_answered_as_postgresql_does "metabase";
    what_other_tools_send_is_answered_as_postgresql_does "tools";
    what_asyncpg_sends_is_answered_as_postgresql_does "asyncpg";
}
