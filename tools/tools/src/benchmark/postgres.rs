//! A server that speaks PostgreSQL's protocol, loaded with a workload and asked its questions.

use anyhow::{Context, Result};
use bench::answers::{Answer, Answerer};
use bench::paper::Other;
use bytes::Bytes;
use futures::SinkExt;
use std::fmt::Write;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};
use types::Value;
use workloads::Fill;
use workloads::analytical::Analytical;

const ROWS_PER_MESSAGE: usize = 2_000;

/// For figures that compare with it.
pub fn other(url: String) -> Other {
    Other { address: url, connect: |url| Ok(Box::new(Postgres::connect(url)?)) }
}

/// A connection, and the thread that it lives on.
pub struct Server {
    runtime: Runtime,
    client: Client,
}

impl Server {
    pub fn connect(config: &Config) -> Result<Server> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let connected = runtime.block_on(config.connect(NoTls));
        let (client, connection) = connected.context("cannot connect to the other database")?;
        // It ends with the client, or with the server's death, which the client's calls report.
        runtime.spawn(connection);
        Ok(Server { runtime, client })
    }

    pub fn execute(&self, statements: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.client.batch_execute(statements))?)
    }

    /// Tables and rows.
    pub fn load(&self, workload: &Analytical) -> Result<()> {
        self.execute(&workload.schema)?;
        for fill in &workload.fills {
            self.runtime.block_on(copy_fill(&self.client, fill))?;
        }
        Ok(())
    }

    pub fn ask(&self, query: &str) -> Result<Answer> {
        let messages = self.runtime.block_on(self.client.simple_query(query))?;
        let mut answer = Answer::default();
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    answer.columns = columns.iter().map(|c| c.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
                    answer.rows.push(cells.collect());
                }
                _ => {}
            }
        }
        Ok(answer)
    }
}

/// Loads the rows of a table.
pub async fn copy_fill(client: &Client, fill: &Fill) -> Result<(), tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(&fill.copy).await?;
    let mut sink = std::pin::pin!(sink);
    for rows in fill.batches(ROWS_PER_MESSAGE) {
        let mut message = String::new();
        rows.iter().for_each(|row| write_row(row, &mut message));
        sink.send(Bytes::from(message)).await?;
    }
    sink.finish().await.map(drop)
}

/// A line of COPY's text form.
fn write_row(row: &[Value], out: &mut String) {
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push('\t');
        }
        match value {
            Value::Null => out.push_str("\\N"),
            Value::Text(text) if !text.contains(['\t', '\n', '\r', '\\']) => out.push_str(text),
            Value::Text(text) => text.chars().for_each(|c| match c {
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                c => out.push(c),
            }),
            value => _ = write!(out, "{value}"),
        }
    }
    out.push('\n');
}

/// A PostgreSQL that gets a database of its own for a workload, and loses it again.
pub struct Postgres {
    config: Config,
    maintenance: Server,
    version: String,
    loaded: Option<(Server, String)>,
}

impl Postgres {
    pub fn connect(url: &str) -> Result<Postgres> {
        let config: Config = url.parse().context("not a PostgreSQL URL")?;
        let maintenance = Server::connect(&config)?;
        let version = maintenance.ask("SHOW server_version")?.rows;
        let version = version.into_iter().flatten().flatten().next().unwrap_or_default();
        Ok(Postgres { config, maintenance, version, loaded: None })
    }

    fn unload(&mut self) -> Result<()> {
        match self.loaded.take() {
            None => Ok(()),
            Some((server, database)) => {
                drop(server);
                self.maintenance.execute(&format!("DROP DATABASE {database} WITH (FORCE)"))
            }
        }
    }
}

impl Answerer for Postgres {
    fn name(&self) -> String {
        let version = self.version.split_whitespace().next().unwrap_or_default();
        format!("PostgreSQL {version}")
    }

    fn load(&mut self, workload: &Analytical) -> Result<()> {
        self.unload()?;
        let database = format!("tally_{}_{}", workload.name, std::process::id());
        self.maintenance.execute(&format!("CREATE DATABASE {database}"))?;
        let server = Server::connect(self.config.clone().dbname(&database))?;
        let (server, _) = self.loaded.insert((server, database));
        server.load(workload)?;
        server.execute(workload.indexes)?;
        server.execute("VACUUM ANALYZE")
    }

    fn ask(&mut self, query: &str) -> Result<Answer> {
        self.loaded.as_ref().context("nothing was loaded")?.0.ask(query)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // No caller is left to tell.
        let _ = self.unload();
    }
}
