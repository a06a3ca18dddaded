//! Ledgers of two organisations with a node each, whose tables none can write alone.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bench::over_network::NetworkPlan;
use tokio_postgres::{Client, SimpleQueryMessage};
use workloads::Workload;

use crate::benchmark::postgres::copy_fill;
use crate::members::Members;
use crate::node_process::{path, run_tally};

const ORGANISATIONS: [&str; 2] = ["bank_a", "bank_b"];

/// Each node's own check, which says yes to what both have come to.
const CHECK: &str = "CREATE FUNCTION bench_check(who text, kind text, what text, given text[]) \
    RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$";
const POLICY: &str = "SET APPROVAL POLICY 'AND(bank_a, bank_b)'";

pub struct Ledger {
    members: Members,
    /// Whether transactions are endorsed, or ordered as calls.
    pub endorses: bool,
}

impl Ledger {
    /// With the workload's tables, rows and routines.
    pub async fn start(
        folder: &Path,
        workload: &dyn Workload,
        plan: &NetworkPlan,
    ) -> Result<Ledger> {
        std::fs::create_dir_all(folder)?;
        let settings = plan.settings.iter().flat_map(|setting| ["--set", setting]);
        let settings: Vec<&str> =
            ["--set", "approval_check=bench_check"].into_iter().chain(settings).collect();
        let (members, endorses) = (Members::start(folder, 2, 2, &settings)?, plan.endorsed);
        let ledger = Ledger { members, endorses };
        let client = ledger.members.target(1).connect().await?;
        client.batch_execute(&workload.schema()).await?;
        for fill in workload.fills() {
            copy_fill(&client, &fill).await?;
        }
        if endorses {
            ledger.found(&client, folder).await?;
        }
        Ok(ledger)
    }

    /// The organisations, and what nothing is written without.
    async fn found(&self, client: &Client, folder: &Path) -> Result<()> {
        let ledger_id = shown(client, "SHOW ledger.id").await?.concat();
        for (member, name) in (1..).zip(ORGANISATIONS) {
            let root = folder.join(format!("{name}.key"));
            let root = path(&root)?;
            let public = printed(&["identity", "new", root])?;
            client.batch_execute(&format!("CREATE ORGANISATION {name} KEY '{public}'")).await?;
            let node = printed(&["identity", "node", "--data", path(&self.members.data(member))?])?;
            let add = format!("ALTER ORGANISATION {name} ADD KEY '{node}' FOR NODE one");
            let by = ["sign", "--key", root, "--user", "tally", "--ledger", &ledger_id];
            let signed = printed(&[&by[..], &["schema", &add]].concat())?;
            shown(client, &format!("SELECT block FROM tally_submit_signed('{signed}')")).await?;
        }
        client.batch_execute(CHECK).await?;
        client.batch_execute(&format!("ALTER FUNCTION bench_check {POLICY}")).await?;
        let tables = "SELECT table_name FROM information_schema.tables \
             WHERE table_schema = 'public' AND table_type = 'BASE TABLE'";
        for table in shown(client, tables).await? {
            client.batch_execute(&format!("ALTER TABLE \"{table}\" {POLICY}")).await?;
        }
        Ok(())
    }

    pub async fn run_under(&self, protocol: &str) -> Result<()> {
        let client = self.members.target(1).connect().await?;
        client.batch_execute(&format!("SET ledger.protocol = '{protocol}'")).await?;
        let runs = shown(&client, "SHOW ledger.protocol").await?.concat();
        ensure!(
            runs == protocols::recorded_name(protocol),
            "the ledger runs under {runs}, not under {protocol}"
        );
        Ok(())
    }

    /// To one of its nodes, in turn; transactions are endorsed by default, if they are.
    pub async fn connect(&self, number: u32) -> Result<Client> {
        let client = self.members.target(1 + (number % 2) as u16).connect().await?;
        if self.endorses {
            client.batch_execute("SET tally.endorse = on").await?;
        }
        Ok(client)
    }

    /// Blocks, and transactions in them, that its first node has come to since it was started.
    pub fn counted(&self) -> Result<(f64, f64)> {
        let page = self.members.metrics(1)?;
        let sum = |name: &str| -> Result<f64> {
            let of = page.lines().filter(|line| line.starts_with(name));
            of.map(|line| {
                let number = line.rsplit(' ').next().unwrap_or_default();
                number.parse::<f64>().with_context(|| line.to_owned())
            })
            .sum()
        };
        Ok((sum("tally_blocks_total ")?, sum("tally_transactions_total{")?))
    }

    /// Until both nodes have come to the same.
    pub fn settle(&self) -> Result<()> {
        self.members.settle_heights()
    }
}

fn printed(arguments: &[&str]) -> Result<String> {
    let done = run_tally(arguments)?;
    ensure!(done.success, "tally {}: {}", arguments.join(" "), done.output);
    Ok(done.output)
}

/// The first column of each row.
async fn shown(client: &Client, query: &str) -> Result<Vec<String>> {
    let messages = client.simple_query(query).await.with_context(|| query.to_owned())?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(rows.collect())
}
