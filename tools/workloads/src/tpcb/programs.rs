//! The same procedure by the builder.

use procedure::build::{Builder, Tables, add};
use procedure::{Expr, Procedure};
use types::{DataType, Result};

pub(super) fn all(tables: &Tables) -> Result<Vec<Procedure>> {
    let int = DataType::Int4;
    let parameters =
        ["account_id", "branch_id", "teller_id", "amount"].map(|name| (name, int.clone()));
    let mut p = Builder::new(tables, "tpcb", &parameters);
    p.returns(&[("tpcb", int.clone())]);
    let [account, branch, teller, amount] = p.arguments();
    let deposit = |p: &mut Builder<'_>, table, key: &Expr, column| {
        let sum = add(p.column(table, column), amount.clone(), &int);
        p.update(table, std::slice::from_ref(key), vec![(column, sum)]);
    };
    deposit(&mut p, "pgbench_accounts", &account, "abalance");
    let ([balance], _) = p.read("pgbench_accounts", std::slice::from_ref(&account), ["abalance"]);
    deposit(&mut p, "pgbench_tellers", &teller, "tbalance");
    deposit(&mut p, "pgbench_branches", &branch, "bbalance");
    let time =
        Expr::Cast { input: Box::new(Expr::Now), to: DataType::Timestamp(None), explicit: false };
    p.insert(
        "pgbench_history",
        vec![
            ("tid", teller),
            ("bid", branch),
            ("aid", account),
            ("delta", amount.clone()),
            ("mtime", time),
        ],
    );
    p.emit(vec![balance]);
    Ok(vec![p.build()?])
}
