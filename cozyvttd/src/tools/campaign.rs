//! The campaign: where an agent finds out where it is.

use serde_json::{Value, json};

use super::arguments::NoArguments;
use super::{Hints, Tool, ToolError};
use crate::session::Session;
use crate::session::facts;
use crate::session::rest::{Request, RestError};

/// The fields of a campaign that an agent is shown.
const SHOWN: [&str; 7] = [
    "id",
    "name",
    "status",
    "gameSystem",
    "currentMapId",
    "description",
    "ownerId",
];

/// `campaign_get`
pub(super) struct Get;

impl Tool for Get {
    const NAME: &'static str = "campaign_get";
    const TITLE: &'static str = "Look at the campaign";
    const DESCRIPTION: &'static str = "Orientation, and the call to begin with: whether the server \
        answers, which campaign and game system this is, your role (DM, PLAYER or SPECTATOR), who \
        owns it, the map the table is on, and which features the game system allows. For a combat \
        order or live events use the other tools. Changes nothing; any member may call it. Fails \
        when the account is no member of the campaign.";
    const HINTS: Hints = Hints::READS;
    type Arguments = NoArguments;

    async fn run(_: NoArguments, session: &Session) -> Result<Value, ToolError> {
        let health = health(session).await;
        let campaign = session.read_campaign().await?;
        let me = session.login().user().unwrap_or_default();
        let system = campaign["gameSystem"].as_str();
        let owner = campaign["ownerId"].as_str();
        let shown: serde_json::Map<String, Value> = SHOWN
            .iter()
            .map(|key| ((*key).to_owned(), campaign[*key].clone()))
            .collect();
        Ok(json!({
            "health": health,
            "campaign": shown,
            "features": features(system),
            "feature_evidence": {
                "new_api": "Nothing was probed: these depend on the server's version, and using the tool tells.",
                "hitdice_spend": "Only the game system is known; older servers ignore the event without an answer.",
            },
            "role": facts::role(&campaign, me["id"].as_str()),
            "owner": {
                "id": owner,
                "is_me": owner.map(|owner| me["id"].as_str() == Some(owner)),
            },
            "current_map": current_map(session, &campaign).await,
            "me": me,
        }))
    }
}

/// Whether the server answers. `/health` may be a web page behind CozyVTT's own
/// proxy up to 1.4, which still shows that something is there.
async fn health(session: &Session) -> Value {
    match session.rest().health().await {
        Ok(detail) => json!({"reachable": true, "detail": detail.unwrap_or_else(|| json!({}))}),
        Err(_) => match session.rest().ping(session.login()).await {
            Ok(()) => json!({"reachable": true, "detail": {"via": "/api/auth/ping"}}),
            Err(error) => json!({"reachable": false, "error": error.to_string()}),
        },
    }
}

fn features(system: Option<&str>) -> Value {
    let fifth_edition = system == Some("DND_5E");
    let rolled_initiative = matches!(system, Some("DND_5E" | "PATHFINDER_2E" | "SHADOWRUN_6E"));
    json!({
        "srd_creature_library": fifth_edition,
        "homebrew_creature_library": true,
        "initiative_roll": rolled_initiative,
        "documents": "unknown",
        "saved_rolls": "unknown",
        "dm_transfer": "unknown",
        "hitdice_spend": if fifth_edition { json!("unknown") } else { json!(false) },
    })
}

/// The map the table is on, when it can be told; a failing list is no failure.
async fn current_map(session: &Session, campaign: &Value) -> Value {
    let Some(current) = campaign["currentMapId"].as_str() else {
        return Value::Null;
    };
    let listed: Result<Value, RestError> = session
        .request(&Request::get(session.in_campaign(&["maps"])), "maps")
        .await;
    let maps = listed.unwrap_or_default();
    maps["maps"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|map| map["id"].as_str() == Some(current))
        .map_or(Value::Null, |map| {
            json!({
                "id": map["id"],
                "name": map["name"],
                "width": map["width"],
                "height": map["height"],
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_follow_the_game_system_and_nothing_else() {
        assert_eq!(features(Some("DND_5E"))["srd_creature_library"], true);
        assert_eq!(features(Some("DND_5E"))["hitdice_spend"], "unknown");
        let coc = features(Some("CALL_OF_CTHULHU_7E"));
        assert_eq!(coc["initiative_roll"], false);
        assert_eq!(coc["hitdice_spend"], false);
        assert_eq!(features(None)["initiative_roll"], false);
    }
}
