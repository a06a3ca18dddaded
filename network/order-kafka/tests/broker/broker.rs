//! A broker that `scripts/kafka` starts. Without its jars that fails: `scripts/kafka fetch` gets
//! them.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Of anything that must happen.
#[allow(dead_code, reason = "not all that start a broker wait by it")]
pub const PATIENCE: Duration = Duration::from_secs(60);

/// For Java to start, on a machine that does other things as well.
const START_TIME: Duration = Duration::from_secs(150);

/// Killed when dropped.
pub struct Broker {
    child: Child,
    folder: PathBuf,
    port: u16,
    how: &'static str,
}

impl Broker {
    pub fn start(name: &str) -> Broker {
        Broker::start_as(name, "")
    }

    /// With TLS, for [`Broker::certificate`], and a user `tally` whose password is `secret`.
    #[allow(dead_code, reason = "not all that start a broker need a secure one")]
    pub fn start_secure(name: &str) -> Broker {
        Broker::start_as(name, "secure")
    }

    #[allow(dead_code, reason = "not all that start a broker need a secure one")]
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("broker.pem")
    }

    fn start_as(name: &str, how: &'static str) -> Broker {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let port = free_ports();
        let child = run(&folder, port, how);
        let mut broker = Broker { child, folder, port, how };
        broker.is_up();
        broker
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn is_up(&mut self) {
        let since = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            let ended = self.child.try_wait().unwrap().is_some();
            assert!(
                !ended && since.elapsed() < START_TIME,
                "no broker: scripts/kafka fetch gets it, and {} has its log",
                self.folder.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// With nothing of what it had.
    #[allow(dead_code, reason = "not all that start a broker take its data")]
    pub fn start_anew(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
        self.start_again();
    }

    pub fn start_again(&mut self) {
        self.child = run(&self.folder, self.port, self.how);
        self.is_up();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn run(folder: &Path, port: u16, how: &str) -> Child {
    // Packages lie at different depths.
    let roots = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let script = roots.map(|root| root.join("scripts/kafka")).find(|script| script.is_file());
    let mut command = Command::new(script.expect("scripts/kafka is gone"));
    command.arg("run").arg(folder).arg(port.to_string()).arg(how);
    // What is missing is said on stderr.
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// One for clients, and the next for the controller: none that the system gives to a connection
/// while the broker is away.
fn free_ports() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let apart = 40 * CALLS.fetch_add(1, Ordering::SeqCst);
    let from = 8_000 + 2 * (std::process::id() % 1_200) as u16 + apart;
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (from..11_000).step_by(2).find(|port| free(*port) && free(port + 1)).unwrap()
}
