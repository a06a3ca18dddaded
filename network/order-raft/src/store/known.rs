//! What the store knows of the [incarnations](crate::incarnations) of members and of what they may
//! have forgotten.

use std::io;
use std::sync::Arc;

use kit::sync::lock;

use super::{Kept, Store};
use crate::incarnations::{Incarnation, Incarnations};
use crate::recall::{Doubt, Recalled, Recovered};
use crate::side::{State, What};

impl Store {
    pub(super) fn show_incarnations(&self, kept: &Kept) {
        let State { incarnation, incarnations, .. } = &kept.side.state;
        *lock(&self.incarnations) = (*incarnation, Arc::new(incarnations.clone()));
    }

    /// This member's incarnation.
    pub(crate) fn incarnation(&self) -> Incarnation {
        lock(&self.incarnations).0
    }

    /// Those of the others that this member has heard of.
    pub(crate) fn incarnations(&self) -> Arc<Incarnations> {
        Arc::clone(&lock(&self.incarnations).1)
    }

    /// Durable when this returns.
    pub(crate) fn learn(&self, heard: &Incarnations) -> io::Result<()> {
        let mut known = (*self.incarnations()).clone();
        if !known.learn(heard) {
            return Ok(());
        }
        self.put(|kept| kept.side.put_incarnations(heard))
    }

    /// Durable when this returns, and then shown.
    fn put(&self, put: impl FnOnce(&mut Kept) -> io::Result<()>) -> io::Result<()> {
        let mut kept = self.kept();
        let put = put(&mut kept);
        self.show_incarnations(&kept);
        self.noted(put)
    }

    /// What is here is a copy of this member's, and another incarnation begins.
    pub(crate) fn doubt(&self, number: u64) -> io::Result<()> {
        self.put(|kept| {
            let salt = kept.files.salt();
            kept.side.put_doubt(Incarnation { number, salt })
        })
    }

    /// A number of incarnations that no other incarnation of this member has, as the others know.
    pub(crate) fn begin_incarnation(&self, number: u64) -> io::Result<()> {
        self.put(|kept| {
            let salt = kept.files.salt();
            kept.side.put_incarnation(Incarnation { number, salt })
        })
    }

    /// What is on the disk once all is [synced](Store::sync), for members in doubt.
    pub(crate) fn recalled(&self) -> Recalled {
        let kept = self.kept();
        let State { vote, doubt, own, incarnation, least, incarnations, .. } = &kept.side.state;
        let voters = own.iter().rev().find_map(|own| match &own.what {
            What::Members(members) => Some(members.get_joint_config().clone()),
            _ => None,
        });
        let (last, least, voters) = (kept.last, *least, voters.unwrap_or_default());
        let doubt = if last < least { Some(Doubt::Lost) } else { *doubt };
        let (vote, incarnation, incarnations) = (*vote, *incarnation, incarnations.clone());
        Recalled {
            vote,
            last,
            least,
            doubt,
            voters,
            incarnation,
            incarnations,
            ..Recalled::default()
        }
    }

    /// The salt of the incarnation of another member that was new when this one began.
    pub(crate) fn met(&self, member: u64) -> Option<u64> {
        self.kept().side.state.met.get(&member).copied()
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.kept().side.state.doubt.is_some()
    }

    /// See [`crate::recall`].
    pub(crate) fn recover(&self, recovered: Recovered) -> io::Result<()> {
        self.put(|kept| kept.side.put_recovered(recovered))
    }
}
