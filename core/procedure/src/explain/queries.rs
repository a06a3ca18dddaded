//! Query plans as indented lines, the topmost operator first.

use std::ops::Bound;

use types::{ColumnId, TableId};

use super::Namer;
use crate::expr::Expr;
use crate::query::{
    Aggregate, AggregateFunction, Frame, FrameBound, FrameUnit, Query, Repeats, RowFunction, SetOp,
    SortKey, WindowCall, WindowFunction, Yields,
};

impl Namer<'_> {
    /// Lines with their depth.
    pub(super) fn query(&self, query: &Query) -> Vec<(usize, String)> {
        let mut lines = Vec::new();
        self.operator(query, &[], 0, &mut lines);
        lines
    }

    /// `outer` names the row of the enclosing nested loop. Returns the names of the columns.
    fn operator(
        &self,
        query: &Query,
        outer: &[String],
        depth: usize,
        lines: &mut Vec<(usize, String)>,
    ) -> Vec<String> {
        let place = lines.len();
        lines.push((depth, String::new()));
        let (text, names) = match query {
            Query::Values(_) | Query::Call { .. } | Query::Get { .. } => self.source(query, outer),
            Query::Around { .. } => self.around(query, outer),
            Query::Scan { .. } => self.scan(query, outer),
            Query::Filter { input, condition } => {
                let names = self.operator(input, outer, depth + 1, lines);
                (format!("where {}", self.expr(condition, &names)), names)
            }
            Query::Project { input, expressions } => {
                let names = self.operator(input, outer, depth + 1, lines);
                let texts: Vec<String> =
                    expressions.iter().map(|expr| self.expr(expr, &names)).collect();
                (format!("select {}", texts.join(", ")), texts)
            }
            Query::NestedLoop { .. } | Query::HashJoin { .. } => {
                self.join(query, outer, depth, lines)
            }
            Query::Apply { .. } => self.apply(query, outer, depth, lines),
            Query::Aggregate { .. } => self.aggregated(query, outer, depth, lines),
            Query::Sort { input, keys } => {
                let names = self.operator(input, outer, depth + 1, lines);
                let keys: Vec<String> = keys.iter().map(|key| self.sort_key(key, &names)).collect();
                (format!("sort by {}", keys.join(", ")), names)
            }
            Query::Limit { input, limit, offset } => {
                let names = self.operator(input, outer, depth + 1, lines);
                let limit = limit.iter().map(|expr| format!("limit {}", self.expr(expr, &[])));
                let offset = offset.iter().map(|expr| format!("offset {}", self.expr(expr, &[])));
                (limit.chain(offset).collect::<Vec<_>>().join(" "), names)
            }
            Query::Numbered { input, first, step } => {
                let mut names = self.operator(input, outer, depth + 1, lines);
                names.push("number".to_string());
                (format!("number from {} by {step}", self.expr(first, outer)), names)
            }
            _ => self.others(query, outer, depth, lines),
        };
        lines[place].1 = text;
        names
    }

    fn aggregated(
        &self,
        query: &Query,
        outer: &[String],
        depth: usize,
        lines: &mut Vec<(usize, String)>,
    ) -> (String, Vec<String>) {
        let Query::Aggregate { input, groups, sets, aggregates } = query else {
            return Default::default();
        };
        let names = self.operator(input, outer, depth + 1, lines);
        let mut shown: Vec<String> = groups.iter().map(|expr| self.expr(expr, &names)).collect();
        let texts: Vec<String> = aggregates.iter().map(|a| self.aggregate(a, &names)).collect();
        let mut text = format!("aggregate {}", texts.join(", "));
        let set = |set: &[u16]| {
            let names = set.iter().filter_map(|place| shown.get(usize::from(*place)));
            format!("({})", names.cloned().collect::<Vec<_>>().join(", "))
        };
        if !sets.is_empty() {
            let sets: Vec<String> = sets.iter().map(|places| set(places)).collect();
            text += &format!(" by each of {}", sets.join(", "));
        } else if !shown.is_empty() {
            text += &format!(" by {}", shown.join(", "));
        }
        shown.extend(texts);
        shown.extend((!sets.is_empty()).then(|| "set".to_string()));
        (text, shown)
    }

    fn others(
        &self,
        query: &Query,
        outer: &[String],
        depth: usize,
        lines: &mut Vec<(usize, String)>,
    ) -> (String, Vec<String>) {
        match query {
            Query::Window { input, calls } => {
                let mut names = self.operator(input, outer, depth + 1, lines);
                let texts: Vec<String> =
                    calls.iter().map(|call| self.window_call(call, &names)).collect();
                let text = format!("window {}", texts.join(", "));
                names.extend(texts);
                (text, names)
            }
            Query::Distinct { input, by, repeats } => {
                let mut names = self.operator(input, outer, depth + 1, lines);
                let name = |column: &u16| names.get(usize::from(*column)).cloned();
                let by: Vec<String> = by.iter().filter_map(name).collect();
                let text = match (by.as_slice(), repeats) {
                    ([], _) => "distinct".to_string(),
                    (by, Repeats::Dropped) => format!("first of each {}", by.join(", ")),
                    (by, Repeats::Marked(_)) => format!("repeats of {}", by.join(", ")),
                };
                if matches!(repeats, Repeats::Marked(_)) {
                    names.push("repeated".to_string());
                }
                (text, names)
            }
            Query::Sets { op, all, inputs } => {
                let [left, right] = &**inputs;
                let names = self.operator(left, outer, depth + 1, lines);
                self.operator(right, outer, depth + 1, lines);
                let name = match op {
                    SetOp::Intersect => "intersect",
                    SetOp::Except => "except",
                };
                (format!("{name}{}", if *all { " all" } else { "" }), names)
            }
            Query::Recursive { start, step, all, .. } => {
                let names = self.operator(start, outer, depth + 1, lines);
                self.operator(step, outer, depth + 1, lines);
                (format!("recursive{}", if *all { " all" } else { "" }), names)
            }
            Query::CameLast { width, .. } => {
                let names = (1..=*width).map(|number| format!("column{number}")).collect();
                ("rows that came last".to_string(), names)
            }
            Query::RowsFrom { inputs, numbered } => {
                let of_input = |input| self.operator(input, outer, depth + 1, lines);
                let mut names: Vec<String> = inputs.iter().flat_map(of_input).collect();
                names.extend(numbered.then(|| "ordinality".to_string()));
                ("side by side".to_string(), names)
            }
            Query::Append(inputs) => {
                let mut names = Vec::new();
                for (i, input) in inputs.iter().enumerate() {
                    let of_input = self.operator(input, outer, depth + 1, lines);
                    if i == 0 {
                        names = of_input;
                    }
                }
                ("append".to_string(), names)
            }
            _ => Default::default(),
        }
    }

    /// What has no input and is no scan.
    fn source(&self, query: &Query, outer: &[String]) -> (String, Vec<String>) {
        match query {
            Query::Values(rows) => {
                let texts = rows.iter().map(|row| format!("({})", self.list(row, outer)));
                let texts: Vec<String> = texts.collect();
                let width = usize::from(query.width());
                let names = (1..=width).map(|number| format!("column{number}"));
                (format!("values {}", texts.join(", ")), names.collect())
            }
            Query::Call { function, inputs } => self.call(*function, inputs, outer),
            Query::Get { table, key, columns, filter } => {
                let record = self.record(*table, key, outer);
                self.access(format!("get {record}"), *table, columns, filter)
            }
            _ => Default::default(),
        }
    }

    fn call(
        &self,
        function: RowFunction,
        inputs: &[Expr],
        outer: &[String],
    ) -> (String, Vec<String>) {
        let texts: Vec<String> = inputs.iter().map(|input| self.expr(input, outer)).collect();
        let (text, column) = match (function, texts.as_slice()) {
            (RowFunction::Integers | RowFunction::Moments, [first, last, step]) => {
                (format!("series {first} to {last} by {step}"), "series")
            }
            (RowFunction::Json(of), _) => {
                let columns = ["key", "value"].map(str::to_string);
                let columns = columns[2 - usize::from(of.width())..].to_vec();
                return (format!("json parts of {}", texts.join(", ")), columns);
            }
            (RowFunction::Matches, _) => (format!("matches {}", texts.join(", ")), "groups"),
            (RowFunction::Parts, _) => (format!("parts {}", texts.join(", ")), "part"),
            _ => (format!("unnest {}", texts.join(", ")), "element"),
        };
        (text, vec![column.to_string()])
    }

    fn around(&self, query: &Query, outer: &[String]) -> (String, Vec<String>) {
        let Query::Around { source, columns, key, filter } = query else {
            return Default::default();
        };
        let names: Vec<String> = columns.iter().map(|column| format!("column{column}")).collect();
        let mut text = format!("source {source}");
        if let Some((column, key)) = key {
            text += &format!(" by column{column} = {}", self.expr(key, outer));
        }
        if let Some(filter) = filter {
            text += &format!(" where {}", self.expr(filter, &names));
        }
        (text, names)
    }

    fn access(
        &self,
        head: String,
        table: TableId,
        columns: &[ColumnId],
        filter: &Option<Expr>,
    ) -> (String, Vec<String>) {
        let names = self.columns(table, columns);
        let mut text = head;
        if !names.is_empty() {
            text += &format!(": {}", names.join(", "));
        }
        if let Some(filter) = filter {
            text += &format!(" where {}", self.expr(filter, &names));
        }
        (text, names)
    }

    fn scan(&self, query: &Query, outer: &[String]) -> (String, Vec<String>) {
        let Query::Scan { table, index, low, high, reverse, columns, filter, .. } = query else {
            return Default::default();
        };
        let mut text = format!("scan {} by {}", self.table(*table), self.index(*table, *index));
        let side = |bound: &Bound<Box<[Expr]>>, closed: &str, open: &str| match bound {
            Bound::Included(exprs) => format!(" {closed} ({})", self.list(exprs, outer)),
            Bound::Excluded(exprs) => format!(" {open} ({})", self.list(exprs, outer)),
            Bound::Unbounded => String::new(),
        };
        match (low, high) {
            (Bound::Included(low), Bound::Included(high)) if low == high => {
                text += &format!(" at ({})", self.list(low, outer));
            }
            _ => text += &(side(low, "from", "above") + &side(high, "to", "below")),
        }
        if *reverse {
            text += " backwards";
        }
        self.access(text, *table, columns, filter)
    }

    fn join(
        &self,
        query: &Query,
        around: &[String],
        depth: usize,
        lines: &mut Vec<(usize, String)>,
    ) -> (String, Vec<String>) {
        let (mut text, names) = match query {
            Query::NestedLoop { outer, inner, .. } => {
                let mut names = self.operator(outer, around, depth + 1, lines);
                let inner = self.operator(inner, &names, depth + 1, lines);
                names.extend(inner);
                ("for each".to_string(), names)
            }
            Query::HashJoin { outer, inner, outer_keys, inner_keys, .. } => {
                let mut names = self.operator(outer, around, depth + 1, lines);
                let inner = self.operator(inner, around, depth + 1, lines);
                let pairs = outer_keys.iter().zip(inner_keys).map(|(left, right)| {
                    format!("{} = {}", self.expr(left, &names), self.expr(right, &inner))
                });
                let text = format!("hash join on {}", pairs.collect::<Vec<_>>().join(" and "));
                names.extend(inner);
                (text, names)
            }
            _ => return Default::default(),
        };
        if let Query::NestedLoop { condition, left, .. } | Query::HashJoin { condition, left, .. } =
            query
        {
            match query {
                Query::HashJoin { right: true, .. } => text = format!("full {text}"),
                _ if *left => text = format!("left {text}"),
                _ => {}
            }
            if let Some(condition) = condition {
                text += &format!(" where {}", self.expr(condition, &names));
            }
        }
        (text, names)
    }

    fn apply(
        &self,
        query: &Query,
        around: &[String],
        depth: usize,
        lines: &mut Vec<(usize, String)>,
    ) -> (String, Vec<String>) {
        let Query::Apply { outer, inner, given, guard, yields } = query else {
            return Default::default();
        };
        let mut names = self.operator(outer, around, depth + 1, lines);
        let given = given.iter().map(|(register, value)| {
            format!("{} = {}", self.expr(&Expr::Reg(*register), &[]), self.expr(value, &names))
        });
        let given: Vec<String> = given.collect();
        let guard = guard.as_ref().map(|guard| format!(" if {}", self.expr(guard, &names)));
        let inner = self.operator(inner, &[], depth + 1, lines);
        let mut text = match yields {
            Yields::Rows { left: true, .. } => "left for each",
            Yields::Rows { .. } => "for each",
            Yields::Value => "the value for each",
            Yields::Exists => "whether there is a row for each",
        }
        .to_string();
        if !given.is_empty() {
            text += &format!(" ({})", given.join(", "));
        }
        text += &guard.unwrap_or_default();
        match yields {
            Yields::Rows { .. } => names.extend(inner),
            Yields::Value => names.extend(inner.into_iter().take(1)),
            Yields::Exists => names.push("exists".to_string()),
        }
        if let Yields::Rows { condition: Some(condition), .. } = yields {
            text += &format!(" where {}", self.expr(condition, &names));
        }
        (text, names)
    }

    fn window_call(&self, call: &WindowCall, names: &[String]) -> String {
        let function = match call.function {
            WindowFunction::RowNumber => "row_number",
            WindowFunction::Rank => "rank",
            WindowFunction::DenseRank => "dense_rank",
            WindowFunction::PercentRank => "percent_rank",
            WindowFunction::CumeDist => "cume_dist",
            WindowFunction::Ntile => "ntile",
            WindowFunction::Lag => "lag",
            WindowFunction::Lead => "lead",
            WindowFunction::FirstValue => "first_value",
            WindowFunction::LastValue => "last_value",
            WindowFunction::NthValue => "nth_value",
            WindowFunction::Aggregate(function) => name_of(function),
        };
        let star =
            matches!(call.function, WindowFunction::Aggregate(_)) && call.arguments.is_empty();
        let arguments = if star { "*".to_string() } else { self.list(&call.arguments, names) };
        let mut text = format!("{function}({arguments})");
        if let Some(filter) = &call.filter {
            text += &format!(" filter (where {})", self.expr(filter, names));
        }
        let mut over = Vec::new();
        if !call.partition.is_empty() {
            over.push(format!("by {}", self.list(&call.partition, names)));
        }
        if !call.order.is_empty() {
            let keys: Vec<String> = call.order.iter().map(|k| self.sort_key(k, names)).collect();
            over.push(format!("order {}", keys.join(", ")));
        }
        let Frame { unit, start, end, .. } = &call.frame;
        let unit = match unit {
            FrameUnit::Rows => "rows",
            FrameUnit::Groups => "groups",
            FrameUnit::Range => "range",
        };
        let bound = |bound: &FrameBound| match bound {
            FrameBound::First => "first".to_string(),
            FrameBound::Preceding(distance) => format!("{} before", self.expr(distance, names)),
            FrameBound::Current => "current".to_string(),
            FrameBound::Following(distance) => format!("{} behind", self.expr(distance, names)),
            FrameBound::Last => "last".to_string(),
        };
        over.push(format!("{unit} {} to {}", bound(start), bound(end)));
        format!("{text} over ({})", over.join(" "))
    }

    fn aggregate(&self, aggregate: &Aggregate, names: &[String]) -> String {
        let function = name_of(aggregate.function);
        let distinct = if aggregate.distinct { "distinct " } else { "" };
        let input = match &aggregate.input {
            Some(input) => self.expr(input, names),
            None => "*".to_string(),
        };
        let separator = aggregate.separator.iter().map(|expr| self.expr(expr, names));
        let inputs: Vec<String> = std::iter::once(input).chain(separator).collect();
        let order: Vec<String> =
            aggregate.order.iter().map(|key| self.sort_key(key, names)).collect();
        let order = match order.is_empty() {
            true => String::new(),
            false => format!(" order {}", order.join(", ")),
        };
        let mut text = format!("{function}({distinct}{}{order})", inputs.join(", "));
        if let Some(filter) = &aggregate.filter {
            text += &format!(" filter (where {})", self.expr(filter, names));
        }
        text
    }

    fn sort_key(&self, key: &SortKey, names: &[String]) -> String {
        let mut text = self.expr(&key.expr, names);
        if key.descending {
            text += " desc";
        }
        // SQL's own order is NULLs last when ascending and first when descending.
        if key.nulls_first != key.descending {
            text += if key.nulls_first { " nulls first" } else { " nulls last" };
        }
        text
    }
}

fn name_of(function: AggregateFunction) -> &'static str {
    match function {
        AggregateFunction::Count => "count",
        AggregateFunction::Sum => "sum",
        AggregateFunction::Avg => "avg",
        AggregateFunction::Min => "min",
        AggregateFunction::Max => "max",
        AggregateFunction::BoolAnd => "bool_and",
        AggregateFunction::BoolOr => "bool_or",
        AggregateFunction::ArrayAgg => "array_agg",
        AggregateFunction::StringAgg => "string_agg",
        AggregateFunction::VarPop => "var_pop",
        AggregateFunction::VarSamp => "var_samp",
        AggregateFunction::StddevPop => "stddev_pop",
        AggregateFunction::StddevSamp => "stddev_samp",
        AggregateFunction::BitAnd => "bit_and",
        AggregateFunction::BitOr => "bit_or",
        AggregateFunction::BitXor => "bit_xor",
    }
}
