//! Connections on which transactions of a stage run beside each other.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use types::{Error, Height, Result};

use super::{Database, Done};

pub struct Workers {
    url: String,
    connections: usize,
    /// Those that were needed up to now.
    connected: Vec<Database>,
}

impl Workers {
    pub fn new(url: &str) -> Workers {
        Workers { url: url.to_owned(), connections: 1, connected: Vec::new() }
    }

    pub fn connections(&self) -> usize {
        self.connections
    }

    pub fn set_connections(&mut self, connections: usize) {
        self.connections = connections.max(1);
        self.connected.truncate(self.connections);
    }

    /// All are made anew when they are needed.
    pub fn forget(&mut self) {
        self.connected.clear();
    }

    /// Runs transactions by their places; those of no other order are run beside each other, one
    /// alone by the first database. No other one begins when one meets an error.
    pub async fn run(
        &mut self,
        first: &mut Database,
        height: Height,
        waiting: &[(u32, &[String])],
    ) -> Result<Vec<Done>> {
        if let [(index, statements)] = waiting {
            return Ok(vec![first.execute(height, *index, statements).await?]);
        }
        let needed = self.connections.min(waiting.len());
        while self.connected.len() < needed {
            self.connected.push(Database::connect(&self.url).await?);
        }
        let next = AtomicUsize::new(0);
        // Each is waited for: what is dropped on its way leaves a connection in the middle of it.
        let working = self.connected.iter_mut().take(needed);
        let all = join_all(working.map(|database| work(database, height, waiting, &next))).await;
        let mut ended = Vec::with_capacity(waiting.len());
        let mut failed: Option<(u32, Error)> = None;
        for one in all {
            match one {
                Ok(done) => ended.extend(done),
                Err(error) if failed.as_ref().is_none_or(|it| error.0 < it.0) => {
                    failed = Some(error);
                }
                Err(_) => {}
            }
        }
        match failed {
            None => Ok(ended),
            Some((_, error)) => {
                self.forget();
                Err(error)
            }
        }
    }
}

/// One after the other, those that no other connection has begun.
async fn work(
    database: &mut Database,
    height: Height,
    waiting: &[(u32, &[String])],
    next: &AtomicUsize,
) -> Result<Vec<Done>, (u32, Error)> {
    let mut ended = Vec::new();
    while let Some((index, statements)) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
        match database.execute(height, *index, statements).await {
            Ok(done) => ended.push(done),
            Err(error) => {
                next.store(waiting.len(), Ordering::Relaxed);
                return Err((*index, error));
            }
        }
    }
    Ok(ended)
}
