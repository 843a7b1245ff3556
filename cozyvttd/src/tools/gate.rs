//! Gates: what only some game systems have. They spare a request that the server
//! would refuse or silently drop; they never stand in for its permissions.

use super::ToolError;
use crate::session::Session;

/// Something that only some game systems have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gate {
    /// What it is.
    feature: &'static str,
    /// The systems that have it.
    systems: &'static [&'static str],
}

/// The library of D&D creatures.
pub(super) const SRD_CREATURES: Gate = Gate {
    feature: "SRD creature library (Open5e provides D&D 5e content)",
    systems: &["DND_5E"],
};

/// Initiative that is rolled.
pub(super) const ROLLED_INITIATIVE: Gate = Gate {
    feature: "initiative.roll (CoC7e orders initiative by DEX without rolling)",
    systems: &["DND_5E", "PATHFINDER_2E", "SHADOWRUN_6E"],
};

/// Hit dice.
pub(super) const HIT_DICE: Gate = Gate {
    feature: "Hit Dice spending",
    systems: &["DND_5E"],
};

impl Gate {
    /// Whether `system` has it; a flexible campaign (`None`) has none of them.
    pub(super) fn allows(self, system: Option<&str>) -> bool {
        system.is_some_and(|system| self.systems.contains(&system))
    }

    /// Refuses when the campaign's system does not have it.
    pub(super) async fn pass(self, session: &Session) -> Result<(), ToolError> {
        let system = session.system().await?;
        if self.allows(system.as_deref()) {
            return Ok(());
        }
        Err(ToolError::Refused(format!(
            "{} is available only for {} campaigns; current campaign system: {}",
            self.feature,
            self.systems.join("/"),
            system.as_deref().unwrap_or("unset (flexible)")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flexible_campaign_has_nothing_of_a_system() {
        for gate in [SRD_CREATURES, ROLLED_INITIATIVE, HIT_DICE] {
            assert!(gate.allows(Some("DND_5E")));
            assert!(!gate.allows(None));
            assert!(!gate.allows(Some("CALL_OF_CTHULHU_7E")));
        }
        assert!(ROLLED_INITIATIVE.allows(Some("SHADOWRUN_6E")));
    }
}
