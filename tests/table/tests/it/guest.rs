//! A client of the plainest kind: reqwest, a cookie, and a raw WebSocket.

use std::time::Duration;

use cozyvtt_table::{Table, TableBuilder, Version};
use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Longer than anything takes that is going to happen at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A table that lets everybody sign in as often as the tests need.
pub(crate) fn table(version: Version) -> TableBuilder {
    Table::builder().version(version).seed(11).login_limit(1000)
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

pub(crate) struct Guest {
    http: reqwest::Client,
    url: String,
    pub(crate) cookie: Option<String>,
}

/// An HTTP client. It wants to know its TLS library even where it needs none, once
/// another crate of the workspace has asked for TLS.
pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

impl Guest {
    /// Somebody without a session.
    pub(crate) fn stranger(table: &Table) -> Self {
        Self {
            http: client(),
            url: table.url().to_owned(),
            cookie: None,
        }
    }

    /// Signed in as the person of that key.
    pub(crate) async fn signed_in(table: &Table, key: &str) -> Self {
        let mut guest = Self::stranger(table);
        let answer = guest.login(table, key).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        guest
    }

    pub(crate) async fn login(&mut self, table: &Table, key: &str) -> Answer {
        let account = table.account(key);
        let body = json!({ "email": account.email, "password": account.password });
        self.login_with(&body).await
    }

    /// Keeps the cookie that comes back.
    pub(crate) async fn login_with(&mut self, body: &Value) -> Answer {
        let answer = self.post("/api/auth/login", body).await;
        if let Some(cookie) = answer.header("set-cookie") {
            self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        }
        answer
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .timeout(PATIENCE);
        if let Some(cookie) = &self.cookie {
            request = request.header("Cookie", cookie);
        }
        request
    }

    pub(crate) async fn send(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await?,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Self::send(self.request(Method::GET, path)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).json(body);
        Self::send(request).await.unwrap()
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        let request = self.request(Method::PUT, path).json(body);
        Self::send(request).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Self::send(self.request(Method::DELETE, path))
            .await
            .unwrap()
    }

    /// A socket that was opened and nothing more.
    pub(crate) async fn socket(&self) -> Peer {
        let mut peer = self.try_socket().await.expect("a handshake");
        let open = peer.frame().await.unwrap();
        assert!(open.starts_with("0{"), "{open}");
        peer
    }

    pub(crate) async fn try_socket(&self) -> Result<Peer, String> {
        self.try_socket_with("").await
    }

    /// The same with more in the query.
    pub(crate) async fn try_socket_with(&self, more: &str) -> Result<Peer, String> {
        let url = self.url.replacen("http", "ws", 1);
        let mut request = format!("{url}/socket.io/?EIO=4&transport=websocket{more}")
            .into_client_request()
            .unwrap();
        if let Some(cookie) = &self.cookie {
            let value = HeaderValue::from_str(cookie).unwrap();
            request.headers_mut().insert("Cookie", value);
        }
        match connect_async(request).await {
            Ok((stream, _)) => Ok(Peer { stream }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A socket that was told `connected`.
    pub(crate) async fn connected(&self) -> Peer {
        let mut peer = self.socket().await;
        peer.send("40").await;
        peer.event("connected").await;
        peer
    }

    /// A socket that sits at the first campaign.
    pub(crate) async fn seated(&self, table: &Table) -> Peer {
        let mut peer = self.connected().await;
        peer.emit(
            "authenticate",
            &json!({ "campaignId": table.campaign_id() }),
        )
        .await;
        peer.event("authenticated").await;
        peer
    }
}

/// Signs in and sits down.
pub(crate) async fn seat(table: &Table, key: &str) -> (Guest, Peer) {
    let guest = Guest::signed_in(table, key).await;
    let peer = guest.seated(table).await;
    (guest, peer)
}

pub(crate) struct Peer {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Peer {
    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn emit(&mut self, event: &str, payload: &Value) {
        self.send(&format!("42{}", json!([event, payload]))).await;
    }

    pub(crate) async fn emit_bare(&mut self, event: &str) {
        self.send(&format!("42{}", json!([event]))).await;
    }

    /// The next text frame; none when the connection ends. Pings are answered.
    pub(crate) async fn frame(&mut self) -> Option<String> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.stream.next());
            match next.await.expect("a frame in time") {
                Some(Ok(Message::Text(text))) if text.as_str() == "2" => self.send("3").await,
                Some(Ok(Message::Text(text))) => return Some(text.as_str().to_owned()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The code of the close frame; none when the line broke without one. What
    /// comes before is skipped.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.stream.next());
            match next.await.expect("an end in time") {
                Some(Ok(Message::Close(frame))) => {
                    return Some(frame.map_or(1005, |frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next event, whatever it is.
    pub(crate) async fn any_event(&mut self) -> (String, Value) {
        loop {
            let frame = self.frame().await.expect("an open connection");
            if let Some(list) = frame.strip_prefix("42") {
                let Ok(Value::Array(mut parts)) = serde_json::from_str(list) else {
                    panic!("no event: {frame}");
                };
                let payload = parts.get_mut(1).map(Value::take).unwrap_or_default();
                return (parts[0].as_str().unwrap().to_owned(), payload);
            }
        }
    }

    /// The next event of that name; others are skipped.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        loop {
            let (event, payload) = self.any_event().await;
            if event == name {
                return payload;
            }
        }
    }

    /// The sentence of the next `error`.
    pub(crate) async fn error(&mut self) -> String {
        self.event("error").await["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The names of all events up to now: those that come before the answer to
    /// a `ping`.
    pub(crate) async fn so_far(&mut self) -> Vec<(String, Value)> {
        self.emit_bare("ping").await;
        let mut events = Vec::new();
        loop {
            let (event, payload) = self.any_event().await;
            if event == "pong" {
                return events;
            }
            events.push((event, payload));
        }
    }

    pub(crate) async fn names_so_far(&mut self) -> Vec<String> {
        let events = self.so_far().await;
        events.into_iter().map(|(event, _)| event).collect()
    }
}
