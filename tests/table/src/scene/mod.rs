//! What is on the table at the start: people, campaigns, maps, characters, chat.

mod by_system;
mod creature;
mod document;
mod first_night;
mod library;
mod person;
mod plan;
mod set;
mod sheets;

pub use creature::CreaturePlan;
pub use document::DocumentPlan;
pub use person::Person;
pub use plan::{CampaignPlan, CharacterPlan, MapPlan, TokenPlan};
pub(crate) use set::{Set, set};
pub use sheets::plain as plain_sheet;

/// What is on the table at the start.
///
/// Five accounts are always there: `dm`, `player1`, `player2` and `spectator`,
/// members of the first campaign with these roles, and `outsider`, who belongs
/// to none.
#[derive(Debug, Clone)]
pub struct Scene {
    pub(crate) people: Vec<Person>,
    pub(crate) campaigns: Vec<CampaignPlan>,
    /// What every campaign can place.
    pub(crate) library: Vec<CreaturePlan>,
}

impl Scene {
    /// The five accounts and one bare campaign of that name.
    pub fn new(campaign: &str) -> Self {
        Self {
            people: first_night::people(),
            campaigns: vec![CampaignPlan::new(campaign).seats([
                ("dm", crate::Role::Dm),
                ("player1", crate::Role::Player),
                ("player2", crate::Role::Player),
                ("spectator", crate::Role::Spectator),
            ])],
            library: Vec::new(),
        }
    }

    /// The five accounts at a small campaign of these rules (none for a flexible
    /// one): a map, a character with a plain sheet for each player, and their
    /// tokens.
    pub fn of_system(system: Option<crate::GameSystem>) -> Self {
        by_system::scene(system)
    }

    /// Adds an account. It is a member of no campaign yet.
    #[must_use]
    pub fn person(mut self, person: Person) -> Self {
        self.people.retain(|one| one.key != person.key);
        self.people.push(person);
        self
    }

    /// Changes the first campaign.
    #[must_use]
    pub fn main(mut self, change: impl FnOnce(CampaignPlan) -> CampaignPlan) -> Self {
        if !self.campaigns.is_empty() {
            let main = self.campaigns.remove(0);
            self.campaigns.insert(0, change(main));
        }
        self
    }

    /// Adds a creature to the library all campaigns share (`source` `srd`).
    #[must_use]
    pub fn creature(mut self, creature: CreaturePlan) -> Self {
        self.library.push(creature);
        self
    }

    /// Adds the library of the default scene: a dozen made-up creatures, a third
    /// of them with a picture.
    #[must_use]
    pub fn library(self) -> Self {
        library::creatures().into_iter().fold(self, Self::creature)
    }

    /// Adds another campaign.
    #[must_use]
    pub fn campaign(mut self, plan: CampaignPlan) -> Self {
        self.campaigns.push(plan);
        self
    }
}

impl Default for Scene {
    /// A 5e campaign on its second evening: two maps, a few tokens, two
    /// characters, a few lines of chat.
    fn default() -> Self {
        first_night::scene()
    }
}
