//! Of statements over two tables, which go beside each other.

use chainify::Schema;
use chainify::stages::access::accesses;
use chainify::stages::rules::{Reference, Rules};
use chainify::stages::stages;
use chainify::statement::parsed;

const SCHEMA: &str = "\
table accounts
  balance numeric(12,2) not null
  id int8 not null key
  name text(20)
  region int4
table transfers
  amount numeric(12,2) not null
  from_id int8 not null
  id int8 not null key
";

fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

/// Columns by their places, which are those of their names.
fn rules() -> Rules {
    let reference =
        Reference { from: 2, from_columns: vec![1], to: 1, to_columns: vec![1], acts: false };
    Rules {
        unique: vec![vec![vec![1]], vec![vec![2]]],
        references: vec![reference],
        locks_what_it_reads: false,
        compares_bytes: true,
    }
}

fn of(rules: &Rules, transactions: &[&str]) -> Vec<Vec<usize>> {
    let schema = schema();
    let access = |text: &&str| {
        let texts: Vec<String> = text.split(';').map(str::to_owned).collect();
        Some(accesses(&parsed(&texts, &schema).unwrap(), &schema, rules))
    };
    let all: Vec<_> = transactions.iter().map(access).collect();
    stages(&all, &schema, rules)
}

fn are_beside(a: &str, b: &str) -> bool {
    let both = [of(&rules(), &[a, b]), of(&rules(), &[b, a])].map(|stages| stages.len() == 1);
    assert_eq!(both[0], both[1], "{a} | {b}");
    both[0]
}

const ONE: &str = "UPDATE accounts SET balance = balance - 1 WHERE id = 1";

#[test]
fn what_touches_other_rows_runs_beside() {
    for other in [
        "UPDATE accounts SET balance = balance + 1 WHERE id = 2",
        "UPDATE accounts SET balance = 0 WHERE 2 = accounts.id AND balance > 0",
        "UPDATE accounts SET balance = 0 WHERE id BETWEEN 2 AND 9",
        "UPDATE accounts SET balance = 0 WHERE id IN (2, -3) OR (id > 5 AND name = 'a')",
        "DELETE FROM accounts WHERE id > 1",
        "DELETE FROM accounts a WHERE a.id = 7 AND (name IS NULL OR NOT (region = 3))",
        "INSERT INTO accounts (id, balance) VALUES (2, 1), (3, 1)",
        "INSERT INTO accounts (id, balance) VALUES (2, (SELECT balance FROM accounts WHERE id = 3))",
        "INSERT INTO transfers (id, from_id, amount) VALUES (1, 1, 1)",
        "DELETE FROM transfers",
        "DELETE FROM transfers WHERE amount > (SELECT max(balance) FROM accounts WHERE id > 4)",
    ] {
        assert!(are_beside(ONE, other), "{other}");
    }
    let three =
        ["a", "b", "c"].map(|name| format!("UPDATE accounts SET region = 1 WHERE name = '{name}'"));
    assert_eq!(of(&rules(), &three.each_ref().map(|it| &**it)), [[0, 1, 2]]);
}

#[test]
fn what_may_touch_the_same_row_does_not() {
    for other in [
        "UPDATE accounts SET balance = 0 WHERE id = 1",
        "UPDATE accounts SET name = 'a'",
        "UPDATE accounts SET balance = 0 WHERE id >= 1",
        "UPDATE accounts SET balance = 0 WHERE id IN (1, 9)",
        "UPDATE accounts SET balance = 0 WHERE id = 2 OR name = 'a'",
        "UPDATE accounts SET balance = 0 WHERE NOT (id = 2)",
        "UPDATE accounts SET balance = 0 WHERE id NOT BETWEEN 2 AND 3",
        "UPDATE accounts SET id = 1 WHERE id = 2",
        // Whether it fails may depend on any row.
        "UPDATE accounts SET balance = 0 WHERE id = 2 AND 1 / balance > 0",
        "UPDATE accounts SET balance = 0 WHERE id = '2'",
        "UPDATE accounts SET balance = 0 WHERE name = 5 AND id = 2",
        "DELETE FROM accounts WHERE name = 'a'",
        "INSERT INTO accounts (id, balance) VALUES (1, 1)",
        "INSERT INTO accounts (id, balance) VALUES (2 - 1, 1)",
        "INSERT INTO accounts (id, balance) SELECT 9, max(balance) FROM accounts",
        "INSERT INTO transfers (id, from_id, amount) SELECT 9, 1, balance FROM accounts WHERE id = 1",
        "DELETE FROM transfers WHERE amount > (SELECT max(balance) FROM accounts)",
    ] {
        assert!(!are_beside(ONE, other), "{other}");
    }
}

#[test]
fn keys_and_foreign_keys_are_read() {
    let insert = "INSERT INTO transfers (id, from_id, amount) VALUES (1, 7, 1)";
    assert!(!are_beside(insert, "DELETE FROM accounts WHERE id = 7"));
    assert!(!are_beside(insert, "DELETE FROM accounts WHERE name = 'a'"));
    assert!(!are_beside(insert, "INSERT INTO accounts (id, balance) VALUES (7, 1)"));
    assert!(!are_beside(insert, "UPDATE accounts SET id = 8 WHERE id = 7"));
    assert!(are_beside(insert, "DELETE FROM accounts WHERE id = 8"));
    assert!(are_beside(insert, "UPDATE accounts SET balance = 1 WHERE id = 7"));
    let mut locking = rules();
    locking.locks_what_it_reads = true;
    let updated = "UPDATE accounts SET balance = 1 WHERE id = 7";
    assert_eq!(of(&locking, &[insert, updated]).len(), 2);
    // What goes by itself goes to all of the other table.
    let mut acting = rules();
    acting.references[0].acts = true;
    let deleted = "DELETE FROM accounts WHERE id = 8";
    assert_eq!(of(&acting, &[insert, deleted]).len(), 2);
    assert_eq!(of(&acting, &["DELETE FROM transfers WHERE id = 3", deleted]).len(), 2);
}

#[test]
fn a_unique_index_may_be_hit_by_other_rows() {
    let (one, two) = (
        "INSERT INTO accounts (id, balance, name) VALUES (1, 1, 'a')",
        "INSERT INTO accounts (id, balance, name) VALUES (2, 1, 'a')",
    );
    let three = "INSERT INTO accounts (id, balance, name) VALUES (3, 1, 'b')";
    let gone = "DELETE FROM accounts WHERE id = 4";
    assert_eq!(of(&rules(), &[one, two, three, gone]), [[0, 1, 2, 3]]);
    let mut by_name = rules();
    by_name.unique[0].push(vec![2]);
    assert_eq!(of(&by_name, &[one, two, three, gone]), [vec![0, 2], vec![1], vec![3]]);
    let paid = "UPDATE accounts SET balance = 3 WHERE id = 5";
    assert_eq!(of(&by_name, &[one, paid]), [[0, 1]]);
    by_name.compares_bytes = false;
    assert_eq!(of(&by_name, &[one, three]).len(), 2, "'a' and 'b' may be the same");
    // Over an expression.
    let mut unknown = rules();
    unknown.unique[0].push(Vec::new());
    assert_eq!(of(&unknown, &[one, three]).len(), 2);
}

#[test]
fn stages_follow_the_order_of_the_block() {
    let pay = |from: u64, to: u64| {
        format!(
            "UPDATE accounts SET balance = balance - 1 WHERE id = {from};\
             UPDATE accounts SET balance = balance + 1 WHERE id = {to}"
        )
    };
    let all =
        [pay(1, 2), pay(3, 4), pay(2, 3), pay(5, 6), pay(1, 9), "DELETE FROM accounts".into()];
    let all: Vec<&str> = all.iter().map(|it| &**it).chain([ONE]).collect();
    let found = of(&rules(), &all);
    assert_eq!(found, [vec![0, 1, 3], vec![2, 4], vec![5], vec![6]]);
}

/// However many there are, each runs after what it conflicts with, in time that does not grow with
/// the square of them.
#[test]
fn many_are_put_into_stages() {
    let hot = vec![ONE; 3000];
    let found = of(&rules(), &hot);
    assert_eq!((found.len(), found.iter().all(|stage| stage.len() == 1)), (3000, true));
    let ranges: Vec<String> = (0..3000)
        .map(|at| format!("UPDATE accounts SET balance = 1 WHERE id >= {at} AND id < {}", at + 1))
        .chain(["UPDATE accounts SET balance = 1 WHERE id < 4000".to_owned()])
        .collect();
    let ranges: Vec<&str> = ranges.iter().map(|it| &**it).collect();
    let found = of(&rules(), &ranges);
    assert_eq!(found.concat().len(), 3001);
    assert_eq!(found.last().unwrap(), &[3000]);
    let many: Vec<String> =
        (0..200).map(|at| format!("UPDATE accounts SET balance = 1 WHERE id = {at}")).collect();
    let many = many.join(";");
    assert_eq!(of(&rules(), &[&many, "DELETE FROM accounts WHERE id = 900"]).len(), 2);
}
