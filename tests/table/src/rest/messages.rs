//! The chat and the history of rolls, both ways of paging.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use crate::hub::Hub;
use crate::world::{Line, LineKind, Role};

type Params = Query<HashMap<String, String>>;

/// The number of rows a page may hold.
fn limit(query: &HashMap<String, String>) -> Result<usize, Answer> {
    let Some(text) = query.get("limit") else {
        return Ok(50);
    };
    text.parse()
        .ok()
        .filter(|limit| (1..=100).contains(limit))
        .ok_or_else(|| Answer::invalid("Limit must be between 1 and 100"))
}

fn offset(query: &HashMap<String, String>) -> Result<usize, Answer> {
    let Some(text) = query.get("offset") else {
        return Ok(0);
    };
    text.parse()
        .map_err(|_| Answer::invalid("Offset must be a non-negative number"))
}

/// `GET /api/campaigns/:campaignId/messages`
pub(crate) async fn list(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
    Path(id): Path<String>,
    Query(query): Params,
) -> Outcome {
    request.member(&hub, &id)?;
    let limit = limit(&query)?;
    let world = hub.world();
    let newest_first = || {
        world
            .lines
            .iter()
            .rev()
            .filter(|line| line.campaign_id == id)
    };
    let is_chat = |line: &&Line| line.kind != LineKind::Dice;
    if hub.version().is_old() {
        let offset = offset(&query)?;
        let total = newest_first().count();
        // Rolls are taken out only after the page was cut, as 1.1.2 does: a
        // page can be short, even empty, with more behind it.
        let messages: Vec<Value> = newest_first()
            .skip(offset)
            .take(limit)
            .filter(is_chat)
            .map(|line| world.message(line))
            .collect();
        return Ok(Answer::ok(json!({
            "messages": messages,
            "pagination": {
                "total": total,
                "limit": limit,
                "offset": offset,
                "hasMore": offset + limit < total,
            },
        })));
    }
    let mut rest = newest_first().filter(is_chat).peekable();
    if let Some(cursor) = query.get("cursor").filter(|cursor| !cursor.is_empty()) {
        let last = unveil(cursor).ok_or_else(|| Answer::invalid("Invalid cursor"))?;
        if !rest.any(|line| line.id == last) {
            return Err(Answer::invalid("Invalid cursor"));
        }
    }
    let page: Vec<&Line> = rest.by_ref().take(limit).collect();
    let has_more = rest.peek().is_some();
    let next = page.last().filter(|_| has_more).map(|line| veil(&line.id));
    let messages: Vec<Value> = page.into_iter().map(|line| world.message(line)).collect();
    Ok(Answer::ok(json!({
        "messages": messages,
        "pagination": { "limit": limit, "hasMore": has_more, "nextCursor": next },
    })))
}

/// A cursor is opaque: nothing in it may tempt a client to read it.
fn veil(id: &str) -> String {
    let digits = id.bytes().rev().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn unveil(cursor: &str) -> Option<String> {
    let mut bytes = Vec::new();
    for pair in cursor.as_bytes().chunks(2) {
        let pair = std::str::from_utf8(pair).ok()?;
        bytes.push(u8::from_str_radix(pair, 16).ok()?);
    }
    bytes.reverse();
    String::from_utf8(bytes).ok()
}

/// `GET /api/campaigns/:campaignId/dice-rolls`
pub(crate) async fn dice_rolls(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
    Path(id): Path<String>,
    Query(query): Params,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let limit = limit(&query)?;
    let offset = offset(&query)?;
    let world = hub.world();
    let cleared = world
        .campaign(&id)
        .and_then(|campaign| campaign.roll_history_cleared_at.clone());
    let rolls: Vec<&Line> = world
        .lines
        .iter()
        .rev()
        .filter(|line| line.campaign_id == id && line.kind == LineKind::Dice)
        .filter(|line| {
            cleared
                .as_ref()
                .is_none_or(|cleared| line.created_at > *cleared)
        })
        .filter(|line| {
            seated.role == Role::Dm
                || line.metadata["secret"] != true
                || line.user_id.as_ref() == Some(&seated.user_id)
        })
        .collect();
    let total = rolls.len();
    let page: Vec<Value> = rolls
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(|line| {
            let roll = &line.metadata;
            json!({
                "id": line.id,
                "userId": line.user_id,
                "userName": roll["userName"],
                "characterName": roll["characterName"],
                "expression": roll["expression"],
                "result": roll["result"],
                "breakdown": roll["breakdown"],
                "purpose": roll["purpose"],
                "secret": roll["secret"],
                "timestamp": line.created_at,
            })
        })
        .collect();
    Ok(Answer::ok(json!({
        "rolls": page,
        "pagination": {
            "total": total,
            "limit": limit,
            "offset": offset,
            "hasMore": offset + limit < total,
        },
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_line() {
        let id = "3f6dff5b-e736-45c7-9ce1-e31146ae55dd";
        assert_eq!(unveil(&veil(id)).as_deref(), Some(id));
        assert_eq!(unveil("b3BhcXVl"), None);
    }
}
