//! What a policy still asks for, and how that is said.

use super::formula::{Node, Party};

/// What those that do not fit would have to meet; `None`: nothing, it is met.
pub(super) fn missing(node: &Node, fits: &mut dyn FnMut(&Party) -> bool) -> Option<Node> {
    match node {
        Node::Party(party) => (!fits(party)).then(|| node.clone()),
        Node::Of { needed, nodes } => {
            let rest: Vec<Node> = nodes.iter().filter_map(|node| missing(node, fits)).collect();
            let met = nodes.len() - rest.len();
            (met < *needed).then(|| Node::of(needed - met, rest))
        }
    }
}

/// `bank_b is missing`, `bank_a and one of (bank_b, bank_c) are missing`.
pub(super) fn in_words(rest: &Node) -> String {
    let are = match rest {
        Node::Of { needed, .. } if *needed > 1 => "are",
        _ => "is",
    };
    format!("{} {are} missing", listed(rest))
}

fn listed(rest: &Node) -> String {
    let Node::Of { needed, nodes } = rest else { return rest.to_string() };
    let each: Vec<String> = nodes.iter().map(within).collect();
    match (needed, each.split_last()) {
        (all, Some((last, before))) if *all == each.len() && !before.is_empty() => {
            format!("{} and {last}", before.join(", "))
        }
        (1, _) => format!("one of ({})", each.join(", ")),
        (some, _) => format!("{some} of ({})", each.join(", ")),
    }
}

/// As a part of more.
fn within(rest: &Node) -> String {
    match rest {
        Node::Of { needed, nodes } if *needed == nodes.len() => format!("({})", listed(rest)),
        rest => listed(rest),
    }
}
