//! How the server changes tokens and sheets: it reads all of them, holds what
//! it read for a moment, and writes all of it back, without a lock. Of two
//! writes that overlap, the first is lost.

use serde_json::Value;

use crate::hub::Hub;
use crate::world::{Map, now};

impl Hub {
    /// Changes the tokens of a map. `change` gets the map as it was read; its
    /// error ends the write.
    pub(crate) async fn rewrite_tokens<T, E>(
        &self,
        mut map: Map,
        change: impl FnOnce(&mut Map) -> Result<T, E>,
    ) -> Result<T, E> {
        let value = change(&mut map)?;
        tokio::time::sleep(self.options.write_hold).await;
        if let Some(stored) = self.world().map_mut(&map.id) {
            stored.tokens = map.tokens;
            stored.updated_at = now();
        }
        self.log.touch();
        Ok(value)
    }

    /// Changes the sheet of a character.
    pub(crate) async fn rewrite_sheet(&self, character: &str, data: Value) {
        tokio::time::sleep(self.options.write_hold).await;
        if let Some(stored) = self.world().character_mut(character) {
            stored.data = data;
            stored.updated_at = now();
        }
        self.log.touch();
    }
}
