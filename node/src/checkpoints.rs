//! `tally checkpoint`: by the node, if one is running on the folder, else by this process.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use engine::checkpoint::{Standing, Taken};
use ledger::RealFiles;
use ledger::hash::to_hex;
use serde_json::{Value as Json, json};

use crate::cli::{Exit, Output};
use crate::config::Settings;
use crate::database;
use crate::http;
use crate::progress::Progress;
use crate::secrets;

const POLL: Duration = Duration::from_millis(100);

pub fn run(settings: &Settings, output: Output) -> Result<Exit> {
    if !settings.data.is_dir() {
        bail!("there is no folder {}", settings.data.display());
    }
    let taken = match RealFiles::open(&settings.data) {
        Ok(unused) => {
            drop(unused);
            by_this_process(settings)?
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => by_the_node(settings)?,
        Err(error) => return Err(error.into()),
    };
    match output {
        Output::Text => print!("{}", text(&taken)),
        Output::Json => println!("{taken}"),
    }
    Ok(Exit::Ok)
}

fn by_this_process(settings: &Settings) -> Result<Json> {
    let step = Progress::begin("reading the ledger and writing its state down");
    let mut read = |progress: engine::Progress| step.note(&format!("block {}", progress.blocks));
    let taken = database::checkpoint_folder(settings, &mut read, &mut |extent| {
        step.note(&format!("{} rows", extent.rows));
        Ok(())
    })?;
    step.end("");
    Ok(taken_json(&taken))
}

fn by_the_node(settings: &Settings) -> Result<Json> {
    let address = settings
        .http_listen
        .filter(|address| address.port() != 0)
        .context("a node is running, and its `http_listen` is not known: give --http-listen")?;
    let token = secrets::token_of_node(settings)?;
    let step = Progress::begin("a checkpoint by the running node");
    let asked = std::thread::spawn(move || http::post(address, "/checkpoint", &token));
    while !asked.is_finished() {
        if let Some(part) = part_done(address) {
            step.advance(part);
        }
        std::thread::sleep(POLL);
    }
    let answer = match asked.join() {
        Ok(answer) => answer.with_context(|| format!("the node does not answer on {address}"))?,
        Err(_) => bail!("asking the node failed"),
    };
    if !answer.is_ok {
        bail!("the node took no checkpoint: {}", answer.body.trim());
    }
    step.end("");
    serde_json::from_str(&answer.body).context("the node's answer is no JSON")
}

/// From 0 to 1.
fn part_done(address: SocketAddr) -> Option<f64> {
    let answer = http::get(address, "/checkpoint", Some(POLL * 10)).ok()?;
    let standing: Json = serde_json::from_str(&answer.body).ok()?;
    let (done, total) = (standing["rows_done"].as_f64()?, standing["rows_total"].as_f64()?);
    Some(done / total.max(1.0))
}

pub fn standing_json(standing: &Standing) -> Json {
    json!({
        "height": standing.height,
        "in_progress": standing.in_progress,
        "rows_done": standing.rows_done,
        "rows_total": standing.rows_total,
        "failure": standing.failure.as_ref().map(ToString::to_string),
    })
}

pub fn taken_json(taken: &Taken) -> Json {
    let Taken { height, digest, extent } = taken;
    json!({
        "height": height,
        "state_digest": to_hex(digest),
        "rows": extent.rows,
        "groups": extent.groups,
        "groups_written": extent.groups_written,
        "bytes_written": extent.bytes_written,
    })
}

fn text(taken: &Json) -> String {
    let number = |name: &str| taken[name].as_u64().unwrap_or(0);
    let digest = taken["state_digest"].as_str().unwrap_or_default();
    let mut text = format!("height        {}\nstate digest  {digest}\n", number("height"));
    match number("bytes_written") {
        0 => text += "it was there already\n",
        bytes => {
            let (groups, written) = (number("groups"), number("groups_written"));
            text += &format!(
                "rows          {}\ngroups        {groups}, of which {written} had changed\n\
                 written       {bytes} bytes\n",
                number("rows"),
            );
        }
    }
    text
}
