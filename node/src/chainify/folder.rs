//! An organisation's folder: its ledger, what it has signed, its keys and the addresses of all (as
//! a member of a cluster has them), and the URL of its database.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use chainify::{Exchange, Folders, Joining, Shared};
use cluster::{Answer, Answering, Members, Peers, Plan, Secrets};
use futures::FutureExt;
use futures::future::BoxFuture;
use ledger::signatures::SecretKey;
use ledger::{Files, RealFiles};
use order::Network;

use crate::database;

pub const URL: &str = "database";
/// What was signed of orders.
const ORDERS: &str = "order-votes";
/// What was signed of results again.
const AGAIN: &str = "repeated-votes";

/// For an organisation that begins: it has nothing to ask.
pub struct Nowhere;

impl Exchange for Nowhere {
    fn call(&self, _: u64, _: Bytes) -> BoxFuture<'static, io::Result<Bytes>> {
        futures::future::ready(Err(io::Error::other("nothing is running yet"))).boxed()
    }
}

pub struct Wired(pub Arc<Peers>);

impl Exchange for Wired {
    fn call(&self, to: u64, request: Bytes) -> BoxFuture<'static, io::Result<Bytes>> {
        self.0.call(to, request)
    }
}

pub struct Answers(pub Arc<Shared>);

impl Answering for Answers {
    fn answer(&self, from: u64, request: Bytes) -> BoxFuture<'static, Answer> {
        Arc::clone(&self.0).answer(from, request).boxed()
    }
}

fn plan_of(folder: &Path) -> Result<(Plan, Secrets)> {
    let what = || format!("{} is no folder of a chained database", folder.display());
    let read = Plan::read(folder).with_context(what)?;
    read.filter(|_| folder.join(URL).exists()).with_context(what)
}

pub fn joining(
    folder: &Path,
    exchange: Arc<dyn Exchange>,
    connections: usize,
    block_transactions: usize,
    check: Option<String>,
) -> Result<(Plan, Joining)> {
    let (plan, secrets) = plan_of(folder)?;
    let url = std::fs::read_to_string(folder.join(URL))
        .with_context(|| format!("cannot read {}", folder.join(URL).display()))?;
    let book: Arc<dyn Files> = Arc::new(RealFiles::open(folder)?);
    let orders: Arc<dyn Files> = Arc::new(RealFiles::open(folder.join(ORDERS))?);
    let again: Arc<dyn Files> = Arc::new(RealFiles::open(folder.join(AGAIN))?);
    let own = secrets.own.now().into_iter().next().context("the organisation has no key")?;
    let joining = Joining {
        folders: Folders { book, orders, again },
        url: url.trim().to_owned(),
        member: secrets.id,
        key: Arc::new(SecretKey::of_pkcs8(own.key.secret_der())?),
        exchange,
        clock: Arc::new({
            let clock = database::clock();
            move || clock()
        }),
        connections,
        block_transactions,
        check,
    };
    Ok((plan, joining))
}

pub fn peers_of(folder: &Path) -> Result<(Plan, Secrets, Arc<Members>, Arc<Peers>)> {
    let (plan, secrets) = plan_of(folder)?;
    let members = Arc::new(Members::new(plan.membership()?));
    let peers = Arc::new(Peers::new(&plan, &secrets, Arc::clone(&members))?);
    Ok((plan, secrets, members, peers))
}
