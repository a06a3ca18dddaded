//! The graphs in words, and for Graphviz.

use std::fmt::{self, Write};

use procedure::analysis::{StepId, visit};
use procedure::step::Step;
use types::TableId;

use super::graph::{Analysis, GraphBlock, Program};
use super::projection::each_table;

impl Analysis {
    fn table_name(&self, table: TableId) -> String {
        match self.tables.get(&table) {
            Some(schema) => schema.name.clone(),
            None => format!("table {}", table.0),
        }
    }

    /// What an operation does, such as `update saving`.
    fn describe(&self, program: &Program, step: StepId) -> String {
        let steps = visit::numbered(&program.procedure.body);
        let Some(step) = steps.get(step as usize) else {
            return String::new();
        };
        let verb = match step {
            Step::Read { .. } => "read",
            Step::Exists { .. } => "look for",
            Step::Update { .. } => "update",
            Step::Insert { .. } => "insert",
            Step::Delete { .. } => "delete",
            Step::ForRows { .. } => "for rows",
            _ => "query",
        };
        let mut text = verb.to_owned();
        each_table(step, &mut |table| {
            text.push(' ');
            text.push_str(&self.table_name(table));
        });
        text
    }

    /// Slices are named by the procedure's number and their own, `P0S1`.
    fn slice_text(&self, program: usize, slice: usize) -> String {
        let of = &self.programs[program];
        let operations = of.local.slices[slice].iter().map(|at| of.operations[*at].step);
        let texts: Vec<String> = operations.map(|step| self.describe(of, step)).collect();
        texts.join(", ")
    }

    fn block_text(&self, block: &GraphBlock) -> String {
        let slices: Vec<String> =
            block.slices.iter().map(|(program, slice)| format!("P{program}S{slice}")).collect();
        slices.join(" ")
    }

    /// The global graph in Graphviz's language.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph recovery {\n  node [shape=box];\n");
        for (at, block) in self.blocks.iter().enumerate() {
            let tables: Vec<_> = block.tables.iter().map(|t| self.table_name(*t)).collect();
            let label = format!("B{at}: {}\\n{}", tables.join(", "), self.block_text(block));
            let _ = writeln!(dot, "  B{at} [label=\"{label}\"];");
        }
        for (before, after) in &self.edges {
            let _ = writeln!(dot, "  B{before} -> B{after};");
        }
        dot.push_str("}\n");
        dot
    }

    /// A procedure's local graph in Graphviz's language.
    pub fn local_to_dot(&self, program: usize) -> String {
        let mut dot = String::from("digraph slices {\n  node [shape=box];\n");
        let of = &self.programs[program];
        for slice in 0..of.local.slices.len() {
            let label = self.slice_text(program, slice);
            let _ = writeln!(dot, "  P{program}S{slice} [label=\"{label}\"];");
        }
        for (before, after) in &of.local.edges {
            let _ = writeln!(dot, "  P{program}S{before} -> P{program}S{after};");
        }
        dot.push_str("}\n");
        dot
    }
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, program) in self.programs.iter().enumerate() {
            writeln!(f, "P{at} {}", program.procedure.name)?;
            for slice in 0..program.local.slices.len() {
                writeln!(f, "  S{slice}  {}", self.slice_text(at, slice))?;
            }
            if !program.local.edges.is_empty() {
                writeln!(f, "  {}", arrows('S', &program.local.edges))?;
            }
        }
        for (at, block) in self.blocks.iter().enumerate() {
            let tables: Vec<_> = block.tables.iter().map(|t| self.table_name(*t)).collect();
            let tables =
                if tables.is_empty() { "reads only".to_owned() } else { tables.join(", ") };
            writeln!(f, "B{at} ({tables})  {}", self.block_text(block))?;
        }
        match self.edges.is_empty() {
            true => Ok(()),
            false => writeln!(f, "{}", arrows('B', &self.edges)),
        }
    }
}

fn arrows(kind: char, edges: &[(usize, usize)]) -> String {
    let arrows: Vec<String> =
        edges.iter().map(|(before, after)| format!("{kind}{before} → {kind}{after}")).collect();
    arrows.join(", ")
}
