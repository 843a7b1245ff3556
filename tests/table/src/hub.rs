//! What all parts of the table share.

use std::sync::{Arc, Mutex, MutexGuard};

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::builder::Options;
use crate::dice::{self, RollError, Rolled};
use crate::faults::Faults;
use crate::limits::Limits;
use crate::lock;
use crate::log::Log;
use crate::relay::Lines;
use crate::socket::Floor;
use crate::version::Version;
use crate::world::World;

/// Shared by the routes, the sockets and the handle. It outlives restarts.
pub(crate) struct Hub {
    pub(crate) options: Options,
    world: Mutex<World>,
    dice: Mutex<StdRng>,
    pub(crate) log: Log,
    pub(crate) faults: Faults,
    pub(crate) limits: Arc<Limits>,
    pub(crate) lines: Arc<Lines>,
    /// The sockets at the table.
    pub(crate) floor: Floor,
}

impl Hub {
    pub(crate) fn new(options: Options, world: World) -> Self {
        let limits = Arc::new(Limits::new(options.api, options.login, options.upload));
        let lines = Arc::new(Lines::default());
        Self {
            world: Mutex::new(world),
            dice: Mutex::new(StdRng::seed_from_u64(options.seed)),
            log: Log::default(),
            faults: Faults::new(limits.clone(), lines.clone()),
            limits,
            lines,
            floor: Floor::default(),
            options,
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.options.version
    }

    /// The state. Never held across an `await`: lost updates have to be able to
    /// happen, and do so between two of these locks.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Rolls with the table's own dice.
    pub(crate) fn roll(&self, expression: &str) -> Result<Rolled, RollError> {
        dice::roll(expression, self.version(), &mut *lock(&self.dice))
    }

    /// Forgets what a real server only keeps in memory.
    pub(crate) fn forget_memory(&self) {
        self.limits.reset();
        self.floor.clear();
        self.world().initiative.clear();
    }
}
