//! Walks over parsed trees, compiled once.
//!
//! `sqlparser` walks a tree by functions that are generic over the visitor, some 300 of them with a
//! guard against deep recursion each, so that two dozen visitors are two dozen copies of the same
//! machine code: more than all else in this crate, and more than half of the time that it took to
//! compile. Here a walk reaches its visitor through a table of functions ([`Visitor`] as `dyn`), so
//! there are two copies, one that reads and one that changes.
//!
//! ```text
//!   read(tree, visitor) ── Kept<V>: keeps what V broke off with ── &mut dyn Visitor<Break = ()>
//!                                                                        │
//!                            Tree::read_by, compiled once for each kind of tree
//! ```
//!
//! Costs two indirect calls for each node that a visitor may look at, beside parsing it.

use std::ops::ControlFlow;

use sqlparser::ast::{
    CreateFunction, DataType, Distinct, Expr, GroupByExpr, JoinOperator, LimitClause, ObjectName,
    OrderBy, Query, Select, SelectItem, SetExpr, Statement, TableFactor, ValueWithSpan, Visit,
    VisitMut, Visitor, VisitorMut,
};

/// A part of a parsed statement that can be walked.
pub trait Tree {
    /// Shows all nodes, until the visitor breaks off.
    fn read_by(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// The same, where the visitor may change what it is shown.
    fn change_by(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;
}

macro_rules! trees {
    ($($tree:ty),* $(,)?) => {$(
        impl Tree for $tree {
            fn read_by(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                Visit::visit(self, &mut Any(visitor))
            }

            fn change_by(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                VisitMut::visit(self, &mut AnyMut(visitor))
            }
        }
    )*};
}

trees!(
    Statement,
    CreateFunction,
    Query,
    OrderBy,
    LimitClause,
    SetExpr,
    Select,
    SelectItem,
    Distinct,
    GroupByExpr,
    TableFactor,
    JoinOperator,
    Expr,
    DataType
);

impl<T: Tree> Tree for Box<T> {
    fn read_by(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
        T::read_by(self, visitor)
    }

    fn change_by(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
        T::change_by(self, visitor)
    }
}

impl<T: Tree> Tree for Option<T> {
    fn read_by(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
        self.iter().try_for_each(|tree| tree.read_by(visitor))
    }

    fn change_by(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|tree| tree.change_by(visitor))
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn read_by(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
        self.iter().try_for_each(|tree| tree.read_by(visitor))
    }

    fn change_by(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|tree| tree.change_by(visitor))
    }
}

/// Shows a visitor all nodes of a tree, and gives what it broke off with.
pub fn read<V: Visitor>(tree: &dyn Tree, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Kept { visitor, broke: None };
    let _ = tree.read_by(&mut kept);
    kept.broke.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// [`read`], for one that changes nodes.
pub fn change<V: VisitorMut>(tree: &mut dyn Tree, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = KeptMut { visitor, broke: None };
    let _ = tree.change_by(&mut kept);
    kept.broke.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Each expression, before its parts.
pub fn expressions<E>(
    tree: &dyn Tree,
    each: impl FnMut(&Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    read(tree, &mut Expressions(each))
}

/// Each expression, after its parts.
pub fn change_expressions<E>(
    tree: &mut dyn Tree,
    each: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    change(tree, &mut Expressions(each))
}

/// Each name that stands where a relation's does.
pub fn relations<E>(
    tree: &dyn Tree,
    each: impl FnMut(&ObjectName) -> ControlFlow<E>,
) -> ControlFlow<E> {
    read(tree, &mut Relations(each))
}

/// Whether a cast, or a literal with a type before it, names such a type.
pub fn casts(tree: &dyn Tree, is_one: impl Fn(&DataType) -> bool) -> bool {
    expressions(tree, |expr| {
        let named = match expr {
            Expr::Cast { data_type, .. } => Some(data_type),
            Expr::TypedString(typed) => Some(&typed.data_type),
            _ => None,
        };
        match named.is_some_and(&is_one) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
    .is_break()
}

struct Expressions<F>(F);

impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Expressions<F> {
    type Break = E;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
        (self.0)(expr)
    }
}

impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Expressions<F> {
    type Break = E;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
        (self.0)(expr)
    }
}

struct Relations<F>(F);

impl<E, F: FnMut(&ObjectName) -> ControlFlow<E>> Visitor for Relations<F> {
    type Break = E;

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<E> {
        (self.0)(relation)
    }
}

/// A visitor with what it broke off with.
struct Kept<'v, V: Visitor> {
    visitor: &'v mut V,
    broke: Option<V::Break>,
}

struct KeptMut<'v, V: VisitorMut> {
    visitor: &'v mut V,
    broke: Option<V::Break>,
}

/// The one visitor that walks are compiled for.
struct Any<'v>(&'v mut dyn Visitor<Break = ()>);

struct AnyMut<'v>(&'v mut dyn VisitorMut<Break = ()>);

fn keep<E>(flow: ControlFlow<E>, broke: &mut Option<E>) -> ControlFlow<()> {
    match flow {
        ControlFlow::Continue(()) => ControlFlow::Continue(()),
        ControlFlow::Break(with) => {
            *broke = Some(with);
            ControlFlow::Break(())
        }
    }
}

macro_rules! forward {
    ($visitor:ident, $kept:ident, $any:ident, $($method:ident: $node:ty),* $(,)?) => {
        impl<V: $visitor> $visitor for $kept<'_, V> {
            type Break = ();
            $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
                keep(self.visitor.$method(node), &mut self.broke)
            })*
        }

        impl $visitor for $any<'_> {
            type Break = ();
            $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

forward!(
    Visitor,
    Kept,
    Any,
    pre_visit_query: &Query,
    post_visit_query: &Query,
    pre_visit_select: &Select,
    post_visit_select: &Select,
    pre_visit_relation: &ObjectName,
    post_visit_relation: &ObjectName,
    pre_visit_table_factor: &TableFactor,
    post_visit_table_factor: &TableFactor,
    pre_visit_expr: &Expr,
    post_visit_expr: &Expr,
    pre_visit_statement: &Statement,
    post_visit_statement: &Statement,
    pre_visit_value: &ValueWithSpan,
    post_visit_value: &ValueWithSpan,
);

forward!(
    VisitorMut,
    KeptMut,
    AnyMut,
    pre_visit_query: &mut Query,
    post_visit_query: &mut Query,
    pre_visit_select: &mut Select,
    post_visit_select: &mut Select,
    pre_visit_relation: &mut ObjectName,
    post_visit_relation: &mut ObjectName,
    pre_visit_table_factor: &mut TableFactor,
    post_visit_table_factor: &mut TableFactor,
    pre_visit_expr: &mut Expr,
    post_visit_expr: &mut Expr,
    pre_visit_statement: &mut Statement,
    post_visit_statement: &mut Statement,
    pre_visit_value: &mut ValueWithSpan,
    post_visit_value: &mut ValueWithSpan,
);

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use super::*;
    use crate::syntax::parse::parse_query;

    /// Each node, as it comes and as it goes.
    #[derive(Default)]
    struct Trace(Vec<String>);

    impl Trace {
        fn note(&mut self, what: &str, node: &dyn Display) -> ControlFlow<&'static str> {
            self.0.push(format!("{what} {node}"));
            match node.to_string().as_str() {
                "stop" => ControlFlow::Break("stopped"),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    macro_rules! traced {
        ($visitor:ident, $($method:ident: $node:ty),* $(,)?) => {
            impl $visitor for Trace {
                type Break = &'static str;
                $(fn $method(&mut self, node: $node) -> ControlFlow<&'static str> {
                    self.note(stringify!($method), node)
                })*
            }
        };
    }

    traced!(
        Visitor,
        pre_visit_query: &Query,
        post_visit_query: &Query,
        pre_visit_select: &Select,
        post_visit_select: &Select,
        pre_visit_relation: &ObjectName,
        post_visit_relation: &ObjectName,
        pre_visit_table_factor: &TableFactor,
        post_visit_table_factor: &TableFactor,
        pre_visit_expr: &Expr,
        post_visit_expr: &Expr,
        pre_visit_statement: &Statement,
        post_visit_statement: &Statement,
        pre_visit_value: &ValueWithSpan,
        post_visit_value: &ValueWithSpan,
    );

    traced!(
        VisitorMut,
        pre_visit_query: &mut Query,
        post_visit_query: &mut Query,
        pre_visit_select: &mut Select,
        post_visit_select: &mut Select,
        pre_visit_relation: &mut ObjectName,
        post_visit_relation: &mut ObjectName,
        pre_visit_table_factor: &mut TableFactor,
        post_visit_table_factor: &mut TableFactor,
        pre_visit_expr: &mut Expr,
        post_visit_expr: &mut Expr,
        pre_visit_statement: &mut Statement,
        post_visit_statement: &mut Statement,
        pre_visit_value: &mut ValueWithSpan,
        post_visit_value: &mut ValueWithSpan,
    );

    /// The walk by `sqlparser` itself is the specification.
    #[test]
    fn nodes_are_shown_as_by_a_walk_compiled_for_the_visitor() {
        for text in [
            "SELECT a, (SELECT max(b) FROM u WHERE u.a = t.a) FROM t JOIN v USING (a) WHERE 1 < 2",
            "WITH w AS (SELECT 1 AS one) SELECT * FROM w, (VALUES (1), (2)) AS x ORDER BY one",
            "SELECT a FROM t WHERE stop AND never",
        ] {
            let mut query = parse_query(text).unwrap().unwrap();
            let (mut ours, mut theirs) = (Trace::default(), Trace::default());
            assert_eq!(read(&query, &mut ours), Visit::visit(&query, &mut theirs), "{text}");
            assert_eq!(ours.0, theirs.0, "{text}");
            assert!(ours.0.len() > 6, "{text}");
            let (mut ours, mut theirs) = (Trace::default(), Trace::default());
            let flow = change(&mut query, &mut ours);
            assert_eq!(flow, VisitMut::visit(&mut query, &mut theirs), "{text}");
            assert_eq!(ours.0, theirs.0, "{text}");
        }
    }
}
