//! Builds the world from a scene.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::plan::Rules;
use super::{CampaignPlan, CharacterPlan, CreaturePlan, MapPlan, Scene, TokenPlan, sheets};
use crate::builder::Options;
use crate::table::Account;
use crate::world::{
    Campaign, Character, Creature, GameSession, GameSystem, LineKind, Map, Membership, Role, User,
    World, default_token, now,
};

/// A scene that was set.
pub(crate) struct Set {
    pub(crate) world: World,
    pub(crate) accounts: BTreeMap<String, Account>,
    pub(crate) campaign_id: String,
}

/// Builds the world. Fails when a plan names somebody who is not there.
pub(crate) fn set(scene: &Scene, options: &Options) -> anyhow::Result<Set> {
    let mut world = World::new(options.seed);
    let mut accounts = BTreeMap::new();
    for person in &scene.people {
        let id = world.new_id();
        accounts.insert(
            person.key.clone(),
            Account {
                email: person.email.clone(),
                password: person.password.clone(),
                user_id: id.clone(),
                display_name: person.display_name.clone(),
            },
        );
        world.users.push(User {
            id,
            email: person.email.clone(),
            password: person.password.clone(),
            display_name: person.display_name.clone(),
            rights: person.rights,
            approved: person.approved,
            must_change_password: person.must_change_password,
            mfa_code: person.mfa_code.clone(),
            backup_codes: person.backup_codes.clone(),
            created_at: now(),
            updated_at: now(),
            last_login_at: None,
        });
    }
    for creature in &scene.library {
        set_creature(&mut world, None, creature);
    }
    for plan in &scene.campaigns {
        set_campaign(&mut world, &accounts, plan, options)
            .with_context(|| format!("campaign {:?} of the scene", plan.name))?;
    }
    let Some(first) = world.campaigns.first() else {
        bail!("the scene has no campaign");
    };
    let campaign_id = first.id.clone();
    Ok(Set {
        world,
        accounts,
        campaign_id,
    })
}

type Accounts = BTreeMap<String, Account>;

fn user_id(accounts: &Accounts, key: &str) -> anyhow::Result<String> {
    let account = accounts
        .get(key)
        .with_context(|| format!("nobody has the key {key:?}"))?;
    Ok(account.user_id.clone())
}

fn set_campaign(
    world: &mut World,
    accounts: &Accounts,
    plan: &CampaignPlan,
    options: &Options,
) -> anyhow::Result<()> {
    let id = world.new_id();
    let mut memberships = Vec::new();
    for (key, role) in &plan.seats {
        memberships.push(Membership {
            id: world.new_id(),
            user_id: user_id(accounts, key)?,
            role: *role,
            character_ids: Vec::new(),
            joined_at: now(),
        });
    }
    let owner = memberships.iter().find(|one| one.role == Role::Dm);
    let owner_id = owner.context("it has no DM")?.user_id.clone();
    let active = plan.status == "ACTIVE";
    if active {
        let session = GameSession {
            id: world.new_id(),
            campaign_id: id.clone(),
            number: 2,
            started_at: now(),
            ended_at: None,
            notes: None,
            saved: None,
        };
        world.game_sessions.push(session);
    }
    world.campaigns.push(Campaign {
        id: id.clone(),
        name: plan.name.clone(),
        description: plan.description.clone(),
        status: plan.status.clone(),
        game_system: plan.system,
        owner_id: owner_id.clone(),
        current_map_id: None,
        spirit_layer_enabled: false,
        chat_cooldown: plan.cooldown,
        roll_history_cleared_at: None,
        created_at: now(),
        updated_at: now(),
        last_played_at: active.then(now),
        memberships,
    });
    for character in &plan.characters {
        set_character(world, accounts, &id, plan.system, character)?;
    }
    for creature in &plan.creatures {
        set_creature(world, Some((&id, &owner_id)), creature);
    }
    for map in &plan.maps {
        set_map(world, accounts, &id, map, options)?;
    }
    for document in plan.documents.iter().filter(|_| !options.version.is_old()) {
        let author = user_id(accounts, &document.author)?;
        document.set(world, &id, &owner_id, &author);
    }
    for (key, text) in &plan.lines {
        let author = user_id(accounts, key)?;
        let kind = match world.role(&id, &author) {
            Some(Role::Dm) => LineKind::Dm,
            _ => LineKind::Player,
        };
        world.write_line(&id, Some(&author), kind, text, Value::Null);
    }
    Ok(())
}

fn set_character(
    world: &mut World,
    accounts: &Accounts,
    campaign: &str,
    system: Option<GameSystem>,
    plan: &CharacterPlan,
) -> anyhow::Result<()> {
    let owner = user_id(accounts, &plan.owner)?;
    let id = world.new_id();
    let sheet = plan.sheet.clone();
    let system = match plan.rules {
        Rules::Campaigns => system,
        Rules::Own(own) => own,
    };
    world.characters.push(Character {
        id: id.clone(),
        user_id: owner.clone(),
        campaign_id: plan.assigned.then(|| campaign.to_owned()),
        game_system: system,
        name: plan.name.clone(),
        token_image_url: None,
        data: sheet.unwrap_or_else(|| sheets::plain(system, &plan.name)),
        created_at: now(),
        updated_at: now(),
    });
    if plan.assigned {
        world
            .campaign_mut(campaign)
            .and_then(|campaign| campaign.membership_mut(&owner))
            .with_context(|| format!("{} is no member", plan.owner))?
            .character_ids
            .push(id);
    }
    Ok(())
}

/// `home` is the campaign that made it, and who did.
fn set_creature(world: &mut World, home: Option<(&String, &String)>, plan: &CreaturePlan) {
    let id = world.new_id();
    world.creatures.push(Creature {
        id,
        name: plan.name.clone(),
        game_system: plan.system,
        campaign_id: home.map(|(campaign, _)| campaign.clone()),
        created_by: home.map(|(_, owner)| owner.clone()),
        image_url: plan.image.clone(),
        stat_block: plan.stat_block.clone(),
        size: plan.size,
        disposition: plan.disposition.clone(),
        created_at: now(),
    });
}

fn set_map(
    world: &mut World,
    accounts: &Accounts,
    campaign: &str,
    plan: &MapPlan,
    options: &Options,
) -> anyhow::Result<()> {
    let id = world.new_id();
    let image = world.new_id();
    let mut tokens = Vec::new();
    for token in &plan.tokens {
        tokens.push(set_token(world, accounts, campaign, token, options)?);
    }
    world.maps.push(Map {
        id: id.clone(),
        campaign_id: campaign.to_owned(),
        name: plan.name.clone(),
        image_url: format!("/api/assets/maps/{image}"),
        spirit_layer_url: None,
        width: plan.width,
        height: plan.height,
        grid_size: 50.0,
        feet_per_square: 5,
        diagonal_rule: "flat".to_owned(),
        tokens,
        created_at: now(),
        updated_at: now(),
    });
    if let Some(campaign) = world.campaign_mut(campaign) {
        campaign.current_map_id.get_or_insert(id);
    }
    Ok(())
}

fn set_token(
    world: &mut World,
    accounts: &Accounts,
    campaign: &str,
    plan: &TokenPlan,
    options: &Options,
) -> anyhow::Result<Value> {
    let id = world.new_id();
    let mut token = default_token(&id, options.version);
    token.insert("name".to_owned(), json!(plan.name));
    if let Value::Object(fields) = &plan.fields {
        token.extend(fields.clone());
    }
    if let Some(key) = &plan.controlled_by {
        token.insert("controlledBy".to_owned(), json!(user_id(accounts, key)?));
    }
    if let Some(name) = &plan.character {
        let character = world
            .characters
            .iter()
            .find(|one| one.campaign_id.as_deref() == Some(campaign) && one.name == *name)
            .with_context(|| format!("no character is called {name:?}"))?;
        token.insert("characterId".to_owned(), json!(character.id));
    }
    Ok(Value::Object(token))
}
