//! Statement by statement.

use super::*;

#[test]
fn expressions_and_assignments() {
    assert_eq!(int("BEGIN RETURN a + b; END", 2, 3), 5);
    assert_eq!(int("DECLARE x int := a; BEGIN x := x * 2; RETURN x; END;", 4, 0), 8);
    assert_eq!(int("DECLARE x bigint = 1; y x%TYPE DEFAULT x + 1; BEGIN RETURN y; END", 0, 0), 2);
    assert_eq!(int("BEGIN a := a + 1; RETURN a; END", 1, 0), 2);
    assert_eq!(int("BEGIN RETURN $1 - $2; END", 5, 3), 2);
    assert_eq!(int("BEGIN RETURN f.a; END", 5, 3), 5);
    assert_eq!(int("DECLARE x int; BEGIN RETURN coalesce(x, 7); END", 5, 3), 7);
}

#[test]
fn branches_merge() {
    let body = "DECLARE x bigint := 0; BEGIN \
                IF a > 10 THEN x := 1; ELSIF a > 5 THEN x := 2; b := 0; ELSE NULL; END IF; \
                RETURN x * 100 + b; END";
    assert_eq!(int(body, 11, 7), 107);
    assert_eq!(int(body, 6, 7), 200);
    assert_eq!(int(body, 1, 7), 7);
}

#[test]
fn case_statement_takes_the_first_match() {
    let body = "BEGIN CASE a WHEN 1, 2 THEN RETURN 10; WHEN 3 THEN b := 30; ELSE b := 40; END CASE; \
                RETURN b; END";
    assert_eq!(int(body, 2, 0), 10);
    assert_eq!(int(body, 3, 0), 30);
    assert_eq!(int(body, 4, 0), 40);
    assert_eq!(code("BEGIN CASE WHEN a > 5 THEN RETURN 1; END CASE; RETURN 0; END"), "20000");
    let searched = "BEGIN CASE WHEN a > b THEN RETURN 1; WHEN a < b THEN RETURN 2; \
                    ELSE RETURN CASE WHEN a = 0 THEN 3 ELSE 4 END; END CASE; END";
    assert_eq!(int(searched, 1, 0), 1);
    assert_eq!(int(searched, 0, 1), 2);
    assert_eq!(int(searched, 0, 0), 3);
}

#[test]
fn loops_carry_their_variables() {
    let sum = "DECLARE s bigint := 0; BEGIN FOR i IN 1..a LOOP s := s + i; END LOOP; RETURN s; END";
    assert_eq!(int(sum, 100, 0), 5050);
    assert_eq!(int(sum, 0, 0), 0);
    let down = "DECLARE s bigint := 0; BEGIN FOR i IN REVERSE a..1 BY 3 LOOP s := s * 100 + i; END LOOP; \
                RETURN s; END";
    assert_eq!(int(down, 10, 0), 10070401);
    let fib = "DECLARE x bigint := 0; y bigint := 1; t bigint; BEGIN \
               WHILE a > 0 LOOP t := x + y; x := y; y := t; a := a - 1; END LOOP; RETURN x; END";
    assert_eq!(int(fib, 50, 0), 12_586_269_025);
    let swap = "DECLARE t bigint; BEGIN FOR i IN 1..3 LOOP t := a; a := b; b := t; END LOOP; \
                RETURN a * 10 + b; END";
    assert_eq!(int(swap, 1, 2), 21);
    let each = "DECLARE x int; s int := 0; BEGIN FOREACH x IN ARRAY array[3, 4, 5] LOOP s := s * 10 + x; \
                END LOOP; RETURN s * 10 + x; END";
    assert_eq!(int(each, 0, 0), 3455);
}

#[test]
fn exits_and_continues_bring_their_values() {
    let body = "DECLARE s bigint := 0; n bigint := 0; BEGIN \
                <<outer>> FOR i IN 1..10 LOOP \
                  FOR j IN 1..10 LOOP \
                    n := n + 1; \
                    CONTINUE outer WHEN j > i; \
                    CONTINUE WHEN (i + j) % 2 = 0; \
                    s := s + i * j; \
                    EXIT outer WHEN s > a; \
                  END LOOP; \
                END LOOP outer; \
                RETURN s * 1000 + n; END";
    let mut expected = (0, 0);
    'outer: for i in 1..=10 {
        for j in 1..=10 {
            expected.1 += 1;
            if j > i {
                continue 'outer;
            }
            if (i + j) % 2 == 0 {
                continue;
            }
            expected.0 += i * j;
            if expected.0 > 300 {
                break 'outer;
            }
        }
    }
    assert_eq!(int(body, 300, 0), expected.0 * 1000 + expected.1);
    let forever =
        "DECLARE n bigint := 0; BEGIN LOOP n := n + 1; EXIT WHEN n >= a; END LOOP; RETURN n; END";
    assert_eq!(int(forever, 12, 0), 12);
    let returns = "BEGIN LOOP b := b + 1; IF b > a THEN RETURN b; END IF; END LOOP; END";
    assert_eq!(int(returns, 12, 0), 13);
}

#[test]
fn what_only_an_exit_brings_is_not_pruned() {
    let body = "DECLARE x bigint := 0; BEGIN \
                LOOP \
                  IF a > 1 THEN x := 1; ELSE x := 2; END IF; \
                  EXIT WHEN b = 0; \
                  x := 3; b := b - 1; \
                END LOOP; \
                RETURN x; END";
    assert_eq!(int(body, 5, 2), 1);
    assert_eq!(int(body, 0, 0), 2);
    let either = "BEGIN IF a > 1 THEN b := 7; ELSE RETURN 1; END IF; RETURN b; END";
    assert_eq!(int(either, 5, 2), 7);
    assert_eq!(int(either, 0, 2), 1);
}

#[test]
fn inner_blocks_shadow() {
    let body = "<<outer>> DECLARE x bigint := 1; BEGIN \
                DECLARE x bigint := 10; BEGIN x := x + 1; outer.x := outer.x + x; END; \
                RETURN x; END";
    assert_eq!(int(body, 0, 0), 12);
}

#[test]
fn queries_go_into_variables() {
    let body =
        "DECLARE x bigint; y bigint; BEGIN SELECT a + 1, b + 2 INTO x, y; RETURN x * 10 + y; END";
    assert_eq!(int(body, 1, 2), 24);
    let record =
        "DECLARE r record; BEGIN SELECT a AS p, b AS q INTO STRICT r; RETURN r.p - r.q; END";
    assert_eq!(int(record, 9, 2), 7);
    let rows = "DECLARE r record; s bigint := 0; BEGIN \
                FOR r IN SELECT * FROM generate_series(1, a) AS g(n) LOOP s := s * 10 + r.n; END LOOP; \
                IF FOUND THEN s := -s; END IF; RETURN s; END";
    assert_eq!(int(rows, 4, 0), -1234);
    assert_eq!(int(rows, 0, 0), 0);
    let missing = "DECLARE x bigint := 5; BEGIN SELECT a INTO x WHERE false; \
                   IF NOT FOUND THEN RETURN 1; END IF; RETURN x; END";
    assert_eq!(int(missing, 4, 0), 1);
    assert_eq!(
        code("DECLARE x int; BEGIN SELECT 1 INTO STRICT x WHERE false; RETURN x; END"),
        "P0002"
    );
    assert_eq!(
        code(
            "DECLARE x int; BEGIN SELECT n INTO STRICT x FROM generate_series(1, 2) AS g(n); RETURN x; END"
        ),
        "P0003"
    );
    assert_eq!(code("BEGIN SELECT 1; RETURN 1; END"), "42601");
    let while_query = "BEGIN WHILE (SELECT count(*) FROM generate_series(1, a) AS g(n)) < 5 LOOP \
                       a := a + 1; END LOOP; RETURN a; END";
    assert_eq!(int(while_query, 1, 0), 5);
    let counted = "DECLARE n bigint; BEGIN PERFORM n FROM generate_series(1, a) AS g(n); \
                   GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END";
    assert_eq!(int(&counted.replace("PERFORM n", "PERFORM g.n"), 6, 0), 6);
}

#[test]
fn raise_tells_code_message_detail_and_hint() {
    let error = failure(
        "BEGIN RAISE EXCEPTION 'no % for %, 100%%', a, 'x' USING ERRCODE = 'check_violation', \
         DETAIL = 'd' || a::text, HINT = 'h'; END",
    );
    assert_eq!(error.code().as_str(), "23514");
    assert_eq!(error.message(), "no 1 for x, 100%");
    assert_eq!(error.fields().detail.as_deref(), Some("d1"));
    assert_eq!(error.fields().hint.as_deref(), Some("h"));
    assert_eq!(code("BEGIN RAISE 'plain'; END"), "P0001");
    assert_eq!(code("BEGIN RAISE division_by_zero; END"), "22012");
    assert_eq!(code("BEGIN RAISE SQLSTATE '22012' USING MESSAGE = 'm' || b::text; END"), "22012");
    assert_eq!(code("BEGIN RAISE EXCEPTION USING ERRCODE = '2' || '3514'; END"), "23514");
    assert_eq!(failure("BEGIN RAISE division_by_zero; END").message(), "division_by_zero");
    assert_eq!(failure("DECLARE x int; BEGIN RAISE 'x is %', x; END").message(), "x is <NULL>");
    assert_eq!(int("BEGIN RAISE NOTICE 'a is %', a; RETURN a; END", 3, 0), 3);
    assert_eq!(code("BEGIN RAISE '% %', a; END"), "42601");
    assert_eq!(code("BEGIN RAISE no_such_condition; END"), "42704");
    assert_eq!(code("BEGIN ASSERT a > b; RETURN 1; END"), "P0004");
    assert_eq!(
        failure("BEGIN ASSERT a > b, 'a was ' || a::text; RETURN 1; END").message(),
        "a was 1"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_code() {
    for (body, expected) in [
        ("BEGIN RETURN a / 0; END", "22012"),
        ("BEGIN RETURN x; END", "42703"),
        ("BEGIN x := 1; RETURN 1; END", "42601"),
        ("DECLARE x CONSTANT int := 1; BEGIN x := 2; RETURN x; END", "22005"),
        ("DECLARE x int NOT NULL := 1; BEGIN x := NULL; RETURN x; END", "22004"),
        ("DECLARE x int NOT NULL; BEGIN RETURN x; END", "22004"),
        ("DECLARE x int; x int; BEGIN RETURN x; END", "42601"),
        ("BEGIN EXIT; RETURN 1; END", "42601"),
        ("BEGIN LOOP EXIT nowhere; END LOOP; RETURN 1; END", "42601"),
        ("BEGIN RETURN; END", "42601"),
        ("BEGIN a := 1; END", "2F005"),
        ("BEGIN IF a THEN RETURN 1; END IF; RETURN 2; END", "42804"),
        ("BEGIN RETURN 1 END", "42601"),
        ("BEGIN RETURN 1;", "42601"),
        ("BEGIN RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 2; END", "0A000"),
        ("BEGIN COMMIT; RETURN 1; END", "0A000"),
        ("BEGIN EXECUTE 'SELECT 1'; RETURN 1; END", "0A000"),
        ("BEGIN RETURN timeofday(); END", "0A000"),
        ("BEGIN FOR i IN 1..3 BY 0 LOOP NULL; END LOOP; RETURN 1; END", "22023"),
        ("BEGIN FOR i IN NULL..3 LOOP NULL; END LOOP; RETURN 1; END", "22004"),
        ("BEGIN LOOP NULL; END LOOP; RETURN 1; END", "54001"),
        (
            "DECLARE x int; BEGIN FOREACH x IN ARRAY NULL::int[] LOOP NULL; END LOOP; RETURN 1; END",
            "22004",
        ),
    ] {
        assert_eq!(code(body), expected, "{body}");
    }
    let error = failure("BEGIN\n  a := 1;\n  nonsense;\nEND");
    assert_eq!(error.message(), "syntax error at or near \"nonsense\"");
    assert_eq!(error.fields().detail.as_deref(), Some("In line 3 of the body."));
}

#[test]
fn output_parameters_make_the_row() {
    let head = function(
        &[
            ("a", ParameterMode::In, DataType::Int8),
            ("b", ParameterMode::InOut, DataType::Int8),
            ("c", ParameterMode::Out, DataType::Text),
        ],
        Returns::Void,
    );
    let body = "BEGIN IF a = 0 THEN RETURN; END IF; b := a + b; c := 'done'; END";
    let procedure = compile(&Catalog::genesis(), head, body).unwrap();
    let run = |a| {
        let arguments = [Value::Int(a), Value::Int(2)];
        call(&procedure, &arguments, &mut Memory::default()).unwrap().rows
    };
    assert_eq!(run(1), [vec![Value::Int(3), Value::from("done")].into_boxed_slice()]);
    assert_eq!(run(0), [vec![Value::Int(2), Value::Null].into_boxed_slice()]);
}

#[test]
fn set_returning_functions_emit_rows() {
    let columns = vec![bigint_column("x"), bigint_column("y")];
    let head = || {
        let parameters = [("n", ParameterMode::In, DataType::Int8)];
        function(&parameters, Returns::Table(columns.clone()))
    };
    let body = "BEGIN FOR i IN 1..n LOOP x := i; y := i * i; RETURN NEXT; END LOOP; \
                RETURN QUERY SELECT g.v, g.v FROM generate_series(8, 9) AS g(v); RETURN; END";
    let procedure = compile(&Catalog::genesis(), head(), body).unwrap();
    let result = call(&procedure, &[Value::Int(2)], &mut Memory::default()).unwrap();
    let rows: Vec<Vec<Value>> = result.rows.iter().map(|row| row.to_vec()).collect();
    let expected = [(1, 1), (2, 4), (8, 8), (9, 9)];
    assert_eq!(rows, expected.map(|(x, y)| vec![Value::Int(x), Value::Int(y)]));
    let wrong = compile(&Catalog::genesis(), head(), "BEGIN RETURN QUERY SELECT 1; END");
    assert_eq!(wrong.unwrap_err().code().as_str(), "42804");
}

const T: TableId = TableId(1);

/// Calls `f(a bigint) RETURNS bigint` over `t(id, v)` with the rows (1, 10), (2, 20), (3, 30);
/// gives the result and the table afterwards.
fn with_table(body: &str, a: i64) -> Result<(Value, Vec<(i64, i64)>)> {
    let columns = [("id", DataType::Int8), ("v", DataType::Int8)];
    let catalog = catalog_of([table(T, "t", &columns, &[0])]);
    let mut memory = Memory::new(catalog.tables().map(|table| table.schema.clone()));
    for id in 1..=3 {
        memory.put(T, vec![Value::Int(id), Value::Int(10 * id)]).unwrap();
    }
    let parameters = [("a", ParameterMode::In, DataType::Int8)];
    let head = function(&parameters, Returns::Scalar(DataType::Int8));
    let procedure = compile(&catalog, head, body)?;
    let result = call(&procedure, &[Value::Int(a)], &mut memory)?;
    let rows = memory.rows(T);
    let rows = rows.iter().map(|row| (row[0].as_int().unwrap(), row[1].as_int().unwrap()));
    Ok((result.rows[0][0].clone(), rows.collect()))
}

fn table_code(body: &str) -> String {
    with_table(body, 1).unwrap_err().code().to_string()
}

#[test]
fn rows_are_changed_and_counted() {
    let counted = "DECLARE n bigint; BEGIN UPDATE t SET v = v + a WHERE v >= 20; \
                   GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END";
    let (count, rows) = with_table(counted, 5).unwrap();
    assert_eq!((count, rows), (Value::Int(2), vec![(1, 10), (2, 25), (3, 35)]));
    let returning = "DECLARE x bigint; BEGIN UPDATE t SET v = v + 1 WHERE id = a RETURNING v INTO x; \
                     IF NOT FOUND THEN RETURN -1; END IF; RETURN x; END";
    assert_eq!(with_table(returning, 2).unwrap().0, Value::Int(21));
    assert_eq!(with_table(returning, 9).unwrap().0, Value::Int(-1));
    let inserted = "DECLARE x bigint; BEGIN INSERT INTO t VALUES (a, a * 2) RETURNING v + 1 INTO x; \
                    DELETE FROM t WHERE id < 3; RETURN x; END";
    let (x, rows) = with_table(inserted, 7).unwrap();
    assert_eq!((x, rows), (Value::Int(15), vec![(3, 30), (7, 14)]));
    let behind_with = "DECLARE x bigint; BEGIN WITH z AS (SELECT a AS id) INSERT INTO t \
                       SELECT id, id * 2 FROM z RETURNING v INTO x; RETURN x; END";
    let (x, rows) = with_table(behind_with, 7).unwrap();
    assert_eq!((x, rows.last()), (Value::Int(14), Some(&(7, 14))));
    assert_eq!(
        table_code("DECLARE x bigint; BEGIN UPDATE t SET v = 0 RETURNING id INTO x; RETURN x; END"),
        "P0003"
    );
    assert_eq!(
        table_code(
            "DECLARE x bigint; BEGIN DELETE FROM t WHERE id > 9 RETURNING id INTO STRICT x; RETURN x; END"
        ),
        "P0002"
    );
    assert_eq!(table_code("BEGIN INSERT INTO t VALUES (1, 1); RETURN 1; END"), "23505");
    assert_eq!(table_code("BEGIN DELETE FROM t RETURNING v; RETURN 1; END"), "42601");
}

#[test]
fn records_have_the_fields_of_their_query() {
    let each = "DECLARE r record; s bigint := 0; BEGIN \
                FOR r IN SELECT id, v * 2 AS w FROM t WHERE t.id >= a ORDER BY id DESC LOOP \
                  s := s * 1000 + r.w; UPDATE t SET v = r.id WHERE id = r.id; \
                END LOOP; RETURN s; END";
    let (s, rows) = with_table(each, 2).unwrap();
    assert_eq!((s, rows), (Value::Int(60_040), vec![(1, 10), (2, 2), (3, 3)]));
    let row_type = "DECLARE r t%ROWTYPE; BEGIN SELECT * INTO r FROM t WHERE id = a; \
                    r.v := r.v + 1; INSERT INTO t VALUES (r.id + 10, r.v); RETURN r.v; END";
    let (v, rows) = with_table(row_type, 3).unwrap();
    assert_eq!((v, rows[3]), (Value::Int(31), (13, 31)));
    let pairs = "DECLARE x bigint; y bigint; s bigint := 0; BEGIN \
                 FOR x, y IN SELECT t.id, t.v FROM t LOOP s := s + x * y; END LOOP; \
                 RETURN s * 10 + x; END";
    assert_eq!(with_table(pairs, 0).unwrap().0, Value::Int(1403));
}

#[test]
fn a_name_with_two_meanings_is_ambiguous() {
    let body = "DECLARE v bigint; BEGIN SELECT v INTO v FROM t WHERE t.id = a; RETURN v; END";
    let error = with_table(body, 1).unwrap_err();
    assert_eq!(error.code().as_str(), "42702");
    assert!(error.fields().hint.is_some());
    let qualified = "<<b>> DECLARE v bigint; BEGIN SELECT t.v INTO v FROM t WHERE t.id = f.a; \
                     RETURN b.v; END";
    assert_eq!(with_table(qualified, 1).unwrap().0, Value::Int(10));
}

#[test]
fn a_nullable_condition_guards_as_it_branches() {
    let body = "DECLARE c boolean; BEGIN IF NOT c THEN RAISE 'false'; END IF; RETURN a; END";
    assert_eq!(int(body, 1, 0), 1);
    assert_eq!(code(&body.replace("c boolean", "c boolean := false")), "P0001");
    assert_eq!(int(&body.replace("c boolean", "c boolean := true"), 1, 0), 1);
}
