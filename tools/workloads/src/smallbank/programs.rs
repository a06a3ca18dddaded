//! The same six procedures by the builder.

use procedure::build::{Builder, Tables, add, at_least, choose, int, less, subtract};
use procedure::step::OnError;
use procedure::{Expr, Procedure};
use types::{DataType, Result, SqlState, Value};

const INT: DataType = DataType::Int8;

pub(super) fn all(tables: &Tables) -> Result<Vec<Procedure>> {
    Ok(vec![
        amalgamate(tables)?,
        balance(tables)?,
        deposit_checking(tables)?,
        send_payment(tables)?,
        transact_savings(tables)?,
        write_check(tables)?,
    ])
}

fn begin<'t, const N: usize>(
    tables: &'t Tables,
    name: &str,
    parameters: [&str; N],
    result: DataType,
) -> (Builder<'t>, [Expr; N]) {
    let mut p = Builder::new(tables, name, &parameters.map(|name| (name, INT)));
    p.returns(&[(name, result)]);
    let arguments = p.arguments();
    (p, arguments)
}

fn truth(value: bool) -> Vec<Expr> {
    vec![Expr::Const(Value::Bool(value))]
}

/// A balance, whose customer must exist.
fn required(p: &mut Builder<'_>, table: &str, customer: &Expr) -> Expr {
    let ([balance], found) = p.read(table, std::slice::from_ref(customer), ["bal"]);
    p.require(found, no_such_customer());
    balance
}

/// A balance of a customer who exists.
fn held(p: &mut Builder<'_>, table: &str, customer: &Expr) -> Expr {
    let ([balance], _) = p.read(table, std::slice::from_ref(customer), ["bal"]);
    balance
}

fn no_such_customer() -> OnError {
    OnError::new(SqlState(*b"P0002"), "no such customer")
}

fn require_positive(p: &mut Builder<'_>, amount: &Expr, message: &str) {
    let error = OnError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    p.require(at_least(amount.clone(), int(0)), error);
}

/// Adds by command; yields whether there is such a customer.
fn deposit(p: &mut Builder<'_>, table: &str, customer: &Expr, amount: Expr) -> Expr {
    let sum = add(p.column(table, "bal"), amount, &INT);
    p.update(table, std::slice::from_ref(customer), vec![("bal", sum)])
}

fn withdraw(p: &mut Builder<'_>, table: &str, customer: &Expr, amount: Expr) {
    let rest = subtract(p.column(table, "bal"), amount, &INT);
    p.update(table, std::slice::from_ref(customer), vec![("bal", rest)]);
}

fn balance(tables: &Tables) -> Result<Procedure> {
    let (mut p, [customer]) = begin(tables, "sb_balance", ["customer"], INT);
    let saved = required(&mut p, "savings", &customer);
    let held = held(&mut p, "checking", &customer);
    p.emit(vec![add(saved, held, &INT)]);
    p.build()
}

fn deposit_checking(tables: &Tables) -> Result<Procedure> {
    let (mut p, [customer, amount]) =
        begin(tables, "sb_deposit_checking", ["customer", "amount"], DataType::Bool);
    require_positive(&mut p, &amount, "a deposit is not negative");
    let found = deposit(&mut p, "checking", &customer, amount);
    p.require(found, no_such_customer());
    p.emit(truth(true));
    p.build()
}

fn transact_savings(tables: &Tables) -> Result<Procedure> {
    let (mut p, [customer, amount]) =
        begin(tables, "sb_transact_savings", ["customer", "amount"], DataType::Bool);
    let saved = required(&mut p, "savings", &customer);
    p.when(less(add(saved, amount.clone(), &INT), int(0)), |p| {
        p.emit(truth(false));
        p.end();
    });
    deposit(&mut p, "savings", &customer, amount);
    p.emit(truth(true));
    p.build()
}

fn write_check(tables: &Tables) -> Result<Procedure> {
    let (mut p, [customer, amount]) =
        begin(tables, "sb_write_check", ["customer", "amount"], DataType::Bool);
    require_positive(&mut p, &amount, "a check is not negative");
    let saved = required(&mut p, "savings", &customer);
    let held = held(&mut p, "checking", &customer);
    let overdrawn = less(add(saved, held, &INT), amount.clone());
    let charge = choose(overdrawn, add(amount.clone(), int(100), &INT), amount);
    let charge = p.assign(charge);
    withdraw(&mut p, "checking", &customer, charge);
    p.emit(truth(true));
    p.build()
}

fn send_payment(tables: &Tables) -> Result<Procedure> {
    let (mut p, [sender, receiver, amount]) =
        begin(tables, "sb_send_payment", ["sender", "receiver", "amount"], DataType::Bool);
    require_positive(&mut p, &amount, "a payment is not negative");
    let held = required(&mut p, "checking", &sender);
    p.when(less(held, amount.clone()), |p| {
        p.emit(truth(false));
        p.end();
    });
    withdraw(&mut p, "checking", &sender, amount.clone());
    let found = deposit(&mut p, "checking", &receiver, amount);
    p.require(found, no_such_customer());
    p.emit(truth(true));
    p.build()
}

fn amalgamate(tables: &Tables) -> Result<Procedure> {
    let (mut p, [giver, receiver]) =
        begin(tables, "sb_amalgamate", ["giver", "receiver"], DataType::Bool);
    let same = Expr::equal(giver.clone(), receiver.clone());
    let error = OnError::new(SqlState::INVALID_PARAMETER_VALUE, "two customers are needed");
    p.require(Expr::negated(same), error);
    let saved = required(&mut p, "savings", &giver);
    let held = held(&mut p, "checking", &giver);
    for table in ["savings", "checking"] {
        p.update(table, std::slice::from_ref(&giver), vec![("bal", int(0))]);
    }
    let all = p.assign(add(saved, held, &INT));
    let found = deposit(&mut p, "checking", &receiver, all);
    p.require(found, no_such_customer());
    p.emit(truth(true));
    p.build()
}
