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
//!   undo versions: in its own memory where no reader holds it, else in a copy. That works
//!   backwards too: a snapshot older than the image patches the same rows the other way, always in
//!   a copy, since the newest image is the one that the next snapshot wants;
//! - a new image, if the list of touched rows does not reach back so far.
//!
//! # Tables of layout `column`
//!
//! Of a table that was declared `WITH (layout = column)` every column that a query has read is
//! *kept current*: the thread that publishes a block then writes the rows that it has touched into
//! the column's images, which are the slabs of a live column so, and a scan finds nothing to patch.
//!
//! ```text
//!   blocks     40      41      42      43            row, the record: what transactions read and
//!   rows      ─●───────●───────●───────●──►          write, what is logged, hashed, checkpointed
//!   clients      ok      ok      ok      ok          have their answers before
//!   columns    ───40──────41──────42──────43──►      a second, live copy: in its own memory, or
//!                                                    in a copy of the slab that a reader holds
//! ```
//!
//! - A reader that holds a slab holds it as it is: it is copied on write, that slab of that column
//!   only, and the old one goes with its last holder. So a snapshot is a height and the slabs that
//!   its scans have come to. A slab ahead of a scan's height is copied and patched backwards for
//!   it.
//! - A group that is being read is left for the next block, and so is what lies beyond a bound of
//!   rows. The first to come brings it, that block or a scan. The publisher waits for a group's
//!   lock only to say which of its rows were touched.
//! - The publisher patches and never builds: what the list of touched rows does not reach back to
//!   leaves the cache, for a scan to build. A column for which as many rows were patched as a group
//!   has, while no query asked for it, is kept no more until one does: to build it costs no more
//!   than that. So what is read seldom costs writers at most twice what it is worth.
//! - Correctness does not depend on it. It does what the next scan would do, under the same lock;
//!   what is evicted is made by the next scan, and kept from then on.
//! - *Cost*: a number costs its writer 1.4 microseconds in blocks of a thousand, and a row of ten
//!   strings of 100 bytes, all of them kept, 3.6, whether or not there are scans. A scan beside a
//!   writer that never stops takes 1.3 times as long as a quiet one, and 1.8 times where the table
//!   lies by rows (`tally bench figure analytics-scan analytics-writers`, two cores). A thread of
//!   its own was measured, too: it takes the core that scans need, and a scan took five to eleven
//!   times as long as a quiet one.
//!
//! # Invariants
//!
//! 1. An image of height `a` is the column as a reader at `a` sees it, row by row, with rows that
//!    do not exist at `a` marked dead in the group's liveness, which is an image like any other.
//! 2. For every block `b > complete_above` that is published, each record that `b` touched is in
//!    the group's dirty rows with height `b`, from when a scan at `b` or later begins (module
//!    `storage::feed`: blocks tell what they touched before they are published).
//! 3. Images are a cache: they can all vanish at any time, and bytes beyond the limit do, those of
//!    the lists of touched rows among them. A list holds only what a query may ask from: heights
//!    above the lowest image of its group or the lowest pin. A reader of an array keeps it alive,
//!    and as it is; it is freed with the last reader. An image whose patch fails has left the cache
//!    by then.
//!
//! # Cost
//!
//! Writers pay a copy of the block's list of touched records at its end, nothing per access. A scan
//! of clean groups costs a lock and a reference count per group and column. A patch reads each
//! dirty row: some 150 ns with all that belongs to it, since a scan that says what comes next
//! ([`TableScan::prefetch`]) finds the rows in the cache. Where a reader holds the image, it also
//! copies the group's column (64 KiB of integers: some 8 µs). Building reads all 8,192 rows.
//!
//! # Departures
//!
//! The thesis (AnKer, section 2.3) keeps columns in place, where transactions read and write them,
//! and lets the operating system copy pages on write. Here transactions read and write rows in
//! either layout, and rows are what is durable: columns are a copy, dead or alive. Nothing depends
//! on page tables; the unit of sharing is the row group's column.

mod dirty;
mod edit;
mod group;
mod images;
mod kind;
mod strings;
mod zone;

pub use group::{GroupColumns, ImageWork, Live};
pub use images::{ImageUsage, Images, TableScan};
pub use kind::{arrow_field, arrow_type, units};
pub use zone::Zone;
