//! Who gets in, and how far: with the programs that people come by (psql, openssl, curl).

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::promises::Promise;
use super::*;

/// For the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);

const CUT_OFF: Promise = Promise::new(
    "a request that does not go on is cut off behind its five seconds",
    Duration::from_millis(100),
)
.times(25.0);

/// Runs a program; without it the test fails, since `make test` installs it.
fn program(name: &str, arguments: &[&str]) -> Output {
    let ran = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .env("PGCONNECT_TIMEOUT", "10")
        .env("HOME", "/nonexistent")
        .output();
    ran.unwrap_or_else(|error| panic!("{name}, which this test needs, does not run: {error}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Keys, certificates, users: one folder for each test.
struct Keys(TempDir);

impl Keys {
    fn new() -> Keys {
        Keys(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        path(&self.0.path().join(name)).to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
        fs::set_permissions(self.0.path().join(name), Permissions::from_mode(0o600)).unwrap();
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let command = command.args(arguments.split(' ')).current_dir(self.0.path());
        let made = command.output().expect("openssl, which this test needs");
        assert!(made.status.success(), "{arguments}: {}", said(&made));
    }

    fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key \
             -out {name}.pem -days 2 -subj /CN={name} -addext basicConstraints=critical,CA:TRUE"
        ));
    }

    fn certificate(&self, authority: &str, name: &str) {
        self.write("extensions", "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n");
        self.openssl(&format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key \
             -out {name}.csr -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key \
             -CAcreateserial -out {name}.pem -days 2 -extfile extensions"
        ));
        fs::set_permissions(self.path(&format!("{name}.key")), Permissions::from_mode(0o600))
            .unwrap();
    }

    /// A password file, by the program's own command.
    fn users(&self, name: &str, users: &[(&str, &str)]) {
        let lines = users.iter().map(|(user, password)| {
            let mut command = tally(&["config", "password", user, "--iterations", "4096"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
            String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
        });
        self.write(name, &lines.collect::<String>());
    }
}

fn port(node: &Node) -> &str {
    node.ready["listen"].as_str().unwrap().rsplit(':').next().unwrap()
}

/// What psql says as `user`, with more of a connection string.
fn psql(node: &Node, user: &str, rest: &str) -> (bool, String) {
    let connection = format!(
        "host=localhost hostaddr=127.0.0.1 port={} dbname=tally user={user} {rest}",
        port(node)
    );
    psql_by(&connection, "SELECT current_user")
}

/// What psql says to a statement.
pub fn psql_by(connection: &str, text: &str) -> (bool, String) {
    let output = program("psql", &["-XqAt", "-w", connection, "-c", text]);
    (output.status.success(), said(&output).trim().to_owned())
}

/// Until it holds, or for ten seconds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hang_up(node: &Node) {
    let pid = rustix::process::Pid::from_child(&node.child);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
}

#[test]
fn psql_comes_by_tls_with_a_password_or_a_certificate() {
    let keys = Keys::new();
    keys.authority("ca");
    keys.authority("other");
    for (authority, name) in [("ca", "localhost"), ("ca", "ada"), ("other", "eve")] {
        keys.certificate(authority, name);
    }
    keys.users("users", &[("ada", "secret of ada"), ("bob", "secret of bob")]);
    let settings = [
        format!("--set=password_file={}", keys.path("users")),
        format!("--set=tls_certificate={}", keys.path("localhost.pem")),
        format!("--set=tls_key={}", keys.path("localhost.key")),
        format!("--set=tls_client_ca={}", keys.path("ca.pem")),
        "--set=tls=require".into(),
        "--set=tls_version_min=1.3".into(),
        "--set=owner=ada".into(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().unwrap();
    let log = keys.0.path().join("log");
    let file = File::create(&log).unwrap();
    let node = Node::start_logging(tally(&[]), &folder.path().join("data"), &settings, file);

    let (admitted, said_to_plain) = psql(&node, "bob", "sslmode=disable password=x");
    assert!(!admitted && said_to_plain.contains("is not encrypted"), "{said_to_plain}");
    let tls = format!("sslmode=verify-full sslrootcert={}", keys.path("ca.pem"));
    let shown = |name: &str| {
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        format!("{tls} sslcert={} sslkey={}", keys.path(&certificate), keys.path(&key))
    };
    let (admitted, refusal) = psql(&node, "bob", &format!("{tls} password='secret of bob'"));
    assert!(!admitted && refusal.contains("role \"bob\" does not exist"), "{refusal}");
    let as_ada = format!(
        "host=localhost hostaddr=127.0.0.1 port={} dbname=tally user=ada {}",
        port(&node),
        shown("ada")
    );
    assert_eq!(psql_by(&as_ada, "CREATE USER bob"), (true, String::new()));
    let (admitted, as_bob) = psql(&node, "bob", &format!("{tls} password='secret of bob'"));
    assert_eq!((admitted, as_bob.as_str()), (true, "bob"));
    let (admitted, refusal) = psql(&node, "bob", &format!("{tls} password=hunter2"));
    assert!(!admitted && refusal.contains("password authentication failed"), "{refusal}");
    assert_eq!(psql(&node, "ada", &shown("ada")), (true, "ada".into()));
    assert!(!psql(&node, "bob", &shown("ada")).0, "a certificate of another name");
    assert!(!psql(&node, "eve", &shown("eve")).0, "a certificate of another authority");

    let address = node.ready["listen"].as_str().unwrap();
    let handshake = |version: &str| {
        let asked = ["s_client", "-starttls", "postgres", "-connect", address, version];
        said(&program("openssl", &asked))
    };
    assert!(handshake("-tls1_3").contains("TLSv1.3"));
    assert!(!handshake("-tls1_2").contains("Server certificate"));

    let reported = fs::read_to_string(log).unwrap();
    let line = reported.lines().find(|line| line.contains("failed login")).unwrap();
    assert!(line.contains("WARN") && line.contains("user=bob") && line.contains("127.0.0.1"));
    assert!(!reported.contains("hunter2"), "a password is in the log");
}

#[test]
fn a_hangup_has_users_and_certificates_read_again() {
    let keys = Keys::new();
    keys.authority("ca");
    keys.certificate("ca", "localhost");
    keys.users("users", &[("ada", "first")]);
    let settings = [
        format!("--set=password_file={}", keys.path("users")),
        format!("--set=tls_certificate={}", keys.path("localhost.pem")),
        format!("--set=tls_key={}", keys.path("localhost.key")),
        "--set=owner=ada".into(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().unwrap();
    let log = keys.0.path().join("log");
    let file = File::create(&log).unwrap();
    let node = Node::start_logging(tally(&[]), &folder.path().join("data"), &settings, file);
    let tls = |authority: &str| {
        format!("sslmode=verify-full sslrootcert={}", keys.path(&format!("{authority}.pem")))
    };
    let admits = |authority: &str, password: &str| {
        psql(&node, "ada", &format!("{} password={password}", tls(authority))).0
    };
    assert!(admits("ca", "first"));

    // Both broken: what was in force stays, and the log says so.
    keys.write("users", "ada:nonsense\n");
    keys.write("localhost.key", "nonsense\n");
    hang_up(&node);
    let reported = || fs::read_to_string(&log).unwrap();
    eventually("both are in the log", || {
        reported().matches("what was in force stays").count() == 2
    });
    assert!(admits("ca", "first"));

    keys.users("users", &[("ada", "second")]);
    keys.authority("next");
    keys.certificate("next", "localhost");
    hang_up(&node);
    eventually("the new ones are in force", || admits("next", "second"));
    assert!(!admits("next", "first") && !admits("ca", "second"));
}

/// curl's answer: its status and its body.
fn curl(node: &Node, path: &str, arguments: &[&str]) -> (String, String) {
    let url = format!("http://{}{path}", node.ready["http_listen"].as_str().unwrap());
    let output =
        program("curl", &[&["-s", "-m", "20", "-w", "\n%{http_code}", &url], arguments].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let (body, status) = said.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

#[test]
fn curl_changes_something_with_the_token_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let node = Node::start(&data);
    let token_file = data.join("http-token");
    assert_eq!(fs::metadata(&token_file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(token_file).unwrap();
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let status = |path, arguments: &[&str]| curl(&node, path, arguments).0;
    for (arguments, expected) in [
        (&["-X", "POST"][..], "401"),
        (&["-X", "POST", "-H", "Authorization: Bearer 0123456789abcdef"], "401"),
        (&["-X", "POST", "-H", &bearer, "-H", "Host: evil.example"], "421"),
        (&["-X", "POST", "-H", &bearer], "200"),
        (&[], "200"),
    ] {
        assert_eq!(status("/checkpoint", arguments), expected, "{arguments:?}");
    }
    assert_eq!(status("/prune?00", &["-X", "POST"]), "401");
    assert_eq!(status("/metrics", &["-H", "Host: evil.example:5461"]), "421");
    assert_eq!(status("/livez", &["-H", "Host: localhost:1"]), "200");
    let (_, headers) = curl(&node, "/livez", &["-i", "-H", "Origin: http://evil.example"]);
    assert!(!headers.to_lowercase().contains("access-control"), "{headers}");
    // The program's own command finds the token in the folder.
    let address = node.ready["http_listen"].as_str().unwrap();
    let asked = ["checkpoint", "--data", path(&data), "--http-listen", address];
    assert!(run(&asked).status.success());
}

/// Sockets that never finish a request do not keep a probe out, and do not stay.
#[test]
fn slow_requests_are_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&folder.path().join("data"));
    let address: SocketAddr = node.ready["http_listen"].as_str().unwrap().parse().unwrap();
    let mut slow: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: local");
    }
    assert!(node.fetch("/livez").contains(" 200 "));
    let last = slow.last_mut().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = last.read_to_end(&mut rest);
    CUT_OFF.hold(began.elapsed().saturating_sub(HEAD_WITHIN));
}

#[test]
fn what_others_can_read_keeps_a_node_from_starting() {
    let keys = Keys::new();
    keys.users("users", &[("ada", "x")]);
    let users = keys.path("users");
    let data = keys.0.path().join("data");
    fs::create_dir(&data).unwrap();
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let users_setting = format!("password_file={users}");
    let serve = |more: &[&str]| {
        let usual = ["serve", "--data", path(&data), "--listen", "127.0.0.1:0"];
        let http = ["--http-listen", "", "--set", &users_setting];
        run(&[&usual[..], &http, more].concat())
    };
    for (open, mode, help) in
        [(&data, 0o755, "chmod 700"), (&PathBuf::from(&users), 0o644, "chmod 600")]
    {
        set(&data, 0o700);
        set(Path::new(&users), 0o600);
        set(open, mode);
        let refused = serve(&[]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(said(&refused).contains(help), "{}", said(&refused));
    }
    let node = Node::start_with(tally(&[]), &data, &["--set", "file_modes=any"]);
    assert_eq!(node.ready["ready"], true);
}

#[test]
fn removing_the_lock_file_lets_no_second_node_in() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    fs::remove_file(folder.path().join("LOCK")).unwrap();
    let second = run(&["serve", "--data", path(folder.path()), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second).contains("in use"), "{}", said(&second));
    assert_eq!(run(&["verify", path(folder.path())]).status.code(), Some(1));
    drop(node);
}

async fn connect_as(node: &Node, user: &str) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    let port = port(node).parse().unwrap();
    config.host("127.0.0.1").port(port).user(user).dbname("tally");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn what_concerns_all_is_the_owners() {
    let folder = tempfile::tempdir().unwrap();
    // The setting names who a new ledger begins with, and changes nothing of one that there is.
    for owner in ["ada", "bob"] {
        let setting = format!("owner={owner}");
        let mut node = Node::start_with(tally(&[]), folder.path(), &["--set", &setting]);
        let client = connect_as(&node, "ada").await;
        if owner == "ada" {
            client.simple_query("CREATE USER bob").await.unwrap();
        }
        for text in ["SET ledger.protocol = 'serial'", "SELECT tally_pin('mine')"] {
            let refused = connect_as(&node, "bob").await.simple_query(text).await.unwrap_err();
            let refused = refused.as_db_error().unwrap();
            assert_eq!(refused.code().code(), "42501", "{text}");
            assert!(refused.detail().is_some() && refused.hint().is_some(), "{refused:?}");
        }
        client.simple_query("SET ledger.protocol = 'serial'").await.unwrap();
        client.simple_query("SELECT tally_pin('mine')").await.unwrap();
        client.simple_query("SELECT tally_unpin('mine')").await.unwrap();
        node.signal(Signal::TERM);
    }
}

/// What a stranger is told in the first step of SCRAM, its own nonce and the server's apart.
fn challenge(node: &Node, user: &str) -> String {
    let mut stream = TcpStream::connect(node.ready["listen"].as_str().unwrap()).unwrap();
    let parameters = format!("user\0{user}\0\0");
    let length = 8 + parameters.len() as u32;
    let startup = [&length.to_be_bytes()[..], &[0, 3, 0, 0], parameters.as_bytes()].concat();
    stream.write_all(&startup).unwrap();
    next_message(&mut stream);
    let first = b"n,,n=,r=nonce";
    let body = [b"SCRAM-SHA-256\0", &(first.len() as u32).to_be_bytes()[..], first].concat();
    let length = (body.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[b"p", &length[..], &body].concat()).unwrap();
    let reported = String::from_utf8_lossy(&next_message(&mut stream)[4..]).into_owned();
    reported.split_once(',').unwrap().1.to_owned()
}

fn next_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).unwrap();
    body
}

#[test]
fn a_restart_does_not_tell_strangers_from_users() {
    let keys = Keys::new();
    keys.users("users", &[("ada", "x")]);
    let users = format!("password_file={}", keys.path("users"));
    let folder = tempfile::tempdir().unwrap();
    let challenges: Vec<[String; 2]> = (0..2)
        .map(|_| {
            let node = Node::start_with(tally(&[]), folder.path(), &["--set", &users]);
            ["ada", "stranger"].map(|user| challenge(&node, user))
        })
        .collect();
    assert_eq!(challenges[0], challenges[1]);
    let [ada, stranger] = &challenges[0];
    assert!(ada != stranger && ada.len() == stranger.len(), "{ada} {stranger}");
    assert!(stranger.ends_with(",i=4096"), "as many rounds as users have");
}

#[tokio::test]
async fn names_in_a_ledger_do_not_act_on_a_terminal() {
    const EVIL: &str = "\u{1b}[2K\u{1b}[1Greceipt holds\u{9b}m";
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut node = Node::start(&data);
    let role = format!("CREATE ROLE \"{EVIL}\" LOGIN SUPERUSER");
    connect_as(&node, "tally").await.simple_query(&role).await.unwrap();
    let client = connect_as(&node, EVIL).await;
    let create = format!("CREATE TABLE \"{EVIL}\" (id bigint PRIMARY KEY, \"{EVIL}\" text)");
    client.simple_query(&create).await.unwrap();
    let insert = format!("INSERT INTO \"{EVIL}\" VALUES (1, '{EVIL}')");
    client.simple_query(&insert).await.unwrap();
    node.signal(Signal::TERM);
    let (data, out) = (path(&data), folder.path().join("out"));
    for arguments in [
        &["verify", data][..],
        &["receipt", "--data", data, "--height", "2", "--index", "0"],
        &["receipt", "--data", data, "--height", "3", "--index", "0"],
        &["receipt", "--data", data, "--height", "3", "--index", "0", "--output", "json"],
        &["export", "--data", data, "--to", path(&out), "--output", "json"],
        &["export", "--data", data, "--to", path(&out), "--table", EVIL],
    ] {
        let shown = said(&run(arguments));
        assert!(!shown.is_empty() && !shown.contains(|c: char| c.is_control() && c != '\n'));
        if arguments[0] == "receipt" {
            assert!(shown.contains("1b}[2K"), "{shown}");
        }
    }
}
