//! Columnar images: what analytics reads of a snapshot.
//!
//! # Idea
//!
//! Records lie row by row and are updated in place, which is what transactions want. A scan wants
//! columns. So per row group and *scanned* column there is an **image**: an immutable Arrow array
//! of the column's values as of one height, built when it is first asked for.
//!
//! ```text
//!   records (row-major, updated in place)                 images (one column of one group)
//!   ┌ group 0 ┐┌ group 1 ┐┌ group 2 ┐                     a as of 41   [ ............ ]
//!   │ a b c d ││ a b c d ││ a b c d │   block 42 touches  c as of 41   [ ............ ]
//!   │ a b c d ││ a B c d ││ a b c d │ ◄── row 1, group 1        │
//!   └─────────┘└─────────┘└─────────┘                           │ scan at 42: copy, patch row 1
//!        ▲ undo versions say what row 1 was at 41               ▼
//!                                                         b as of 42   [ .B.......... ]
//! ```
//!
//! A snapshot is a pinned height and costs what a pin costs, whatever the size of the database and
//! whatever has changed: nothing is copied for it. A scan of it takes, group by group,
//!
//! - the image as it is, if no block between the image's height and the snapshot's touched a row of
//!   the group (so any number of snapshots share it);
//! - the image with the touched rows read anew, at the snapshot's height, from the record or its
//!   undo versions: in its own memory where nobody else holds it, else in a copy. That works
//!   backwards too: a snapshot older than the image patches the same rows the other way, always in
//!   a copy, since the newest image is the one that the next snapshot wants;
//! - a new image, if the list of touched rows does not reach back so far.
//!
//! # Tables of layout `column`
//!
//! Of a table that was declared `WITH (layout = column)` every column that a query has read is
//! *kept current*: a thread of its own ([`Keeper`]) writes the rows that blocks have touched into
//! the column's images, which are the slabs of a live column then, so that a scan finds nothing to
//! patch.
//!
//! ```text
//!   blocks     40      41      42      43            row, the record: what transactions read and
//!   rows      ─●───────●───────●───────●──►          write, what is logged, hashed, checkpointed
//!   keeper         40      41      42                a second, live copy: in its own memory, or
//!   columns    ────●───────●───────●──────►          in a copy of the slab that somebody holds
//!   scan of 43                         └ patches what is left
//! ```
//!
//! - Whoever holds a slab, holds it as it is: the keeper copies on write, that slab of that column
//!   only, and the old one goes with its last holder. So a snapshot is a height and the slabs that
//!   its scans have come to.
//! - A slab that a scan has yet to come to is brought to the scan's height and no further: ahead of
//!   it, it would have to be copied and patched backwards. A scan that is so slow that a quarter of
//!   a group's rows were touched in the meantime is not waited for.
//! - Correctness does not depend on the keeper. It does what the next scan would do, under the same
//!   lock; what is evicted is made by the next scan, and kept from then on.
//!
//! # Invariants
//!
//! 1. An image of height `a` is the column as a reader at `a` sees it, row by row, with rows that
//!    do not exist at `a` marked dead in the group's liveness, which is an image like any other.
//! 2. For every block `b > complete_above` that is published, each record that `b` touched is in
//!    the group's dirty rows with height `b`, from when a scan at `b` or later begins (module
//!    `storage::feed`: blocks tell what they touched before they are published).
//! 3. Images are a cache: they can all vanish at any time, and bytes beyond the limit do.
//!    Whoever reads an array keeps it alive, and as it is; it is freed with the last reader. An
//!    image whose patch fails has left the cache by then.
//!
//! # Cost
//!
//! Writers pay a copy of the block's list of touched records at its end, nothing per access. A scan
//! of clean groups costs a lock and a reference count per group and column. A patch reads each
//! dirty row: some 150 ns with all that belongs to it, since a scan that says what comes next
//! ([`TableScan::prefetch`]) finds the rows in the cache. Where somebody holds the image, it also
//! copies the group's column (16 KiB of integers: about 2 µs). Building reads all 2,048 rows.
//!
//! # Departures
//!
//! The thesis (AnKer, section 2.3) keeps columns in place, where transactions read and write them,
//! and lets the operating system copy pages on write. Here transactions read and write rows in
//! either layout, and rows are what is durable: columns are a copy, dead or alive. Nothing depends
//! on page tables; the unit of sharing is the row group's column. The keeper, and not whoever
//! commits, writes into columns, since a commit waits for nobody's queries.

mod dirty;
mod edit;
mod group;
mod images;
mod keeper;
mod kind;
mod zone;

pub use group::{GroupColumns, ImageWork, Live};
pub use images::{ImageUsage, Images, TableScan};
pub use keeper::Keeper;
pub use kind::{arrow_field, arrow_type, units};
pub use zone::Zone;
