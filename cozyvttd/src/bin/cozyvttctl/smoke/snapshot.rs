//! One reading of everything: each answer is checked, and kept as what can be
//! compared with the next one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::attest::Version;
use super::plan::{CAMPAIGN, CHAT_PAGE, Holds, Reading, Source};
use super::seat::{Licence, Refusal, Seat};

/// Lines in the newest page of the chat.
const CHAT_LINES: u32 = 100;

/// Maps that are read one by one.
const MOST_MAPS: usize = 40;

/// Why a step gave nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Failed(String),
    Skipped(String),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(match refusal {
            Refusal::RouteMissing => "the server says that it has no such route".to_owned(),
            Refusal::Failed(why) => why,
        })
    }
}

/// What was read of one thing: its parts by their ids.
pub(super) type Facet = BTreeMap<String, Value>;

/// A line of the chat, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) user: Option<String>,
    pub(super) content: String,
    /// What a line of the system is about: `user.joined`.
    pub(super) action: Option<String>,
    /// Whom it is about.
    pub(super) about: Option<String>,
}

/// Everything that was read, by the names of the readings.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) facets: BTreeMap<&'static str, Facet>,
    /// Newest first.
    pub(super) chat: Option<Vec<Line>>,
    pub(super) campaign_name: Option<String>,
    pub(super) role: Option<String>,
}

impl Snapshot {
    /// Whether the reading is in it.
    pub(super) fn has(&self, reading: &Reading) -> bool {
        if reading.plan.name == CHAT_PAGE.plan.name {
            self.chat.is_some()
        } else {
            self.facets.contains_key(reading.plan.name)
        }
    }

    /// Reads one thing; gives what to tell of it.
    pub(super) async fn read(
        &mut self,
        reading: &Reading,
        seat: &Seat,
        attested: Version,
    ) -> Result<String, Trouble> {
        let name = reading.plan.name;
        let data = match reading.source {
            Source::Maps => return self.read_maps(name, seat).await,
            Source::Tool(tool) => {
                let arguments = if name == CHAT_PAGE.plan.name {
                    json!({"limit": CHAT_LINES})
                } else {
                    json!({})
                };
                match seat.call(tool, arguments, Licence::Read).await {
                    Ok(data) => data,
                    Err(Refusal::RouteMissing) => return Err(missing(reading.since, attested)),
                    Err(refusal) => return Err(refusal.into()),
                }
            }
        };
        let held = held(&data, reading.holds)?;
        if name == CHAT_PAGE.plan.name {
            let lines = lines(held)?;
            let told = count(lines.len(), "line");
            self.chat = Some(lines);
            return Ok(told);
        }
        let (facet, told) = if name == CAMPAIGN.plan.name {
            self.note_campaign(&data, seat.session.campaign())?
        } else {
            match held {
                Value::Array(items) => {
                    let told = count(items.len(), "entry");
                    (by_id(items), told)
                }
                other => {
                    let active = other["active"] == true;
                    let told = if active {
                        "a fight is on"
                    } else {
                        "no fight is on"
                    };
                    (fields(other), told.to_owned())
                }
            }
        };
        self.facets.insert(name, facet);
        Ok(told)
    }

    fn note_campaign(
        &mut self,
        data: &Value,
        configured: &str,
    ) -> Result<(Facet, String), Trouble> {
        let campaign = &data["campaign"];
        let id = campaign["id"].as_str().unwrap_or_default();
        if id != configured {
            return Err(Trouble::Failed(format!(
                "the server answers with the campaign {id:?}, configured is {configured:?}"
            )));
        }
        let name = campaign["name"].as_str().map(ToOwned::to_owned);
        let role = data["role"].as_str().map(ToOwned::to_owned);
        let told = format!(
            "{:?}, role {}",
            name.as_deref().unwrap_or_default(),
            role.as_deref().unwrap_or("unknown")
        );
        let mut facet = fields(campaign);
        facet.insert("role".to_owned(), data["role"].clone());
        self.campaign_name = name;
        self.role = role;
        Ok((facet, told))
    }

    async fn read_maps(&mut self, name: &'static str, seat: &Seat) -> Result<String, Trouble> {
        let Some(maps) = self.facets.get("maps") else {
            return Err(Trouble::Skipped("the maps could not be listed".to_owned()));
        };
        let mut facet = Facet::new();
        let mut total = 0;
        for id in maps.keys().take(MOST_MAPS) {
            let map = seat.map(id).await?;
            let Some(tokens) = map["tokens"].as_array() else {
                return Err(Trouble::Failed(format!(
                    "the map {id} has no list of tokens"
                )));
            };
            total += tokens.len();
            facet.insert(id.clone(), fields_of(by_id(tokens)));
        }
        let told = format!("{} on {}", count(total, "token"), count(facet.len(), "map"));
        let told = match maps.len() - facet.len() {
            0 => told,
            more => format!("{told}; {more} more not read"),
        };
        self.facets.insert(name, facet);
        Ok(told)
    }
}

/// A route that is not there: right for an old server, wrong for a new one.
fn missing(since: Version, attested: Version) -> Trouble {
    if attested < since {
        Trouble::Skipped(format!("not there before CozyVTT {since}"))
    } else {
        Trouble::Failed(format!(
            "the server says that it has no such route, which CozyVTT {attested} has: is the \
             attested version the one that runs?"
        ))
    }
}

/// The list or object that an answer has to hold.
fn held(data: &Value, holds: Holds) -> Result<&Value, Trouble> {
    let (key, found, kind) = match holds {
        Holds::Object(key) => (key, data[key].is_object(), "an object"),
        Holds::List(key) => (key, data[key].is_array(), "a list"),
    };
    if found {
        Ok(&data[key])
    } else {
        Err(Trouble::Failed(format!(
            "the answer says ok, but `{key}` in it is not {kind}"
        )))
    }
}

fn lines(messages: &Value) -> Result<Vec<Line>, Trouble> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    messages
        .as_array()
        .into_iter()
        .flatten()
        .map(|message| {
            Ok(Line {
                id: text(&message["id"])
                    .ok_or_else(|| Trouble::Failed("a line of the chat has no id".to_owned()))?,
                user: text(&message["userId"]),
                content: text(&message["content"]).unwrap_or_default(),
                action: text(&message["metadata"]["action"]),
                about: text(&message["metadata"]["userId"]),
            })
        })
        .collect()
}

/// The entries of a list by their ids; those without one by their places.
fn by_id(items: &[Value]) -> Facet {
    let key = |place: usize, item: &Value| {
        ["id", "userId"]
            .iter()
            .find_map(|key| item[*key].as_str())
            .map_or_else(|| format!("#{place}"), ToOwned::to_owned)
    };
    items
        .iter()
        .enumerate()
        .map(|(place, item)| (key(place, item), item.clone()))
        .collect()
}

fn fields(object: &Value) -> Facet {
    let fields = object.as_object().into_iter().flatten();
    fields
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn fields_of(facet: Facet) -> Value {
    Value::Object(facet.into_iter().collect())
}

/// `1 token`, `2 tokens`, `0 entries`.
pub(super) fn count(number: usize, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_smk_02_an_answer_without_its_list_or_object_is_a_failed_check() {
        let html = json!({"_raw": "<html></html>"});
        assert!(matches!(
            held(&html, Holds::List("maps")),
            Err(Trouble::Failed(_))
        ));
        let wrong = json!({"maps": {}, "state": null});
        assert!(held(&wrong, Holds::List("maps")).is_err());
        assert!(held(&wrong, Holds::Object("state")).is_err());
        assert!(held(&json!({"maps": []}), Holds::List("maps")).is_ok());
    }

    #[test]
    fn t_smk_02_the_campaign_has_to_be_the_configured_one() {
        let data = json!({"campaign": {"id": "c1", "name": "Bells"}, "role": "DM"});
        let mut snapshot = Snapshot::default();
        assert!(snapshot.note_campaign(&data, "c1").is_ok());
        assert_eq!(snapshot.campaign_name.as_deref(), Some("Bells"));
        assert!(snapshot.note_campaign(&data, "c2").is_err());
        assert!(
            snapshot
                .note_campaign(&json!({"campaign": {}}), "c2")
                .is_err()
        );
    }

    #[test]
    fn a_route_that_the_attested_version_has_may_not_be_missing() {
        let since = Version(1, 3, 0);
        assert!(matches!(
            missing(since, Version(1, 1, 2)),
            Trouble::Skipped(_)
        ));
        assert!(matches!(
            missing(since, Version(1, 10, 0)),
            Trouble::Failed(_)
        ));
    }
}
