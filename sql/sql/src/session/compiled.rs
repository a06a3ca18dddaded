//! Programs that are compiled for one catalog, and what was found out about them.
//!
//! *Bounds.* So many of each kind are kept, each of a text that is not too long: texts with
//! literals in them would otherwise fill the memory, also by proposals that are refused and stand
//! in no block. What is known about a program stands where the program does, and goes with it.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use engine::{ParameterTypes, Party};
use hashbrown::HashTable;
use procedure::Procedure;
use rustc_hash::FxBuildHasher;

use super::endorsed::Reach;
use super::lowered::Shape;
use super::versioned::Versioned;
use crate::bind::statement::Bound;
use crate::schema::catalog::Catalog;

const COMPILED_MAX: usize = 4096;
const COMPILED_BYTES_MAX: usize = 1 << 16;

/// What a program can change, once it was looked at.
pub(super) type KeptReach = Arc<OnceLock<Reach>>;

#[derive(Default)]
pub(super) struct Compiled {
    catalog: Option<Arc<Catalog>>,
    programs: HashTable<Program>,
    /// Of rows that endorsers have come to.
    rows: BTreeMap<Shape, Arc<Procedure>>,
    /// What routines can change, by their names: of each the program that was called last, which
    /// the catalog keeps.
    called: BTreeMap<String, (Arc<Procedure>, KeptReach)>,
}

struct Program {
    principal: String,
    role: Option<String>,
    text: String,
    types: ParameterTypes,
    bound: Arc<Bound>,
    reach: KeptReach,
}

impl Program {
    fn party(&self) -> Party<'_> {
        Party { principal: &self.principal, role: self.role.as_deref() }
    }
}

fn hash_of(party: Party<'_>, text: &str, types: &ParameterTypes) -> u64 {
    FxBuildHasher.hash_one((party, text, types))
}

impl Compiled {
    pub fn of(catalog: &Arc<Catalog>) -> Compiled {
        Compiled { catalog: Some(Arc::clone(catalog)), ..Compiled::default() }
    }

    pub fn is_of(&self, versioned: &Versioned) -> bool {
        self.catalog.as_ref().is_some_and(|catalog| Arc::ptr_eq(catalog, &versioned.catalog))
    }

    fn program(
        &self,
        party: Party<'_>,
        (text, types): (&str, &ParameterTypes),
    ) -> Option<&Program> {
        let is_it = |p: &Program| p.text == text && p.party() == party && p.types == *types;
        self.programs.find(hash_of(party, text, types), is_it)
    }

    pub fn bound(&self, party: Party<'_>, asked: (&str, &ParameterTypes)) -> Option<Arc<Bound>> {
        self.program(party, asked).map(|program| Arc::clone(&program.bound))
    }

    /// `None`: its program is not kept.
    pub fn reach(&self, party: Party<'_>, asked: (&str, &ParameterTypes)) -> Option<KeptReach> {
        self.program(party, asked).map(|program| Arc::clone(&program.reach))
    }

    pub fn keep(
        &mut self,
        party: Party<'_>,
        (text, types): (&str, &ParameterTypes),
        bound: &Arc<Bound>,
    ) {
        if text.len() > COMPILED_BYTES_MAX {
            return;
        }
        if self.programs.len() >= COMPILED_MAX {
            self.programs.clear();
        }
        let program = Program {
            principal: party.principal.to_owned(),
            role: party.role.map(str::to_owned),
            text: text.to_owned(),
            types: types.clone(),
            bound: Arc::clone(bound),
            reach: KeptReach::default(),
        };
        let hash = hash_of(party, text, types);
        self.programs.insert_unique(hash, program, |p| hash_of(p.party(), &p.text, &p.types));
    }

    /// Of a routine of the catalog.
    pub fn reach_of_routine(&mut self, name: &str, procedure: &Arc<Procedure>) -> KeptReach {
        if let Some((of, reach)) = self.called.get(name)
            && Arc::ptr_eq(of, procedure)
        {
            return Arc::clone(reach);
        }
        let reach = KeptReach::default();
        self.called.insert(name.to_owned(), (Arc::clone(procedure), Arc::clone(&reach)));
        reach
    }

    pub fn of_shape(&self, shape: &Shape) -> Option<Arc<Procedure>> {
        self.rows.get(shape).cloned()
    }

    /// `text`: what it was compiled from.
    pub fn keep_shape(&mut self, shape: &Shape, text: &str, procedure: &Arc<Procedure>) {
        if text.len() > COMPILED_BYTES_MAX {
            return;
        }
        if self.rows.len() >= COMPILED_MAX {
            self.rows.clear();
        }
        self.rows.insert(shape.clone(), Arc::clone(procedure));
    }
}

#[cfg(test)]
mod tests {
    use concurrency::{Statement, Work};
    use engine::Body;

    use super::*;
    use crate::session::schema::{NO_PARTY, Schema, procedure_of};

    /// Large texts leave nothing behind, however many come, and small ones one entry each.
    #[test]
    fn what_is_kept_of_programs_is_bounded_by_their_texts() {
        let schema = Schema::new();
        let (cache, versioned) = (&schema.compiled_aside, schema.newest());
        let types = ParameterTypes::default();
        let reach_of = |text: &str| {
            let bound = schema.compile_text(cache, &versioned, NO_PARTY, (text, &types)).unwrap();
            let procedure = procedure_of(&bound).unwrap();
            let kept = Arc::downgrade(&procedure);
            let work = Work::Statement(Statement { procedure, arguments: Box::default() });
            let body = Body::statement(text, types.clone(), []);
            let reach = schema.reach_of(cache, &versioned, (NO_PARTY, &body, &work));
            reach.get_or_init(|| Reach::of(&work));
            cache.lock().keep_shape(&Shape::any(), text, &kept.upgrade().unwrap());
            (kept, reach)
        };
        let long = format!("SELECT '{}'", "x".repeat(COMPILED_BYTES_MAX));
        for _ in 0..3 {
            let (kept, reach) = reach_of(&long);
            assert!(kept.upgrade().is_none(), "its program is gone");
            assert_eq!(Arc::strong_count(&reach), 1);
        }
        let (kept, reach) = reach_of("SELECT 1");
        assert!(kept.upgrade().is_some());
        assert!(Arc::ptr_eq(&reach_of("SELECT 1").1, &reach), "looked at once");
        for number in 2..COMPILED_MAX + 2 {
            let (text, procedure) = (format!("SELECT {number}"), kept.upgrade().unwrap());
            let bound = schema.compile_text(cache, &versioned, NO_PARTY, ("SELECT 1", &types));
            cache.lock().keep(NO_PARTY, (&text, &types), &bound.unwrap());
            cache.lock().reach_of_routine("one", &procedure);
        }
        let compiled = cache.lock();
        assert!(compiled.programs.len() <= COMPILED_MAX);
        assert_eq!((compiled.rows.len(), compiled.called.len()), (1, 1));
        drop(compiled);
        assert_eq!(Arc::strong_count(&reach), 1, "it went with its program");
    }
}
