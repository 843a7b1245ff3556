//! The campaign: where an agent finds out where it is.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::NoArguments;
use super::gate::{HIT_DICE, ROLLED_INITIATIVE, SRD_CREATURES};
use super::{Context, Hints, Tool, ToolError};
use crate::session::Session;
use crate::session::facts;
use crate::session::features::Feature;
use crate::session::rest::{Expect, Request, RestError};

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

    async fn run(_: NoArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
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
            "features": features(system, |feature| session.feature(feature)),
            "feature_evidence": {
                "new_api": "Nothing was probed. true: a call has worked; false: the server answered that it has no such route; unknown: not tried yet.",
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
            // A session that has ended is an answer as well.
            Ok(()) | Err(RestError::Http { status: 401, .. }) => {
                json!({"reachable": true, "detail": {"via": "/api/auth/ping"}})
            }
            Err(error) => json!({"reachable": false, "error": error.to_string()}),
        },
    }
}

fn features(system: Option<&str>, shown: impl Fn(Feature) -> Option<bool>) -> Value {
    let proven = |feature| shown(feature).map_or_else(|| json!("unknown"), Value::from);
    let mut features = json!({
        "srd_creature_library": SRD_CREATURES.allows(system),
        "homebrew_creature_library": true,
        "initiative_roll": ROLLED_INITIATIVE.allows(system),
        "documents": proven(Feature::Documents),
        "saved_rolls": proven(Feature::SavedRolls),
        "dm_transfer": proven(Feature::DmTransfer),
        "hitdice_spend": if HIT_DICE.allows(system) { json!("unknown") } else { json!(false) },
    });
    // The contract's own list ends above; this joins it once it is proven.
    if let Some(has) = shown(Feature::Sessions) {
        features["session_list"] = has.into();
    }
    features
}

/// The map the table is on, when it can be told; a failing list is no failure.
async fn current_map(session: &Session, campaign: &Value) -> Value {
    let Some(current) = campaign["currentMapId"].as_str() else {
        return Value::Null;
    };
    let listed: Result<Value, RestError> = session
        .request(
            &Request::get(session.in_campaign(&["maps"])),
            Expect::Has("maps"),
        )
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

/// `campaign_transfer_dm`
pub(super) struct TransferDm;

/// To whom.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TransferDmArguments {
    /// The member's user id, from campaign members or character_list; your own takes the seat back, when you own the campaign.
    user_id: String,
}

impl Tool for TransferDm {
    const NAME: &'static str = "campaign_transfer_dm";
    const TITLE: &'static str = "Hand the DM's seat on";
    const DESCRIPTION: &'static str = "Makes another member the DM; whoever was DM becomes a player, and the \
        campaign keeps its owner. From then on this account may no longer do what only the DM may. The DM, \
        the campaign's owner and admins may. Ask the people at the table first. Fails for somebody who is \
        no member or is DM already; servers before 1.4 cannot do it.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = TransferDmArguments;

    fn check(arguments: &TransferDmArguments) -> Result<(), String> {
        if arguments.user_id.is_empty() {
            return Err("user_id must not be empty".to_owned());
        }
        Ok(())
    }

    async fn run(arguments: TransferDmArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let request = Request::put(
            session.in_campaign(&["dm"]),
            json!({"userId": arguments.user_id}),
        )
        .proves(Feature::DmTransfer);
        let answer = session.request(&request, Expect::Object).await;
        // Who may do what has changed, or may have: the answer can get lost, and the
        // table need not be told.
        session.facts().clear();
        Ok(answer?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_cmp_02_features_follow_the_game_system_and_what_answers_have_shown() {
        let fresh = |system| features(system, |_| None);
        assert_eq!(fresh(Some("DND_5E"))["srd_creature_library"], true);
        assert_eq!(fresh(Some("DND_5E"))["hitdice_spend"], "unknown");
        assert_eq!(fresh(Some("DND_5E"))["documents"], "unknown");
        let coc = fresh(Some("CALL_OF_CTHULHU_7E"));
        assert_eq!(coc["initiative_roll"], false);
        assert_eq!(coc["hitdice_spend"], false);
        assert_eq!(fresh(None)["initiative_roll"], false);
        let known = features(None, |feature| Some(feature == Feature::Documents));
        assert_eq!(
            (&known["documents"], &known["saved_rolls"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(known["session_list"], false);
        assert_eq!(fresh(None).get("session_list"), None);
    }
}
