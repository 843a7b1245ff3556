//! What went over the wire at a real CozyVTT 1.1.2: `fixtures/frames.txt`.

use serde_json::Value;

const FRAMES: &str = include_str!("../fixtures/frames.txt");

/// Who sent a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// CozyVTT.
    Server,
    /// The client that was watched.
    Client,
}

/// One frame, as it went over the wire.
#[derive(Debug, Clone, Copy)]
pub struct Captured {
    /// Who sent it.
    pub from: Side,
    /// Its text.
    pub text: &'static str,
}

/// The frames of one connection, in order.
#[derive(Debug, Clone)]
pub struct Section {
    /// What was tried.
    pub title: &'static str,
    /// What was said.
    pub frames: Vec<Captured>,
}

/// All connections of the captures.
pub fn sections() -> Vec<Section> {
    FRAMES.split("\n\n").filter_map(section_of).collect()
}

/// The one connection whose title contains `part`.
///
/// # Panics
///
/// When there is none, or more than one.
pub fn section(part: &str) -> Section {
    let mut found: Vec<_> = sections();
    found.retain(|section| section.title.contains(part));
    assert_eq!(found.len(), 1, "sections called {part:?}");
    found.remove(0)
}

fn section_of(block: &'static str) -> Option<Section> {
    let mut lines = block.lines();
    let title = lines.next()?.strip_prefix("# ")?;
    let frames: Vec<_> = lines.filter_map(captured).collect();
    (!frames.is_empty()).then_some(Section { title, frames })
}

fn captured(line: &'static str) -> Option<Captured> {
    let (from, text) = line.split_once(' ')?;
    let from = match from {
        "<" => Side::Server,
        ">" => Side::Client,
        _ => return None,
    };
    Some(Captured { from, text })
}

impl Section {
    /// The server's events, in order, each with its first argument; `null` for
    /// an event without one.
    pub fn events(&self) -> Vec<(String, Value)> {
        self.frames
            .iter()
            .filter(|frame| frame.from == Side::Server)
            .filter_map(|frame| event(frame.text))
            .collect()
    }

    /// The first argument of the server's first event of that name.
    ///
    /// # Panics
    ///
    /// When it sent none.
    pub fn first(&self, name: &str) -> Value {
        let mut events = self.events();
        events.retain(|(event, _)| event == name);
        assert!(!events.is_empty(), "{:?} has no {name}", self.title);
        events.remove(0).1
    }
}

/// Reads `42["name",argument]`, without the code under test.
fn event(frame: &str) -> Option<(String, Value)> {
    let mut parts: Vec<Value> = serde_json::from_str(frame.strip_prefix("42")?).ok()?;
    let name = parts.first()?.as_str()?.to_owned();
    let argument = if parts.len() > 1 {
        parts.remove(1)
    } else {
        Value::Null
    };
    Some((name, argument))
}
