//! Who has to agree to a transaction before it is ordered, by the tables that it writes.
//!
//! ```text
//! accounts=all                    every organisation
//! prices=2                        so many of them, whichever
//! trades=row:seller,buyer         those whose numbers a new row has in these columns
//! ```
//!
//! What is a row's is known of INSERTs of literals alone: an UPDATE or DELETE of such a table, or
//! rows that a query gives, takes all. A table without a policy takes no agreement but the orders'.
//!
//! *Agreeing* is an approval over the envelope's id ([`order::signed`]) by the key of an elector.
//! It stands in the block, so every organisation sees for itself that none was missing: without, a
//! transaction is refused, and its outcome says so. What an organisation agrees to is its own
//! business: a function of its database ([`Database::agrees`](crate::Database::agrees)).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use ledger::Electors;
use sqlparser::ast::{
    Expr, FromTable, ObjectName, SetExpr, Statement, TableFactor, TableObject, Value,
};
use types::{Error, Result, SqlState};

use crate::schema::{Kind, Schema};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Policy {
    All,
    /// So many, whichever.
    Some(usize),
    /// Those whose numbers are in these columns.
    Row(Vec<String>),
}

/// Of tables, by name; a ledger's first block has them as text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policies(BTreeMap<String, Policy>);

/// What a transaction needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needed {
    pub members: BTreeSet<u64>,
    /// Whichever they are; those above count.
    pub count: usize,
}

impl Needed {
    fn add(&mut self, policy: &Policy, electors: &Electors) {
        match policy {
            Policy::Some(count) => self.count = self.count.max(*count),
            Policy::All | Policy::Row(_) => self.members.extend(electors.keys.keys()),
        }
    }

    pub fn is_nothing(&self) -> bool {
        self.members.is_empty() && self.count == 0
    }

    /// Why these are not enough.
    pub fn lacks(&self, agreed: &BTreeSet<u64>) -> Option<String> {
        let missing: Vec<String> =
            self.members.difference(agreed).map(|member| member.to_string()).collect();
        if !missing.is_empty() {
            return Some(format!("of organisation {}", missing.join(", ")));
        }
        let (found, count) = (agreed.len(), self.count);
        (found < count).then(|| format!("of {count} organisations, and {found} have given it"))
    }
}

impl Policies {
    /// As `table=policy`, with spaces between.
    pub fn parse(text: &str) -> Result<Policies> {
        let mut all = BTreeMap::new();
        for one in text.split_whitespace() {
            let policy = one.split_once('=').and_then(|(table, policy)| {
                let policy = match policy {
                    "all" => Policy::All,
                    text => match text.strip_prefix("row:") {
                        Some(columns) => {
                            Policy::Row(columns.split(',').map(str::to_owned).collect())
                        }
                        None => Policy::Some(text.parse().ok().filter(|count| *count > 0)?),
                    },
                };
                Some((table.to_owned(), policy))
            });
            let Some((table, policy)) = policy else {
                let what = format!("\"{one}\" is no policy of agreement");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
                    .with_hint("As accounts=all, prices=2 or trades=row:seller,buyer."));
            };
            if all.insert(table.clone(), policy).is_some() {
                let what = format!("table {table} has two policies of agreement");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
        }
        Ok(Policies(all))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether tables and columns are there, and as many organisations.
    pub fn check(&self, schema: &Schema, electors: usize) -> Result<()> {
        let refused = |what: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        for (name, policy) in &self.0 {
            let Some(table) = schema.table(name) else {
                return refused(format!("table {name}, which has a policy, is not chained"));
            };
            match policy {
                Policy::Some(count) if *count > electors => {
                    return refused(format!("{count} are to agree on {name}, of {electors}"));
                }
                Policy::Row(columns) => {
                    for column in columns {
                        let found = table.columns.iter().find(|it| it.name == *column);
                        if !found.is_some_and(|it| matches!(it.kind, Kind::Integer { .. })) {
                            let what = format!("{name} has no column {column} of whole numbers");
                            return refused(what);
                        }
                    }
                }
                Policy::All | Policy::Some(_) => {}
            }
        }
        Ok(())
    }

    pub fn needed(&self, statements: &[Statement], electors: &Electors) -> Needed {
        let mut needed = Needed::default();
        for statement in statements {
            let Some(name) = written(statement) else {
                // What is not understood takes all.
                self.0.values().take(1).for_each(|_| needed.add(&Policy::All, electors));
                continue;
            };
            let Some(policy) = self.0.get(&name) else { continue };
            let parties = match policy {
                Policy::Row(columns) => parties(statement, columns, electors),
                _ => None,
            };
            match parties {
                Some(parties) => needed.members.extend(parties),
                None => needed.add(policy, electors),
            }
        }
        needed
    }
}

impl Display for Policies {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, (table, policy)) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            match policy {
                Policy::All => write!(f, "{space}{table}=all")?,
                Policy::Some(count) => write!(f, "{space}{table}={count}")?,
                Policy::Row(columns) => write!(f, "{space}{table}=row:{}", columns.join(","))?,
            }
        }
        Ok(())
    }
}

/// The table that a statement changes.
fn written(statement: &Statement) -> Option<String> {
    let factor = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => lower(name),
        _ => None,
    };
    match statement {
        Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => lower(name),
            _ => None,
        },
        Statement::Update(update) => factor(&update.table.relation),
        Statement::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(from) => factor(&from.first()?.relation),
            _ => None,
        },
        _ => None,
    }
}

fn lower(name: &ObjectName) -> Option<String> {
    Some(name.0.last()?.as_ident()?.value.to_ascii_lowercase())
}

/// Whose numbers new rows have; `None`: that is not known, or one is no organisation's.
fn parties(
    statement: &Statement,
    columns: &[String],
    electors: &Electors,
) -> Option<BTreeSet<u64>> {
    let Statement::Insert(insert) = statement else { return None };
    let SetExpr::Values(values) = &*insert.source.as_ref()?.body else { return None };
    let places: Option<Vec<usize>> = columns
        .iter()
        .map(|column| insert.columns.iter().position(|name| lower(name).as_ref() == Some(column)))
        .collect();
    let mut all = BTreeSet::new();
    for row in &values.rows {
        for place in places.as_ref()? {
            let Expr::Value(value) = row.content.get(*place)? else { return None };
            let Value::Number(number, _) = &value.value else { return None };
            let number: u64 = number.parse().ok()?;
            if !electors.keys.contains_key(&number) {
                return None;
            }
            all.insert(number);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement;

    const SCHEMA: &str = "\
table prices
  id int8 not null key
  price int8
table stock
  count int4
  id int8 not null key
table trades
  buyer int4
  id int8 not null key
  note text(20)
  seller int4
";

    fn electors() -> Electors {
        let keys = (1..=4).map(|id| (id, [id as u8; 32])).collect();
        Electors { ledger_id: [7; 16], keys, votes: 3, liars: 0, above: None }
    }

    #[test]
    fn a_policy_is_read_as_it_was_written() {
        let text = "prices=2 stock=all trades=row:seller,buyer";
        let all = Policies::parse(text).unwrap();
        assert_eq!(all.to_string(), text);
        let schema = Schema::parse(SCHEMA).unwrap();
        all.check(&schema, 4).unwrap();
        for wrong in ["stock", "stock=0", "stock=most", "stock=2 stock=all"] {
            assert!(Policies::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["stock=5", "ghost=all", "trades=row:seller,note", "trades=row:ghost"] {
            let refused = Policies::parse(wrong).unwrap().check(&schema, 4);
            assert!(refused.is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_is_needed_follows_from_what_is_written() {
        let policies = Policies::parse("prices=2 trades=row:seller,buyer").unwrap();
        let needed = |statements: &[&str]| {
            let texts: Vec<String> = statements.iter().map(|it| (*it).to_owned()).collect();
            let parsed = statement::parsed(&texts, &Schema::parse(SCHEMA).unwrap()).unwrap();
            let needed = policies.needed(&parsed, &electors());
            (needed.members.into_iter().collect::<Vec<_>>(), needed.count)
        };
        let trade = |parties: &str| {
            format!("INSERT INTO trades (id, seller, buyer, note) VALUES (1, {parties}, 'a')")
        };
        let all = vec![1, 2, 3, 4];
        assert_eq!(needed(&["UPDATE stock SET count = 1"]), (vec![], 0));
        assert_eq!(needed(&["UPDATE prices SET price = 1", "DELETE FROM stock"]), (vec![], 2));
        assert_eq!(needed(&[&trade("1, 3")]), (vec![1, 3], 0));
        assert_eq!(needed(&[&trade("2, 2"), "DELETE FROM prices"]), (vec![2], 2));
        let two = format!("{}, (2, 4, 1, 'b')", trade("1, 3"));
        assert_eq!(needed(&[&two]), (vec![1, 3, 4], 0));
        // No organisation's, computed, a query's, changed: all.
        for one in [trade("1, 7"), trade("1, 1 + 1"), trade("1, NULL")] {
            assert_eq!(needed(&[&one]).0, all, "{one}");
        }
        for one in [
            "INSERT INTO trades (id, seller) VALUES (1, 2)",
            "INSERT INTO trades (id, seller, buyer) SELECT id, 1, 2 FROM stock",
            "UPDATE trades SET note = 'b' WHERE id = 1",
            "DELETE FROM trades WHERE id = 1",
        ] {
            assert_eq!(needed(&[one]).0, all, "{one}");
        }
    }

    #[test]
    fn what_lacks_is_said() {
        let needed = Needed { members: [1, 3].into(), count: 3 };
        assert_eq!(needed.lacks(&[1].into()).unwrap(), "of organisation 3");
        assert_eq!(
            needed.lacks(&[1, 3].into()).unwrap(),
            "of 3 organisations, and 2 have given it"
        );
        assert_eq!(needed.lacks(&[1, 2, 3].into()), None);
    }
}
