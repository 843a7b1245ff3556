//! The plan of a document.

use crate::world::{Asset, AssetKind, Scope, Share, World, now};

/// A document to be.
#[derive(Debug, Clone)]
pub struct DocumentPlan {
    pub(crate) author: String,
    name: String,
    description: Option<String>,
    mime: &'static str,
    bytes: Vec<u8>,
    scope: Scope,
    shared: bool,
}

impl DocumentPlan {
    fn new(author: &str, name: &str, mime: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            author: author.to_owned(),
            name: name.to_owned(),
            description: None,
            mime,
            bytes,
            scope: Scope::Campaign,
            shared: false,
        }
    }

    /// Plain text of the campaign's own, by the person of that key.
    pub fn text(author: &str, name: &str, content: &str) -> Self {
        Self::new(author, name, "text/plain", content.into())
    }

    /// The same as Markdown.
    pub fn markdown(author: &str, name: &str, content: &str) -> Self {
        Self::new(author, name, "text/markdown", content.into())
    }

    /// The same as PDF; the bytes are taken as they are.
    pub fn pdf(author: &str, name: &str, bytes: &[u8]) -> Self {
        Self::new(author, name, "application/pdf", bytes.into())
    }

    /// What it is about.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        self.description = Some(text.to_owned());
        self
    }

    /// Is the author's own (scope `USER`).
    #[must_use]
    pub fn personal(mut self) -> Self {
        self.scope = Scope::User;
        self
    }

    /// Is everybody's (scope `GLOBAL`).
    #[must_use]
    pub fn global(mut self) -> Self {
        self.scope = Scope::Global;
        self
    }

    /// Was shared with the campaign by its DM.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Lays it on the table.
    pub(super) fn set(&self, world: &mut World, campaign: &str, dm: &str, author: &str) {
        let ending = match self.mime {
            "text/markdown" => "md",
            "text/plain" => "txt",
            _ => "pdf",
        };
        let id = world.new_id();
        let file = world.new_id();
        world.assets.push(Asset {
            id: id.clone(),
            kind: AssetKind::Document,
            scope: self.scope,
            uploaded_by: author.to_owned(),
            campaign_id: (self.scope == Scope::Campaign).then(|| campaign.to_owned()),
            filename: format!("{file}.{ending}"),
            original_name: format!("{}.{ending}", self.name),
            mime: self.mime.to_owned(),
            bytes: self.bytes.clone(),
            name: self.name.clone(),
            description: self.description.clone(),
            tags: Vec::new(),
            revision: 0,
            created_at: now(),
        });
        if self.shared {
            world.shares.push(Share {
                campaign_id: campaign.to_owned(),
                asset_id: id,
                linked_by: dm.to_owned(),
                created_at: now(),
            });
        }
    }
}
