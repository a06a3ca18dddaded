//! SCRAM as a client sees it, computed here a second time, right and wrong in every way.

use sha2::{Digest, Sha256};
use tokio::net::TcpStream;

use crate::TestServer;
use crate::client::{Client, Reply, message, startup};
use crate::fake::ALICE_PASSWORD;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            (0..3).fold(0u32, |bits, i| bits << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let sextet = (bits >> (18 - 6 * i)) as usize & 63;
            text.push(if i > chunk.len() { '=' } else { ALPHABET[sextet].into() });
        }
    }
    text
}

fn from_base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for character in text.bytes().take_while(|&b| b != b'=') {
        let sextet = ALPHABET.iter().position(|&a| a == character).expect("base64");
        (bits, count) = (bits << 6 | sextet as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|i| key.get(i).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    Sha256::digest([&pad(0x5c)[..], &inner].concat()).into()
}

fn xor(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// PBKDF2, one block.
fn salted_password(password: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    let mut step = hmac(password.as_bytes(), &[salt, &[0, 0, 0, 1]].concat());
    let mut sum = step;
    for _ in 1..iterations {
        step = hmac(password.as_bytes(), &step);
        sum = xor(sum, step);
    }
    sum
}

/// An exchange up to where the client has to send its proof.
struct Exchange {
    client: Client<TcpStream>,
    client_first: String,
    server_first: String,
}

pub fn initial_response(mechanism: &str, first: &str) -> Vec<u8> {
    let mut body = format!("{mechanism}\0").into_bytes();
    body.extend_from_slice(&(first.len() as i32).to_be_bytes());
    body.extend_from_slice(first.as_bytes());
    message(b'p', &body)
}

async fn begin(server: &TestServer, user: &str) -> Exchange {
    let mut client = Client::raw(server.address).await;
    client.send(startup(&[("user", user)])).await;
    let offer = client.next().await.expect("an offer");
    assert_eq!(offer.body, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let client_first = "n=,r=clientnonce".to_owned();
    let first = format!("n,,{client_first}");
    client.send(initial_response("SCRAM-SHA-256", &first)).await;
    let server_first = client.next().await.expect("a challenge");
    assert_eq!((server_first.kind, &server_first.body[..4]), ('R', &[0, 0, 0, 11][..]));
    let server_first = String::from_utf8(server_first.body[4..].to_vec()).expect("text");
    Exchange { client, client_first, server_first }
}

impl Exchange {
    fn part(&self, index: usize) -> &str {
        let part = self.server_first.split(',').nth(index).expect("a part");
        &part[2..]
    }

    /// The text that both sides sign, and the client's proof.
    fn proof(&self, password: &str, without_proof: &str) -> (String, [u8; 32]) {
        let iterations = self.part(2).parse().expect("a number");
        let salted = salted_password(password, &from_base64(self.part(1)), iterations);
        let client_key = hmac(&salted, b"Client Key");
        let signed = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let stored_key: [u8; 32] = Sha256::digest(client_key).into();
        let proof = xor(client_key, hmac(&stored_key, signed.as_bytes()));
        let server_key = hmac(&salted, b"Server Key");
        let signature = to_base64(&hmac(&server_key, signed.as_bytes()));
        (signature, proof)
    }

    fn without_proof(&self) -> String {
        format!("c=biws,r={}", self.part(0))
    }

    async fn finish(mut self, without_proof: &str, proof: &[u8]) -> Vec<Reply> {
        let last = format!("{without_proof},p={}", to_base64(proof));
        self.client.send(message(b'p', last.as_bytes())).await;
        match self.client.next().await {
            Some(reply) if reply.kind == 'R' => {
                let mut replies = vec![reply];
                replies.extend(self.client.until_ready().await);
                replies
            }
            reply => {
                assert!(self.client.next().await.is_none(), "the server must close");
                reply.into_iter().collect()
            }
        }
    }
}

/// The SQLSTATE that a wrong password is answered with.
pub async fn guess(server: &TestServer, user: &str, password: &str) -> String {
    finish_guess(begin(server, user).await, password).await
}

async fn finish_guess(exchange: Exchange, password: &str) -> String {
    let without_proof = exchange.without_proof();
    let (_, proof) = exchange.proof(password, &without_proof);
    exchange.finish(&without_proof, &proof).await[0].sqlstate()
}

pub async fn guesses_side_by_side(server: &TestServer, user: &str, count: usize) -> Vec<String> {
    let begun = futures::future::join_all((0..count).map(|_| begin(server, user))).await;
    let finished = begun.into_iter().map(|exchange| finish_guess(exchange, "wrong"));
    futures::future::join_all(finished).await
}

#[tokio::test]
async fn the_right_proof_opens_and_the_server_proves_itself() {
    let server = TestServer::start().await;
    let exchange = begin(&server, "alice").await;
    assert!(exchange.part(0).len() > "clientnonce".len() + 16, "a nonce of the server's own");
    let without_proof = exchange.without_proof();
    let (signature, proof) = exchange.proof(ALICE_PASSWORD, &without_proof);
    let replies = exchange.finish(&without_proof, &proof).await;
    assert_eq!(&replies[0].body[..4], [0, 0, 0, 12]);
    assert_eq!(&replies[0].body[4..], format!("v={signature}").as_bytes());
    assert_eq!(replies[1].body, [0, 0, 0, 0], "AuthenticationOk");
}

#[tokio::test]
async fn every_wrong_proof_is_refused() {
    let server = TestServer::start().await;
    let refusal = async |mangle: fn(Vec<u8>) -> Vec<u8>, password: &str| {
        let exchange = begin(&server, "alice").await;
        let without_proof = exchange.without_proof();
        let (_, proof) = exchange.proof(password, &without_proof);
        let replies = exchange.finish(&without_proof, &mangle(proof.to_vec())).await;
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].field('S').as_deref(), Some("FATAL"));
        replies[0].sqlstate()
    };
    assert_eq!(refusal(|p| p, "wrong").await, "28P01");
    assert_eq!(refusal(|p| p, "").await, "28P01");
    let flip = |mut p: Vec<u8>| {
        p[31] ^= 1;
        p
    };
    assert_eq!(refusal(flip, ALICE_PASSWORD).await, "28P01");
    assert_eq!(refusal(|p| p[..31].to_vec(), ALICE_PASSWORD).await, "08P01");
    assert_eq!(refusal(|p| p[..1].to_vec(), ALICE_PASSWORD).await, "08P01");
    assert_eq!(refusal(|_| Vec::new(), ALICE_PASSWORD).await, "08P01");
    assert_eq!(refusal(|p| [&p[..], &[0]].concat(), ALICE_PASSWORD).await, "08P01");
    assert_eq!(refusal(|p| [&p[..], &p[..]].concat(), ALICE_PASSWORD).await, "08P01");
}

#[tokio::test]
async fn nonce_and_binding_must_be_those_of_this_exchange() {
    let server = TestServer::start().await;
    let nonce = "c=biws,r=clientnonce".to_owned();
    // base64 of "y,,": a client that thinks the server cannot bind, after it said "n,,".
    for binding in [None, Some("eSws"), Some("")] {
        let exchange = begin(&server, "alice").await;
        let without_proof = match binding {
            None => nonce.clone(),
            Some(binding) => format!("c={binding},r={}", exchange.part(0)),
        };
        let (_, proof) = exchange.proof(ALICE_PASSWORD, &without_proof);
        let replies = exchange.finish(&without_proof, &proof).await;
        assert_eq!(replies[0].sqlstate(), "08P01");
    }
}

#[tokio::test]
async fn malformed_exchanges_end_the_connection() {
    let server = TestServer::start().await;
    let first = "n,,n=,r=abc";
    let openings = [
        initial_response("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc"),
        initial_response("SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=abc"),
        initial_response("SCRAM-SHA-1", first),
        initial_response("SCRAM-SHA-256", "n,,"),
        initial_response("SCRAM-SHA-256", ""),
        message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\x00abc"),
        message(b'p', b"SCRAM-SHA-256\0\x7f\xff\xff\xffabc"),
        message(b'p', b"wonderland"),
        message(b'p', b""),
        message(b'Q', b"rows 1\0"),
    ];
    for opening in openings {
        let mut client = Client::raw(server.address).await;
        client.send(startup(&[("user", "alice")])).await;
        client.next().await.expect("an offer");
        client.send(&opening).await;
        let replies = client.until_closed().await;
        assert_eq!(replies.len(), 1, "{opening:?}: {replies:?}");
        assert_eq!(replies[0].sqlstate(), "08P01");
    }
}

#[tokio::test]
async fn an_unknown_user_cannot_be_told_from_a_known_one() {
    let server = TestServer::start().await;
    let known = begin(&server, "alice").await;
    let unknown = begin(&server, "mallory").await;
    let again = begin(&server, "mallory").await;
    assert_eq!(known.part(2), unknown.part(2), "iterations");
    assert_eq!(known.part(1).len(), unknown.part(1).len(), "length of salt");
    assert_eq!(unknown.part(1), again.part(1), "a salt stays the same");
    let without_proof = unknown.without_proof();
    let replies = unknown.finish(&without_proof, &[7; 32]).await;
    assert_eq!(replies[0].sqlstate(), "28P01");
}
