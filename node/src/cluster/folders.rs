//! `tally cluster init`: one folder for each node, with the same first block.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cluster::{Plan, plan::Made};
use engine::limits::{MEMBERS, ORDERER};
use ledger::Electors;
use ledger::hash::to_hex;
use ledger::votes::electors;
use ledger::{LogOptions, RealFiles};
use serde_json::json;

use crate::cli::{ClusterInit, Exit, Output};
use crate::config::{self, FILE_NAME, Settings};
use crate::{database, folders};

/// Settings that no two nodes share.
const OWN: [&str; 4] = ["data", "listen", "http_listen", "protocol"];
/// Of a member whose folder lies beside the others.
const NUMBER_MAX: u16 = 999;

pub fn init(arguments: &ClusterInit, output: Output) -> Result<Exit> {
    let ClusterInit { folder, nodes, host, port, order, set, protocol, votes, liars } = arguments;
    order.check()?;
    if folder.exists() && std::fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty: choose a new folder", folder.display());
    }
    let port_of = |id: u16, which: u16| -> Result<u16> {
        let port = port.checked_add((id - 1) * order.ports() + which);
        port.context("the ports would go beyond 65535: choose a lower one")
    };
    let mut settings = settings_of_all(folder, set)?;
    settings.protocol = protocol.clone().unwrap_or(settings.protocol);
    let mut genesis = database::genesis(&settings)?;
    let made: Vec<Made> = (1..=*nodes)
        .map(|id| Ok(Made::new(id.into(), format!("{host}:{}", port_of(id, 2)?))?))
        .collect::<Result<_>>()?;
    let members = made.iter().map(|made| made.member.clone()).collect();
    let orderer = order.name().to_owned();
    let plan = Plan { ledger_id: to_hex(&genesis.ledger_id), orderer, members };
    let others = &mut genesis.parameters.others;
    others.insert(ORDERER.to_owned(), order.name().to_owned());
    others.insert(MEMBERS.to_owned(), plan.founders());
    others.insert(electors::ELECTORS.to_owned(), plan.founders());
    // What is not said follows from the number of members, also when that changes.
    let said = [(electors::VOTES, votes), (electors::LIARS, liars)];
    let said = said.into_iter().filter_map(|(name, said)| Some((name.to_owned(), (*said)?)));
    others.extend(said.map(|(name, said)| (name, said.to_string())));
    let electors = Electors::of(genesis.ledger_id, &genesis.parameters)?;
    let (votes, liars) = electors.map_or((0, 0), |electors| (electors.votes, electors.liars));
    engine::check_first_order(&genesis.parameters)?;
    let prepared = order.prepare(&settings, genesis.ledger_id)?;
    folders::create_private(folder)?;
    for (id, made) in (1..).zip(&made) {
        let data = node_folder(folder, id);
        folders::create_private(&data)?;
        write_settings(&data, host, port_of(id, 0)?, port_of(id, 1)?, set)?;
        made.write(&data, &plan)?;
        let begin = |folder: &Path| {
            folders::create_private(folder)?;
            let files = Arc::new(RealFiles::open(folder)?);
            database::found(files, &genesis, LogOptions::default())
        };
        begin(&data)?;
        order.make(&data, &plan, made, begin)?;
    }
    let first_block = to_hex(&genesis.to_batch()?.hash());
    match output {
        Output::Text => {
            println!("made {nodes} nodes in {}", folder.display());
            if let Some(prepared) = prepared {
                println!("{prepared}");
            }
            println!("receipts are proven by {votes} votes under the first block {first_block}\n");
            println!("    tally cluster up --folder {}", folder.display());
            println!("    psql postgresql://{}@{host}:{}/tally", settings.owner, port_of(1, 0)?);
        }
        Output::Json => {
            let made = json!({
                "ledger_id": plan.ledger_id, "nodes": nodes, "folder": folder, "votes": votes,
                "liars": liars, "first_block": first_block, "order": order.name(),
            });
            println!("{made}");
        }
    }
    Ok(Exit::Ok)
}

/// Those that `--set` gives to each node, beside the defaults.
fn settings_of_all(folder: &Path, set: &[(String, String)]) -> Result<Settings> {
    if let Some((key, _)) = set.iter().find(|(key, _)| OWN.contains(&&**key)) {
        bail!("`{key}` is each node's own, and not to be set for all");
    }
    // Not those of this process: its environment and its folder are not what the nodes will have.
    let mut flags = set.to_vec();
    flags.push(("data".to_owned(), folder.display().to_string()));
    let inputs = config::Inputs { flags, ..config::Inputs::default() };
    Ok(config::resolve(&inputs)?.settings)
}

/// `set`: more settings, which are valid.
pub fn write_settings(
    data: &Path,
    host: &str,
    port: u16,
    http_port: u16,
    set: &[(String, String)],
) -> Result<()> {
    let mut text = format!(
        "# Made by `tally cluster`; `tally config show` lists all settings.\n\
         listen = \"{host}:{port}\"\nhttp_listen = \"{host}:{http_port}\"\n",
    );
    for (key, value) in set {
        text += &format!("{key} = {}\n", toml::Value::String(value.clone()));
    }
    Ok(std::fs::write(data.join(FILE_NAME), text)?)
}

/// Where `init` puts a node.
pub fn node_folder(folder: &Path, id: u16) -> PathBuf {
    folder.join(format!("node-{id}"))
}

/// Those that `init` and `add` have made, by their numbers.
pub fn node_folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let all = (1..=NUMBER_MAX).map(|id| node_folder(folder, id));
    let found: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    if found.is_empty() {
        bail!("{} holds no cluster: make one by tally cluster init", folder.display());
    }
    Ok(found)
}
