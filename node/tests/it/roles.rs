//! Roles by psql: passwords that the ledger checks, and what clients are shown.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use tokio_postgres::{Client, NoTls};

use super::authentication::psql_by;
use super::{Node, path, run};

pub fn connection(node: &Node, user: &str, password: &str) -> String {
    let port = node.ready["listen"].as_str().unwrap().rsplit(':').next().unwrap();
    format!("host=127.0.0.1 port={port} dbname=tally user={user} password='{password}'")
}

pub fn files_hold(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_hold(&path, text),
            false => {
                let bytes = fs::read(&path).unwrap_or_default();
                bytes.windows(text.len()).any(|part| part == text.as_bytes())
            }
        }
    })
}

#[test]
fn psql_logs_in_by_what_the_ledger_says_of_a_role() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let data = folder.path().join("data");
    let file = fs::File::create(&log).unwrap();
    let mut node = Node::start_logging(super::tally(&[]), &data, &[], file);
    let owner = connection(&node, "tally", "");
    let say = |text: &str| psql_by(&owner, text).1;
    say("CREATE USER ada PASSWORD 'correct horse'");
    say("CREATE ROLE staff; GRANT staff TO ada; CREATE USER eve; CREATE ROLE idle");
    let ada = |password: &str| psql_by(&connection(&node, "ada", password), "SELECT current_user");
    assert_eq!(ada("correct horse"), (true, "ada".into()));
    let (admitted, why) = ada("wrong");
    assert!(!admitted && why.contains("password authentication failed"), "{why}");
    for (user, expected) in [
        ("nothing", "role \"nothing\" does not exist"),
        ("idle", "role \"idle\" is not permitted to log in"),
    ] {
        let (admitted, why) = psql_by(&connection(&node, user, ""), "SELECT 1");
        assert!(!admitted && why.contains(expected), "{why}");
    }
    // A role changes its own password, and no other's.
    let as_ada = connection(&node, "ada", "correct horse");
    let (_, why) = psql_by(&as_ada, "ALTER USER eve PASSWORD 'battery'");
    assert!(why.contains("permission denied") && !why.contains("battery"), "{why}");
    assert_eq!(psql_by(&as_ada, "ALTER USER ada PASSWORD 'staple'").1, "");
    assert!(!ada("correct horse").0 && ada("staple").0);
    let (_, why) = psql_by(&owner, "ALTER USER ada PASSWORD 'one' 'two'");
    assert!(why.contains("may hold a password") && !why.contains("'two'\""), "{why}");
    say("ALTER ROLE ada VALID UNTIL '2020-01-01'");
    assert!(!ada("staple").0, "the password has ended");
    say("ALTER ROLE ada VALID UNTIL 'infinity'");

    let roles = say("SELECT rolname, rolsuper, rolcanlogin, rolpassword FROM pg_roles \
                     WHERE rolname !~ '^(pg|tally)_' ORDER BY 1");
    let expected = "ada|f|t|********\neve|f|t|********\nidle|f|f|********\n\
                    staff|f|f|********\ntally|t|t|********";
    assert_eq!(roles, expected);
    assert_eq!(say("SELECT rolpassword FROM pg_authid WHERE rolname = 'ada'"), "********");
    let shown = psql_by(&owner, "\\du").1;
    assert!(shown.contains("ada||{staff}"), "{shown}");
    assert!(shown.contains("tally|Superuser, Create role, Create DB, Replication, Bypass RLS|{}"));
    let members = "SELECT r.rolname, m.rolname, admin_option FROM pg_auth_members a \
                   JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member";
    assert_eq!(say(members), "staff|ada|f");

    say("REVOKE CONNECT ON DATABASE tally FROM PUBLIC");
    let (admitted, why) = ada("staple");
    assert!(!admitted && why.contains("permission denied for database \"tally\""), "{why}");
    assert!(why.contains("User does not have CONNECT privilege."), "{why}");
    say("GRANT CONNECT ON DATABASE tally TO staff");
    assert!(ada("staple").0, "by what it is a member of");
    assert!(!psql_by(&connection(&node, "eve", ""), "SELECT 1").0);

    say("CREATE TABLE notes (id int PRIMARY KEY, note text); GRANT SELECT ON notes TO staff");
    say("CREATE VIEW ids AS SELECT id FROM notes; GRANT SELECT (id) ON ids TO eve");
    let shown = psql_by(&owner, "\\z").1;
    let table = "public|notes|table|tally=arwdDxt/tally\nstaff=r/tally||";
    assert!(
        shown.contains(table) && shown.contains("public|ids|view||id:\n  eve=r/tally|"),
        "{shown}"
    );
    say("ALTER DEFAULT PRIVILEGES FOR ROLE ada GRANT SELECT ON TABLES TO eve");
    let shown = psql_by(&owner, "\\ddp").1;
    assert_eq!(shown, "ada||table|ada=arwdDxt/ada\neve=r/ada");

    node.signal(Signal::TERM);
    drop(node);
    for secret in ["correct horse", "staple", "battery"] {
        assert!(!files_hold(&data, secret), "{secret} is in the folder");
        assert!(!fs::read_to_string(&log).unwrap().contains(secret), "{secret} is in the log");
    }
    assert!(run(&["verify", path(&data)]).status.success());
    let node = Node::start(&data);
    assert!(psql_by(&connection(&node, "ada", "staple"), "SET ROLE staff").0);
}

async fn session(node: &Node, user: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&connection(node, user, ""), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn last_commit(client: &Client) -> String {
    let row = client.query_one("SELECT * FROM tally_last_commit()", &[]).await.unwrap();
    let (block, index): (i64, i64) = (row.get("block"), row.get("index"));
    format!("SELECT tally_receipt({block}, {index})")
}

/// A receipt has the text and the arguments of its transaction.
#[tokio::test]
async fn a_receipt_is_for_the_user_whose_transaction_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let owner = session(&node, "tally").await;
    let made = "CREATE USER ada; CREATE USER eve; CREATE TABLE notes (id int PRIMARY KEY);
                GRANT INSERT ON notes TO ada";
    owner.batch_execute(made).await.unwrap();
    let (ada, eve) = (session(&node, "ada").await, session(&node, "eve").await);
    owner.batch_execute("INSERT INTO notes VALUES (1)").await.unwrap();
    ada.batch_execute("INSERT INTO notes VALUES (2)").await.unwrap();
    let (of_owner, of_ada) = (last_commit(&owner).await, last_commit(&ada).await);
    let code = |taken: Result<_, tokio_postgres::Error>| match taken {
        Ok(_) => "00000".to_owned(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |c| c.code().to_owned()),
    };
    for (client, receipt, expected) in [
        (&owner, &of_owner, "00000"),
        (&owner, &of_ada, "00000"),
        (&ada, &of_ada, "00000"),
        (&ada, &of_owner, "42501"),
        (&eve, &of_ada, "42501"),
        (&eve, &"SELECT tally_receipt(0, 0)".to_owned(), "42501"),
    ] {
        assert_eq!(code(client.query_one(receipt, &[]).await), expected, "{receipt}");
    }
    owner.batch_execute("GRANT pg_read_all_data TO eve").await.unwrap();
    assert_eq!(code(eve.query_one(&of_ada, &[]).await), "00000");
    // A role that may read everything is enough.
    owner.batch_execute("GRANT eve TO ada").await.unwrap();
    ada.batch_execute("SET ROLE eve").await.unwrap();
    assert_eq!(code(ada.query_one(&of_owner, &[]).await), "00000");
}
