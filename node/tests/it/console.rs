//! The console's way to the node's own PostgreSQL port, as its pages go it.

use std::fs;

use serde_json::{Value as Json, json};

use super::*;

/// A page that is logged in, or not yet.
struct Page<'a> {
    node: &'a Node,
    cookie: String,
}

impl<'a> Page<'a> {
    fn of(node: &'a Node) -> Page<'a> {
        Page { node, cookie: String::new() }
    }

    /// The status, the cookie that is set, the body.
    fn send(&self, request: &str, headers: &str, body: &str) -> (u16, Option<String>, Json) {
        let address = self.node.ready["http_listen"].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let (cookie, length) = (&self.cookie, body.len());
        let request = format!(
            "{request} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
        (status, cookie.map(str::to_owned), body)
    }

    fn post(&self, path: &str, body: &Json) -> (u16, Option<String>, Json) {
        self.send(&format!("POST {path}"), "X-Tally-Console: 1\r\n", &body.to_string())
    }

    fn get(&self, path: &str) -> (u16, Json) {
        let (status, _, body) = self.send(&format!("GET {path}"), "", "");
        (status, body)
    }

    fn log_in(&mut self, login: &Json) -> (u16, Json) {
        let (status, cookie, body) = self.post("/console/login", login);
        if let Some(cookie) = cookie {
            assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
            self.cookie = cookie.split(';').next().unwrap().to_owned();
        }
        (status, body)
    }

    fn query(&self, query: Json) -> Json {
        let (status, _, answer) = self.post("/console/query", &query);
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[test]
fn statements_run_as_the_user_and_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let token = fs::read_to_string(folder.path().join("http-token")).unwrap();
    let token = token.trim();
    let mut owner = Page::of(&node);
    assert_eq!(owner.log_in(&json!({"user": "tally", "token": token, "writes": true})).0, 200);
    for role in ["ada", "bob"] {
        owner.query(json!({"sql": format!("CREATE USER {role} SUPERUSER")}));
    }
    let mut reader = Page::of(&node);
    assert_eq!(reader.log_in(&json!({"user": "bob", "token": "wrong"})).0, 401);
    let (status, said) = reader.log_in(&json!({"user": "bob", "token": token}));
    assert_eq!((status, &said["session"]["writes"]), (200, &json!(false)), "{said}");
    let mut writer = Page::of(&node);
    assert_eq!(writer.log_in(&json!({"user": "ada", "token": token, "writes": true})).0, 200);
    writer.query(json!({"sql": "CREATE TABLE t (a int PRIMARY KEY, b text)"}));
    let sql = "INSERT INTO t SELECT g, 'it''s ' || g FROM generate_series(1, 2000) g";
    assert_eq!(writer.query(json!({"sql": sql}))["count"], 2000);
    for writes in ["DELETE FROM t", "DROP TABLE t", "SET ledger.state_root = 1"] {
        let refused = reader.query(json!({"sql": writes}));
        let code = &refused["error"]["code"];
        // A parameter is the owner's besides.
        assert!(["25006", "42501"].contains(&code.as_str().unwrap()), "{writes}: {refused}");
    }
    let height = reader.query(json!({"sql": "SELECT block FROM tally_snapshot()"}));
    let answer = reader.query(json!({
        "sql": "SELECT a, b, current_user FROM t WHERE b = $1 AND a > $2 OR b = $3",
        "parameters": ["it's 7", "1", null],
    }));
    assert_eq!(answer["rows"], json!([["7", "it's 7", "bob"]]), "{answer}");
    assert_eq!(answer["columns"][0], json!({"name": "a", "type": "int4"}));
    let bounded = reader.query(json!({"sql": "SELECT a FROM t ORDER BY a", "row_max": 3}));
    assert_eq!(bounded["rows"], json!([["1"], ["2"], ["3"]]), "{bounded}");
    assert_eq!(bounded["truncated"], true);
    let faulty = reader.query(json!({"sql": "SELECT a, nope FROM t"}));
    assert_eq!(
        (&faulty["error"]["code"], &faulty["error"]["position"]),
        (&json!("42703"), &json!(11))
    );
    let two = reader.query(json!({"sql": "SELECT 1; SELECT 2"}));
    assert_eq!(two["error"]["code"], "42601", "one statement a request: {two}");

    // The past is that of one statement.
    writer.query(json!({"sql": "UPDATE t SET b = 'new' WHERE a = 7"}));
    let block: u64 = height["rows"][0][0].as_str().unwrap().parse().unwrap();
    let sql = "SELECT b FROM t WHERE a = 7";
    let then = reader.query(json!({"sql": sql, "as_of_block": block}));
    assert_eq!(then["rows"], json!([["it's 7"]]), "{then}");
    assert_eq!(reader.query(json!({"sql": sql}))["rows"], json!([["new"]]));
    let future = reader.query(json!({"sql": sql, "as_of_block": 1_000_000}));
    assert_eq!(future["error"]["code"], "22023");
    assert_eq!(reader.query(json!({"sql": sql}))["rows"], json!([["new"]]));

    // Blocks, with what was asked for in them.
    let (status, listed) = reader.get("/console/blocks?count=2");
    assert_eq!((status, listed["blocks"].as_array().unwrap().len()), (200, 2));
    let newest = &listed["blocks"][0];
    let (_, block) = reader.get(&format!("/console/block/{}", newest["height"]));
    let transaction = &block["transactions"][0];
    assert_eq!(transaction["statements"][0]["text"], "UPDATE t SET b = $1 WHERE a = $2");
    assert_eq!(transaction["statements"][0]["arguments"], json!(["new", "7"]));
    assert_eq!(
        (&transaction["user"], &transaction["outcome"]["kind"]),
        (&json!("ada"), &json!("committed"))
    );
    for hash in [&newest["hash"], &newest["order_hash"], &transaction["id"]] {
        let (_, found) = reader.get(&format!("/console/find/{}", hash.as_str().unwrap()));
        assert_eq!(found["height"], newest["height"], "{hash}");
    }
    assert_eq!(reader.get("/console/block/999999").0, 404);

    // They hold what tables hold that a user may not read.
    owner.query(json!({"sql": "CREATE USER eve"}));
    let mut eve = Page::of(&node);
    assert_eq!(eve.log_in(&json!({"user": "eve", "token": token})).0, 200);
    let of_hash = format!("/console/find/{}", newest["hash"].as_str().unwrap());
    let others = ["/console/search/t", "/console/changes/1", "/console/conflicts"];
    for page in ["/console/blocks", "/console/block/1", &of_hash].into_iter().chain(others) {
        assert_eq!(eve.get(page).0, 403, "{page}");
        assert_eq!(Page::of(&node).get(page).0, 401, "{page}");
    }
    owner.query(json!({"sql": "GRANT pg_read_all_data TO eve"}));
    assert_eq!(eve.get("/console/blocks").0, 200);

    reader.post("/console/logout", &json!({}));
    assert_eq!(reader.get("/console/blocks").0, 401, "the session has ended");
    assert_eq!(writer.get("/console/blocks").0, 200);
    // What is the console's to decide is no way to what needs the token.
    let (status, ..) = writer.post("/checkpoint", &json!({}));
    assert_eq!(status, 401);
    let rebound = "X-Tally-Console: 1\r\nHost: evil.example\r\n";
    assert_eq!(writer.send("POST /console/query", rebound, "{}").0, 421);
}

#[test]
fn what_came_of_a_transaction_is_shown_from_the_versions_that_are_held() {
    let folder = tempfile::tempdir().unwrap();
    let every = ["--set", "snapshot_retention=every 1 blocks keep 100"];
    let node = Node::start_with(tally(&[]), folder.path(), &every);
    let token = fs::read_to_string(folder.path().join("http-token")).unwrap();
    let login = json!({"user": "tally", "token": token.trim(), "writes": true});
    let [mut page, mut other] = [Page::of(&node), Page::of(&node)];
    assert_eq!((page.log_in(&login).0, other.log_in(&login).0), (200, 200));
    let run = |page: &Page<'_>, sql: &str| {
        let answer = page.query(json!({"sql": sql}));
        assert_eq!(answer["error"], Json::Null, "{sql}: {answer}");
        let newest = page.query(json!({"sql": "SELECT block FROM tally_snapshot()"}));
        newest["rows"][0][0].as_str().unwrap().parse::<u64>().unwrap()
    };
    run(&page, "CREATE TYPE mood AS ENUM ('sad', 'glad')");
    run(&page, "CREATE TABLE t (a int PRIMARY KEY, b mood, c text)");
    run(&page, "CREATE TABLE unnamed (a int)");
    let pay = "CREATE PROCEDURE change(which int, said text) LANGUAGE SQL AS \
               'UPDATE t SET c = said WHERE a = which'";
    run(&page, pay);
    let inserted = run(&page, "INSERT INTO t VALUES (1, 'sad', 'x'), (2, 'glad', NULL)");
    let updated = run(&page, "UPDATE t SET b = 'glad', c = NULL WHERE a = 1");
    let deleted = run(&page, "DELETE FROM t WHERE a = 2");
    let unnamed = run(&page, "INSERT INTO unnamed VALUES (7)");
    let called = run(&page, "CALL change(1, 'said')");
    let changes = |height: u64| page.get(&format!("/console/changes/{height}")).1;

    let all = changes(inserted);
    assert_eq!((&all["whole"], all["rows"].as_array().unwrap().len()), (&json!(true), 2), "{all}");
    assert_eq!(all["rows"][0]["columns"], json!(["a", "b", "c"]));
    assert_eq!(all["rows"][0]["before"], Json::Null);
    assert_eq!(all["rows"][0]["after"], json!(["1", "sad", "x"]));
    let row = &changes(updated)["rows"][0];
    assert_eq!(row["before"], json!(["1", "sad", "x"]), "whatever came later: {row}");
    assert_eq!(row["after"], json!(["1", "glad", null]), "{row}");
    let row = &changes(deleted)["rows"][0];
    assert_eq!((&row["key"], &row["after"]), (&json!(["2"]), &Json::Null), "{row}");
    assert_eq!(row["before"], json!(["2", "glad", null]), "{row}");
    let row = &changes(unnamed)["rows"][0];
    assert_eq!((&row["keyed"], &row["after"]), (&json!(false), &json!(["7"])), "{row}");
    let (_, elsewhere) = page.get(&format!("/console/changes/{updated}?from=1&to=9"));
    assert_eq!(elsewhere["rows"], json!([]), "of other transactions");
    assert_eq!(page.get("/console/changes/999999").0, 404);

    // By what it called, who sent it, and what it said.
    for text in ["change", "tally", "UPDATE%20t"] {
        let (_, found) = page.get(&format!("/console/search/{text}"));
        let heights = found["found"].as_array().unwrap().iter().map(|it| it["height"].as_u64());
        let wanted = if text == "UPDATE%20t" { updated } else { called };
        assert!(heights.into_iter().any(|height| height == Some(wanted)), "{text}: {found}");
    }
    let (_, absent) = page.get("/console/search/absent");
    assert_eq!((&absent["found"], &absent["looked_down_to"]), (&json!([]), &absent["first"]));
    let (_, below) = page.get(&format!("/console/search/change?below={called}"));
    let texts = below["found"].as_array().unwrap().iter().map(|it| it["text"].as_str().unwrap());
    assert!(texts.clone().all(|text| text.starts_with("CREATE PROCEDURE")), "{below}");

    // One that another came before, and which row it was.
    run(&page, "BEGIN");
    page.query(json!({"sql": "SELECT c FROM t WHERE a = 1"}));
    let culprit = run(&other, "UPDATE t SET c = 'first' WHERE a = 1");
    page.query(json!({"sql": "INSERT INTO t VALUES (3, 'sad', 'late')"}));
    let refused = page.query(json!({"sql": "COMMIT"}));
    assert_eq!(refused["error"]["code"], "40001", "{refused}");
    let (_, listed) = page.get("/console/blocks?count=1");
    let (_, block) = page.get(&format!("/console/block/{}", listed["blocks"][0]["height"]));
    let transaction = &block["transactions"][0];
    assert_eq!(transaction["outcome"]["kind"], "retry", "{transaction}");
    let changed = json!([{"table": "t", "key": ["1"], "height": culprit, "position": 0}]);
    assert_eq!(transaction["changed"], changed);
    let (_, conflicts) = page.get("/console/conflicts?blocks=50");
    assert_eq!(conflicts["outcomes"]["retry"], 1, "{conflicts}");
    assert_eq!(conflicts["refused"][0]["key"], json!(["1"]), "{conflicts}");
    assert_eq!(conflicts["busiest"][0]["key"], json!(["1"]), "{conflicts}");
    assert_eq!(conflicts["busiest"][0]["changes"], 4, "{conflicts}");
}

#[test]
fn passwords_are_those_of_every_client() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let mut made = tally(&["config", "password", "ada"]);
    let mut made = made.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    made.stdin.take().unwrap().write_all(b"secret of ada\n").unwrap();
    fs::write(&users, made.wait_with_output().unwrap().stdout).unwrap();
    fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    let data = folder.path().join("data");
    let users = format!("password_file={}", path(&users));
    let node = Node::start_with(tally(&[]), &data, &["--set", &users, "--set", "owner=ada"]);
    let token = fs::read_to_string(data.join("http-token")).unwrap();
    let mut page = Page::of(&node);
    let with_token = json!({"user": "ada", "token": token.trim()});
    let wrong = json!({"user": "ada", "password": "wrong"});
    for login in [&wrong, &with_token, &json!({"user": "eve", "password": "secret of ada"})] {
        let (status, said) = page.log_in(login);
        assert_eq!((status, &said["error"]["code"]), (401, &json!("28P01")), "{said}");
    }
    let login = json!({"user": "ada", "password": "secret of ada"});
    assert_eq!(page.log_in(&login).0, 200);
    let who = page.query(json!({"sql": "SELECT current_user"}));
    assert_eq!(who["rows"], json!([["ada"]]));
}
