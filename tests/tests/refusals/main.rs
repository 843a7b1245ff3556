//! What the server refuses, tool by tool and release by release, in its own words:
//! who may not, what is not there, what the moment does not allow, what is too
//! long or too many. Each refusal is brought about at the practice table and met
//! by an agent, which gets the status, the sentence and the whole body; the table's
//! log shows that it was asked once.
//!
//! Left out is what a healthy server does not say: `Failed to …` and other words
//! of one that has lost its database. What is refused before anything is sent, and
//! the acceptance cases of the contract, stand in the suites of the tools.

mod asking;
mod campaign;
mod characters;
mod creatures;
mod documents;
mod evenings;
mod gates;
mod initiative;
mod maps;
mod narration;
mod saved_rolls;
mod tokens;

use anyhow::{Context as _, Result};
use cozyvtt_table::{
    CampaignPlan, CharacterPlan, CreaturePlan, DocumentPlan, GameSystem, MapPlan, Role, Scene,
    Table, TokenPlan, Version,
};
use cozyvtt_tests::asked::campaign_path;

/// The current map of the scene, and the other one.
const NEAR: &str = "Millrace Crossing";
const FAR: &str = "Sunken Belfry";
/// The character of `player1`.
const BRANNOC: &str = "Brannoc Thornfield";

/// The default scene with more in it: a campaign elsewhere, characters that fit
/// nowhere, and a picture that is not the DM's to show.
fn scene() -> Scene {
    let elsewhere = CampaignPlan::new("Elsewhere")
        .seats([("dm", Role::Dm), ("outsider", Role::Player)])
        .map(MapPlan::new("Far Shore", 10, 10).token(TokenPlan::new("Cairn", 1, 1)))
        .creature(CreaturePlan::new("Shore Wight", 12, 20).image("wight"));
    let own = |name: &str| CharacterPlan::new("player1", name);
    Scene::default().campaign(elsewhere).main(|campaign| {
        campaign
            .document(DocumentPlan::text("player1", "Diary", "Mine alone.").personal())
            .character(own("The Loner").unassigned())
            .character(own("The Runner").system(Some(GameSystem::Shadowrun6e)))
            .character(own("The Free").system(None))
            .character(own("The Blank").sheet(serde_json::json!({})))
    })
}

async fn table(version: Version) -> Result<Table> {
    Table::builder()
        .version(version)
        .scene(scene())
        .start()
        .await
}

/// A path below the campaign's.
fn under(table: &Table, rest: &str) -> String {
    format!("{}/{rest}", campaign_path(table))
}

fn map(table: &Table, name: &str) -> Result<String> {
    table
        .map_named(name)
        .with_context(|| format!("no map {name}"))
}

fn character(table: &Table, name: &str) -> Result<String> {
    table
        .character_named(name)
        .with_context(|| format!("no character {name}"))
}

fn document(table: &Table, name: &str) -> Result<String> {
    let found = table.document_named(name);
    Ok(found.with_context(|| format!("no document {name}"))?.id)
}

/// As many dice as make `units` and one more in the server's count, where a die is
/// two units, and only half of that in ours.
fn dice_over(units: usize) -> String {
    "🎲".repeat(units / 2 + 1)
}

/// A table of 1.5 at which every event with a ceiling is one too many.
async fn narrow() -> Result<Table> {
    Table::builder()
        .scene(scene())
        .socket_ceiling(0)
        .start()
        .await
}
