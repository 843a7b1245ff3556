//! What a test lets other people at the table do.

use anyhow::Context as _;
use serde_json::Value;

use super::Table;
use crate::socket::RollPlan;
use crate::world::{LineKind, Membership, Rights, Role, now};

/// What happens at the table without the client under test.
impl Table {
    /// The person of that key says something.
    #[track_caller]
    pub fn say(&self, key: &str, text: &str) {
        let user = &self.account(key).user_id;
        let role = self.hub.world().role(&self.campaign_id, user);
        let kind = match role {
            Some(Role::Dm) => LineKind::Dm,
            _ => LineKind::Player,
        };
        self.hub.say(&self.campaign_id, user, kind, text);
    }

    /// The system writes a line of its own.
    pub fn announce(&self, text: &str, metadata: &Value) {
        self.hub.system_line(&self.campaign_id, text, metadata);
    }

    /// The person of that key rolls. Answers the total.
    ///
    /// # Errors
    ///
    /// The text is no dice expression.
    pub fn roll(&self, key: &str, expression: &str, secret: bool) -> anyhow::Result<i64> {
        let plan = RollPlan {
            campaign: &self.campaign_id,
            user_id: &self.account(key).user_id,
            expression,
            character_name: Value::Null,
            purpose: Value::Null,
            secret,
            socket: None,
            kept: true,
        };
        self.hub
            .roll_at_table(&plan)
            .map_err(|error| anyhow::anyhow!("{}", error.sentence()))
    }

    /// The DM makes a map the current one and shows it to everybody.
    ///
    /// # Errors
    ///
    /// There is no such map.
    pub fn switch_map(&self, map_id: &str) -> anyhow::Result<()> {
        let map = {
            let mut world = self.hub.world();
            let map = world.map(map_id).cloned().context("no such map")?;
            if let Some(campaign) = world.campaign_mut(&map.campaign_id) {
                campaign.current_map_id = Some(map.id.clone());
            }
            map
        };
        self.hub.show_map(&map.campaign_id, &map);
        Ok(())
    }

    /// The DM deletes a map, in another window.
    pub fn delete_map(&self, map_id: &str) {
        self.hub.world().maps.retain(|map| map.id != map_id);
    }

    /// Somebody changes fields of a token behind the client's back.
    ///
    /// # Errors
    ///
    /// There is no such token.
    pub fn edit_token(&self, map_id: &str, token_id: &str, fields: Value) -> anyhow::Result<()> {
        let mut world = self.hub.world();
        let map = world.map_mut(map_id).context("no such map")?;
        let token = map
            .tokens
            .iter_mut()
            .find(|token| token["id"] == token_id)
            .and_then(Value::as_object_mut)
            .context("no such token")?;
        if let Value::Object(fields) = fields {
            token.extend(fields);
        }
        map.updated_at = now();
        Ok(())
    }

    /// Sets the campaign's status: `ACTIVE`, `PAUSED`, `INACTIVE`.
    pub fn set_status(&self, status: &str) {
        if let Some(campaign) = self.hub.world().campaign_mut(&self.campaign_id) {
            status.clone_into(&mut campaign.status);
        }
    }

    /// Changes the chat's cooldown; none switches it off.
    pub fn set_chat_cooldown(&self, seconds: Option<u32>) {
        if let Some(campaign) = self.hub.world().campaign_mut(&self.campaign_id) {
            campaign.chat_cooldown = seconds;
        }
    }

    /// All sessions are forgotten. In 1.5 their sockets end, in 1.1.2 they stay.
    pub fn forget_sessions(&self) {
        self.forget(|_| true);
    }

    /// The same for the sessions of one person.
    #[track_caller]
    pub fn forget_sessions_of(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        self.forget(|user_id| user_id == user);
    }

    fn forget(&self, whose: impl Fn(&str) -> bool) {
        let mut gone = Vec::new();
        self.hub.world().sign_ins.retain(|token, sign_in| {
            let forget = whose(&sign_in.user_id);
            if forget {
                gone.push(token.clone());
            }
            !forget
        });
        if !self.version().is_old() {
            for token in gone {
                self.hub.floor.end_session(&token, "You signed out.");
            }
        }
    }

    /// Every WebSocket gets a close frame.
    pub fn close_sockets(&self) {
        self.hub.lines.close_websockets(|_| true);
    }

    /// Every WebSocket of one person gets a close frame.
    #[track_caller]
    pub fn close_sockets_of(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        self.hub
            .lines
            .close_websockets(|line| line.user_id().as_ref() == Some(&user));
    }

    /// The DM takes a person out of the campaign.
    #[track_caller]
    pub fn remove_member(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        self.hub.remove_member(&self.campaign_id, &user);
    }

    /// A person joins the campaign, without a character.
    #[track_caller]
    pub fn add_member(&self, key: &str, role: Role) {
        let user = self.account(key).user_id.clone();
        let mut world = self.hub.world();
        let id = world.new_id();
        if let Some(campaign) = world.campaign_mut(&self.campaign_id) {
            campaign.memberships.push(Membership {
                id,
                user_id: user,
                role,
                character_ids: Vec::new(),
                joined_at: now(),
            });
        }
        drop(world);
        self.hub.log.touch();
    }

    /// A member gets another role. The one DM there has to be is not looked after.
    #[track_caller]
    pub fn set_role(&self, key: &str, role: Role) {
        let user = self.account(key).user_id.clone();
        self.hub.set_role(&self.campaign_id, &user, role);
    }

    /// The DM's seat goes to the person of that key, as `PUT .../dm` does it.
    #[track_caller]
    pub fn transfer_dm(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        self.hub.transfer_dm(&self.campaign_id, &user);
    }

    /// An administrator makes the person of that key set a new password before
    /// anything else.
    #[track_caller]
    pub fn demand_new_password(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        if let Some(user) = self.hub.world().user_mut(&user) {
            user.must_change_password = true;
        }
    }

    /// The person of that key administers the server from now on.
    #[track_caller]
    pub fn set_platform_admin(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        if let Some(user) = self.hub.world().user_mut(&user) {
            user.rights = Rights::Admin;
        }
    }

    /// An administrator approves the account of that key.
    #[track_caller]
    pub fn approve(&self, key: &str) {
        let user = self.account(key).user_id.clone();
        if let Some(user) = self.hub.world().user_mut(&user) {
            user.approved = true;
        }
    }

    /// The person of that key has another password from now on; sessions stay.
    #[track_caller]
    pub fn set_password(&self, key: &str, password: &str) {
        let user = self.account(key).user_id.clone();
        if let Some(user) = self.hub.world().user_mut(&user) {
            password.clone_into(&mut user.password);
            user.must_change_password = false;
        }
    }
}
