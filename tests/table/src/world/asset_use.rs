//! Where a file is in use.

use serde_json::{Value, json};

use super::World;

/// The most entries an answer lists.
const MOST: usize = 100;

/// One place, and how often the file is used there.
struct Place {
    kind: &'static str,
    name: String,
    campaign: Option<String>,
    count: u32,
}

/// Adds a use to the places.
fn note(places: &mut Vec<Place>, kind: &'static str, name: &str, campaign: Option<&str>) {
    let known = places
        .iter_mut()
        .find(|one| one.kind == kind && one.name == name && one.campaign.as_deref() == campaign);
    if let Some(place) = known {
        place.count += 1;
    } else {
        places.push(Place {
            kind,
            name: name.to_owned(),
            campaign: campaign.map(str::to_owned),
            count: 1,
        });
    }
}

impl World {
    /// `{usage, omitted}` of a file, for the eyes of a user: places in campaigns
    /// they do not sit at have no name. None when it is not in use.
    pub(crate) fn asset_usage(&self, id: &str, user: &str) -> Option<Value> {
        let is = |url: &str| url.rsplit('/').next() == Some(id);
        let mut places = Vec::new();
        for map in &self.maps {
            let home = Some(map.campaign_id.as_str());
            if is(&map.image_url) || map.spirit_layer_url.as_deref().is_some_and(is) {
                note(&mut places, "map", &map.name, home);
            }
            for token in &map.tokens {
                if token["imageUrl"].as_str().is_some_and(is) {
                    let name = token["name"].as_str().unwrap_or_default();
                    note(&mut places, "token", name, home);
                }
            }
        }
        for one in &self.characters {
            if one.token_image_url.as_deref().is_some_and(is) {
                note(
                    &mut places,
                    "character",
                    &one.name,
                    one.campaign_id.as_deref(),
                );
            }
        }
        for one in &self.creatures {
            if one.image_url.as_deref().is_some_and(is) {
                note(
                    &mut places,
                    "creature",
                    &one.name,
                    one.campaign_id.as_deref(),
                );
            }
        }
        if places.is_empty() {
            return None;
        }
        let omitted = places.len().saturating_sub(MOST);
        let usage: Vec<Value> = places
            .iter()
            .take(MOST)
            .map(|place| {
                let home = place.campaign.as_deref();
                let hidden = home
                    .is_some_and(|home| self.role(home, user).is_none() && !self.administers(user));
                let campaign = home
                    .filter(|_| !hidden)
                    .and_then(|home| self.campaign(home));
                json!({
                    "kind": place.kind,
                    "name": (!hidden).then_some(&place.name),
                    "campaignId": campaign.map(|one| &one.id),
                    "campaignName": campaign.map(|one| &one.name),
                    "count": place.count,
                })
            })
            .collect();
        Some(json!({ "usage": usage, "omitted": omitted }))
    }
}
