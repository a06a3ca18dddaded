//! `tally chainify status`: how far all are, how they voted, who deviates in which rows.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use chainify::ballot::Stage;
use chainify::wire::Request;
use chainify::{Deviation, Status, Voted};
use futures::future::join_all;
use order::Network;
use serde_json::{Value, json};
use types::printable::printable_page;

use super::folder::peers_of;
use crate::cli::{Exit, Output};

pub async fn status(folder: &Path, output: Output) -> Result<Exit> {
    let (plan, _, _, peers) = peers_of(folder)?;
    let asked = plan.members.iter().map(|member| {
        let call = peers.call(member.id, Request::Status.encode());
        async move { (member, call.await.and_then(|answer| Status::decode(&answer))) }
    });
    let (mut text, mut list, mut votes) = (String::new(), Vec::new(), BTreeMap::new());
    let (mut all_there, mut terms) = (true, None);
    for (member, answer) in join_all(asked).await {
        let (id, address) = (member.id, &member.address);
        match answer {
            Ok(status) => {
                terms = Some((status.enough, status.agreement.clone()));
                text += &shown(id, &status);
                list.push(as_json(id, address, &status));
                for voted in status.votes {
                    votes.insert((voted.height, voted.stage, voted.member), voted);
                }
            }
            Err(error) => {
                all_there = false;
                text += &format!("organisation {id}  does not answer at {address}: {error}\n");
                let error = error.to_string();
                list.push(json!({ "organisation": id, "address": address, "error": error }));
            }
        }
    }
    let votes: Vec<Voted> = votes.into_values().collect();
    match output {
        Output::Text => {
            text += &votes_shown(&votes);
            if let Some((enough, agreement)) = terms {
                let count = plan.members.len();
                text += &format!("{enough} of {count} organisations have to agree\n");
                let policies = agreement.split_whitespace();
                policies.for_each(|it| text += &format!("before the order: {it}\n"));
            }
            print!("{}", printable_page(&text));
        }
        Output::Json => {
            let votes: Vec<Value> = votes.iter().map(vote_json).collect();
            let (enough, agreement) = terms.unzip();
            println!(
                "{}",
                json!({
                    "enough": enough, "agreement": agreement, "organisations": list,
                    "votes": votes,
                })
            );
        }
    }
    Ok(if all_there { Exit::Ok } else { Exit::Failed })
}

fn shown(id: u64, status: &Status) -> String {
    let Status { agreed, doing, deviations, events, .. } = status;
    let mut text = format!("organisation {id}  block {agreed}, {doing}\n");
    for Deviation { height, rows, more, recovered, .. } in deviations {
        let rows = rows.join("; ");
        let more = if *more == 0 { String::new() } else { format!(" and {more} more") };
        let recovered = if recovered.is_empty() { "not recovered yet" } else { recovered };
        text += &format!("    block {height} deviated in {rows}{more}: {recovered}\n");
    }
    events.iter().for_each(|event| text += &format!("    {event}\n"));
    text
}

fn votes_shown(votes: &[Voted]) -> String {
    let mut blocks: BTreeMap<(u64, Stage), Vec<String>> = BTreeMap::new();
    for voted in votes {
        let vote = format!("{}: {}", voted.member, voted.shown());
        blocks.entry((voted.height, voted.stage)).or_default().push(vote);
    }
    let line = |((height, stage), votes): (&(u64, Stage), &Vec<String>)| {
        format!("block {height}, {}: {}\n", stage_name(*stage), votes.join("  "))
    };
    blocks.iter().map(line).collect()
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Order => "order",
        Stage::Result => "result",
        Stage::Again(_) => "repeated result",
    }
}

fn vote_json(voted: &Voted) -> Value {
    json!({
        "block": voted.height, "stage": stage_name(voted.stage),
        "organisation": voted.member, "value": voted.shown(),
    })
}

fn as_json(id: u64, address: &str, status: &Status) -> Value {
    let Status { ordered, agreed, signatures_us, run, doing, deviations, events, .. } = status;
    let deviations: Vec<Value> = deviations.iter().map(deviation_json).collect();
    let deviates = status.deviations.iter().any(|it| it.recovered.is_empty());
    json!({
        "organisation": id, "address": address, "ordered": ordered, "agreed": agreed,
        "signatures_us": signatures_us, "transactions": run.transactions, "stages": run.stages,
        "doing": doing, "deviates": deviates, "deviations": deviations, "events": events,
    })
}

fn deviation_json(deviation: &Deviation) -> Value {
    let Deviation { height, here, there, agree, rows, more, recovered } = deviation;
    let recovered = (!recovered.is_empty()).then_some(recovered);
    json!({
        "block": height, "own_result": here, "agreed_result": there, "agree": agree,
        "rows": rows, "more": more, "recovered": recovered,
    })
}
