//! What is around a run of a query over system catalogs: the catalog's rows, the session, and what
//! the functions of catalogs need besides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kit::sync::lock;
use procedure::Interrupt;
use types::Result;

use super::cast::Names;
use crate::world::{Contents, Session, World};

pub struct Around {
    pub world: Arc<World>,
    pub session: Session,
    /// Rows of relations that the run has read, by place.
    read: Mutex<HashMap<usize, Arc<Contents>>>,
    interrupt: Arc<dyn Interrupt>,
}

/// Of runs that nothing ends.
pub struct Unhurried;

impl Interrupt for Unhurried {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl Around {
    pub fn new(world: Arc<World>, session: Session, interrupt: Arc<dyn Interrupt>) -> Around {
        Around { world, session, read: Mutex::default(), interrupt }
    }

    /// Whether the run should go on.
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    pub fn names(&self) -> Names<'_> {
        Names { world: &self.world }
    }

    /// The rows of the relation at this place of [`relation::all`], the same for a whole run.
    pub fn contents(&self, place: usize) -> Result<Arc<Contents>> {
        if let Some(contents) = lock(&self.read).get(&place) {
            return Ok(Arc::clone(contents));
        }
        let contents = self.world.contents(place, &self.session)?;
        lock(&self.read).insert(place, Arc::clone(&contents));
        Ok(contents)
    }
}
