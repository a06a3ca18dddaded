//! The keys by which this node signs: one, and while it is being replaced two.

use std::io;
use std::sync::Arc;

use ledger::signatures::SecretKey;
use ledger::{Electors, Hash};

use crate::{Identity, Own};

pub struct OwnKeys {
    own: Arc<Own>,
    me: u64,
    /// Public halves.
    signs_by: Vec<Hash>,
}

impl OwnKeys {
    pub fn new(me: u64, own: &Arc<Own>) -> OwnKeys {
        OwnKeys { own: Arc::clone(own), me, signs_by: Vec::new() }
    }

    /// An elector signs, and a member that will be one: those before do until they are followed.
    pub fn are_named(&self) -> bool {
        !self.signs_by.is_empty()
    }

    /// Those of this node that electors name, or those that follow, if they are others than before.
    pub fn choose(
        &mut self,
        electors: &Electors,
        next: Option<&Electors>,
    ) -> io::Result<Option<Vec<SecretKey>>> {
        let is_named = |public: &Hash| {
            let all = [Some(electors), next].into_iter().flatten();
            all.map(|it| it.keys.get(&self.me)).any(|named| named == Some(public))
        };
        let own = self.own.now().into_iter().filter(|own| is_named(&own.public));
        let own: Vec<Arc<Identity>> = own.collect();
        let signs_by: Vec<Hash> = own.iter().map(|own| own.public).collect();
        if signs_by == self.signs_by {
            return Ok(None);
        }
        let keys = own.iter().map(|own| SecretKey::of_pkcs8(own.key.secret_der()));
        let keys = keys.collect::<Result<_, _>>().map_err(io::Error::other)?;
        self.signs_by = signs_by;
        Ok(Some(keys))
    }
}
