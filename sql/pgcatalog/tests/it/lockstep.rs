//! The two ways to run a query over system catalogs, which have to agree: the program that all
//! queries are bound to, and the evaluator that knows more of SQL.

use std::collections::BTreeMap;

use crate::fixtures::{Server, Way, read};

/// What came of a client's statements.
#[derive(Default)]
struct Compared {
    statements: usize,
    /// What only the evaluator knows, and why.
    left: Vec<String>,
    different: Vec<String>,
}

fn compared(client: &str, schema: &str, queries: &str) -> Compared {
    let (rows, evaluator) = (Server::by(Way::Rows, schema), Server::by(Way::Evaluator, schema));
    let mut compared = Compared::default();
    for sent in read(queries) {
        compared.statements += 1;
        let title = format!("{client}: {}", sent.title);
        match (rows.answer(&sent), evaluator.answer(&sent)) {
            (Ok(mut new), Ok(mut old)) => {
                if !sent.text.to_lowercase().contains("order by") {
                    new.rows.sort_unstable();
                    old.rows.sort_unstable();
                }
                if (&new.columns, &new.types, &new.rows) != (&old.columns, &old.types, &old.rows) {
                    compared.different.push(format!("{title}:\n{new:?}\n{old:?}"));
                }
            }
            (Err(error), _) => compared.left.push(format!("{title}: {error}")),
            (Ok(_), Err(_)) => {}
        }
    }
    compared
}

#[test]
fn both_ways_give_the_same_answers() {
    let schema = include_str!("../fixtures/schema.sql");
    let clients = [
        ("psql", include_str!("../fixtures/psql.queries")),
        ("pgjdbc", include_str!("../fixtures/pgjdbc.queries")),
        ("sqlalchemy", include_str!("../fixtures/sqlalchemy.queries")),
        ("django", include_str!("../fixtures/django.queries")),
        ("dbeaver", include_str!("../fixtures/dbeaver.queries")),
        ("metabase", include_str!("../fixtures/metabase.queries")),
        ("tools", include_str!("../fixtures/tools.queries")),
        ("asyncpg", include_str!("../fixtures/asyncpg.queries")),
    ];
    let (mut counts, mut left, mut different) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (client, queries) in clients {
        let compared = compared(client, schema, queries);
        counts.insert(client, (compared.statements, compared.left.len()));
        left.extend(compared.left);
        different.extend(compared.different);
    }
    let evaluated = left.join("\n");
    println!("{counts:?}\n{evaluated}");
    assert!(different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
}
