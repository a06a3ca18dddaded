//! The router over a socket, before a node that is made up.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const TOKEN: &str = "0123456789abcdef";

/// A node without a PostgreSQL port.
#[derive(Default)]
struct Alone {
    has_passwords: AtomicBool,
    is_up: AtomicBool,
}

impl Node for Alone {
    fn sql_address(&self) -> Option<SqlAddress> {
        // Nothing listens there.
        let closed = SqlAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 1)));
        self.is_up.load(Ordering::Relaxed).then_some(closed)
    }

    fn has_passwords(&self) -> bool {
        self.has_passwords.load(Ordering::Relaxed)
    }

    fn owner(&self) -> String {
        "ada".into()
    }

    fn is_token(&self, shown: &str) -> bool {
        shown == TOKEN
    }

    fn random(&self) -> std::io::Result<[u8; 32]> {
        Ok([7; 32])
    }

    fn overview(&self) -> Json {
        json!({"phase": "ready"})
    }

    fn blocks(&self, _: Option<u64>, _: usize) -> anyhow::Result<Json> {
        panic!("there is no session")
    }

    fn block(&self, _: u64, _: usize, _: usize) -> anyhow::Result<Option<Json>> {
        panic!("there is no session")
    }

    fn find(&self, _: &str) -> anyhow::Result<Json> {
        panic!("there is no session")
    }

    fn search(&self, _: &str, _: Option<u64>) -> anyhow::Result<Json> {
        panic!("there is no session")
    }

    fn changes(&self, _: u64, _: Range<u32>) -> anyhow::Result<Option<Json>> {
        panic!("there is no session")
    }

    fn conflicts(&self, _: usize) -> anyhow::Result<Json> {
        panic!("there is no session")
    }
}

struct Port(SocketAddr);

impl Port {
    async fn of(node: Arc<Alone>) -> Port {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = router(node);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Port(address)
    }

    /// The answer's status, and all of it.
    async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let host = self.0;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        (answer[9..12].parse().unwrap(), answer)
    }

    async fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.ask("POST", path, "X-Tally-Console: 1\r\n", body).await
    }
}

#[tokio::test]
async fn the_bundle_is_served_and_may_load_and_ask_nothing_else() {
    let port = Port::of(Arc::default()).await;
    for (path, kind, part) in [
        ("/", "text/html", "<title>tally</title>"),
        ("/console.js", "text/javascript", "tally"),
        ("/console.css", "text/css", "prefers-color-scheme"),
        ("/favicon.svg", "image/svg+xml", "<svg"),
        ("/licenses.md", "text/plain", "MIT"),
    ] {
        let (status, answer) = port.ask("GET", path, "", "").await;
        assert_eq!(status, 200, "{path}");
        assert!(answer.contains(kind) && answer.contains(part), "{path}");
        let policy = answer.lines().find(|line| line.starts_with("content-security-policy"));
        let policy = policy.unwrap_or_else(|| panic!("{path} has no policy"));
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!policy.contains("http"), "{policy}");
        assert!(!answer.to_lowercase().contains("access-control"), "{path}");
    }
    let (_, page) = port.ask("GET", "/", "", "").await;
    assert!(!page.contains("<style") && !page.contains("onload"), "nothing inline");
    assert!(!page.contains("//cdn") && !page.contains("https://"), "from this node alone");
}

#[tokio::test]
async fn what_has_to_be_kept_needs_a_session() {
    let port = Port::of(Arc::default()).await;
    assert_eq!(port.ask("GET", "/console/overview", "", "").await.0, 200);
    let (status, shown) = port.ask("GET", "/console/session", "", "").await;
    assert_eq!(status, 200);
    assert!(shown.contains("\"session\":null") && shown.contains("\"login\":\"token\""), "{shown}");
    let made_up = format!("Cookie: tally_console_{}={}\r\n", port.0.port(), "0".repeat(64));
    for cookie in ["", &made_up] {
        for path in ["/console/blocks", "/console/block/1", "/console/block/x"] {
            let (status, answer) = port.ask("GET", path, cookie, "").await;
            assert!([400, 401].contains(&status), "{path}: {answer}");
        }
        let hash = format!("/console/find/{}", "a".repeat(64));
        assert_eq!(port.ask("GET", &hash, cookie, "").await.0, 401);
        let headers = format!("X-Tally-Console: 1\r\n{cookie}");
        let (status, _) =
            port.ask("POST", "/console/query", &headers, r#"{"sql":"SELECT 1"}"#).await;
        assert_eq!(status, 401);
    }
    assert_eq!(port.ask("GET", "/console/find/../x", "", "").await.0, 404);
    assert_eq!(port.post("/console/logout", "").await.0, 204);
}

#[tokio::test]
async fn only_the_consoles_own_page_changes_anything() {
    let port = Port::of(Arc::default()).await;
    let login = format!(r#"{{"user":"ada","token":"{TOKEN}"}}"#);
    let evil = "X-Tally-Console: 1\r\nOrigin: http://evil.example\r\n";
    let near = "X-Tally-Console: 1\r\nOrigin: http://127.0.0.1:1\r\n";
    let form = "Content-Type: text/plain\r\n";
    for headers in ["", form, evil, near, "X-Tally-Console: 1\r\nOrigin: null\r\n"] {
        for path in ["/console/login", "/console/logout", "/console/query"] {
            assert_eq!(port.ask("POST", path, headers, &login).await.0, 403, "{path} {headers}");
        }
    }
    let own = format!("X-Tally-Console: 1\r\nOrigin: http://{}\r\n", port.0);
    assert_eq!(port.ask("POST", "/console/login", &own, &login).await.0, 503, "it starts");
    let (status, _) = port.ask("DELETE", "/console/login", &own, "").await;
    assert_eq!(status, 405);
}

#[tokio::test]
async fn guesses_are_counted_and_cost_the_guesser_alone() {
    let node = Arc::<Alone>::default();
    node.is_up.store(true, Ordering::Relaxed);
    let port = Port::of(node.clone()).await;
    let (status, answer) = port.post("/console/login", r#"{"user":"ada","token":"x"}"#).await;
    assert_eq!(status, 401);
    assert!(answer.contains("http-token"), "{answer}");
    assert!(!answer.to_lowercase().contains("set-cookie"), "{answer}");
    // The token is right, and nothing listens: that is told as it is.
    let login = format!(r#"{{"user":"ada","token":"{TOKEN}"}}"#);
    let (status, answer) = port.post("/console/login", &login).await;
    assert!(status == 401 && answer.contains("08006"), "{answer}");
    for _ in 0..3 {
        assert_eq!(port.post("/console/login", r#"{"user":"ada"}"#).await.0, 401);
    }
    for body in [r#"{"user":"ada"}"#, &login] {
        assert_eq!(port.post("/console/login", body).await.0, 429, "{body}");
    }
    // Where there are passwords, the token is none.
    let node = Arc::<Alone>::default();
    node.has_passwords.store(true, Ordering::Relaxed);
    node.is_up.store(true, Ordering::Relaxed);
    let port = Port::of(node).await;
    let (status, shown) = port.ask("GET", "/console/session", "", "").await;
    assert!(status == 200 && shown.contains("\"owner\":null"), "no name is told: {shown}");
}

#[tokio::test]
async fn requests_are_bounded_and_read_strictly() {
    let node = Arc::<Alone>::default();
    node.is_up.store(true, Ordering::Relaxed);
    let port = Port::of(node).await;
    for body in ["", "{", "[]", r#"{"user":7}"#, r#"{"password":"x"}"#] {
        assert_eq!(port.post("/console/login", body).await.0, 400, "{body}");
    }
    let long = format!(r#"{{"user":"{}"}}"#, "a".repeat(BODY_BYTES_MAX));
    assert_eq!(port.post("/console/login", &long).await.0, 413);
}
