//! Whose agreement a transaction needs, as a value.
//!
//! ```text
//!   policy = AND(policy, …) | OR(policy, …) | OUTOF(n, policy, …) | party
//!   party  = organisation               the organisation itself: a node of it, or its root key
//!          | organisation.role          a user of it that is the role, or a member of it
//! ```
//!
//! A policy has no NOT, so what meets one is not undone by a further approval. One approval counts
//! at every place that it fits.
//!
//! *Canonical*: policies that are read alike but for order, repetition, brackets that say nothing,
//! spaces, letters of keywords, are one value with one text.

mod missing;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use types::{Error, Result, SqlState};

/// Bytes of a policy's text.
pub const TEXT_BYTES_MAX: usize = 2048;

/// Parties that one names, each as often as it does.
pub const PARTIES_MAX: usize = 64;

/// Levels of AND, OR and OUTOF.
pub const DEPTH_MAX: usize = 8;

/// Approvals that one may need: as many as a transaction can bear.
pub const APPROVALS_MAX: usize = 16;

/// A transaction lacks approvals that a policy asks for.
pub const APPROVAL_MISSING: SqlState = SqlState(*b"42T01");

/// In canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Policy(Node);

/// AND is all of them, OR is one of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Node {
    Party(Party),
    Of { needed: usize, nodes: Vec<Node> },
}

/// Who approves: an organisation, or users of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Party {
    pub organisation: String,
    pub role: Option<String>,
}

impl Policy {
    /// # Errors
    /// 42601: the text is no policy. 22023: it asks for more than there is. 54000, 54001: it is too
    /// long, or too deep.
    pub fn parse(text: &str) -> Result<Policy> {
        let policy = Policy(parse::policy(text)?);
        // Its own text is read again.
        parse::check_length(&policy.to_string())?;
        let fewest = policy.0.fewest();
        if fewest > APPROVALS_MAX {
            let what = format!("a transaction can bear at most {APPROVALS_MAX} approvals");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail(format!("The policy may need {fewest}.")));
        }
        Ok(policy)
    }

    /// Whether what fits is enough.
    pub fn is_met(&self, fits: &mut dyn FnMut(&Party) -> bool) -> bool {
        self.0.is_met(fits)
    }

    /// What is still missing, in words; `None`: nothing.
    pub fn missing(&self, fits: &mut dyn FnMut(&Party) -> bool) -> Option<String> {
        missing::missing(&self.0, fits).map(|rest| missing::in_words(&rest))
    }

    /// All that it names, each as often as it does.
    pub fn parties(&self) -> Vec<&Party> {
        let mut parties = Vec::new();
        self.0.each_party(&mut |party| parties.push(party));
        parties
    }
}

impl Node {
    /// From canonical ones. What is asked for twice is asked for once, but where some of several
    /// are enough.
    fn of(needed: usize, mut nodes: Vec<Node>) -> Node {
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

    fn is_met(&self, fits: &mut dyn FnMut(&Party) -> bool) -> bool {
        match self {
            Node::Party(party) => fits(party),
            Node::Of { needed, nodes } => {
                nodes.iter().filter(|node| node.is_met(fits)).take(*needed).count() == *needed
            }
        }
    }

    /// Approvals that meet it, if none fits at two places.
    fn fewest(&self) -> usize {
        match self {
            Node::Party(_) => 1,
            Node::Of { needed, nodes } => {
                let mut each: Vec<usize> = nodes.iter().map(Node::fewest).collect();
                each.sort_unstable();
                each.iter().take(*needed).sum()
            }
        }
    }

    fn each_party<'n>(&'n self, visit: &mut dyn FnMut(&'n Party)) {
        match self {
            Node::Party(party) => visit(party),
            Node::Of { nodes, .. } => nodes.iter().for_each(|node| node.each_party(visit)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
