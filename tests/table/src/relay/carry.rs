//! Carries the bytes of one connection both ways, looking at the frames.

use std::time::Duration;

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::frame::{
    BINARY, CLOSE, CONTINUATION, RawFrame, Scan, TEXT, client_frame, server_frame, take,
};
use super::line::{Line, Order, Orders};
use super::manners::{Manners, Verdict};
use crate::log::{Direction, Log};

/// How long the client has to answer a close frame before the line is cut.
const FAREWELL: Duration = Duration::from_secs(2);
/// The close code for a message over the limit.
const TOO_BIG: u16 = 1009;
/// How much is read at once.
const CHUNK: usize = 8 * 1024;
/// The first bytes of the answer that makes a connection a WebSocket.
const SWITCHING: &[u8] = b"HTTP/1.1 101";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// Carries the bytes of one connection until either end closes it.
pub(super) async fn carry<S>(
    outside: S,
    inside: DuplexStream,
    line: &Line,
    mut orders: Orders,
    log: &Log,
    max_payload: u64,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (from_client, to_client) = tokio::io::split(outside);
    let (from_server, to_server) = tokio::io::split(inside);
    let (inject, injected) = unbounded_channel();
    let inward = carry_inward(line, log, from_client, to_server, injected, max_payload);
    let outward = Outward {
        line,
        log,
        to_client,
        inject,
        buffer: Vec::new(),
        framed: false,
        pings_seen: 0,
    };
    // Whichever side ends first, the other is of no more use: the client has
    // gone, or the server has said its last word.
    tokio::select! {
        () = inward => {}
        () = outward.run(from_server, &mut orders) => {}
    }
}

/// Carries what the client sends, noting its frames.
async fn carry_inward<S: AsyncRead>(
    line: &Line,
    log: &Log,
    mut from_client: ReadHalf<S>,
    mut to_server: WriteHalf<DuplexStream>,
    mut injected: UnboundedReceiver<Vec<u8>>,
    max_payload: u64,
) {
    let mut buffer = Vec::new();
    let mut message = Vec::new();
    let mut manners = None;
    let mut shown_out = false;
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            // Between two reads the server side is always at the border of a
            // frame, so a frame may be put in here.
            Some(bytes) = injected.recv() => {
                if to_server.write_all(&bytes).await.is_err() {
                    return;
                }
                continue;
            }
            read = from_client.read(&mut chunk) => read.unwrap_or(0),
        };
        if read == 0 {
            // Lets the server side see the end; it closes its half in turn.
            to_server.shutdown().await.ok();
            return;
        }
        if !line.is_websocket() {
            if to_server.write_all(&chunk[..read]).await.is_err() {
                return;
            }
            continue;
        }
        if shown_out {
            // Only the client's own close frame is still waited for.
            continue;
        }
        buffer.extend(&chunk[..read]);
        loop {
            let frame = match take(&mut buffer, max_payload) {
                Scan::Partial => break,
                Scan::Frame(frame) => frame,
                Scan::TooLong => {
                    line.note(log, Direction::In, "overlong message".to_owned());
                    line.order(Order::Close(Some(TOO_BIG)));
                    shown_out = true;
                    break;
                }
            };
            let text = text_of(&frame, &mut message);
            let verdict = match (&text, frame.opcode) {
                (Some(text), TEXT | CONTINUATION) => manners
                    .get_or_insert_with(|| Manners::new(line.is_upgrade()))
                    .judge(text),
                (_, BINARY) => Verdict::ShowOut,
                _ => Verdict::Pass,
            };
            if let Some(text) = text {
                line.note(log, Direction::In, text);
            }
            match verdict {
                Verdict::Ignore => {}
                Verdict::Pass => {
                    if to_server.write_all(&frame.bytes).await.is_err() {
                        return;
                    }
                }
                Verdict::ShowOut => {
                    line.order(Order::Close(None));
                    shown_out = true;
                    break;
                }
            }
        }
    }
}

/// The text of a frame, once its message is whole; control frames are described.
fn text_of(frame: &RawFrame, message: &mut Vec<u8>) -> Option<String> {
    match frame.opcode {
        TEXT | CONTINUATION => {
            message.extend(&frame.payload);
            frame
                .last
                .then(|| String::from_utf8_lossy(&std::mem::take(message)).into_owned())
        }
        CLOSE => {
            let code = frame.payload.first_chunk::<2>();
            let code = code.map_or(1005, |code| u16::from_be_bytes(*code));
            Some(format!("close {code}"))
        }
        other => Some(format!("opcode {other}")),
    }
}

/// The direction from the server to the client.
struct Outward<'a, S> {
    line: &'a Line,
    log: &'a Log,
    to_client: WriteHalf<S>,
    inject: UnboundedSender<Vec<u8>>,
    buffer: Vec<u8>,
    framed: bool,
    pings_seen: u32,
}

/// What to do after a piece was carried.
enum Next {
    Go,
    /// A close frame went out: wait for the client's.
    Farewell,
    End,
}

impl<S: AsyncWrite> Outward<'_, S> {
    async fn run(mut self, mut from_server: ReadHalf<DuplexStream>, orders: &mut Orders) {
        let mut chunk = vec![0; CHUNK];
        loop {
            let next = tokio::select! {
                biased;
                Some(order) = orders.recv() => self.obey(order).await,
                read = from_server.read(&mut chunk) => match read {
                    Ok(0) | Err(_) => Next::End,
                    Ok(read) => {
                        self.buffer.extend(&chunk[..read]);
                        self.carry().await
                    }
                },
            };
            match next {
                Next::Go => {}
                Next::End => {
                    self.to_client.shutdown().await.ok();
                    return;
                }
                Next::Farewell => {
                    // The other direction carries the client's close frame to the
                    // server and ends; this one only puts a limit to the wait.
                    tokio::time::sleep(FAREWELL).await;
                    return;
                }
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Next {
        match order {
            Order::Cut => Next::End,
            Order::Close(code) => self.close(code).await,
            Order::Text(text) => {
                self.line.note(self.log, Direction::Out, text.clone());
                self.write(&server_frame(TEXT, text.as_bytes())).await
            }
        }
    }

    async fn close(&mut self, code: Option<u16>) -> Next {
        let text = format!("close {}", code.unwrap_or(1005));
        self.line.note(self.log, Direction::Out, text);
        let payload = code.map(u16::to_be_bytes);
        let payload = payload.as_ref().map_or(&[][..], |code| &code[..]);
        match self.write(&server_frame(CLOSE, payload)).await {
            Next::Go => Next::Farewell,
            other => other,
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Next {
        let sent =
            self.to_client.write_all(bytes).await.is_ok() && self.to_client.flush().await.is_ok();
        if sent { Next::Go } else { Next::End }
    }

    /// Carries what is in the buffer.
    async fn carry(&mut self) -> Next {
        if self.line.is_websocket() && !self.framed {
            let Some(start) = find(&self.buffer, SWITCHING) else {
                // Still an answer from before; the 101 comes in one piece.
                return self.pass(self.buffer.len()).await;
            };
            let Some(length) = find(&self.buffer[start..], END_OF_HEAD) else {
                return Next::Go;
            };
            self.framed = true;
            if let Next::End = self.pass(start + length + END_OF_HEAD.len()).await {
                return Next::End;
            }
        }
        if self.framed {
            return self.carry_frames().await;
        }
        if self.line.cuts_next_answer() {
            let Some(head) = find(&self.buffer, END_OF_HEAD) else {
                return Next::Go;
            };
            let head = head + END_OF_HEAD.len();
            let half = head + (self.buffer.len() - head) / 2;
            self.pass(half).await;
            return Next::End;
        }
        self.pass(self.buffer.len()).await
    }

    /// Carries the first `length` bytes of the buffer as they are.
    async fn pass(&mut self, length: usize) -> Next {
        let bytes: Vec<u8> = self.buffer.drain(..length).collect();
        self.write(&bytes).await
    }

    async fn carry_frames(&mut self) -> Next {
        let mut message = Vec::new();
        while let Scan::Frame(frame) = take(&mut self.buffer, u64::MAX) {
            let Some(text) = text_of(&frame, &mut message) else {
                continue;
            };
            if text == "2" {
                self.pings_seen += 1;
                if self.pings_seen == 1 && !self.line.is_upgrade() {
                    // The real server first pings after one interval. The engine
                    // here did so at once: answer in the client's place.
                    self.inject.send(client_frame(TEXT, b"3")).ok();
                    continue;
                }
            }
            if let Some(open) = text.strip_prefix("40{\"sid\":\"") {
                let socket = open.split('"').next().map(str::to_owned);
                self.line.name_socket(socket);
            }
            let farewell = text == "41";
            self.line.note(self.log, Direction::Out, text);
            if let Next::End = self.write(&frame.bytes).await {
                return Next::End;
            }
            if farewell {
                return self.close(None).await;
            }
        }
        Next::Go
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
