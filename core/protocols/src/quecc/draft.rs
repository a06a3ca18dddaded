//! The fragments of a procedure while the [cutter](super::cutter) works: operations on the same
//! record are merged into one fragment, and a value that another fragment needs is marked for
//! publication.

use std::collections::BTreeMap;

use procedure::Reg;
use procedure::residue::Needed;
use rustc_hash::FxHashMap;

use super::action::Action;
use super::program::{Input, OPERATIONS_MAX, Operation, Part, Publish, Template, Turns};

/// A register that an operation uses, and the operation that fills it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub register: Reg,
    pub operation: u16,
    /// Column of a read; `None`: whether there was a row.
    pub column: Option<u16>,
}

/// A template without its operations, which are still apart.
pub struct Draft {
    pub template: Template,
    pub operations: Vec<Operation>,
    pub uses: Vec<Use>,
}

/// The template of an operation, and its place there.
type Home = (u16, u16);

#[derive(Default)]
pub struct Drafts {
    pub templates: Vec<Draft>,
    parts: Vec<Part>,
    /// The first template of the part that is being made.
    open: usize,
    /// By operation.
    homes: Vec<Home>,
}

/// Parts, templates, and the part and cell of each access that is needed.
type Published = (Box<[Part]>, Box<[Template]>, Box<[Option<(u16, u16)>]>);

impl Drafts {
    /// One more operation, which has a template of its own or joins another one's. Returns its
    /// number; `None`: they are too many.
    pub fn add(&mut self, draft: Draft) -> Option<u16> {
        let number = u16::try_from(self.homes.len()).ok()?;
        match self.companion(&draft) {
            Some(place) => {
                let companion = &mut self.templates[place];
                let arguments = companion.template.arguments.iter().copied();
                companion.template.arguments =
                    arguments.chain(draft.template.arguments.iter().copied()).collect();
                companion.uses.extend(draft.uses);
                companion.operations.extend(draft.operations);
                self.homes.push((place as u16, companion.operations.len() as u16 - 1));
            }
            None => {
                let place = u16::try_from(self.templates.len()).ok()?;
                self.homes.push((place, 0));
                self.templates.push(draft);
            }
        }
        Some(number)
    }

    /// The template on the same record that an operation can join: after it no other touches the
    /// table, and none makes what the operation needs.
    fn companion(&self, draft: &Draft) -> Option<usize> {
        let is_certain = |draft: &Draft| {
            let is_hidden = draft.operations.iter().any(|operation| operation.action.is_hidden());
            let Template { is_steady, .. } = draft.template;
            !draft.template.is_keyed_by_data() && !is_steady && !is_hidden
        };
        if !is_certain(draft) {
            return None;
        }
        let mut of_part = self.templates[self.open..].iter();
        let last = of_part.rposition(|Draft { template, .. }| {
            template.table == draft.template.table && !template.is_steady
        })?;
        let place = self.open + last;
        let other = &self.templates[place];
        let needs_later = draft.uses.iter().any(|used| {
            let home = usize::from(self.homes[usize::from(used.operation)].0);
            home > place && !self.templates[home].template.is_steady
        });
        let has_room = other.operations.len() < OPERATIONS_MAX;
        let joins = has_room
            && is_certain(other)
            && other.template.key == draft.template.key
            && !needs_later;
        joins.then_some(place)
    }

    /// It belongs to an earlier part than the one that is being made.
    pub fn is_closed(&self, operation: u16) -> bool {
        usize::from(self.homes[usize::from(operation)].0) < self.open
    }

    pub fn is_insert(&self, operation: u16) -> bool {
        let (template, place) = self.homes[usize::from(operation)];
        let operation = &self.templates[usize::from(template)].operations[usize::from(place)];
        matches!(operation.action, Action::Insert { .. })
    }

    /// What was added since is a part. `units`: what a turn takes beside the fragments.
    pub fn close(&mut self, turns: Turns, units: u64) {
        if self.open == self.templates.len() {
            return;
        }
        let part = self.parts.len() as u16;
        let of_part = &mut self.templates[self.open..];
        of_part.iter_mut().for_each(|draft| draft.template.part = part);
        let operations = || of_part.iter().flat_map(|draft| &draft.operations);
        let operations_count = operations().count();
        let metered = operations().filter(|operation| operation.action.is_metered()).count();
        let unweighed = operations().filter(|operation| operation.action.is_unweighed()).count();
        let fragments: u64 = operations().map(Operation::units).sum();
        self.parts.push(Part {
            turns,
            templates: self.open as u16..self.templates.len() as u16,
            must_be_empty: false,
            operations: operations_count,
            cells: 0,
            metered,
            unweighed,
            units: units + fragments,
        });
        self.open = self.templates.len();
    }

    /// What was added since is forgotten: calls that would do it run in one piece.
    pub fn close_without_turns(&mut self, turns: Turns) {
        self.templates.truncate(self.open);
        // The numbers of what is forgotten stay taken, and nothing uses them.
        let templates = self.open as u16..self.open as u16;
        self.parts.push(Part {
            turns,
            templates,
            must_be_empty: true,
            operations: 0,
            cells: 0,
            metered: 0,
            unweighed: 0,
            units: 0,
        });
    }

    /// Whether nothing depends on anything else.
    pub fn are_plain(&self) -> bool {
        let is_plain = |draft: &Draft| {
            let is_certain = draft.operations.iter().all(Operation::is_certain);
            draft.uses.is_empty() && is_certain && !draft.template.is_steady
        };
        self.templates.iter().all(is_plain) && self.parts.iter().all(|part| !part.must_be_empty)
    }

    /// Whether some operation may spend more than it may, by values that only a run knows.
    pub fn are_metered(&self) -> bool {
        let mut operations = self.templates.iter().flat_map(|draft| &draft.operations);
        operations.any(|operation| !operation.is_brief)
    }

    /// `counted`: the reductions that count what operations found, by their register for that.
    pub fn counting(mut self, counted: &FxHashMap<Reg, u16>) -> (Box<[Part]>, Box<[Template]>) {
        for operation in self.templates.iter_mut().flat_map(|draft| &mut draft.operations) {
            if let Some(reduction) = counted.get(&operation.found) {
                operation.publish = Publish::Count(*reduction);
            }
        }
        (self.parts.into(), self.templates.into_iter().map(Draft::finish).collect())
    }

    /// `needed`: what is to be known of accesses when all have run.
    pub fn publishing(mut self, needed: &[Needed]) -> Published {
        let mut outlets: BTreeMap<Home, Outlet> = BTreeMap::new();
        // Those come first, in their order, and others take their places after them.
        for needed in needed {
            if let Some(home) = self.home_of(needed.found) {
                outlets.entry(home).or_default().columns.extend(needed.columns.iter());
            }
        }
        for (place, draft) in (0..).zip(&self.templates) {
            for used in &draft.uses {
                let home = self.homes[usize::from(used.operation)];
                if home.0 != place {
                    let outlet = outlets.entry(home).or_default();
                    outlet.is_awaited = true;
                    let column = used.column.filter(|column| !outlet.columns.contains(column));
                    outlet.columns.extend(column);
                }
            }
        }
        for ((template, place), outlet) in &mut outlets {
            let draft = &mut self.templates[usize::from(*template)];
            let part = &mut self.parts[usize::from(draft.template.part)];
            outlet.cell = part.cells;
            part.cells += 1;
            draft.operations[usize::from(*place)].publish = Publish::Cell {
                cell: outlet.cell,
                columns: outlet.columns.as_slice().into(),
                is_awaited: outlet.is_awaited,
            };
        }
        for place in 0..self.templates.len() {
            self.templates[place].template.inputs = self.inputs(place as u16, &outlets);
        }
        let cells = needed.iter().map(|needed| {
            let home = self.home_of(needed.found)?;
            Some((self.templates[usize::from(home.0)].template.part, outlets[&home].cell))
        });
        let cells = cells.collect();
        (self.parts.into(), self.templates.into_iter().map(Draft::finish).collect(), cells)
    }

    fn inputs(&self, template: u16, outlets: &BTreeMap<Home, Outlet>) -> Box<[Input]> {
        let mut uses = self.templates[usize::from(template)].uses.clone();
        uses.sort_unstable_by_key(|used| used.register);
        uses.dedup_by_key(|used| used.register);
        let inputs = uses.iter().filter_map(|used| {
            let home = self.homes[usize::from(used.operation)];
            if home.0 == template {
                return None;
            }
            let outlet = &outlets[&home];
            let place = |column| outlet.columns.iter().position(|known| *known == column);
            Some(Input {
                register: used.register,
                template: home.0,
                place: home.1,
                part: self.templates[usize::from(home.0)].template.part,
                cell: outlet.cell,
                column: used.column.and_then(place).map(|place| place as u16),
            })
        });
        inputs.collect()
    }

    fn home_of(&self, found: Reg) -> Option<Home> {
        (0..).zip(&self.templates).find_map(|(template, draft)| {
            let place = draft.operations.iter().position(|operation| operation.found == found)?;
            Some((template, place as u16))
        })
    }
}

/// What an operation publishes.
#[derive(Default)]
struct Outlet {
    cell: u16,
    columns: Vec<u16>,
    is_awaited: bool,
}

impl Draft {
    fn finish(self) -> Template {
        let Draft { mut template, operations, .. } = self;
        template.operations = operations.into();
        let mut arguments = template.arguments.into_vec();
        arguments.sort_unstable();
        arguments.dedup();
        template.arguments = arguments.into();
        template
    }
}
