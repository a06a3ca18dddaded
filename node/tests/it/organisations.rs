//! Organisations by psql, `tally identity` and `tally sign`.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::authentication::psql_by;
use super::roles::{connection, files_hold};
use super::{Node, path, run};

/// What a command prints, which has to succeed.
pub fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn users_of_an_organisation_sign_by_keys_that_go_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let log = folder.path().join("log");
    let file = |name: &str| folder.path().join(name);
    let (root, ada) = (file("root.key"), file("ada.key"));
    let new = |file: &Path| printed(&["identity", "new", path(file)]);
    let (root_key, ada_key) = (new(&root), new(&ada));
    assert_eq!(printed(&["identity", "show", path(&ada)]), ada_key);
    assert!(!run(&["identity", "new", path(&ada)]).status.success(), "there is one");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&ada).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let opened = fs::File::create(&log).unwrap();
    let mut node = Node::start_logging(super::tally(&[]), &data, &[], opened);
    let owner = connection(&node, "tally", "");
    let say = |text: &str| {
        let (done, answered) = psql_by(&owner, text);
        assert!(done, "{text}: {answered}");
        answered
    };
    let ledger = say("SHOW ledger.id");
    let sign = |key: &Path, user: &str, what: &[&str]| {
        let by = ["sign", "--key", path(key), "--user", user, "--ledger", &ledger];
        printed(&[&by[..], what].concat())
    };
    let submit = |bytes: &str| {
        psql_by(&owner, &format!("SELECT count, rows FROM tally_submit_signed('{bytes}')"))
    };
    let enrol = |text: &str| {
        let signed = sign(&root, "tally", &["schema", &format!("ALTER ORGANISATION bank {text}")]);
        assert_eq!(submit(&signed), (true, "0|[]".into()), "{text}");
    };
    say("CREATE TABLE paid (id int PRIMARY KEY, v numeric, note text)");
    say("CREATE FUNCTION pay(i int, v numeric, n text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
         INSERT INTO paid VALUES (i, v, n); RETURN 'paid ' || n; END $$");
    say("CREATE USER ada; GRANT INSERT, SELECT ON paid TO ada");
    say(&format!("CREATE ORGANISATION bank KEY '{root_key}'"));
    enrol("ADD USER ada WITH CLIENT SIGNATURE");
    enrol(&format!("ADD KEY '{ada_key}' FOR USER ada"));
    let node_key = printed(&["identity", "node", "--data", path(&data)]);
    enrol(&format!("ADD KEY '{node_key}' FOR NODE \"one of two\""));

    let call = sign(&ada, "ada", &["call", "pay", "1", "2.50", "rent"]);
    assert_eq!(submit(&call), (true, "0|[[\"paid rent\"]]".into()));
    let (done, why) = submit(&call);
    assert!(!done && why.contains("was used before"), "{why}");
    let statement = sign(&ada, "ada", &["statement", "INSERT INTO paid VALUES (2, 1, 'x')"]);
    assert_eq!(submit(&statement), (true, "1|[]".into()));
    let named = ["--name", "three", "call", "pay", "3", "-1.0", "'4'"];
    assert!(submit(&sign(&ada, "ada", &named)).0);
    let (done, why) = submit(&sign(&root, "tally", &["statement", "DELETE FROM paid"]));
    assert!(done, "a root key may stand beside any: {why}");
    let forged = sign(&ada, "tally", &["statement", "DELETE FROM paid"]);
    let (done, why) = submit(&forged);
    assert!(!done && why.contains("is none of role \"tally\""), "{why}");
    let as_ada = connection(&node, "ada", "");
    let (done, why) = psql_by(&as_ada, "INSERT INTO paid VALUES (9)");
    assert!(!done && why.contains("has to sign its transactions itself"), "{why}");
    let late = ["--expires", "0", "statement", "INSERT INTO paid VALUES (8)"];
    let late = sign(&ada, "ada", &late);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let (done, why) = submit(&late);
    assert!(!done && why.contains("expired"), "{why}");
    enrol("ALTER USER ada WITHOUT CLIENT SIGNATURE");
    assert!(psql_by(&as_ada, "INSERT INTO paid VALUES (9)").0, "its node signs");

    let keys = "SELECT kind, holder, client_signature, revoked_block IS NOT NULL FROM tally_keys \
                ORDER BY kind";
    let expected = "node|one of two||f\nroot|||f\nuser|ada|f|f";
    assert_eq!(say(keys), expected);
    let all = "SELECT organisation, users, nodes, keys FROM tally_organisations";
    assert_eq!(say(all), "bank|1|1|3");
    let since = "SELECT string_agg(since_block::text, ' ' ORDER BY key) FROM tally_keys";
    let before = say(since);

    node.signal(Signal::TERM);
    drop(node);
    for key in [&root, &ada] {
        let seed = fs::read_to_string(key).unwrap();
        let half = &seed[..32];
        assert!(!files_hold(&data, half), "a private key is in the folder");
        assert!(!fs::read_to_string(&log).unwrap().contains(half), "or in the log");
    }
    assert!(run(&["verify", path(&data)]).status.success());
    assert!(run(&["checkpoint", "--data", path(&data)]).status.success());
    let node = Node::start(&data);
    let owner = connection(&node, "tally", "");
    assert_eq!(psql_by(&owner, keys).1, expected);
    assert_eq!(psql_by(&owner, since).1, before, "of a checkpoint");
    let again = sign(&ada, "ada", &["call", "pay", "10", "1.0", "y"]);
    let text = format!("SELECT rows FROM tally_submit_signed('{again}')");
    assert_eq!(psql_by(&owner, &text), (true, "[[\"paid y\"]]".into()));
    // What is no key is not shown.
    fs::write(&ada, "hunter2").unwrap();
    let refused = run(&["identity", "show", path(&ada)]);
    assert!(!refused.status.success());
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("hunter2"));
}

/// One node, of bank_b; the other bank's user asks.
#[test]
fn a_node_approves_what_its_own_function_lets_pass() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = |name: &str| folder.path().join(name);
    let new = |name: &str| printed(&["identity", "new", path(&file(name))]);
    let (root_a, root_b, ada, eve) = (new("root_a"), new("root_b"), new("ada"), new("eve"));
    let start = || {
        let settings = ["--set", "approval_check=look"];
        Node::start_with(super::tally(&[]), &data, &settings)
    };
    let mut node = start();
    let owner = connection(&node, "tally", "");
    let say = |text: &str| {
        let (done, answered) = psql_by(&owner, text);
        assert!(done, "{text}: {answered}");
        answered
    };
    let fail = |by: &str, text: &str, expected: &str| {
        let (done, why) = psql_by(by, text);
        assert!(!done && why.contains(expected), "{text}: {why}");
    };
    let ledger = say("SHOW ledger.id");
    let sign = |key: &str, user: &str, what: &[&str]| {
        let file = file(key);
        let by = ["sign", "--key", path(&file), "--user", user, "--ledger", &ledger];
        printed(&[&by[..], what].concat())
    };
    let submit = |bytes: &str| format!("SELECT count, rows FROM tally_submit_signed('{bytes}')");
    let approve = |bytes: &str| format!("SELECT tally_approve('{bytes}')");
    let enrol = |key: &str, text: &str| {
        let text = format!("ALTER ORGANISATION {text}");
        say(&submit(&sign(key, "tally", &["schema", &text])));
    };
    say("CREATE TABLE paid (id int PRIMARY KEY, v numeric)");
    say("CREATE PROCEDURE pay(i int, v numeric) LANGUAGE plpgsql AS $$ BEGIN \
         INSERT INTO paid VALUES (i, v); END $$");
    say("CREATE USER ada; CREATE USER eve; CREATE USER clerk; CREATE ROLE tellers; \
         GRANT tellers TO eve; GRANT tally_approve_calls TO clerk; GRANT INSERT ON paid TO ada");
    say(&format!(
        "CREATE ORGANISATION bank_a KEY '{root_a}'; CREATE ORGANISATION bank_b KEY '{root_b}'"
    ));
    enrol("root_a", "bank_a ADD USER ada WITH CLIENT SIGNATURE");
    enrol("root_a", &format!("bank_a ADD KEY '{ada}' FOR USER ada"));
    enrol("root_b", "bank_b ADD USER eve");
    enrol("root_b", &format!("bank_b ADD KEY '{eve}' FOR USER eve"));
    say("ALTER TABLE paid SET APPROVAL POLICY 'AND(bank_a.ada, OR(bank_b, bank_b.tellers))'");
    let clerk = connection(&node, "clerk", "");

    let call = sign("ada", "ada", &["call", "pay", "1", "2.50"]);
    fail(&owner, &submit(&call), "one of (bank_b, bank_b.tellers) is missing");
    fail(&connection(&node, "eve", ""), &approve(&call), "permission denied to have this node");
    fail(&clerk, &approve(&call), "this node is one of no organisation");
    let node_key = printed(&["identity", "node", "--data", path(&data)]);
    enrol("root_b", &format!("bank_b ADD KEY '{node_key}' FOR NODE one"));
    fail(&clerk, &approve(&call), "function look does not exist");
    say("CREATE FUNCTION look(who text, kind text, what text, given text[]) RETURNS boolean \
         LANGUAGE plpgsql AS $$ DECLARE total numeric; BEGIN \
         IF kind <> 'call' OR what <> 'pay' THEN RAISE EXCEPTION 'a % of %', kind, who; END IF; \
         SELECT sum(v) INTO total FROM paid; RETURN total < 100 AND given[2] <> '13.0'; END $$");
    fail(&clerk, &approve(&call), "function look can be changed without organisation");
    say("ALTER FUNCTION look SET APPROVAL POLICY 'bank_b'");
    fail(&owner, "DROP FUNCTION look", "lacks approvals that function \"look\" asks for");

    let approved = |bytes: &str| {
        let (done, answered) = psql_by(&clerk, &approve(bytes));
        assert!(done, "{answered}");
        answered
    };
    let whole = approved(&call);
    assert_eq!(say("SELECT count(*) FROM paid"), "0", "nothing of a simulation stays");
    assert_eq!(say(&submit(&whole)), "0|[]");
    fail(&owner, &submit(&whole), "was used before");
    // It fails, is too much by what is there, is refused by its arguments, or is no call.
    let asked = |what: &[&str]| approve(&sign("ada", "ada", what));
    fail(&clerk, &asked(&["call", "pay", "1", "1.0"]), "duplicate key");
    fail(&clerk, &asked(&["call", "pay", "2", "97.50"]), "function look does not approve");
    fail(&clerk, &asked(&["call", "pay", "2", "13.0"]), "function look does not approve");
    fail(&clerk, &asked(&["statement", "INSERT INTO paid VALUES (2)"]), "a statement of ada");
    fail(&clerk, &asked(&["statement", "DELETE FROM paid"]), "permission denied for table paid");
    fail(&clerk, &asked(&["schema", "DROP TABLE paid"]), "a schema of ada");
    fail(&clerk, &asked(&["--expires", "0", "call", "pay", "2", "1.0"]), "expired");
    fail(&clerk, &format!("BEGIN; {}", approve(&call)), "inside a transaction block");
    let mut forged = sign("ada", "ada", &["call", "pay", "2", "1.0"]);
    // Within the signature, after which stands the number of approvals.
    let at = forged.len() - 4;
    let other = if forged.as_bytes()[at] == b'0' { "1" } else { "0" };
    forged.replace_range(at..=at, other);
    fail(&clerk, &approve(&forged), "a signature of the transaction is wrong");

    // A user's key approves where it is.
    let by_eve = |bytes: &str| {
        let file = file("eve");
        printed(&["approve", "--key", path(&file), "--ledger", &ledger, bytes])
    };
    let call = sign("ada", "ada", &["call", "pay", "3", "1000.0"]);
    assert_eq!(say(&submit(&by_eve(&call))), "0|[]", "a teller has agreed to more");
    let other = run(&["approve", "--key", path(&file("eve")), "--ledger", &"00".repeat(16), &call]);
    assert!(!other.status.success(), "for another ledger");
    // Of a session's own user, without a key.
    let own = ["sign", "--user", "tally", "--ledger", &ledger, "statement"];
    let own = printed(&[&own[..], &["DELETE FROM paid WHERE id = 3"]].concat());
    fail(&clerk, &submit(&own), "bears no signature");
    fail(&owner, &submit(&by_eve(&own)), "bank_a.ada is missing");

    let policies = "SELECT kind, schema, name, policy, can_be_met, since_block > 0 \
                    FROM tally_policies ORDER BY kind";
    let expected = "function|public|look|bank_b|t|t\n\
                    table|public|paid|AND(bank_a.ada, OR(bank_b, bank_b.tellers))|t|t";
    assert_eq!(say(policies), expected);
    node.signal(Signal::TERM);
    drop(node);
    assert!(run(&["verify", path(&data)]).status.success());
    assert!(run(&["checkpoint", "--data", path(&data)]).status.success());
    let node = start();
    let owner = connection(&node, "tally", "");
    assert_eq!(psql_by(&owner, policies), (true, expected.to_owned()), "of a checkpoint");
    let (done, why) = psql_by(&owner, "INSERT INTO paid VALUES (9)");
    assert!(!done && why.contains("bank_a.ada and one of (bank_b, bank_b.tellers) are missing"));
}
