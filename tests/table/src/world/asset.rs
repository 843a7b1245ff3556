//! Uploaded files, the documents among them, and who may read which.

use serde_json::{Value, json};

use super::{Rights, User, World};
use crate::version::Version;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssetKind {
    Map,
    Token,
    Audio,
    Avatar,
    /// Not in 1.1.2.
    Document,
}

impl AssetKind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Map,
        Self::Token,
        Self::Audio,
        Self::Avatar,
        Self::Document,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Map => "MAP",
            Self::Token => "TOKEN",
            Self::Audio => "AUDIO",
            Self::Avatar => "AVATAR",
            Self::Document => "DOCUMENT",
        }
    }

    /// The kind of that word.
    pub(crate) fn named(word: &str, version: Version) -> Option<Self> {
        Self::ALL
            .into_iter()
            .filter(|one| !version.is_old() || *one != Self::Document)
            .find(|one| one.as_str() == word)
    }

    /// The largest file, in bytes.
    pub(crate) fn most_bytes(self) -> usize {
        let megabytes = match self {
            Self::Map | Self::Document => 50,
            Self::Audio => 20,
            Self::Token => 5,
            Self::Avatar => 2,
        };
        megabytes * 1024 * 1024
    }
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Global,
    User,
    Campaign,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Global => "GLOBAL",
            Self::User => "USER",
            Self::Campaign => "CAMPAIGN",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        [Self::Global, Self::User, Self::Campaign]
            .into_iter()
            .find(|one| one.as_str() == word)
    }
}

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct Asset {
    pub(crate) id: String,
    pub(crate) kind: AssetKind,
    pub(crate) scope: Scope,
    pub(crate) uploaded_by: String,
    pub(crate) campaign_id: Option<String>,
    /// The name it is kept under.
    pub(crate) filename: String,
    pub(crate) original_name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
    /// How often its content was replaced.
    pub(crate) revision: u32,
    pub(crate) created_at: String,
}

impl Asset {
    /// Whether it is text that can be typed and replaced.
    pub(crate) fn is_text(&self) -> bool {
        self.mime.starts_with("text/")
    }

    /// What its bytes are known by; a new one after each replacement.
    pub(crate) fn etag(&self) -> String {
        if self.is_text() {
            format!("\"{}-{}\"", self.id, self.revision)
        } else {
            format!("\"{}\"", self.id)
        }
    }
}

/// A document that a campaign was given to read.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) campaign_id: String,
    pub(crate) asset_id: String,
    pub(crate) linked_by: String,
    pub(crate) created_at: String,
}

impl Share {
    /// The row.
    pub(crate) fn row(&self) -> Value {
        json!({
            "campaignId": self.campaign_id,
            "assetId": self.asset_id,
            "linkedById": self.linked_by,
            "createdAt": self.created_at,
        })
    }
}

impl World {
    pub(crate) fn asset(&self, id: &str) -> Option<&Asset> {
        self.assets.iter().find(|one| one.id == id)
    }

    pub(crate) fn asset_mut(&mut self, id: &str) -> Option<&mut Asset> {
        self.assets.iter_mut().find(|one| one.id == id)
    }

    /// A document by its id.
    pub(crate) fn document(&self, id: &str) -> Option<&Asset> {
        self.asset(id).filter(|one| one.kind == AssetKind::Document)
    }

    /// Whether a user administers the server.
    pub(crate) fn administers(&self, user: &str) -> bool {
        self.user(user)
            .is_some_and(|user| user.rights == Rights::Admin)
    }

    /// Whether a user may add files for everybody.
    pub(crate) fn manages_assets(&self, user: &str) -> bool {
        self.user(user)
            .is_some_and(|user| user.rights != Rights::Plain)
    }

    /// Whether a file is the user's to use: everybody's, their own, or that of a
    /// campaign they sit at.
    pub(crate) fn usable(&self, asset: &Asset, user: &str) -> bool {
        match asset.scope {
            Scope::Global => true,
            Scope::User => asset.uploaded_by == user,
            Scope::Campaign => asset
                .campaign_id
                .as_deref()
                .is_some_and(|campaign| self.role(campaign, user).is_some()),
        }
    }

    /// Whether a user may read a file; what is shared with campaigns not counted.
    pub(crate) fn may_read(&self, asset: &Asset, user: &str) -> bool {
        self.administers(user) || self.usable(asset, user)
    }

    /// Whether a user may read a document, what is shared with their campaigns
    /// included.
    pub(crate) fn may_read_document(&self, asset: &Asset, user: &str) -> bool {
        self.may_read(asset, user)
            || self.shares.iter().any(|share| {
                share.asset_id == asset.id && self.role(&share.campaign_id, user).is_some()
            })
    }

    /// Whether a user may put up the picture behind an address. One the table
    /// knows nothing of is let through.
    pub(crate) fn may_show(&self, url: &str, user: &str) -> bool {
        let id = url.rsplit('/').next().unwrap_or_default();
        self.asset(id)
            .is_none_or(|asset| self.may_read(asset, user))
    }

    fn signature(&self, user: &str) -> Option<Value> {
        self.user(user).map(User::signature)
    }

    /// A file's row. 1.1.2 tells where it lies on the disk.
    pub(crate) fn asset_row(&self, asset: &Asset, version: Version) -> Value {
        let campaign = asset
            .campaign_id
            .as_deref()
            .and_then(|id| self.campaign(id))
            .map(|one| json!({ "id": one.id, "name": one.name }));
        let mut row = json!({
            "id": asset.id,
            "type": asset.kind.as_str(),
            "scope": asset.scope.as_str(),
            "uploadedById": asset.uploaded_by,
            "campaignId": asset.campaign_id,
            "filename": asset.filename,
            "originalName": asset.original_name,
            "mimeType": asset.mime,
            "fileSize": asset.bytes.len(),
            "name": asset.name,
            "description": asset.description,
            "tags": asset.tags,
            "createdAt": asset.created_at,
            "uploadedBy": self.signature(&asset.uploaded_by),
            "campaign": campaign,
        });
        if version.is_old() {
            let path = format!("/data/assets/{}", asset.filename);
            row["thumbnailPath"] = Value::Null;
            if matches!(asset.kind, AssetKind::Map | AssetKind::Token) {
                row["thumbnailPath"] = json!(format!("{path}.thumb"));
            }
            row["filePath"] = json!(path);
        }
        row
    }

    /// The documents a campaign can read, newest link first: those it was given
    /// and those of its own.
    pub(crate) fn campaign_documents(&self, campaign: &str) -> Vec<Value> {
        let native = |asset: &Asset| asset.campaign_id.as_deref() == Some(campaign);
        let shared = self
            .shares
            .iter()
            .filter(|share| share.campaign_id == campaign)
            .filter_map(|share| Some((self.document(&share.asset_id)?, Some(share))))
            .filter(|(asset, _)| !native(asset));
        let own = self
            .assets
            .iter()
            .filter(|asset| asset.kind == AssetKind::Document && native(asset))
            .map(|asset| (asset, None));
        let mut all: Vec<(String, Value)> = own
            .chain(shared)
            .map(|(asset, share): (&Asset, Option<&Share>)| {
                let linked_at = share.map_or(&asset.created_at, |share| &share.created_at);
                let linked_by = share.map_or(&asset.uploaded_by, |share| &share.linked_by);
                let row = json!({
                    "id": asset.id,
                    "name": asset.name,
                    "description": asset.description,
                    "originalName": asset.original_name,
                    "mimeType": asset.mime,
                    "fileSize": asset.bytes.len(),
                    "createdAt": asset.created_at,
                    "uploadedBy": self.signature(&asset.uploaded_by),
                    "linkedAt": linked_at,
                    "linkedBy": self.signature(linked_by),
                    "shared": share.is_some(),
                });
                (linked_at.clone(), row)
            })
            .collect();
        all.reverse();
        all.sort_by(|(a, _), (b, _)| b.cmp(a));
        all.into_iter().map(|(_, row)| row).collect()
    }
}
