//! Which variables a loop's body may assign: those must be carried from turn to turn.

use super::syntax::{LoopKind, Node, Statement, Target};

/// What a stretch of program may change. Targets are as written; what they mean is the scope's
/// matter.
#[derive(Default, Debug)]
pub struct Assigned<'s> {
    pub targets: Vec<&'s Target>,
    /// Something sets FOUND and ROW_COUNT.
    pub runs_sql: bool,
}

impl<'s> Assigned<'s> {
    pub fn by(body: &'s [Node]) -> Self {
        let mut assigned = Assigned::default();
        assigned.nodes(body);
        assigned
    }

    fn nodes(&mut self, nodes: &'s [Node]) {
        nodes.iter().for_each(|node| self.statement(&node.statement));
    }

    pub fn statement(&mut self, statement: &'s Statement) {
        match statement {
            Statement::Assign { target, .. } => self.targets.push(target),
            Statement::Sql { into, .. } => {
                self.runs_sql = true;
                self.targets.extend(into.iter().flat_map(|into| &into.targets));
            }
            Statement::Perform(_) | Statement::ReturnQuery(_) => self.runs_sql = true,
            Statement::RowCount(targets) => self.targets.extend(targets),
            Statement::Block(block) => self.nodes(&block.body),
            Statement::If { branches, otherwise } => {
                branches.iter().for_each(|(_, body)| self.nodes(body));
                self.nodes(otherwise);
            }
            Statement::Case { branches, otherwise, .. } => {
                branches.iter().for_each(|(_, body)| self.nodes(body));
                otherwise.iter().for_each(|body| self.nodes(body));
            }
            Statement::Loop { kind, body, .. } => {
                match kind {
                    LoopKind::Each { target, .. } => self.targets.push(target),
                    LoopKind::Rows { targets, .. } => self.targets.extend(targets),
                    LoopKind::Forever | LoopKind::While(_) | LoopKind::Range { .. } => {}
                }
                // Every FOR sets FOUND.
                self.runs_sql |= !matches!(kind, LoopKind::Forever | LoopKind::While(_));
                self.nodes(body);
            }
            Statement::Null
            | Statement::Exit { .. }
            | Statement::Continue { .. }
            | Statement::Raise(_)
            | Statement::Assert { .. }
            | Statement::Return(_)
            | Statement::ReturnNext(_) => {}
        }
    }
}
