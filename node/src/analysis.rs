//! Who answers queries that the row executor does not: system catalogs, and the engine for queries
//! over much data where the build has one (feature `analytics`).

use std::sync::Arc;

use anyhow::Result;
use engine::Engine;
use engine::locks::Shown;
use pgcatalog::{
    CatalogEngine, Databases, Lock, Locked, Locks, Members, Memory, OtherMemory, Sessions,
};
use sql::analytical_engine::AnalyticalEngine;
use sql::session::shared_state::{SharedState, advisory};
use storage::Store;

use crate::config::Settings;
use crate::memory;
use crate::metrics::Metrics;

pub fn analytical_engine(
    engine: &Engine,
    shared_state: &Arc<SharedState>,
    settings: &Settings,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn AnalyticalEngine>> {
    let columnar = columnar(Arc::clone(engine.store()), settings, metrics)?;
    let memory = Memory::new(Arc::clone(engine.store()), other_memory(metrics));
    let (locks, members) = (locks_of(engine, shared_state), members_of(metrics));
    let neighbours = Arc::clone(shared_state);
    let databases = Databases(Arc::new(move || {
        neighbours.neighbours.get().map(|read| read()).unwrap_or_default()
    }));
    let analytical_engine = CatalogEngine::new(memory, (locks, members, databases), columnar);
    Ok(Arc::new(analytical_engine.with_sessions(sessions_of(shared_state))))
}

/// Of a member of a cluster.
fn members_of(metrics: &Arc<Metrics>) -> Members {
    let (of_members, of_misbehaviour) = (Arc::clone(metrics), Arc::clone(metrics));
    Members {
        all: Arc::new(move || of_members.members.get().map(|read| read()).unwrap_or_default()),
        misbehaviour: Arc::new(move || {
            of_misbehaviour.misbehaviour.get().map(|read| read()).unwrap_or_default()
        }),
    }
}

fn sessions_of(shared_state: &SharedState) -> Sessions {
    let activities = Arc::clone(&shared_state.activities);
    Sessions(Arc::new(move || activities.shown()))
}

fn locks_of(engine: &Engine, shared_state: &SharedState) -> Locks {
    let (rows, advisory) = (Arc::clone(engine.locks()), Arc::clone(&shared_state.advisory));
    let of_rows = |shown| {
        let Shown { process: pid, table, exclusive, granted } = shown;
        Lock { pid, on: Locked::Rows(table), exclusive, granted }
    };
    let of_number = |shown| {
        let advisory::Shown { process: pid, key, exclusive, granted } = shown;
        let (class, object, sub) = key.parts();
        Lock { pid, on: Locked::Advisory { class, object, sub }, exclusive, granted }
    };
    Locks(Arc::new(move || {
        let rows = rows.shown().into_iter().map(of_rows);
        rows.chain(advisory.shown().into_iter().map(of_number)).collect()
    }))
}

/// What the process holds beside the store, and in all. What the allocator has given out holds
/// small tables and all that has no line of its own; what the process has beyond it is large
/// tables, what the allocator keeps for the next time, and stacks.
fn other_memory(metrics: &Arc<Metrics>) -> OtherMemory {
    let metrics = Arc::clone(metrics);
    Box::new(move || {
        let analysis = metrics.analysis.get().map(|read| read());
        let images = analysis.as_ref().map(|read| ("columnar images", read.image_bytes));
        let queries = analysis.as_ref().map(|read| ("analytical queries", read.query_bytes));
        let sessions = metrics.session_memory.get();
        let sessions = sessions.map(|pool| ("sessions", pool.leased_bytes()));
        let allocated = Some(("allocated", kit::allocations::live_bytes()));
        let resident = memory::resident();
        let program = resident.map(|resident| ("program", resident.mapped_bytes));
        let process = resident.map(|resident| ("process", resident.bytes()));
        let all = [images, queries, sessions, allocated, program, process];
        all.into_iter().flatten().collect()
    })
}

#[cfg(feature = "analytics")]
fn columnar(
    store: Arc<Store>,
    settings: &Settings,
    metrics: &Metrics,
) -> Result<Option<Arc<dyn AnalyticalEngine>>> {
    use crate::database::workers;
    use crate::metrics::Analysis;
    use analytics::{Analytics, AnalyticsOptions};
    use anyhow::Context;

    let options = AnalyticsOptions {
        threads: workers(settings.analytics_threads),
        image_bytes_max: settings.image_bytes_max,
        query_bytes_max: usize::try_from(settings.analytics_memory_bytes_max).unwrap_or(usize::MAX),
        spill_folder: settings.analytics_spill_folder.clone(),
    };
    let analytics = Analytics::new(store, &options).context("cannot start analytical queries")?;
    let analytics = Arc::new(analytics);
    let measured = Arc::clone(&analytics);
    let read = move || {
        let usage = measured.usage();
        Analysis {
            queries: usage.running as u64,
            query_bytes: usage.query_bytes as u64,
            image_bytes: usage.images.bytes,
            image_scans: usage.images.scans,
            image_evictions: usage.images.evicted,
            image_built_bytes: usage.images.work.built_bytes,
            image_patched_bytes: usage.images.work.patched_bytes,
            image_reused_bytes: usage.images.work.reused_bytes,
            image_kept_rows: usage.images.kept_rows,
        }
    };
    _ = metrics.analysis.set(Box::new(read));
    Ok(Some(analytics))
}

#[cfg(not(feature = "analytics"))]
fn columnar(_: Arc<Store>, _: &Settings, _: &Metrics) -> Result<Option<Arc<dyn AnalyticalEngine>>> {
    Ok(None)
}
