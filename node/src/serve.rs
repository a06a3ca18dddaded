//! `tally serve`: from settings to a node that answers, and back to a closed ledger.
//!
//! The order matters. Ports are bound first, so that a taken port is reported before recovery
//! begins; the second port answers `starting` meanwhile; sessions are admitted only when the ledger
//! was read. A stop turns the steps around. SIGKILL at any point is safe: durability is the
//! ledger's business, not that of a clean stop.
//!
//! When the engine halts, since the disk failed, the node stays up for those who read, answers
//! writes with 25006 and `/readyz` with 503 and the cause, and its stop is no success.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use ledger::Files;
use pgfront::Listener;
use sql::session::Database;
use web_console::SqlAddress;

use crate::cli::{Exit, Output};
use crate::cluster::Joined;
use crate::config::Settings;
use crate::database::opening::{self, Together};
use crate::databases::Databases;
use crate::folders;
use crate::http::{self, Guard};
use crate::metrics::Metrics;
use crate::observed::{Folder, Observed, Phase};
use crate::output;
use crate::prune;
use crate::secrets;
use crate::sessions::Front;

/// Statements that nest as deeply as they may are bound and planned on it.
const STACK_BYTES: usize = 16 << 20;

pub fn run(settings: &Settings, output: Output) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(io_threads(settings))
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(settings, output))?;
    Ok(Exit::Ok)
}

async fn serve(settings: &Settings, output: Output) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut front = Front::prepare(settings)?;
    allow_descriptors();
    let listener = bind(settings.listen, "listen").await?;
    let listen = listener.local_addr()?;
    let observed = Arc::new(Observed::default());
    let guard = Arc::new(Guard::new(settings.http_hosts.0.clone()));
    let _ = observed.has_passwords.set(settings.password_file.is_some());
    let http_listen = second_port(settings, &observed, &guard).await?;

    let began = Instant::now();
    let (opening, metrics) = (settings.clone(), observed.metrics.clone());
    let files = folders::open_to_write(&settings.data)?;
    prune::forget_requests(&settings.data);
    let _ = observed.folder.set(Folder::new(settings, files.clone()));
    let _ = observed.owner.set(settings.owner.clone());
    take_secrets(settings, &mut front, &guard)?;
    let reloadable = front.reloadable(settings, guard);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reloadable.reload();
        }
    });
    let open = move || open_all(files, &opening, metrics);
    let (databases, joined) = tokio::task::spawn_blocking(open).await??;
    let database = databases.own().clone();
    let recovery_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    observed.metrics.recovery_ms.set(recovery_ms);
    show(&databases, &observed);
    joined.iter().for_each(|joined| take_part(joined, &observed, &database));
    observed.enter(Phase::Ready);
    tokio::spawn(prune::watch(observed.clone(), settings.prune_keep_blocks));
    let height = database.engine.head().height;
    let socket = local_socket(settings, listen.port());
    let _ = observed.sql_address.set(sql_address(settings, listen, socket.is_some()));
    let listeners = socket.into_iter().chain([listener.into()]).collect();
    announce(settings, &Ports { listen, http_listen }, height, output);
    info!(height, recovery_ms, "ready");

    let (stop, stopped) = watch::channel(false);
    let probed = observed.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: stopping"),
            _ = interrupt.recv() => info!("SIGINT: stopping"),
        }
        probed.enter(Phase::Stopping);
        let _ = stop.send(true);
    });
    let metrics = observed.metrics.clone();
    front.serve(databases.clone(), metrics, listeners, stopped).await?;
    let engine = database.engine.clone();
    let stop = move || {
        databases.stop();
        engine.stop();
        joined.map_or(Ok(()), Joined::leave)
    };
    tokio::task::spawn_blocking(stop).await??;
    if database.engine.is_halted() {
        bail!("the engine had halted, see the log; the next start finds out what is on the disk");
    }
    info!("stopped");
    Ok(())
}

/// The node's own ledger, and its databases.
fn open_all(
    files: Arc<dyn Files>,
    settings: &Settings,
    metrics: Arc<Metrics>,
) -> Result<(Arc<Databases>, Option<Joined>)> {
    let together = Together::default();
    let (own, joined) = opening::open(files, settings, metrics, &together)?;
    Ok((Databases::start(Arc::new(own), settings, together), joined))
}

/// Has the second port show the ledgers.
fn show(databases: &Arc<Databases>, observed: &Observed) {
    observed.watch(databases.own().engine.clone());
    let [counted, found] = [0; 2].map(|_| Arc::downgrade(databases));
    let counted = move || counted.upgrade().map(|all| all.metrics()).unwrap_or_default();
    _ = observed.metrics.databases.set(Box::new(counted));
    let found = move |ledger: &str| found.upgrade()?.engine_of(ledger);
    _ = observed.databases.set(Box::new(found));
}

/// Answers on the second port from now on, if there is to be one.
async fn second_port(
    settings: &Settings,
    observed: &Arc<Observed>,
    guard: &Arc<Guard>,
) -> Result<Option<SocketAddr>> {
    let Some(address) = settings.http_listen else { return Ok(None) };
    let port = bind(address, "http_listen").await?;
    let address = port.local_addr()?;
    tokio::spawn(http::serve(port, observed.clone(), guard.clone()));
    Ok(Some(address))
}

/// Those of the data folder, which is open by now. Where the disk does not keep them they are for
/// this run alone, as that must not keep a node down.
fn take_secrets(settings: &Settings, front: &mut Front, guard: &Guard) -> Result<()> {
    let salts = secrets::salt_secret(&settings.data).or_else(|error| -> Result<[u8; 32]> {
        warn!("strangers can be told from users when this node starts again: {error:#}");
        Ok(secrets::random()?)
    })?;
    front.keep_secret(salts);
    match secrets::http_token(settings) {
        Err(error) if settings.http_token_file.is_none() => {
            warn!("the second port takes no requests that change something: {error:#}");
        }
        token => guard.expect(token?),
    }
    Ok(())
}

/// As many descriptors as the system grants: each connection takes one.
fn allow_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "the bound on open files stays as it is");
    }
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (setting `{setting}`)"))
}

/// More of them than there is work for cost more than they bring: each wakes the others to steal
/// from them, while the threads that execute blocks, and often the clients, want the cores too.
fn io_threads(settings: &Settings) -> usize {
    match settings.io_threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)),
        threads => threads as usize,
    }
}

/// What a member tells of itself, and does for the others.
fn take_part(joined: &Joined, observed: &Observed, database: &Arc<Database>) {
    let _ = observed.forks.set(joined.forks().clone());
    let _ = observed.rotation.set(joined.rotation().clone());
    joined.endorse(database);
}

/// The way in for clients of this machine; it lies in the data folder, which exists by now. A node
/// without it (the path is too long for a socket, say) still has its port.
fn local_socket(settings: &Settings, port: u16) -> Option<Listener> {
    let folder = settings.data.join(settings.socket_folder.as_ref()?);
    Listener::unix(&folder, port)
        .inspect_err(|error| warn!(folder = %folder.display(), %error, "no `socket_folder`"))
        .ok()
}

/// Where there are no passwords the token logs in: it stands in the fragment, which browsers do not
/// send, and only a terminal is shown it, since what goes elsewhere is kept.
fn console_link(settings: &Settings, http_listen: Option<SocketAddr>) -> String {
    let Some(address) = http_listen else { return String::new() };
    let is_shown = settings.password_file.is_none() && std::io::stdout().is_terminal();
    let token = is_shown.then(|| secrets::token_of_node(settings).ok()).flatten();
    let fragment = token.map(|token| format!("#token={token}")).unwrap_or_default();
    format!("    http://{address}/{fragment}\n")
}

/// The console's, which a socket admits also where TCP has to have TLS.
fn sql_address(settings: &Settings, listen: SocketAddr, has_socket: bool) -> SqlAddress {
    match &settings.socket_folder {
        Some(folder) if has_socket => SqlAddress::Socket(settings.data.join(folder), listen.port()),
        _ if listen.ip().is_unspecified() => {
            let loopback = if listen.is_ipv4() { "127.0.0.1" } else { "::1" };
            let host = loopback.parse().unwrap_or(listen.ip());
            SqlAddress::Tcp(SocketAddr::new(host, listen.port()))
        }
        _ => SqlAddress::Tcp(listen),
    }
}

/// Where a node answers.
struct Ports {
    listen: SocketAddr,
    http_listen: Option<SocketAddr>,
}

/// The one thing that `serve` writes to standard output: that it is ready, and how to connect.
fn announce(settings: &Settings, ports: &Ports, height: u64, output: Output) {
    let data = settings.data.display();
    let listen = ports.listen;
    match output {
        Output::Text => {
            // Without a password file any name is admitted.
            let user = if settings.password_file.is_some() { "USER" } else { &*settings.owner };
            output::put_or_leave(format_args!(
                "READY: ledger {data}, height {height}\n\n    psql \
                 postgresql://{user}@{listen}/tally\n{}",
                console_link(settings, ports.http_listen)
            ));
        }
        Output::Json => output::put_or_leave(format_args!(
            "{}",
            serde_json::json!({
                "ready": true,
                "ledger": data.to_string(),
                "height": height,
                "listen": listen.to_string(),
                "http_listen": ports.http_listen.map(|address| address.to_string()),
            })
        )),
    }
}
