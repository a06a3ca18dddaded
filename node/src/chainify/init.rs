//! `tally chainify init`: folders, and what is put into the databases; all of it or nothing.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use chainify::{Database, Member, Policies, Schema, Terms};
use cluster::Plan;
use cluster::plan::Made;
use ledger::hash::to_hex;
use ledger::{Hash, LedgerId};
use serde_json::json;

use super::arguments::Init;
use super::folder::{Nowhere, URL, joining};
use crate::cli::{Exit, Output};
use crate::{database, folders, secrets};

const ORDERER: &str = "embedded";

pub async fn init(arguments: &Init, output: Output) -> Result<Exit> {
    let Init { folder, database: urls, tables, votes, agree, checkpoint_blocks, listen } =
        arguments;
    if folder.exists() && std::fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty: choose a new folder", folder.display());
    }
    let count = urls.len();
    ensure!(count > 1, "one database has nothing to agree with: name --database for each");
    let votes = votes.unwrap_or(count / 2 + 1);
    ensure!(
        2 * votes > count && votes <= count,
        "{votes} votes of {count} are not enough or too many: {} to {count} are",
        count / 2 + 1
    );
    let (schema, first_root) = inspected(urls, tables).await?;
    let agreement = Policies::parse(&agree.join(" "))?;
    agreement.check(&schema, count)?;
    let ledger_id: LedgerId = secrets::random()?;
    let made: Vec<Made> = (1..)
        .zip(urls)
        .map(|(id, _)| Ok(Made::new(id, address_of(listen, id)?)?))
        .collect::<Result<_>>()?;
    let members = made.iter().map(|made| made.member.clone()).collect();
    let plan = Plan { ledger_id: to_hex(&ledger_id), orderer: ORDERER.to_owned(), members };
    let terms = Terms {
        ledger_id,
        time_us: database::clock()(),
        schema,
        first_root,
        checkpoint_blocks: checkpoint_blocks.get(),
        members: plan.founders(),
        votes,
        agreement,
    };
    // Whether the rule of votes holds together, before anything is made.
    terms.electors()?;
    let existed = folder.exists();
    if let Err(error) = chained(folder, urls, &made, &plan, &terms).await {
        undone(folder, existed, urls, ledger_id).await;
        return Err(error);
    }
    match output {
        Output::Text => {
            println!("chained {count} databases in {}\n", folder.display());
            for made in &made {
                let own = folder.join(made.member.id.to_string());
                println!("    tally chainify run --folder {}", own.display());
            }
        }
        Output::Json => {
            let ledger = to_hex(&ledger_id);
            println!("{}", json!({ "ledger_id": ledger, "organisations": count, "votes": votes }));
        }
    }
    Ok(Exit::Ok)
}

/// Of the first database; of each it is looked whether its tables can be chained at all.
async fn inspected(urls: &[String], tables: &[String]) -> Result<(Schema, Hash)> {
    let mut first = None;
    for url in urls {
        let mut database = Database::connect(url).await?;
        let inspected = database.inspect(tables).await?;
        inspected.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        if first.is_none() {
            let root = database.state_root(&inspected.schema).await?;
            first = Some((inspected.schema, root));
        }
    }
    first.context("no database is named")
}

fn address_of(listen: &SocketAddr, id: u64) -> Result<String> {
    let port = u16::try_from(u64::from(listen.port()) + id - 1);
    let port = port.context("the ports would go beyond 65535: choose a lower one")?;
    Ok(SocketAddr::new(listen.ip(), port).to_string())
}

async fn chained(
    folder: &Path,
    urls: &[String],
    made: &[Made],
    plan: &Plan,
    terms: &Terms,
) -> Result<()> {
    folders::create_private(folder)?;
    for (made, url) in made.iter().zip(urls) {
        let own = folder.join(made.member.id.to_string());
        folders::create_private(&own)?;
        made.write(&own, plan)?;
        let mut options = OpenOptions::new();
        let mut file = options.create_new(true).write(true).mode(0o600).open(own.join(URL))?;
        file.write_all(url.as_bytes())?;
        file.sync_all()?;
        let (_, joining) = joining(&own, Arc::new(Nowhere), 1, 1, None)?;
        Member::open(joining, Some(terms)).await?;
    }
    Ok(())
}

/// Removes what was made before something went wrong; what belongs to another ledger stays.
async fn undone(folder: &Path, existed: bool, urls: &[String], ledger_id: LedgerId) {
    for url in urls {
        let Ok(mut database) = Database::connect(url).await else { continue };
        if matches!(database.ledger().await, Ok(Some(id)) if id == ledger_id)
            && let Err(error) = database.uninstall().await
        {
            let name = database.name();
            eprintln!("warning: {name} is left with digest tables: {error}");
        }
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let removed: std::io::Result<()> = match existed {
        // It was empty.
        true => entries.map(|entry| std::fs::remove_dir_all(entry.path())).collect(),
        false if folder.exists() => std::fs::remove_dir_all(folder),
        false => Ok(()),
    };
    if let Err(error) = removed {
        eprintln!("warning: {} cannot be removed: {error}", folder.display());
    }
}
