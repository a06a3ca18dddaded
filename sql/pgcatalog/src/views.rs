//! Views of the system: `views.sql`, each after a line `-- schema.name`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::relation::Relation;

static VIEWS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let text = include_str!("views.sql");
    let views = text.split("\n-- ").skip(1);
    views.filter_map(|view| view.split_once('\n')).collect()
});

/// The query that gives the view's columns, by their names.
pub fn definition(relation: &Relation) -> Option<&'static str> {
    let name = format!("{}.{}", relation.schema, relation.name);
    VIEWS.get(name.as_str()).map(|text| text.trim().trim_end_matches(';'))
}
