//! Calvin (Thomson et al., SIGMOD 2012): locks in the order of the sequence.

use std::sync::Arc;

use concurrency::{
    Block, BlockOutcome, BlockReport, Crew, Isolation, Prepared, Protocol, ProtocolInfo,
    ordered_locks,
};
use storage::{BlockWrites, Store};
use types::{Height, Position};

pub const ENTRY: crate::Entry =
    crate::Entry { info: &INFO, make: |_| Arc::new(Calvin), flaws: &[] };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "calvin",
    paper: "Thomson, Diamond, Weng, Ren, Shao, Abadi: Calvin, SIGMOD 2012",
    isolation: Isolation::Serializable,
    deterministic: true,
    needs_keys_up_front: true,
    interactive: false,
    may_retry: false,
    options: &[],
};

pub struct Calvin;

impl Protocol for Calvin {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Height,
        _: &Crew,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()))
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        crew: &Crew,
    ) -> Result<BlockOutcome, String> {
        let serial_order: Vec<_> = (0..block.transactions.len() as Position).collect();
        let outcomes = ordered_locks::run(block, &serial_order, store, writes, crew)?;
        Ok(BlockOutcome {
            outcomes,
            serial_order,
            deferred: Vec::new(),
            report: BlockReport::default(),
        })
    }
}
