//! What a run does, step by step, and what each step sends. The run itself goes
//! by this list, so that a dry run shows what would really happen.

use serde_json::{Value, json};

use super::attest::Version;
use super::report::Phase;

/// A step and everything that it sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) sends: &'static [&'static str],
}

pub(super) const LOGIN: Plan = Plan {
    name: "login",
    sends: &["POST /api/auth/login"],
};

pub(super) const LINK: Plan = Plan {
    name: "live link",
    sends: &[
        "GET /socket.io/ (becomes a WebSocket)",
        "WebSocket authenticate",
        "WebSocket initiative.request_state",
        "GET /api/campaigns/{campaign}",
    ],
};

pub(super) const NAME: Plan = Plan {
    name: "campaign's name",
    sends: &[],
};

pub(super) const CHAT: Plan = Plan {
    name: "chat line",
    sends: &["WebSocket chat.message"],
};

pub(super) const ROLL: Plan = Plan {
    name: "roll",
    sends: &["WebSocket dice.roll"],
};

pub(super) const COMPARISON: Plan = Plan {
    name: "comparison",
    sends: &[],
};

/// How a reading is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A tool, as an agent calls it; one that says of itself that it changes nothing.
    Tool(&'static str),
    /// Every map that is listed, one by one: no tool reads a map.
    Maps,
}

/// What an answer has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Object(&'static str),
    List(&'static str),
}

/// Something that is read before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) plan: Plan,
    pub(super) source: Source,
    pub(super) holds: Holds,
    /// The first release of CozyVTT that has it.
    pub(super) since: Version,
    /// The events with which CozyVTT tells of a change to it.
    pub(super) told_by: &'static [&'static str],
}

/// There since the oldest release that is supported.
const ALWAYS: Version = Version(0, 0, 0);

pub(super) const CAMPAIGN: Reading = Reading {
    plan: Plan {
        name: "campaign",
        sends: &[
            "GET /health",
            "GET /api/auth/ping (when /health fails)",
            "GET /api/campaigns/{campaign}",
            "GET /api/campaigns/{campaign}/maps (when it is on a map)",
        ],
    },
    source: Source::Tool("campaign_get"),
    holds: Holds::Object("campaign"),
    since: ALWAYS,
    told_by: &[
        "map.changed",
        "session.started",
        "session.paused",
        "session.ended",
        "session.resumed",
        "campaign.dm.transferred",
        "campaign.role.changed",
    ],
};

pub(super) const CHAT_PAGE: Reading = Reading {
    plan: Plan {
        name: "chat",
        sends: &["GET /api/campaigns/{campaign}/messages?limit=100"],
    },
    source: Source::Tool("chat_read"),
    holds: Holds::List("messages"),
    since: ALWAYS,
    told_by: &[],
};

pub(super) const INITIATIVE: Reading = Reading {
    plan: Plan {
        name: "initiative",
        sends: &["WebSocket initiative.request_state"],
    },
    source: Source::Tool("initiative_read"),
    holds: Holds::Object("state"),
    since: ALWAYS,
    told_by: &["initiative.state"],
};

/// Everything that is read, in this order.
pub(super) const READINGS: [Reading; 9] = [
    CAMPAIGN,
    Reading {
        plan: Plan {
            name: "maps",
            sends: &["GET /api/campaigns/{campaign}/maps"],
        },
        source: Source::Tool("map_list"),
        holds: Holds::List("maps"),
        since: ALWAYS,
        told_by: &["map.changed", "map:settings:updated"],
    },
    Reading {
        plan: Plan {
            name: "tokens",
            sends: &["GET /api/campaigns/{campaign}/maps/{map} (each map, 40 at most)"],
        },
        source: Source::Maps,
        holds: Holds::List("tokens"),
        since: ALWAYS,
        told_by: &[
            "token.moved",
            "token:appeared",
            "token:disappeared",
            "map.changed",
            "character.hp.updated",
            "character.updated",
        ],
    },
    CHAT_PAGE,
    Reading {
        plan: Plan {
            name: "roster",
            sends: &["GET /api/campaigns/{campaign}/characters"],
        },
        source: Source::Tool("character_list"),
        holds: Holds::List("roster"),
        since: ALWAYS,
        told_by: &[
            "roster.updated",
            "character.updated",
            "character.hp.updated",
            "campaign.role.changed",
            "campaign.dm.transferred",
        ],
    },
    Reading {
        plan: Plan {
            name: "sessions",
            sends: &["GET /api/campaigns/{campaign}/sessions"],
        },
        source: Source::Tool("session_list"),
        holds: Holds::List("sessions"),
        since: Version(1, 3, 0),
        told_by: &[
            "session.started",
            "session.paused",
            "session.ended",
            "session.resumed",
        ],
    },
    Reading {
        plan: Plan {
            name: "documents",
            sends: &["GET /api/campaigns/{campaign}/documents"],
        },
        source: Source::Tool("campaign_document_list"),
        holds: Holds::List("documents"),
        since: Version(1, 4, 0),
        told_by: &[],
    },
    Reading {
        plan: Plan {
            name: "saved rolls",
            sends: &["GET /api/campaigns/{campaign}/macros"],
        },
        source: Source::Tool("saved_roll_list"),
        holds: Holds::List("macros"),
        since: Version(1, 4, 0),
        told_by: &[],
    },
    INITIATIVE,
];

/// Every step, with its phase.
pub(super) fn steps(write: bool) -> Vec<(Phase, Plan)> {
    let readings = |phase| READINGS.iter().map(move |reading| (phase, reading.plan));
    let mut steps = vec![(Phase::Arrive, LOGIN), (Phase::Arrive, LINK)];
    steps.extend(readings(Phase::Before));
    if write {
        steps.extend([NAME, CHAT, ROLL].map(|plan| (Phase::Write, plan)));
    }
    steps.extend(readings(Phase::After));
    steps.push((Phase::Compare, COMPARISON));
    steps
}

/// The plan for programs.
pub(super) fn as_json(write: bool) -> Value {
    let steps: Vec<Value> = steps(write)
        .into_iter()
        .map(|(phase, plan)| json!({"phase": phase, "name": plan.name, "sends": plan.sends}))
        .collect();
    json!({"dry_run": true, "mode": mode(write), "steps": steps})
}

pub(super) fn mode(write: bool) -> &'static str {
    if write { "write" } else { "read-only" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_smk_04_a_read_only_plan_sends_one_login_gets_and_two_events() {
        for (_, plan) in steps(false) {
            for send in plan.sends {
                let allowed = *send == "POST /api/auth/login"
                    || send.starts_with("GET /")
                    || *send == "WebSocket authenticate"
                    || *send == "WebSocket initiative.request_state";
                assert!(allowed, "{send}");
            }
        }
        let posts = |write| {
            steps(write)
                .iter()
                .flat_map(|(_, plan)| plan.sends)
                .filter(|send| send.starts_with("POST"))
                .count()
        };
        assert_eq!((posts(false), posts(true)), (1, 1));
    }

    #[test]
    fn a_writing_plan_adds_one_line_and_one_roll() {
        let more: Vec<_> = steps(true)
            .into_iter()
            .filter(|(phase, _)| *phase == Phase::Write)
            .flat_map(|(_, plan)| plan.sends)
            .copied()
            .collect();
        assert_eq!(more, ["WebSocket chat.message", "WebSocket dice.roll"]);
    }
}
