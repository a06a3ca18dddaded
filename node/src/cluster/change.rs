//! `tally cluster add` and `remove`: a transaction of the ledger's owner that names other members.
//!
//! ```text
//! add      GET /members: the next number ─► keys, a folder ─► POST /members?add=4&key=…&address=…
//! remove                                                      POST /members?remove=4
//! a node   reads its ledger's members, and submits SET ledger.members for its owner
//! ```
//!
//! The second port of any node will do; the command finds it, and its token, in a folder of the
//! cluster. What follows from the change is [the nodes' business](super::follow).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use cluster::plan::{Made, Member, Plan};
use cluster::{Membership, members::Known};
use concurrency::Outcome;
use engine::limits::{MEMBERS, ORDERER};
use engine::members::LAST_MEMBER;
use engine::transaction::Asked;
use engine::{Body, Engine, Submitter, Withdrawal};
use ledger::Electors;
use ledger::hash::{hash_from_hex, to_hex};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use super::folders::{node_folder, node_folders, write_settings};
use super::orderers::Kind;
use super::status::{first_answered, without_certificates};
use crate::backup::node_address;
use crate::cli::{self, ClusterAdd, Exit, Output};
use crate::config::Source;
use crate::{configure, folders, http, secrets};

pub fn add(arguments: &ClusterAdd, output: Output) -> Result<Exit> {
    let ClusterAdd { folder, host, port, observer } = arguments;
    let shown = ask(folder, None)?;
    if *observer {
        refuse_observers(&shown)?;
    }
    let id = shown["next"].as_u64().and_then(|id| u16::try_from(id).ok());
    let id = id.context("the node does not tell the next number")?;
    let (data, other) = (node_folder(folder, id), node_folders(folder)?.remove(0));
    ensure!(!data.exists(), "{} is there already", data.display());
    let made = Made::new(id.into(), format!("{host}:{}", port + 2))?;
    let plan = plan_of(&shown, &made.member)?;
    folders::create_private(&data)?;
    write_settings(&data, host, *port, port + 1, &shared_settings(folder)?)?;
    made.write(&data, &plan)?;
    Kind::named(&plan.orderer)?.make_beside(&data, &plan, &made, &other)?;
    let Member { key, address, .. } = &made.member;
    let observes = if *observer { "&observer=on" } else { "" };
    ask(folder, Some(&format!("add={id}&key={key}&address={address}{observes}")))?;
    match output {
        Output::Text => {
            let kind = if *observer { "observer" } else { "member" };
            println!("{kind} {id} is added; its ledger comes from the others:\n");
            println!("    tally serve --data {}", data.display());
        }
        Output::Json => println!("{}", json!({"member": id, "folder": data})),
    }
    Ok(Exit::Ok)
}

pub fn remove(folder: &Path, member: u64, yes: bool, output: Output) -> Result<Exit> {
    let shown = ask(folder, None)?;
    if !yes {
        refuse_to_end_orders(folder, member)?;
        refuse_to_end_certificates(&shown, member)?;
    }
    ask(folder, Some(&format!("remove={member}")))?;
    match output {
        Output::Text => {
            println!("member {member} is removed: stop its node, the others refuse it");
        }
        Output::Json => println!("{}", json!({"member": member})),
    }
    Ok(Exit::Ok)
}

/// Where each member that reaches what orders has its say.
fn refuse_observers(shown: &Json) -> Result<()> {
    let what = "members order alike where Kafka or CometBFT does: none of them only observes";
    ensure!(shown["orderer"] == "raft", "{what}");
    Ok(())
}

/// Where too few are left of those who vote, who follows them is not certified either.
fn refuse_to_end_certificates(shown: &Json, member: u64) -> Result<()> {
    let mut membership = Membership::parse(shown["members"].as_str().unwrap_or_default())?;
    let electors: Vec<u64> =
        shown["electors"].as_array().into_iter().flatten().filter_map(Json::as_u64).collect();
    let needed = shown["votes"].as_u64().and_then(|votes| usize::try_from(votes).ok());
    let needed = needed.unwrap_or(0);
    if without_certificates(&membership, &electors, needed).is_some() {
        return Ok(());
    }
    membership.0.remove(&member);
    let Some(why) = without_certificates(&membership, &electors, needed) else { return Ok(()) };
    let what = format!("without member {member} no result is certified any more, for good");
    eprintln!("{why}");
    let hint = "Orders and reads go on without certificates: if that is meant, add --yes.";
    Err(folders::refused(what).with_hint(hint).into())
}

/// Where too few answer of those who stay, nothing is ordered without the one that goes, not even
/// that it comes back.
fn refuse_to_end_orders(folder: &Path, member: u64) -> Result<()> {
    let (membership, reports) = first_answered(&node_folders(folder)?)?;
    let mut staying = membership.voters();
    if !staying.remove(&member) || staying.is_empty() {
        return Ok(());
    }
    let answer = membership.0.keys().zip(&reports);
    let answer = answer.filter(|(id, report)| staying.contains(*id) && report.is_ok()).count();
    if 2 * answer > staying.len() {
        return Ok(());
    }
    let what = format!(
        "without member {member} nothing is ordered any more: of the {} that stay, {answer} answer",
        staying.len()
    );
    let hint = "Start the members that are down first. If this is meant, add --yes.";
    Err(folders::refused(what).with_hint(hint).into())
}

/// What the others' settings say of what orders.
fn shared_settings(folder: &Path) -> Result<Vec<(String, String)>> {
    let data = node_folders(folder)?.remove(0);
    let data = data.to_str().map(str::to_owned);
    let resolved = configure::resolve(&cli::Settings { data, ..cli::Settings::default() })?;
    let of_orderer = |key: &&'static str| key.starts_with("kafka_") || *key == "cometbft";
    let keys = resolved.sources.iter().filter(|(_, source)| **source != Source::Default);
    let keys = keys.map(|(key, _)| *key).filter(of_orderer);
    let text = |key: &str| match resolved.settings.get(key) {
        Some(toml::Value::String(text)) => Some((key.to_owned(), text)),
        _ => None,
    };
    Ok(keys.filter_map(text).collect())
}

/// What the new node begins with.
fn plan_of(shown: &Json, own: &Member) -> Result<Plan> {
    let text = |name: &str| shown[name].as_str().context("the node does not tell its members");
    let member = |(id, Known { key, address, .. }): (u64, Known)| Member {
        id,
        address,
        key: to_hex(&key),
        certificate: String::new(),
    };
    let others = Membership::parse(text("members")?)?.0.into_iter().map(member);
    let members = others.chain([own.clone()]).collect();
    let (ledger_id, orderer) = (text("ledger_id")?.to_owned(), text("orderer")?.to_owned());
    Ok(Plan { ledger_id, orderer, members })
}

/// How long a change waits to be ordered.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// The first node of the folder that answers. `change`: what is to be changed.
fn ask(folder: &Path, change: Option<&str>) -> Result<Json> {
    let mut why = anyhow!("no node of {} runs", folder.display());
    for data in node_folders(folder)? {
        let data = data.to_str().map(str::to_owned);
        let flags = cli::Settings { data, ..cli::Settings::default() };
        let settings = configure::resolve(&flags)?.settings;
        let Ok(address) = node_address(&settings) else { continue };
        let answer = match change {
            None => http::get(address, "/members", None),
            Some(change) => {
                let Ok(token) = secrets::token_of_node(&settings) else { continue };
                http::post(address, &format!("/members?{change}"), &token)
            }
        };
        match answer {
            Ok(answer) if answer.is_ok => return Ok(serde_json::from_str(&answer.body)?),
            Ok(answer) => bail!("{}", answer.body.trim()),
            Err(error) => why = anyhow!("{data}: {error}", data = settings.data.display()),
        }
    }
    Err(why)
}

/// What a node tells of its ledger's members.
pub fn shown(engine: &Engine) -> Result<Json> {
    let members = engine.parameter(MEMBERS).context("the ledger is that of a lone node")?;
    let last = Membership::parse(&members)?.0.into_keys().max().unwrap_or(0);
    let had = engine.parameter(LAST_MEMBER).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let ledger_id = to_hex(&engine.ledger_id());
    let electors = Electors::under(engine.ledger_id(), &engine.parameters())?;
    let (electors, votes): (Vec<u64>, _) = (electors.keys.into_keys().collect(), electors.votes);
    Ok(json!({
        "ledger_id": ledger_id, "orderer": engine.parameter(ORDERER)?, "members": members,
        "next": last.max(had) + 1, "electors": electors, "votes": votes,
    }))
}

/// Has the ledger name other members, as the request says, for its owner.
pub async fn by_request(engine: &Engine, owner: &str, request: &str) -> Result<Json> {
    let mut membership = Membership::parse(&engine.parameter(MEMBERS)?)?;
    let word =
        |name: &str| request.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    match (word("add"), word("key"), word("address"), word("remove")) {
        (Some(id), Some(key), Some(address), None) => {
            let key = hash_from_hex(key).map_err(|_| anyhow!("{key:?} is no key"))?;
            let observes = word("observer") == Some("on");
            let known = Known { key, address: address.to_owned(), observes };
            ensure!(membership.0.insert(id.parse()?, known).is_none(), "{id} is a member already");
        }
        (None, None, None, Some(id)) => {
            ensure!(membership.0.remove(&id.parse()?).is_some(), "{id} is no member");
            ensure!(!membership.0.is_empty(), "the last member cannot be removed");
        }
        _ => bail!("add, key and address are needed, or remove"),
    }
    name(engine, owner, &membership).await
}

/// Has the ledger name these members.
pub async fn name(engine: &Engine, owner: &str, membership: &Membership) -> Result<Json> {
    let body = Body::Parameter { name: MEMBERS.to_owned(), value: membership.to_string() };
    let submitter = Submitter { principal: owner, role: None, key: None, seed: [0; 16] };
    let asked = Asked::from(&body);
    let mut submitted = engine.submit_revocably(submitter, &asked, None)?;
    let Ok(answer) = timeout(ANSWER_TIME, &mut submitted.answer).await else {
        let why = engine.hindrance().unwrap_or_default();
        match engine.withdraw(&submitted) {
            Withdrawal::Done => bail!("the change was not ordered, and is in no block: {why}"),
            _ => bail!("whether the change was ordered is not known, look at the members: {why}"),
        }
    };
    match answer.context("the node is stopping")??.outcome {
        Outcome::Committed(_) => shown(engine),
        Outcome::Rejected(error) | Outcome::Retry(error) => Err(error.into()),
    }
}
