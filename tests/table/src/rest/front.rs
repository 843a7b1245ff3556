//! The front door: what happens to every request before and after its route.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::TOO_MANY_LOGINS;
use super::answer::{Answer, SessionChange};
use super::fields::{
    COOKIE, address, cookie, from_another_site, limited, read_body, with_standing,
};
use super::gate::{Request, password_gate};
use super::spoil::{instead, spoil};
use crate::faults::{Fault, Reply, SocketFault};
use crate::hub::Hub;
use crate::limits::{Counter, Standing};
use crate::log::Exchange;
use crate::relay::Line;
use crate::world::{SignIn, cookie_date};

/// More than any body the table is asked to take.
pub(super) const BODY_CAP: usize = 64 * 1024 * 1024;

/// A route that does not exist.
pub(crate) async fn unknown() -> Answer {
    Answer::no_route()
}

/// Everything around a route: log, faults, limiters, body, session, cookie. A
/// client that hangs up does not stop the server in the middle of its request.
pub(crate) async fn door(
    State(hub): State<Arc<Hub>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: HttpRequest,
    next: Next,
) -> Response {
    tokio::spawn(serve(hub, peer, request, next))
        .await
        .unwrap_or_else(|_| Answer::broken().into_response())
}

async fn serve(hub: Arc<Hub>, peer: SocketAddr, request: HttpRequest, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let line = hub.lines.of_peer(peer);
    let body = to_bytes(body, BODY_CAP).await.unwrap_or_default();
    let visit = Visit {
        hub: &hub,
        line: line.as_deref(),
        address: address(&parts.headers, peer),
        path: parts.uri.path().to_owned(),
        method: parts.method.clone(),
        session: cookie(&parts.headers),
        secure: hub.options.tls
            || parts
                .headers
                .get("x-forwarded-proto")
                .is_some_and(|proto| proto == "https"),
    };
    let mut record = visit.record(&parts, &body);
    let (mut response, faults) = visit.answer(parts, body, next).await;
    record.user_id = visit.known_session().map(|(_, sign_in)| sign_in.user_id);
    record.status = response.status().as_u16();
    for fault in faults {
        match fault {
            Fault::HangUpBefore | Fault::HangUpAfter => {
                if let Some(line) = &line {
                    line.cut();
                }
                record.status = 0;
            }
            Fault::CutMidAnswer => {
                if let Some(line) = &line {
                    line.cut_next_answer();
                }
            }
            other => response = spoil(other, response).await,
        }
    }
    let cut = record.status == 0;
    record.at = Instant::now();
    hub.log.exchange(record);
    if cut {
        // The line goes first; an answer must not slip through before it does.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    response
}

/// One request on its way.
struct Visit<'a> {
    hub: &'a Arc<Hub>,
    line: Option<&'a Line>,
    address: String,
    path: String,
    method: Method,
    session: Option<String>,
    /// Whether the request came by HTTPS, here or to a proxy.
    secure: bool,
}

impl Visit<'_> {
    fn record(&self, parts: &Parts, body: &Bytes) -> Exchange {
        Exchange {
            at: Instant::now(),
            method: parts.method.to_string(),
            path: self.path.clone(),
            query: parts.uri.query().map(str::to_owned),
            headers: parts
                .headers
                .iter()
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                    (name.as_str().to_owned(), value)
                })
                .collect(),
            has_cookie: self.session.is_some(),
            user_id: None,
            body: String::from_utf8_lossy(body).into_owned(),
            status: 0,
        }
    }

    fn known_session(&self) -> Option<(String, SignIn)> {
        live_session(self.hub, self.session.as_deref()?)
    }

    /// The answer, and the faults that are still to be played on it.
    async fn answer(&self, parts: Parts, body: Bytes, next: Next) -> (Response, Vec<Fault>) {
        let mut later = Vec::new();
        for fault in self
            .hub
            .faults
            .for_request(self.method.as_str(), &self.path)
        {
            match fault {
                Fault::Delay(delay) => tokio::time::sleep(delay).await,
                Fault::HangUpBefore => {
                    return (Answer::broken().into_response(), vec![fault]);
                }
                Fault::HangUpMeanwhile => {
                    if let Some(line) = self.line {
                        line.cut();
                    }
                }
                Fault::Answer(reply) => return (instead(&reply), later),
                Fault::ForgetSession => {
                    if let Some(session) = &self.session {
                        self.hub.world().sign_ins.remove(session);
                    }
                }
                Fault::CloseSockets => self.hub.lines.close_websockets(|_| true),
                other => later.push(other),
            }
        }
        let response = if self.path == "/socket.io/" || self.path == "/socket.io" {
            self.handshake(parts, body, next).await
        } else {
            self.rest(parts, body, next).await
        };
        (response, later)
    }

    /// A request to a route.
    async fn rest(&self, parts: Parts, body: Bytes, next: Next) -> Response {
        let hub = self.hub;
        let old = hub.version().is_old();
        let mut standing = None;
        if self.path.starts_with("/api/") {
            let general = hub.limits.count(Counter::Api, &self.address);
            standing = Some(general);
            if general.refused {
                return limited(Answer::too_many_requests().into_response(), general);
            }
        }
        let login = self.method == Method::POST && is_login_family(&self.path);
        if login {
            let counted = if old {
                hub.limits.count(Counter::Login, &self.address)
            } else {
                hub.limits.look(Counter::Login, &self.address)
            };
            standing = Some(counted);
            if counted.refused {
                let text = Reply::text(429, "text/html; charset=utf-8", TOO_MANY_LOGINS);
                return limited(instead(&text), counted);
            }
        }
        if !old && from_another_site(&parts) {
            let answer = Answer::forbidden("Requests from another site are not accepted");
            return answer.into_response();
        }
        let raw = body;
        let body = match read_body(&parts, &raw, old) {
            Ok(body) => body,
            Err(answer) => return with_standing(answer.into_response(), standing),
        };
        let session = self.known_session();
        let gate = session
            .as_ref()
            .and_then(|(_, sign_in)| password_gate(&hub.world(), sign_in, &self.path));
        let mut response = if let Some(answer) = gate {
            answer.into_response()
        } else {
            let mut request = HttpRequest::from_parts(parts, Body::empty());
            let (session, sign_in) = session.unzip();
            request.extensions_mut().insert(Request {
                session,
                sign_in,
                body,
                raw,
            });
            next.run(request).await
        };
        if login && !old && response.status() == StatusCode::UNAUTHORIZED {
            standing = Some(hub.limits.count(Counter::Login, &self.address));
        }
        self.set_cookie(&mut response);
        match response.extensions_mut().remove::<Standing>() {
            Some(own) if own.refused => limited(response, own),
            Some(own) => with_standing(response, Some(own)),
            None => with_standing(response, standing),
        }
    }

    /// A request of the Socket.IO transport.
    async fn handshake(&self, mut parts: Parts, body: Bytes, next: Next) -> Response {
        let hub = self.hub;
        if let Some(status) = hub.faults.for_socket(|fault| match fault {
            SocketFault::RefuseHandshake(status) => Some(*status),
            _ => None,
        }) {
            return instead(&Reply::text(
                status,
                "text/plain",
                "The handshake was refused",
            ));
        }
        if !hub.version().is_old() && from_another_site(&parts) {
            return instead(&Reply::text(403, "text/plain", "Forbidden"));
        }
        let session = self.known_session();
        let upgrade = parts
            .headers
            .get(header::UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        if let Some(line) = self.line.filter(|_| upgrade) {
            let user_id = session.as_ref().map(|(_, sign_in)| sign_in.user_id.clone());
            let query = parts.uri.query().unwrap_or_default();
            line.becomes_websocket(user_id, query.contains("sid="));
        }
        // The sockets read it back from the request their socket came with.
        parts.extensions.insert(Request {
            session: session.as_ref().map(|(token, _)| token.clone()),
            sign_in: session.map(|(_, sign_in)| sign_in),
            ..Request::default()
        });
        let mut response = next
            .run(HttpRequest::from_parts(parts, Body::from(body)))
            .await;
        self.set_cookie(&mut response);
        response
    }

    /// Every answer of a live session renews its cookie.
    fn set_cookie(&self, response: &mut Response) {
        let change = response.extensions_mut().remove::<SessionChange>();
        let text = match change {
            Some(SessionChange::Cleared) => Some(format!(
                "{COOKIE}=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
            )),
            Some(SessionChange::Set(token)) => self.renew(&token),
            None => self
                .known_session()
                .and_then(|(token, _)| self.renew(&token)),
        };
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }

    fn renew(&self, token: &str) -> Option<String> {
        let mut world = self.hub.world();
        let sign_in = world.sign_ins.get_mut(token)?;
        sign_in.expires = Instant::now() + sign_in.max_age;
        let expires = cookie_date(sign_in.max_age);
        let secure = if self.secure { "; Secure" } else { "" };
        Some(format!(
            "{COOKIE}={token}; Path=/; Expires={expires}; HttpOnly{secure}; SameSite=Lax"
        ))
    }
}

/// The session of a cookie, unless it has run out.
pub(crate) fn live_session(hub: &Hub, token: &str) -> Option<(String, SignIn)> {
    let mut world = hub.world();
    let sign_in = world.sign_ins.get(token)?.clone();
    if sign_in.expires <= Instant::now() || world.user(&sign_in.user_id).is_none() {
        world.sign_ins.remove(token);
        return None;
    }
    Some((token.to_owned(), sign_in))
}

fn is_login_family(path: &str) -> bool {
    matches!(
        path,
        "/api/auth/login"
            | "/api/auth/register"
            | "/api/auth/forgot-password"
            | "/api/auth/reset-password"
            | "/api/auth/mfa/verify-login"
    )
}
