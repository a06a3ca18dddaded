//! The way to the other organisations, and votes that are brought to them once they are signed.
//!
//! Each asks for the votes that it lacks, too: what is not brought is only heard of later.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

pub trait Exchange: Send + Sync + 'static {
    fn call(&self, to: u64, request: Bytes) -> BoxFuture<'static, io::Result<Bytes>>;
}

/// Votes that wait for one organisation.
const WAITING_MAX: usize = 64;

/// One for each organisation; they end when this is dropped.
pub(crate) struct Couriers(Vec<mpsc::Sender<Bytes>>);

impl Couriers {
    pub fn new(others: Vec<u64>, exchange: &Arc<dyn Exchange>) -> Couriers {
        let one = |other: u64| {
            let (sender, mut waiting) = mpsc::channel::<Bytes>(WAITING_MAX);
            let exchange = Arc::clone(exchange);
            tokio::spawn(async move {
                while let Some(request) = waiting.recv().await {
                    // One that is not there asks when it is.
                    let _ = exchange.call(other, request).await;
                }
            });
            sender
        };
        Couriers(others.into_iter().map(one).collect())
    }

    pub fn bring(&self, request: &Bytes) {
        for courier in &self.0 {
            let _ = courier.try_send(request.clone());
        }
    }
}
