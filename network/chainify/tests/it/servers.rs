//! PostgreSQL and MariaDB as Debian has them, on free ports, with folders that go with them.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use chainify::Database;
use chainify::dialect::Dialect;

/// A server: it stops and its folder goes when this is dropped, or when this process ends however.
pub struct Server {
    shell: Child,
    port: u16,
    is_postgres: bool,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Where Debian has it.
fn postgres_programs() -> PathBuf {
    let all = std::fs::read_dir("/usr/lib/postgresql");
    let all = all.expect("PostgreSQL is missing: scripts/install-deps postgres");
    let mut versions: Vec<PathBuf> = all.flatten().map(|it| it.path().join("bin")).collect();
    versions.sort();
    versions.pop().expect("PostgreSQL is missing: scripts/install-deps postgres")
}

impl Server {
    pub fn postgres() -> Server {
        let (folder, port) = (folder(), free_port());
        let programs = postgres_programs();
        let programs = programs.display();
        // PostgreSQL refuses to run as root.
        let as_postgres = match is_root() {
            true => "setpriv --reuid postgres --regid postgres --clear-groups",
            false => "",
        };
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(&folder).status();
            assert!(owned.unwrap().success());
        }
        let data = folder.join("data");
        let data = data.display();
        let start = format!(
            "{as_postgres} {programs}/initdb -D {data} -U tally -A trust --locale=C -E UTF8 \
             >/dev/null && exec {as_postgres} {programs}/postgres -D {data} -p {port} -k {} \
             -c listen_addresses=127.0.0.1 -c shared_buffers=32MB -c fsync={} -c log_min_messages=panic",
            folder.display(),
            if is_durable() { "on" } else { "off" }
        );
        Server::start(&folder, &start, port, true)
    }

    pub fn mariadb() -> Server {
        let (folder, port) = (folder(), free_port());
        let data = folder.join("data");
        let (data, folder_name) = (data.display(), folder.display());
        let user = if is_root() { "--user=root" } else { "" };
        let missing = "MariaDB is missing: scripts/install-deps mariadb";
        assert!(Path::new("/usr/sbin/mariadbd").exists(), "{missing}");
        let start = format!(
            "mariadb-install-db --no-defaults --datadir={data} {user} \
             --auth-root-authentication-method=normal --skip-test-db --innodb-log-file-size=8M \
             >&2 && exec mariadbd --no-defaults {user} --datadir={data} --port={port} \
             --bind-address=127.0.0.1 --socket={folder_name}/socket --pid-file={folder_name}/pid \
             --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit={} --skip-log-bin \
             --innodb-log-file-size=8M --skip-name-resolve",
            u8::from(is_durable())
        );
        Server::start(&folder, &start, port, false)
    }

    /// A shell has the server for a child, and ends it when its standard input does. A server that
    /// ends earlier leaves `ended` beside its log.
    fn start(folder: &Path, start: &str, port: u16, is_postgres: bool) -> Server {
        let script = format!(
            "exec 3<&0; ({start}) >{0}/log 2>&1 3<&- & server=$!; \
             (cat <&3 >/dev/null; kill -KILL $server 2>/dev/null) & by_hand=$!; \
             wait $server 2>/dev/null; touch {0}/ended; wait $by_hand; sleep 0.2; rm -rf {0}",
            folder.display()
        );
        let shell = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { shell, port, is_postgres };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = folder.join("ended").exists();
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(!ended, "the server on {port} ended: {log}");
            assert!(began.elapsed() < Duration::from_secs(120), "no server on {port}: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub fn url(&self, database: &str) -> String {
        let Server { port, is_postgres, .. } = self;
        match is_postgres {
            true => format!("postgresql://tally@127.0.0.1:{port}/{database}"),
            false => format!("mysql://root@127.0.0.1:{port}/{database}"),
        }
    }

    pub fn dialect(&self) -> Dialect {
        if self.is_postgres { Dialect::Postgres } else { Dialect::MariaDb }
    }

    /// Whose sessions its URLs give.
    pub fn user(&self) -> &'static str {
        if self.is_postgres { "tally" } else { "root@" }
    }

    /// A new database with these tables.
    pub async fn database(&self, tables: &str) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let admin = self.url(if self.is_postgres { "postgres" } else { "mysql" });
        let mut admin = connected(&admin).await;
        admin.run(&format!("CREATE DATABASE {name}")).await.unwrap();
        let mut made = connected(&self.url(&name)).await;
        for statement in tables.split(';').filter(|it| !it.trim().is_empty()) {
            made.run(statement).await.unwrap();
        }
        self.url(&name)
    }
}

/// A server that has just opened its port may not answer yet.
async fn connected(url: &str) -> Database {
    let began = Instant::now();
    loop {
        match Database::connect(url).await {
            Ok(database) => return database,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A measurement has servers wait for the disk, as they do where it counts.
fn is_durable() -> bool {
    std::env::var_os("TALLY_CHAINIFY_DURABLE").is_some()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0)
}

fn folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("tally-chainify-").tempdir().unwrap().keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// One for all tests of this process that need no server of their own.
pub fn postgres() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::postgres)
}

pub fn mariadb() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::mariadb)
}

/// Names of all that a database has, of its own and of this program.
pub async fn traces(database: &mut Database) -> Vec<Vec<Option<String>>> {
    let asked = match database.dialect() {
        Dialect::Postgres => {
            "SELECT nspname FROM pg_namespace UNION ALL SELECT relname FROM pg_class \
             UNION ALL SELECT proname FROM pg_proc UNION ALL SELECT tgname FROM pg_trigger \
             ORDER BY 1"
        }
        Dialect::MariaDb => {
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() \
             UNION ALL SELECT trigger_name FROM information_schema.triggers \
             WHERE trigger_schema = DATABASE() UNION ALL SELECT routine_name FROM \
             information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1"
        }
    };
    database.rows(asked).await.unwrap()
}
