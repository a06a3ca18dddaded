//! Roles by psql: passwords that the ledger checks, and what clients are shown.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::doors::psql_by;
use super::{Node, path, run};

fn connection(node: &Node, user: &str, password: &str) -> String {
    let port = node.ready["listen"].as_str().unwrap().rsplit(':').next().unwrap();
    format!("host=127.0.0.1 port={port} dbname=tally user={user} password='{password}'")
}

fn files_hold(folder: &Path, text: &str) -> bool {
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
