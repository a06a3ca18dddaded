//! The kernel's limit on mappings, in a process of its own: others would run into it.

use anker::area::{Area, Frozen};
use anker::areas::{Rewired, mappings_max};

const PAGE_ROWS: usize = 512;

#[test]
fn rewiring_ends_at_the_limit_of_mappings_with_a_clear_error() {
    let pages = mappings_max().min(70_000);
    let area = Rewired::new(pages * PAGE_ROWS).expect("an area");
    let view = area.freeze().expect("one mapping");
    let mut stored = 0;
    let error = loop {
        match area.admit(1) {
            Ok(()) => area.store(2 * stored * PAGE_ROWS, 1),
            Err(error) => break error,
        }
        stored += 1;
        assert!(2 * stored < pages, "a page is two mappings, and there are only so many");
    };
    assert_eq!(error.code().as_str(), "53400");
    assert!(error.fields().hint.as_ref().is_some_and(|hint| hint.contains("vm.max_map_count")));
    assert!(stored > 1_000, "{stored}");
    let error = area.freeze().err().expect("no room for as many mappings again");
    assert_eq!(error.code().as_str(), "53400");
    assert!(view.zone(0).iter().all(|value| *value == 0), "what was frozen is unharmed");
    drop(view);
}
