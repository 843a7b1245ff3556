//! Serving: base path, TLS, restarts, stopping.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_table::{Table, Version};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::time::Instant;

use crate::guest::{Guest, client, seat, table};

#[tokio::test]
async fn everything_is_served_below_the_base_path() {
    let table = table(Version::V1_5)
        .base_path("/tavern/")
        .start()
        .await
        .unwrap();
    assert!(table.url().ends_with("/tavern"));
    let (guest, mut peer) = seat(&table, "dm").await;
    peer.so_far().await;
    assert_eq!(guest.get("/health").await.json()["status"], "healthy");
    assert_eq!(guest.get("/nope").await.status, 404);
    assert_eq!(table.log().count("GET", "/health"), 1);
    assert_eq!(table.log().count("GET", "/socket.io/"), 1);
    let root = table.url().replace("/tavern", "/health");
    let answer = client().get(root).send().await.unwrap();
    assert_eq!(answer.status(), 404);
}

#[tokio::test]
async fn old_proxies_answer_the_health_with_a_page() {
    let table = table(Version::V1_1_2)
        .health_page(true)
        .start()
        .await
        .unwrap();
    let answer = Guest::stranger(&table).get("/health").await;
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
}

#[tokio::test]
async fn sessions_and_state_outlive_a_restart_and_limits_do_not() {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await.unwrap();
        let (guest, mut peer) = seat(&table, "dm").await;
        for _ in 0..4 {
            let body = json!({ "email": "x", "password": "y" });
            Guest::stranger(&table).post("/api/auth/login", &body).await;
        }
        peer.emit(
            "chat.message",
            &json!({ "content": "before", "type": "DM" }),
        )
        .await;
        peer.event("chat.message").await;
        table.pause().await;
        assert_eq!(peer.close_code().await, None, "the line just ends");
        let down = Guest::send(guest.request(reqwest::Method::GET, "/health")).await;
        assert!(down.err().unwrap().is_connect());

        table.resume().await.unwrap();
        assert_eq!(guest.get("/api/auth/me").await.status, 200);
        assert_eq!(table.chat().last().unwrap().content, "before");
        let mut peer = guest.seated(&table).await;
        peer.so_far().await;
        let mut other = Guest::stranger(&table);
        assert_eq!(other.login(&table, "player1").await.status, 200);
        table.restart().await.unwrap();
        assert_eq!(other.get("/api/auth/me").await.status, 200);
    }
}

#[tokio::test]
async fn stopping_does_not_wait_for_open_sockets() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (guest, mut peer) = seat(&table, "dm").await;
    guest.get("/api/auth/me").await;
    let began = Instant::now();
    table.stop().await;
    assert!(
        began.elapsed() < Duration::from_millis(800),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(peer.close_code().await, None);
    table.stop().await;
}

#[tokio::test]
async fn dropping_the_table_frees_its_port() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "dm").await;
    let port = table.port();
    drop(table);
    assert_eq!(peer.close_code().await, None);
    let again = Table::builder().port(port).start().await.unwrap();
    assert_eq!(Guest::stranger(&again).get("/health").await.status, 200);
}

#[tokio::test]
async fn tls_is_served_with_a_certificate_of_its_own_authority() {
    let table = table(Version::V1_5).tls(true).start().await.unwrap();
    assert!(table.url().starts_with("https://127.0.0.1:"));
    let file = table.ca_file().unwrap().to_owned();
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        table.ca_pem().unwrap()
    );
    let pem = table.ca_pem().unwrap().to_owned();
    let port = table.port();
    let answer = tokio::task::spawn_blocking(move || health_by_tls(&pem, port))
        .await
        .unwrap();
    assert!(
        answer.contains("200 OK") && answer.contains("healthy"),
        "{answer}"
    );
    drop(table);
    assert!(!file.exists());
}

fn health_by_tls(pem: &str, port: u16) -> String {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream
        .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    // The server may end without a farewell; what came before counts.
    stream.read_to_end(&mut answer).ok();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn the_practice_table_is_ready_at_once() {
    let table = Table::practice().await.unwrap();
    for _ in 0..7 {
        Guest::signed_in(&table, "dm").await;
    }
    assert_eq!(table.version(), Version::V1_5);
}

#[tokio::test]
async fn polling_clients_are_served_too() {
    let table = table(Version::V1_5).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let open = guest.get("/socket.io/?EIO=4&transport=polling").await;
    assert_eq!(open.status, 200);
    let open: serde_json::Value =
        serde_json::from_str(open.text.strip_prefix('0').unwrap()).unwrap();
    let sid = open["sid"].as_str().unwrap();
    let path = format!("/socket.io/?EIO=4&transport=polling&sid={sid}");
    let sent = guest.request(reqwest::Method::POST, &path).body("40");
    assert_eq!(Guest::send(sent).await.unwrap().text, "ok");
    let mut polled = String::new();
    while !polled.contains("\"connected\"") {
        polled.push_str(&guest.get(&path).await.text);
    }
    assert!(polled.contains("40{\"sid\":"));

    let mut peer = guest.try_socket_with(&format!("&sid={sid}")).await.unwrap();
    peer.send("2probe").await;
    assert_eq!(peer.frame().await.as_deref(), Some("3probe"));
    peer.send("5").await;
    peer.so_far().await;
}
