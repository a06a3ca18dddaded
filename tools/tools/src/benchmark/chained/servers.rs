//! PostgreSQL and MariaDB as Debian has them, on free ports, in folders that go with them.

use std::fs::Permissions;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::over_databases::System;

use super::processor;

const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
const MARIADB: &str = "/usr/sbin/mariadbd";

/// It stops when this is dropped, or when this process ends however.
pub struct Server {
    shell: Child,
    folder: PathBuf,
    port: u16,
    pub system: System,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// What is not installed.
pub fn missing() -> Option<String> {
    let programs = postgres_programs().filter(|it| it.join("initdb").exists());
    let lacks = match (programs.is_some(), Path::new(MARIADB).exists()) {
        (true, true) => return None,
        (false, _) => "PostgreSQL",
        (true, false) => "MariaDB",
    };
    Some(format!("this machine has no {lacks}: scripts/install-deps postgres mariadb"))
}

/// The newest one.
fn postgres_programs() -> Option<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut versions: Vec<PathBuf> = all.flatten().map(|it| it.path().join("bin")).collect();
    versions.sort();
    versions.pop()
}

impl Server {
    /// With the settings of a server that has a third of a small machine and waits for the disk.
    pub fn start(system: System, folder: &Path) -> Result<Server> {
        std::fs::create_dir_all(folder)?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let start = match system {
            System::Postgres => postgres(folder, port)?,
            System::MariaDb => mariadb(folder, port),
        };
        // A shell has the server for a child, and ends it when its own standard input ends.
        let script = format!(
            "exec 3<&0; ({start}) >{0}/log 2>&1 3<&- & server=$!; \
             (cat <&3 >/dev/null; kill -KILL $server 2>/dev/null) & by_hand=$!; \
             wait $server 2>/dev/null; touch {0}/ended; wait $by_hand",
            folder.display()
        );
        let shell = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Server { shell, folder: folder.to_owned(), port, system };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&self) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() || self.process().is_none() {
            if self.folder.join("ended").exists() || began.elapsed() > READY_WITHIN {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("a server of {:?} does not start:\n{log}", self.system);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    pub fn url(&self, database: &str) -> String {
        let port = self.port;
        match self.system {
            System::Postgres => format!("postgresql://tally@127.0.0.1:{port}/{database}"),
            System::MariaDb => format!("mysql://root@127.0.0.1:{port}/{database}"),
        }
    }

    /// The one that is chained.
    pub fn database(&self) -> &'static str {
        match self.system {
            System::Postgres => "postgres",
            System::MariaDb => "bank",
        }
    }

    fn process(&self) -> Option<u32> {
        let file = match self.system {
            System::Postgres => self.folder.join("data/postmaster.pid"),
            System::MariaDb => self.folder.join("pid"),
        };
        std::fs::read_to_string(file).ok()?.lines().next()?.trim().parse().ok()
    }

    /// Processor time of all its processes, in seconds.
    pub fn processor_s(&self) -> f64 {
        self.process().map_or(0.0, processor::of_family)
    }
}

/// PostgreSQL refuses to run as root.
fn postgres(folder: &Path, port: u16) -> Result<String> {
    let programs = postgres_programs().context("PostgreSQL is missing")?;
    let programs = programs.display();
    let mut as_postgres = "";
    if rustix::process::getuid().is_root() {
        as_postgres = "setpriv --reuid postgres --regid postgres --clear-groups";
        let owned = Command::new("chown").arg("postgres").arg(folder).status()?;
        if !owned.success() {
            bail!("{} cannot be given to the user postgres", folder.display());
        }
    }
    let folder = folder.display();
    Ok(format!(
        "{as_postgres} {programs}/initdb -D {folder}/data -U tally -A trust --locale=C -E UTF8 \
         >/dev/null && exec {as_postgres} {programs}/postgres -D {folder}/data -p {port} \
         -k {folder} -c listen_addresses=127.0.0.1 -c shared_buffers=256MB -c max_wal_size=1GB \
         -c log_min_messages=fatal"
    ))
}

fn mariadb(folder: &Path, port: u16) -> String {
    let user = if rustix::process::getuid().is_root() { "--user=root" } else { "" };
    let folder = folder.display();
    format!(
        "mariadb-install-db --no-defaults --datadir={folder}/data {user} \
         --auth-root-authentication-method=normal --skip-test-db >&2 && exec {MARIADB} \
         --no-defaults {user} --datadir={folder}/data --port={port} --bind-address=127.0.0.1 \
         --socket={folder}/socket --pid-file={folder}/pid --innodb-buffer-pool-size=256M \
         --innodb-log-file-size=256M --skip-log-bin --skip-name-resolve"
    )
}
