//! The creature library and who may look into it.

use cozyvtt_table::{CampaignPlan, CreaturePlan, Role, Scene, Version};
use serde_json::Value;

use crate::guest::{Guest, table};

fn names(page: &Value) -> Vec<String> {
    let creatures = page["creatures"].as_array().unwrap();
    creatures
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_library_is_searched_page_by_page() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let path = format!("/api/campaigns/{}/creatures", table.campaign_id());
        let all = dm.get(&path).await.json();
        assert_eq!(
            (all["total"].as_u64(), all["limit"].as_u64()),
            (Some(14), Some(50))
        );
        let mut sorted = names(&all);
        sorted.sort();
        assert_eq!(names(&all), sorted);
        assert_eq!(all["creatures"], Value::from(table.creatures()));
        assert!(all.get("pagination").is_none());

        for (query, expected) in [
            ("search=WOLF", vec!["Moss Wolf"]),
            ("search=bell&source=srd", vec!["Drowned Bellringer"]),
            ("source=custom", vec!["Bell Warden", "Reed Stalker"]),
            ("cr=1/8", vec!["Bog Lantern", "Cellar Gnawer"]),
            ("limit=0&search=moss", vec!["Moss Wolf"]),
            ("limit=1&offset=1", vec!["Bell Warden"]),
            ("offset=99", vec![]),
            ("gameSystem=SHADOWRUN_6E", vec![]),
            ("limit=x&search=ink", vec!["Ink Serpent"]),
        ] {
            let page = dm.get(&format!("{path}?{query}")).await.json();
            assert_eq!(names(&page), expected, "{query}");
        }
        let page = dm.get(&format!("{path}?limit=900&offset=-4")).await.json();
        assert_eq!(
            (page["limit"].as_u64(), page["offset"].as_u64()),
            (Some(100), Some(0))
        );
        let odd = dm.get(&format!("{path}?gameSystem=BOGUS")).await;
        let old = version == Version::V1_1_2;
        assert_eq!(odd.status, if old { 500 } else { 400 });
        if old {
            assert_eq!(odd.message(), "Failed to list creature templates");
        }
    }
}

#[tokio::test]
async fn one_creature_comes_unwrapped_and_only_some_have_a_picture() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let path = format!("/api/campaigns/{}/creatures", table.campaign_id());
        let mut pictures = 0;
        for creature in table.creatures() {
            let id = creature["id"].as_str().unwrap();
            let one = dm.get(&format!("{path}/{id}")).await.json();
            assert_eq!(one, creature);
            assert_eq!(one["source"] == "srd", one["campaignId"].is_null());
            assert_eq!(one["source"] == "srd", one["createdById"].is_null());
            pictures += usize::from(one["imageUrl"].is_string());
        }
        assert_eq!(pictures, 5);
        let nothing = dm.get(&format!("{path}/nothing")).await;
        assert_eq!(nothing.status, 404);
        assert_eq!(nothing.message(), "Creature template not found");
        let status = dm.get(&format!("{path}/seed/status")).await.json();
        assert_eq!(
            (status["srdCount"].as_u64(), status["customCount"].as_u64()),
            (Some(12), Some(2))
        );
    }
}

#[tokio::test]
async fn players_read_the_library_only_before_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let path = format!("/api/campaigns/{}/creatures", table.campaign_id());
        let id = table.creatures()[0]["id"].as_str().unwrap().to_owned();
        for key in ["player1", "spectator"] {
            let guest = Guest::signed_in(&table, key).await;
            for path in [path.clone(), format!("{path}/{id}")] {
                let answer = guest.get(&path).await;
                if version == Version::V1_1_2 {
                    assert_eq!(answer.status, 200);
                } else {
                    assert_eq!(
                        answer.message(),
                        "This action requires Dungeon Master (DM) role"
                    );
                }
            }
        }
        let outsider = Guest::signed_in(&table, "outsider").await;
        assert_eq!(outsider.get(&path).await.status, 403);
    }
}

#[tokio::test]
async fn what_another_campaign_made_is_shown_by_1_1_2_alone() {
    for version in Version::ALL {
        let scene = Scene::default().campaign(
            CampaignPlan::new("Elsewhere")
                .seat("dm", Role::Dm)
                .creature(CreaturePlan::new("Far Thing", 10, 5).system(None)),
        );
        let table = table(version).scene(scene).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let elsewhere = table.campaign_named("Elsewhere").unwrap();
        let there = format!("/api/campaigns/{elsewhere}/creatures");
        let here = format!("/api/campaigns/{}/creatures", table.campaign_id());
        let query = "search=far&gameSystem=DND_5E";
        let found = dm.get(&format!("{there}?{query}")).await.json();
        let old = version == Version::V1_1_2;
        assert_eq!(
            found["total"],
            i32::from(!old),
            "1.5 adds those of no system"
        );
        let far = dm.get(&format!("{there}?search=far")).await.json();
        let id = far["creatures"][0]["id"].as_str().unwrap();
        let answer = dm.get(&format!("{here}/{id}")).await;
        assert_eq!(answer.status, if old { 200 } else { 404 });
        assert_eq!(
            dm.get(&format!("{here}?search=far")).await.json()["total"],
            0
        );
    }
}
