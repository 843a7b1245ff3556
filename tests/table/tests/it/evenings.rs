//! Game sessions.

use cozyvtt_table::Version;
use serde_json::json;

use crate::guest::{seat, table};

#[tokio::test]
async fn a_session_is_paused_resumed_ended_and_followed_by_the_next() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (dm, mut peer) = seat(&table, "dm").await;
        peer.so_far().await;
        let campaign = format!("/api/campaigns/{}", table.campaign_id());
        let sessions = format!("{campaign}/sessions");
        let view = dm.get(&campaign).await.json();
        let id = view["campaign"]["activeSession"]["id"]
            .as_str()
            .unwrap()
            .to_owned();

        let twice = dm.post(&sessions, &json!({})).await;
        assert_eq!(twice.status, 400);
        assert_eq!(
            twice.message(),
            "A session is already active. Please end or pause the current session first."
        );
        let paused = dm.put(&format!("{sessions}/{id}/pause"), &json!({})).await;
        assert_eq!(paused.json()["stateSaved"], true);
        assert_eq!(
            peer.event("chat.system").await["content"],
            "Session 2 has been paused. See you next time!"
        );
        assert_eq!(peer.event("session.paused").await["sessionId"], id.as_str());

        // What happens meanwhile is undone by resuming, in 1.1.2.
        let (map, token) = table.token_named("Brannoc").unwrap();
        let moved = json!({ "position": { "x": 0, "y": 0 } });
        table
            .edit_token(&map, token["id"].as_str().unwrap(), moved)
            .unwrap();
        assert_eq!(
            dm.put(&format!("{campaign}/resume"), &json!({}))
                .await
                .status,
            200
        );
        assert_eq!(peer.event("session.resumed").await["sessionNumber"], 2);
        let x = table.token_named("Brannoc").unwrap().1["position"]["x"].clone();
        assert_eq!(x, if old { 5 } else { 0 });

        let body = json!({ "saveState": false, "notes": "The weir held." });
        let ended = dm.put(&format!("{sessions}/{id}/end"), &body).await;
        assert_eq!(ended.json()["stateSaved"], false);
        peer.event("session.ended").await;
        let again = dm.put(&format!("{sessions}/{id}/end"), &body).await;
        assert_eq!(again.message(), "Session has already ended");
        let resumed = dm.put(&format!("{campaign}/resume"), &json!({})).await;
        assert_eq!(resumed.status, if old { 400 } else { 200 });
        if !old {
            assert_eq!(
                dm.put(&format!("{sessions}/{id}/end"), &json!({}))
                    .await
                    .status,
                200
            );
        }
        let next = dm.post(&sessions, &json!({})).await;
        assert_eq!(next.status, 201);
        assert_eq!(next.json()["session"]["sessionNumber"], 3);

        let listed = dm.get(&sessions).await;
        if old {
            assert_eq!(listed.message(), "The requested resource does not exist");
        } else {
            let rows = &listed.json()["sessions"];
            assert_eq!(rows[0]["sessionNumber"], 3);
            assert_eq!(rows[1]["notes"], "The weir held.");
            let noted = dm
                .put(&format!("{sessions}/{id}/notes"), &json!({ "notes": " " }))
                .await;
            assert!(noted.json()["session"]["notes"].is_null());
        }
    }
}
