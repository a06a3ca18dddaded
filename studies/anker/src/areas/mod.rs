//! The techniques, one module each.
//!
//! | Technique | Freezing costs | A first store afterwards costs |
//! |---|---|---|
//! | [`Physical`] | a copy of everything | nothing |
//! | [`Physical`], [`fork`] | the process's page tables | a fault, the kernel copies 4 KiB |
//! | `Rewired` | a system call for each run of pages | a signal, a copy, a system call |
//! | `Private` | a copy of each page written since | a fault, the kernel copies 4 KiB |
//! | [`Slabs`] | a count for each slab | a copy of 16 KiB |
//!
//! Limits: copies and views need memory; while a process forks, commits wait, and its child may
//! hardly do anything; rewired columns end at `vm.max_map_count`.
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
