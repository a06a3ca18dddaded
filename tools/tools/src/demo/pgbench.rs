//! pgbench as a child process: where the load and the figures come from.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio_postgres::{Client, NoTls};
use workloads::PgbenchScript;

/// One transaction in this many has its latency logged: enough for a 99th percentile, and the
/// client's own work does not grow with the throughput.
const SAMPLE_ONE_IN: u32 = 10;

/// A background load ends by itself after this time, should no process be left to end it.
const LOAD_S_MAX: u64 = 60;

/// Names the missing program and the package that has it.
pub fn require_tools() -> Result<()> {
    for (program, package) in [("pgbench", "postgresql"), ("psql", "postgresql-client")] {
        let found = Command::new(program).arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            bail!("{program} is not installed; on Debian: apt-get install {package}");
        }
    }
    Ok(())
}

/// Where a PostgreSQL-compatible server listens.
#[derive(Clone, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
}

impl Target {
    pub fn local(port: u16) -> Target {
        Target { host: "127.0.0.1".into(), port, user: "tally".into(), database: "tally".into() }
    }

    /// From `postgresql://user@host:port/database`.
    pub fn parse(url: &str) -> Result<Target> {
        let config: tokio_postgres::Config = url.parse()?;
        let host = match config.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
            _ => bail!("a host name is needed in {url}"),
        };
        Ok(Target {
            host,
            port: config.get_ports().first().copied().unwrap_or(5432),
            user: config.get_user().unwrap_or("tally").to_owned(),
            database: config.get_dbname().unwrap_or("tally").to_owned(),
        })
    }

    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub async fn connect(&self) -> Result<Client> {
        let mut config = tokio_postgres::Config::new();
        config.host(&self.host).port(self.port);
        config.user(&self.user).dbname(&self.database);
        let connected = config.connect(NoTls).await;
        let (client, connection) =
            connected.with_context(|| format!("cannot connect to {}", self.address()))?;
        // It ends with the client, or with the server's death, which the client's calls report.
        tokio::spawn(connection);
        Ok(client)
    }

    fn pgbench(&self, clients: u32, seconds: u64) -> Command {
        let mut command = Command::new("pgbench");
        command.args(["--no-vacuum", "--protocol=prepared", "--random-seed=1"]);
        command.arg(format!("--host={}", self.host));
        command.arg(format!("--port={}", self.port));
        command.arg(format!("--username={}", self.user));
        command.arg(format!("--client={clients}"));
        command.arg(format!("--jobs={}", clients.min(2)));
        command.arg(format!("--time={seconds}"));
        command
    }
}

/// What pgbench measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    pub transactions: u64,
    pub transactions_per_s: f64,
    pub failed: u64,
    pub retried: u64,
    pub latency_us_p50: u64,
    pub latency_us_p95: u64,
    pub latency_us_p99: u64,
    pub latency_us_max: u64,
}

/// Writes the scripts into the folder and gives pgbench's arguments for them.
pub fn write_scripts(scripts: &[PgbenchScript], folder: &Path) -> Result<Vec<String>> {
    let write = |script: &PgbenchScript| {
        let file = folder.join(format!("{}.sql", script.name));
        std::fs::write(&file, &script.text)?;
        Ok(format!("--file={}@{}", file.display(), script.weight))
    };
    scripts.iter().map(write).collect()
}

/// Runs the scripts for some seconds. `advance` hears the part that is done and the rate so far.
pub fn measure(
    target: &Target,
    clients: u32,
    seconds: u64,
    scripts: &[String],
    folder: &Path,
    advance: impl Fn(f64, &str),
) -> Result<Measured> {
    let log = folder.join("latency");
    let mut command = target.pgbench(clients, seconds);
    command.args(["--progress=1", "--log"]);
    command.arg(format!("--sampling-rate={}", 1.0 / f64::from(SAMPLE_ONE_IN)));
    command.arg(format!("--log-prefix={}", log.display()));
    command.args(scripts).arg(&target.database);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut complaints = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            match parse_progress(&line) {
                Some((elapsed_s, rate)) => advance(elapsed_s / seconds as f64, rate),
                None => complaints += &format!("{line}\n"),
            }
        }
    }
    let mut summary = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut summary)?;
    }
    if !child.wait()?.success() {
        bail!("pgbench failed:\n{complaints}");
    }
    let mut measured = parse_summary(&summary)
        .with_context(|| format!("pgbench said something unexpected:\n{summary}"))?;
    read_latencies(folder, &mut measured)?;
    Ok(measured)
}

/// `progress: 2.0 s, 5231.0 tps, lat …` gives 2.0 and `5231.0 tps`.
fn parse_progress(line: &str) -> Option<(f64, &str)> {
    let rest = line.strip_prefix("progress: ")?;
    let (elapsed, rest) = rest.split_once(" s, ")?;
    Some((elapsed.parse().ok()?, rest.split(',').next()?))
}

fn parse_summary(summary: &str) -> Option<Measured> {
    let after = |label: &str| {
        let line = summary.lines().find_map(|line| line.strip_prefix(label))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    let transactions = after("number of transactions actually processed: ")?;
    Some(Measured {
        transactions: transactions.split('/').next()?.parse().ok()?,
        transactions_per_s: after("tps = ")?.parse().ok()?,
        failed: after("number of failed transactions: ")?.parse().ok()?,
        // Printed only when retries are allowed.
        retried: match after("number of transactions retried: ") {
            Some(text) => text.parse().ok()?,
            None => 0,
        },
        ..Measured::default()
    })
}

/// The third column of pgbench's log is a transaction's latency in microseconds.
fn read_latencies(folder: &Path, measured: &mut Measured) -> Result<()> {
    let mut histogram: Histogram<u64> = Histogram::new(3)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("latency.") {
            continue;
        }
        for line in BufReader::new(std::fs::File::open(entry.path())?).lines() {
            if let Some(latency_us) = line?.split(' ').nth(2).and_then(|t| t.parse().ok()) {
                histogram.record(latency_us)?;
            }
        }
        std::fs::remove_file(entry.path())?;
    }
    measured.latency_us_p50 = histogram.value_at_quantile(0.5);
    measured.latency_us_p95 = histogram.value_at_quantile(0.95);
    measured.latency_us_p99 = histogram.value_at_quantile(0.99);
    measured.latency_us_max = histogram.max();
    Ok(())
}

/// The same scripts in the background, with nothing measured.
pub struct Load(Child);

impl Load {
    pub fn start(target: &Target, clients: u32, scripts: &[String]) -> Result<Load> {
        let mut command = target.pgbench(clients, LOAD_S_MAX);
        command.args(scripts).arg(&target.database);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Load(quiet.spawn()?))
    }

    /// Ends it, if its server's death has not.
    pub fn end(self) {}
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_15_is_understood() {
        let summary = "pgbench (15.18)\ntransaction type: multiple scripts\n\
            number of transactions actually processed: 31234\n\
            number of failed transactions: 2 (0.010%)\n\
            number of transactions retried: 7 (0.02%)\n\
            latency average = 5.1 ms\n\
            tps = 3123.250000 (without initial connection time)\n";
        let measured = parse_summary(summary).unwrap();
        assert_eq!((measured.transactions, measured.failed, measured.retried), (31234, 2, 7));
        assert_eq!(measured.transactions_per_s, 3123.25);
        let line = "progress: 2.0 s, 5231.0 tps, lat 3.056 ms stddev 1.1, 0 failed";
        assert_eq!(parse_progress(line), Some((2.0, "5231.0 tps")));
        assert_eq!(parse_progress("pgbench: error: no"), None);
        assert!(parse_summary("nothing").is_none());
    }

    #[test]
    fn a_target_is_read_from_a_url() {
        let target = Target::parse("postgresql://me@127.0.0.1:5599/bank").unwrap();
        assert_eq!(target.address(), "127.0.0.1:5599");
        assert_eq!((target.user.as_str(), target.database.as_str()), ("me", "bank"));
    }
}
