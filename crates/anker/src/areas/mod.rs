//! The techniques, one module each.
//!
//! | Technique | Freezing costs | The first store to a page afterwards | Limits |
//! |---|---|---|---|
//! | [`Physical`] | a copy of everything | nothing | memory |
//! | [`Physical`] with [`fork`] | the process's page tables, whatever is read | a fault, the kernel copies 4 KiB | commits wait; the child may hardly do anything |
//! | `Rewired` | a system call for each run of pages | a signal, a copy, a system call, two more mappings | `vm.max_map_count` |
//! | `Private` | a copy of each page written since the last one, one system call for each run of them | a fault, the kernel copies 4 KiB | none |
//! | [`Slabs`] | a count for each slab | a copy of 16 KiB | none |
//!
//! The thesis's own technique is a system call, `vm_snapshot`, of a patched kernel: it duplicates
//! the page-table entries of one area and lets the kernel copy on write. It cannot exist without
//! the patch, which is offered for academic use. Its substitutes here are [`Slabs`] (cost by
//! column, flat, whatever was modified: what `vm_snapshot` is for) and `Private` (the kernel's own
//! copying on write, with the same price of a first store).

#[cfg(not(shuttle))]
pub mod fork;
#[cfg(not(shuttle))]
mod mapping;
mod physical;
#[cfg(not(shuttle))]
mod private;
#[cfg(not(shuttle))]
mod rewired;
mod slabs;

pub use physical::Physical;
#[cfg(not(shuttle))]
pub use private::Private;
#[cfg(not(shuttle))]
pub use rewired::{Rewired, mappings_max};
pub use slabs::{SLAB_ROWS, Slabs};
