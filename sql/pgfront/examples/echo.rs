//! The front end with a database that does nothing, to measure the front end:
//!
//! ```text
//! cargo run --release -p pgfront --example echo -- 127.0.0.1:5433
//! echo 'select abalance from accounts where aid = :aid;' > select.sql
//! pgbench -n -M prepared -D aid=1 -c 4 -T 10 -f select.sql 'host=127.0.0.1 port=5433 user=bench'
//! ```

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::sync::Arc;

use pgfront::{Options, serve};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    tracing_subscriber::fmt::init();
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:5433");
    let listener = tokio::net::TcpListener::bind(address).await?;
    let shutdown = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "cannot wait for a signal");
        }
    };
    serve(vec![listener.into()], Arc::new(fake::Fake::new()), Options::default(), shutdown).await
}
