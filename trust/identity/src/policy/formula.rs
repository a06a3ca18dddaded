//! What a policy says: parties, and how many of which are needed.

use std::fmt;

/// Bytes of a policy's text.
pub const TEXT_BYTES_MAX: usize = 2048;

/// Parties that one names, each as often as it does.
pub const PARTIES_MAX: usize = 64;

/// Levels of AND, OR and OUTOF.
pub const DEPTH_MAX: usize = 8;

/// AND is all of them, OR is one of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Node {
    Party(Party),
    Of { needed: usize, nodes: Vec<Node> },
}

/// Who approves: an organisation, or users of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Party {
    pub organisation: String,
    pub role: Option<String>,
}

impl Node {
    /// From canonical ones. What is asked for twice is asked for once, but where some of several
    /// are enough.
    pub(super) fn of(needed: usize, mut nodes: Vec<Node>) -> Node {
        if nodes.len() == 1 {
            return nodes.remove(0);
        }
        let (is_all, is_any) = (needed == nodes.len(), needed == 1);
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::Of { needed, nodes } if is_all && needed == nodes.len() => flat.extend(nodes),
                Node::Of { needed: 1, nodes } if is_any => flat.extend(nodes),
                node => flat.push(node),
            }
        }
        flat.sort();
        if is_all || is_any {
            flat.dedup();
        }
        match flat.len() {
            1 => flat.remove(0),
            all => Node::Of { needed: if is_all { all } else { needed }, nodes: flat },
        }
    }

    pub(super) fn is_met(&self, fits: &mut dyn FnMut(&Party) -> bool) -> bool {
        match self {
            Node::Party(party) => fits(party),
            Node::Of { needed, nodes } => {
                nodes.iter().filter(|node| node.is_met(fits)).take(*needed).count() == *needed
            }
        }
    }

    /// Approvals that meet it, if none fits at two places.
    pub(super) fn fewest(&self) -> usize {
        match self {
            Node::Party(_) => 1,
            Node::Of { needed, nodes } => {
                let mut each: Vec<usize> = nodes.iter().map(Node::fewest).collect();
                each.sort_unstable();
                each.iter().take(*needed).sum()
            }
        }
    }

    pub(super) fn each_party<'n>(&'n self, visit: &mut dyn FnMut(&'n Party)) {
        match self {
            Node::Party(party) => visit(party),
            Node::Of { nodes, .. } => nodes.iter().for_each(|node| node.each_party(visit)),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Node::Of { needed, nodes } = self else {
            let Node::Party(party) = self else { return Ok(()) };
            return party.fmt(f);
        };
        match needed {
            all if *all == nodes.len() => f.write_str("AND(")?,
            1 => f.write_str("OR(")?,
            some => write!(f, "OUTOF({some}, ")?,
        }
        for (place, node) in nodes.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            node.fmt(f)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(&self.organisation, f)?;
        match &self.role {
            Some(role) => {
                f.write_str(".")?;
                write_name(role, f)
            }
            None => Ok(()),
        }
    }
}

/// In quotes where it would be read as another one without them.
fn write_name(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_plain = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        && !name.starts_with(|first: char| first.is_ascii_digit());
    match is_plain {
        true => f.write_str(name),
        false => write!(f, "\"{}\"", name.replace('"', "\"\"")),
    }
}
