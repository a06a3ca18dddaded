//! The procedures of SmallBank, TPC-B and an order of TPC-C's kind: what they become, and what they
//! do.

use std::collections::BTreeMap;

use procedure::analysis::{Analysis, CommandClass};
use procedure::explain::explain;
use types::TableId;

use super::*;

const ACCOUNTS: TableId = TableId(1);
const SAVINGS: TableId = TableId(2);
const CHECKING: TableId = TableId(3);
const TELLERS: TableId = TableId(4);
const BRANCHES: TableId = TableId(5);
const HISTORY: TableId = TableId(6);
const DISTRICT: TableId = TableId(7);
const STOCK: TableId = TableId(8);
const ORDER_LINE: TableId = TableId(9);
const ITEM: TableId = TableId(10);

fn catalog() -> Catalog {
    let (int, text) = (DataType::Int8, DataType::Text);
    let id_and = |name: &'static str| [("id", DataType::Int8), (name, DataType::Int8)];
    let tables = [
        table(ACCOUNTS, "accounts", &[("name", text), ("id", int.clone())], &[0]),
        table(SAVINGS, "savings", &id_and("bal"), &[0]),
        table(CHECKING, "checking", &id_and("bal"), &[0]),
        table(TELLERS, "tellers", &id_and("bal"), &[0]),
        table(BRANCHES, "branches", &id_and("bal"), &[0]),
        table(
            HISTORY,
            "history",
            &[("aid", int.clone()), ("tid", int.clone()), ("delta", int.clone())],
            &[],
        ),
        table(DISTRICT, "district", &id_and("next_order"), &[0]),
        table(STOCK, "stock", &id_and("quantity"), &[0]),
        table(
            ORDER_LINE,
            "order_line",
            &[
                ("district", int.clone()),
                ("order_id", int.clone()),
                ("line", int.clone()),
                ("item", int.clone()),
                ("amount", int.clone()),
            ],
            &[0, 1, 2],
        ),
        table(ITEM, "item", &id_and("price"), &[0]),
    ];
    catalog_of(tables)
}

struct Bank {
    catalog: Catalog,
    memory: Memory,
    procedures: BTreeMap<&'static str, Procedure>,
}

fn int_rows(table: TableId, memory: &Memory) -> Vec<Vec<i64>> {
    let ints = |row: &Vec<Value>| row.iter().filter_map(Value::as_int).collect();
    memory.rows(table).iter().map(ints).collect()
}

impl Bank {
    fn new() -> Self {
        let catalog = catalog();
        let schemas = catalog.tables().map(|table| table.schema.clone());
        let mut memory = Memory::new(schemas.collect::<Vec<_>>());
        let int = Value::Int;
        for id in 1..=3 {
            let name = Value::from(format!("customer{id}"));
            memory.put(ACCOUNTS, vec![name, int(id)]).unwrap();
            for table in [SAVINGS, CHECKING, TELLERS, BRANCHES] {
                memory.put(table, vec![int(id), int(100)]).unwrap();
            }
            memory.put(STOCK, vec![int(id), int(12)]).unwrap();
            memory.put(ITEM, vec![int(id), int(10 * id)]).unwrap();
        }
        memory.put(DISTRICT, vec![int(1), int(3001)]).unwrap();
        let mut bank = Bank { catalog, memory, procedures: BTreeMap::new() };
        bank.create_all();
        bank
    }

    fn create(
        &mut self,
        name: &'static str,
        parameters: &[(&str, ParameterMode, DataType)],
        body: &str,
    ) {
        let mut head = function(parameters, Returns::Void);
        head.name = name.to_string();
        match compile(&self.catalog, head, body) {
            Ok(procedure) => self.procedures.insert(name, procedure),
            Err(error) => panic!("{name}: {error:?}"),
        };
    }

    fn create_all(&mut self) {
        use ParameterMode::{In, Out};
        let (int, text) = (DataType::Int8, DataType::Text);
        let name = ("customer", In, text.clone());
        let amount = ("amount", In, int.clone());
        self.create("balance", &[name.clone(), ("total", Out, int.clone())], BALANCE);
        self.create("deposit_checking", &[name.clone(), amount.clone()], DEPOSIT_CHECKING);
        self.create("transact_savings", &[name.clone(), amount.clone()], TRANSACT_SAVINGS);
        let two = [("first", In, text.clone()), ("second", In, text.clone())];
        self.create("amalgamate", &two, AMALGAMATE);
        self.create("write_check", &[name, amount.clone()], WRITE_CHECK);
        let ids = [("source", In, int.clone()), ("target", In, int.clone()), amount];
        self.create("send_payment", &ids, SEND_PAYMENT);
        let tpc_b = [
            ("aid", In, int.clone()),
            ("tid", In, int.clone()),
            ("bid", In, int.clone()),
            ("delta", In, int.clone()),
            ("balance", Out, int.clone()),
        ];
        self.create("tpc_b", &tpc_b, TPC_B);
        let array = DataType::Array(Box::new(int.clone()));
        let new_order = [
            ("d", In, int.clone()),
            ("items", In, array.clone()),
            ("quantities", In, array),
            ("order_id", Out, int.clone()),
            ("total", Out, int),
        ];
        self.create("new_order", &new_order, NEW_ORDER);
    }

    fn call(&mut self, name: &str, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
        // As a transaction: nothing stays of one that fails.
        let mut copy = self.memory.clone();
        let result = call(&self.procedures[name], arguments, &mut copy)?;
        self.memory = copy;
        Ok(result.rows.iter().map(|row| row.to_vec()).collect())
    }

    fn fails(&mut self, name: &str, arguments: &[Value]) -> String {
        let before = format!("{:?}", self.memory);
        let error = self.call(name, arguments).unwrap_err();
        assert_eq!(format!("{:?}", self.memory), before);
        error.code().to_string()
    }

    fn balances(&self, table: TableId) -> Vec<i64> {
        int_rows(table, &self.memory).iter().map(|row| row[1]).collect()
    }
}

const BALANCE: &str = "
DECLARE
  cid bigint;
  s bigint;
  c bigint;
BEGIN
  SELECT id INTO STRICT cid FROM accounts WHERE name = customer;
  SELECT bal INTO s FROM savings WHERE id = cid;
  SELECT bal INTO c FROM checking WHERE id = cid;
  total := s + c;
END";

const DEPOSIT_CHECKING: &str = "
DECLARE
  cid accounts.id%TYPE;
BEGIN
  IF amount < 0 THEN
    RAISE EXCEPTION 'amount % is negative', amount USING ERRCODE = '22023';
  END IF;
  SELECT id INTO STRICT cid FROM accounts WHERE name = customer;
  UPDATE checking SET bal = bal + amount WHERE id = cid;
END";

const TRANSACT_SAVINGS: &str = "
DECLARE
  cid bigint;
  b bigint;
BEGIN
  SELECT id INTO cid FROM accounts WHERE name = customer;
  IF NOT FOUND THEN
    RAISE no_data_found USING MESSAGE = 'no customer ' || customer;
  END IF;
  SELECT bal INTO b FROM savings WHERE id = cid;
  IF b + amount < 0 THEN
    RAISE check_violation;
  END IF;
  UPDATE savings SET bal = b + amount WHERE id = cid;
END";

const AMALGAMATE: &str = "
DECLARE
  a bigint;
  b bigint;
  s bigint;
  c bigint;
BEGIN
  SELECT id INTO STRICT a FROM accounts WHERE name = first;
  SELECT id INTO STRICT b FROM accounts WHERE name = second;
  SELECT bal INTO s FROM savings WHERE id = a;
  SELECT bal INTO c FROM checking WHERE id = a;
  UPDATE savings SET bal = 0 WHERE id = a;
  UPDATE checking SET bal = 0 WHERE id = a;
  UPDATE checking SET bal = bal + s + c WHERE id = b;
END";

const WRITE_CHECK: &str = "
DECLARE
  cid bigint;
  s bigint;
  c bigint;
BEGIN
  SELECT id INTO STRICT cid FROM accounts WHERE name = customer;
  SELECT bal INTO s FROM savings WHERE id = cid;
  SELECT bal INTO c FROM checking WHERE id = cid;
  IF s + c < amount THEN
    amount := amount + 1;
  END IF;
  UPDATE checking SET bal = bal - amount WHERE id = cid;
END";

const SEND_PAYMENT: &str = "
DECLARE
  b bigint;
BEGIN
  SELECT bal INTO b FROM checking WHERE id = source;
  IF b < amount THEN
    RAISE EXCEPTION 'insufficient funds: %', b USING ERRCODE = 'check_violation';
  END IF;
  UPDATE checking SET bal = bal - amount WHERE id = source;
  UPDATE checking SET bal = bal + amount WHERE id = target;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'no account %', target;
  END IF;
END";

const TPC_B: &str = "
BEGIN
  UPDATE checking SET bal = bal + delta WHERE id = aid;
  SELECT bal INTO balance FROM checking WHERE id = aid;
  UPDATE tellers SET bal = bal + delta WHERE id = tid;
  UPDATE branches SET bal = bal + delta WHERE id = bid;
  INSERT INTO history (aid, tid, delta) VALUES (tpc_b.aid, tpc_b.tid, tpc_b.delta);
END";

const NEW_ORDER: &str = "
DECLARE
  i bigint;
  p bigint;
  n int := 0;
  q bigint;
BEGIN
  UPDATE district SET next_order = next_order + 1 WHERE id = d
    RETURNING next_order - 1 INTO STRICT order_id;
  total := 0;
  FOREACH i IN ARRAY items LOOP
    n := n + 1;
    SELECT price INTO p FROM item WHERE id = i;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'no item %', i;
    END IF;
    SELECT quantity INTO q FROM stock WHERE id = i;
    IF q - quantities[n] >= 10 THEN
      q := q - quantities[n];
    ELSE
      q := q - quantities[n] + 91;
    END IF;
    UPDATE stock SET quantity = q WHERE id = i;
    INSERT INTO order_line VALUES (d, new_order.order_id, n, i, p * quantities[n]);
    total := total + p * quantities[n];
  END LOOP;
END";

fn ints(values: &[i64]) -> Value {
    Value::array(values.iter().map(|v| Value::Int(*v)).collect::<Vec<_>>())
}

#[test]
fn small_bank() {
    let mut bank = Bank::new();
    let name = |id: i64| Value::from(format!("customer{id}"));
    let int = Value::Int;
    assert_eq!(bank.call("balance", &[name(1)]).unwrap(), [[int(200)]]);
    assert_eq!(bank.fails("balance", &[name(9)]), "P0002");
    bank.call("deposit_checking", &[name(1), int(5)]).unwrap();
    assert_eq!(bank.balances(CHECKING), [105, 100, 100]);
    assert_eq!(bank.fails("deposit_checking", &[name(1), int(-5)]), "22023");
    bank.call("transact_savings", &[name(2), int(-30)]).unwrap();
    assert_eq!(bank.balances(SAVINGS), [100, 70, 100]);
    assert_eq!(bank.fails("transact_savings", &[name(2), int(-71)]), "23514");
    assert_eq!(bank.fails("transact_savings", &[name(9), int(1)]), "P0002");
    bank.call("amalgamate", &[name(1), name(2)]).unwrap();
    assert_eq!(bank.balances(SAVINGS), [0, 70, 100]);
    assert_eq!(bank.balances(CHECKING), [0, 305, 100]);
    bank.call("write_check", &[name(3), int(200)]).unwrap();
    bank.call("write_check", &[name(3), int(200)]).unwrap();
    assert_eq!(bank.balances(CHECKING), [0, 305, -301]);
    bank.call("send_payment", &[int(2), int(1), int(300)]).unwrap();
    assert_eq!(bank.balances(CHECKING), [300, 5, -301]);
    assert_eq!(bank.fails("send_payment", &[int(2), int(1), int(6)]), "23514");
    assert_eq!(bank.fails("send_payment", &[int(1), int(7), int(6)]), "P0001");
}

#[test]
fn tpc_b() {
    let mut bank = Bank::new();
    let arguments = [1, 2, 3, 50].map(Value::Int);
    assert_eq!(bank.call("tpc_b", &arguments).unwrap(), [[Value::Int(150)]]);
    assert_eq!(bank.balances(CHECKING), [150, 100, 100]);
    assert_eq!(bank.balances(TELLERS), [100, 150, 100]);
    assert_eq!(bank.balances(BRANCHES), [100, 100, 150]);
    assert_eq!(int_rows(HISTORY, &bank.memory), [[1, 2, 50]]);
    let analysis = Analysis::of(&bank.procedures["tpc_b"]);
    assert!(analysis.is_straight_line && analysis.keys.is_complete());
    let commands = analysis.steps.iter().filter_map(|step| step.command.as_ref());
    let classes: Vec<CommandClass> = commands.map(|command| command.class).collect();
    assert_eq!(classes, [CommandClass::Add; 3]);
}

#[test]
fn new_order() {
    let mut bank = Bank::new();
    let arguments = [Value::Int(1), ints(&[3, 1]), ints(&[2, 5])];
    let row = bank.call("new_order", &arguments).unwrap();
    assert_eq!(row, [[Value::Int(3001), Value::Int(110)]]);
    assert_eq!(bank.balances(STOCK), [98, 12, 10]);
    assert_eq!(bank.balances(DISTRICT), [3002]);
    let lines = int_rows(ORDER_LINE, &bank.memory);
    assert_eq!(lines, [[1, 3001, 1, 3, 60], [1, 3001, 2, 1, 50]]);
    assert_eq!(bank.fails("new_order", &[Value::Int(1), ints(&[7]), ints(&[1])]), "P0001");
    assert_eq!(bank.fails("new_order", &[Value::Int(2), ints(&[1]), ints(&[1])]), "P0002");
}

/// Compares with a text in `tests/explain`; `BLESS=1` writes it.
#[test]
fn what_they_become() {
    let bank = Bank::new();
    for (name, procedure) in &bank.procedures {
        let text = explain(procedure, &bank.catalog);
        let path = format!("{}/tests/explain/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{path}");
    }
}
