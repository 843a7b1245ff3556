//! Chat lines and dice rolls, which a real server keeps in one list.

use serde_json::{Value, json};

use super::World;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Player,
    Dm,
    System,
    Dice,
}

impl LineKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Player => "PLAYER",
            Self::Dm => "DM",
            Self::System => "SYSTEM",
            Self::Dice => "DICE_ROLL",
        }
    }
}

/// One chat line or dice roll.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) campaign_id: String,
    /// The author; none for the system's own lines.
    pub(crate) user_id: Option<String>,
    pub(crate) kind: LineKind,
    pub(crate) content: String,
    /// The action of a system line; the whole roll of a dice line.
    pub(crate) metadata: Value,
    pub(crate) created_at: String,
}

impl World {
    /// Writes a line and answers a copy of it.
    pub(crate) fn write_line(
        &mut self,
        campaign: &str,
        user: Option<&str>,
        kind: LineKind,
        content: &str,
        metadata: Value,
    ) -> Line {
        let line = Line {
            id: self.new_id(),
            campaign_id: campaign.to_owned(),
            user_id: user.map(str::to_owned),
            kind,
            content: content.to_owned(),
            metadata,
            created_at: super::now(),
        };
        self.lines.push(line.clone());
        line
    }

    /// A line as the message list shows it.
    pub(crate) fn message(&self, line: &Line) -> Value {
        let author = line.user_id.as_deref().and_then(|id| self.user(id));
        json!({
            "id": line.id,
            "userId": line.user_id,
            "userName": author.map(|user| &user.display_name),
            "user": author.map(|user| json!({ "id": user.id, "displayName": user.display_name })),
            "content": line.content,
            "type": line.kind.as_str(),
            "metadata": line.metadata,
            "createdAt": line.created_at,
        })
    }
}
