//! Message sequences, byte for byte where it matters.

use crate::TestServer;
use crate::client::*;

#[tokio::test]
async fn simple_queries_answer_rows_tags_and_empty() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let replies = client.ask(query("rows 2; begin")).await;
    assert_eq!(kinds(&replies), "TDDCCZ");
    assert_eq!(tags(&replies), ["SELECT 2", "BEGIN"]);
    assert_eq!(replies[5].body, b"T");
    assert_eq!(kinds(&client.ask(query(" ; ")).await), "IZ");
    let replies = client.ask(query("nonsense")).await;
    assert_eq!(kinds(&replies), "EZ");
    assert_eq!(replies[0].sqlstate(), "42601");
    assert_eq!(replies[0].field('P').as_deref(), Some("1"));
    assert_eq!(replies[1].body, b"E", "the block has failed");
    assert_eq!(client.ask(query("rows 1")).await[0].sqlstate(), "25P02");
    assert_eq!(tags(&client.ask(query("rollback")).await), ["ROLLBACK"]);
}

#[tokio::test]
async fn a_script_is_one_transaction() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let replies = client.ask(query("add 1; add 2; fail; add 3")).await;
    assert_eq!(kinds(&replies), "CCEZ");
    assert_eq!(kinds(&client.ask(query("list")).await), "TCZ");
    assert_eq!(kinds(&client.ask(query("add 1; add 2")).await), "CCZ");
    assert_eq!(kinds(&client.ask(query("list")).await), "TDDCZ");
    // The commit fails: the last statement must not have claimed success.
    let replies = client.ask(query("add 3; add 13")).await;
    assert_eq!(kinds(&replies), "CEZ");
    assert_eq!(replies[1].sqlstate(), "40001");
    assert_eq!(kinds(&client.ask(query("list")).await), "TDDCZ");
}

#[tokio::test]
async fn a_script_may_open_and_close_blocks() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let replies = client.ask(query("add 1; begin; add 2; commit; add 3; fail")).await;
    assert_eq!(kinds(&replies), "CCCCCEZ");
    assert_eq!(replies[6].body, b"I");
    let replies = client.ask(query("list")).await;
    assert_eq!(kinds(&replies), "TDDCZ", "add 3 was rolled back");
}

#[tokio::test]
async fn a_pipeline_is_one_transaction_and_one_error_skips_to_sync() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let batch = [run("add 1"), run("fail"), run("add 2"), parse("s", "x"), sync()].concat();
    let replies = client.ask(batch).await;
    assert_eq!(kinds(&replies), "12C12EZ");
    assert_eq!(kinds(&client.ask(query("list")).await), "TCZ");

    let batch = [run("add 1"), run("add 2"), sync(), run("list"), sync()].concat();
    assert_eq!(kinds(&client.ask(batch).await), "12C12CZ");
    assert_eq!(kinds(&client.until_ready().await), "12DDCZ");

    let replies = client.ask([run("add 3"), run("add 13"), sync()].concat()).await;
    assert_eq!(kinds(&replies), "12C12CEZ", "the commit is at Sync");
    assert_eq!(kinds(&client.ask(query("list")).await), "TDDCZ");
    // Alone, a statement commits before it is complete.
    let replies = client.ask([run("add 13"), sync()].concat()).await;
    assert_eq!(kinds(&replies), "12EZ");
}

#[tokio::test]
async fn an_error_in_a_block_fails_the_block_wherever_it_is_found() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    client.ask(query("begin")).await;
    let replies = client.ask([bind("", "missing", &[], 0), sync()].concat()).await;
    assert_eq!(replies[0].sqlstate(), "26000");
    assert_eq!(replies[1].body, b"E");
}

#[tokio::test]
async fn describe_tells_parameters_and_columns() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let replies =
        client.ask([parse("s", "echo int8 text"), describe('S', "s"), sync()].concat()).await;
    assert_eq!(kinds(&replies), "1tTZ");
    assert_eq!(replies[1].body, [0, 2, 0, 0, 0, 20, 0, 0, 0, 25]);
    let column = |name: &[u8], oid: u8, length: i16, format: u8| {
        let mut bytes = name.to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, oid]);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&[255, 255, 255, 255, 0, format]);
        bytes
    };
    let expected = |format| {
        let columns = [column(b"c0", 20, 8, format), column(b"c1", 25, -1, format)];
        [&[0, 2][..], &columns.concat()].concat()
    };
    assert_eq!(replies[2].body, expected(0));
    let values = [Some("7"), None];
    let replies = client
        .ask([bind("p", "s", &values, 1), describe('P', "p"), execute("p", 0), sync()].concat())
        .await;
    assert_eq!(kinds(&replies), "2TDCZ");
    assert_eq!(replies[1].body, expected(1));
    assert_eq!(replies[2].values(), [Some(7i64.to_be_bytes().to_vec()), None]);
    let replies = client.ask([parse("", "add 1"), describe('S', ""), sync()].concat()).await;
    assert_eq!(kinds(&replies), "1tnZ");
}

#[tokio::test]
async fn portals_are_fetched_in_parts_and_end_with_their_transaction() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    client.ask(query("begin")).await;
    let fetch = |rows| [execute("p", rows), sync()].concat();
    let open = [parse("s", "rows 5"), bind("p", "s", &[], 0)].concat();
    assert_eq!(kinds(&client.ask([open.clone(), fetch(2)].concat()).await), "12DDsZ");
    assert_eq!(kinds(&client.ask(fetch(2)).await), "DDsZ");
    let replies = client.ask(fetch(2)).await;
    assert_eq!(kinds(&replies), "DCZ");
    assert_eq!(replies[0].values(), [Some(b"5".to_vec())]);
    assert_eq!(tags(&replies), ["SELECT 1"]);
    assert_eq!(tags(&client.ask(fetch(0)).await), ["SELECT 0"]);
    let replies = client.ask([bind("p", "s", &[], 0), sync()].concat()).await;
    assert_eq!(replies[0].sqlstate(), "42P03");
    client.ask(query("rollback")).await;
    assert_eq!(client.ask(fetch(1)).await[0].sqlstate(), "34000");
    let replies = client.ask([parse("s", "rows 1"), sync()].concat()).await;
    assert_eq!(replies[0].sqlstate(), "42P05", "statements outlive transactions");
    let replies = client.ask([close('S', "s"), close('S', "s"), open, fetch(0)].concat()).await;
    assert_eq!(kinds(&replies), "3312DDDDDCZ");
}

#[tokio::test]
async fn statements_that_return_no_rows_run_once() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let batch = [run("add 1"), execute("", 0), sync()].concat();
    let replies = client.ask(batch).await;
    assert_eq!(kinds(&replies), "12CEZ");
    assert_eq!(replies[3].sqlstate(), "55000");
}

#[tokio::test]
async fn bind_checks_counts_types_and_formats() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    client.ask([parse("s", "echo int4"), sync()].concat()).await;
    let mut refused = async |bind: Vec<u8>| client.ask([bind, sync()].concat()).await[0].sqlstate();
    assert_eq!(refused(bind("", "s", &[], 0)).await, "08P01");
    assert_eq!(refused(bind("", "s", &[Some("x")], 0)).await, "22P02");
    assert_eq!(refused(bind("", "s", &[Some("9999999999")], 0)).await, "22003");
    assert_eq!(refused(bind("", "s", &[Some("1")], 7)).await, "22023");
    assert_eq!(refused(message(b'B', b"\0s\0")).await, "08P01");
    assert_eq!(refused(parse("", "rows 1; rows 2")).await, "42601");
    assert_eq!(refused(message(b'P', b"\0echo x\0\0\x01\0\0\xff\xff")).await, "0A000");
    assert_eq!(refused(message(b'P', b"\0echo \xff\0\0\0")).await, "22021");
}

#[tokio::test]
async fn messages_may_arrive_byte_by_byte() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    for byte in [run("rows 2"), sync()].concat() {
        client.send([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(kinds(&client.until_ready().await), "12DDCZ");
}

#[tokio::test]
async fn flush_shows_replies_before_sync() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    client.send([run("rows 1"), message(b'H', &[])].concat()).await;
    for expected in "12DC".chars() {
        assert_eq!(client.next().await.expect("a reply").kind, expected);
    }
    assert_eq!(kinds(&client.ask(sync()).await), "Z");
}

#[tokio::test]
async fn an_error_is_shown_at_once_and_what_follows_is_skipped() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let flush = message(b'H', &[]);
    for (batch, shown) in [
        ([parse("s", "nonsense"), describe('S', "s"), flush.clone()].concat(), "E"),
        ([run("fail"), flush.clone(), run("add 1"), flush.clone()].concat(), "12E"),
        // It was not asked for, and still it is told.
        (run("fail"), "12E"),
        (bind("", "missing", &[], 0), "E"),
    ] {
        client.send(batch).await;
        for expected in shown.chars() {
            assert_eq!(client.next().await.expect("a reply").kind, expected);
        }
        client.send([run("add 2"), flush.clone()].concat()).await;
        assert_eq!(kinds(&client.ask(sync()).await), "Z", "nothing ran before Sync");
    }
    assert_eq!(kinds(&client.ask(query("list")).await), "TCZ");
}

#[tokio::test]
async fn a_slow_statement_does_not_hold_back_earlier_replies() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let asked = tokio::time::Instant::now();
    let replies = client.ask([query("rows 1"), query("nap")].concat()).await;
    assert_eq!(kinds(&replies), "TDCZ");
    assert!(asked.elapsed() < std::time::Duration::from_millis(200));
    assert_eq!(tags(&client.until_ready().await), ["NAP"]);
}

#[tokio::test]
async fn copy_in_both_protocols() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let data = |bytes: &[u8]| message(b'd', bytes);
    let done = message(b'c', &[]);
    client.send(query("add 1; copy in; add 2")).await;
    assert_eq!(client.next().await.expect("a tag").kind, 'C');
    let response = client.next().await.expect("a response");
    assert_eq!((response.kind, response.body), ('G', vec![0, 0, 2, 0, 0, 0, 0]));
    let replies = client.ask([data(b"1\ta\n2"), data(b"\tb\n"), done.clone()].concat()).await;
    assert_eq!(tags(&replies), ["COPY 2", "INSERT 0 1"]);

    // Clients send a Sync before they know that a copy has started.
    let start = [run("copy in"), sync()].concat();
    let replies = client.ask([start.clone(), data(b"1\n"), done.clone(), sync()].concat()).await;
    assert_eq!(kinds(&replies), "12GCZ");

    let failed = [data(b"1\n"), message(b'f', b"changed my mind\0"), sync()].concat();
    let replies = client.ask([start.clone(), failed].concat()).await;
    assert_eq!(kinds(&replies), "12GEZ");
    assert_eq!(replies[3].sqlstate(), "57014");
    assert!(replies[3].text().contains("changed my mind"));

    // After the server's error the rest of the data is ignored.
    let rest = [data(b"bad"), data(b"more"), done].concat();
    let replies = client.ask([query("copy in"), rest.clone()].concat()).await;
    assert_eq!(kinds(&replies), "GEZ");
    let replies = client.ask([start, rest, sync()].concat()).await;
    assert_eq!(kinds(&replies), "12GEZ");
    assert_eq!(kinds(&client.ask(query("rows 1")).await), "TDCZ");
}

#[tokio::test]
async fn copy_out_in_both_protocols() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let replies = client.ask(query("copy out 2; rows 1")).await;
    assert_eq!(kinds(&replies), "HddcCTDCZ");
    assert_eq!(replies[1].body, b"1\tline\n");
    assert_eq!(tags(&replies), ["COPY 2", "SELECT 1"]);
    let replies = client.ask([run("copy out 100000"), sync()].concat()).await;
    assert_eq!(replies.len(), 100_000 + 6);
    assert_eq!(tags(&replies), ["COPY 100000"]);
}

#[tokio::test]
async fn notices_and_settings_reach_the_client() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let replies = client.ask(query("notice; set timezone utc")).await;
    assert_eq!(kinds(&replies), "NCCSZ");
    assert_eq!(replies[0].field('S').as_deref(), Some("NOTICE"));
    assert_eq!(replies[3].body, b"timezone\0utc\0");
    let replies = client.ask(message(b'F', &[0; 8])).await;
    assert_eq!(kinds(&replies), "EZ", "no function calls");
}

#[tokio::test]
async fn deallocate_drops_what_the_protocol_prepared() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    let prepare = [parse("a", "rows 1"), parse("b", "rows 1"), sync()].concat();
    client.ask(&prepare).await;
    assert_eq!(tags(&client.ask(query("deallocate a")).await), ["DEALLOCATE"]);
    assert_eq!(client.ask(query("deallocate a")).await[0].sqlstate(), "26000");
    assert_eq!(kinds(&client.ask([describe('S', "b"), sync()].concat()).await), "tTZ");
    client.ask(query("deallocate")).await;
    assert_eq!(kinds(&client.ask(&prepare).await), "11Z");
}

#[tokio::test]
async fn a_long_pipeline_is_answered_before_its_sync() {
    let server = TestServer::start().await;
    let mut client = Client::connect(server.address).await;
    client.send(run("rows 1").repeat(5000)).await;
    assert_eq!(client.next().await.expect("a reply").kind, '1');
    let replies = client.ask(sync()).await;
    assert_eq!(replies.len(), 4 * 5000);
}
