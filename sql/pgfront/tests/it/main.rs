//! The front end under real clients, hand-made ones and hostile ones, before a fake database.

#[path = "../fake/mod.rs"]
mod fake;

mod authentication;
mod client;
mod drivers;
mod hostile;
mod life;
mod protocol;
mod scram;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pgfront::{Listener, Options, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server on a port of its own, ended by the test or by the end of its runtime.
struct TestServer {
    address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl TestServer {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        Self::on(listener.into(), address, options)
    }

    fn on(listener: Listener, address: SocketAddr, options: Options) -> Self {
        let (shutdown, asked) = oneshot::channel();
        let serving =
            tokio::spawn(serve(vec![listener], Arc::new(fake::Fake::new()), options, async {
                let _ = asked.await;
            }));
        TestServer { address, shutdown, serving }
    }

    async fn stop(self) {
        self.shutdown.send(()).expect("the server listens");
        soon(self.serving).await.expect("no panic").expect("no error");
    }
}

/// What must not hang.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("an answer in time")
}
