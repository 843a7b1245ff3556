//! What setup does, told step by step.

use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, QUIET, Screen, remark};
use crate::text::json_pretty;

/// What was done, told as it is done.
pub(super) struct Steps {
    json: bool,
    done: Vec<String>,
    snippets: Vec<String>,
    /// What the dice said.
    pub(super) rolled: Option<i64>,
}

impl Steps {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            done: Vec::new(),
            snippets: Vec::new(),
            rolled: None,
        }
    }

    /// A step that is done, one sentence without its full stop.
    pub(super) fn done(&mut self, screen: &mut Screen, what: &str) -> Result<(), Failure> {
        if !self.json {
            let mark = screen.layout.pick("✓", "ok");
            let lines = screen
                .layout
                .narrower(mark.chars().count() + 1)
                .wrap(what, 0);
            let indent = " ".repeat(mark.chars().count());
            screen.lines(lines.iter().enumerate().map(|(number, line)| {
                if number == 0 {
                    format!("{GOOD}{mark}{GOOD:#} {line}")
                } else {
                    format!("{indent} {line}")
                }
            }))?;
        }
        self.done.push(what.to_owned());
        Ok(())
    }

    /// Lines to copy.
    pub(super) fn show(&mut self, screen: &mut Screen, text: &str) -> Result<(), Failure> {
        if !self.json {
            screen.lines(text.lines().map(|line| format!("{QUIET}  {line}{QUIET:#}")))?;
        }
        self.snippets.push(text.to_owned());
        Ok(())
    }

    /// What to know besides, for people.
    pub(super) fn hint(&self, text: &str) {
        if !self.json {
            remark(text);
        }
    }

    /// All of it.
    pub(super) fn end(self, screen: &mut Screen) -> Result<Exit, Failure> {
        if self.json {
            let rolled = self.rolled.map_or(Value::Null, Value::from);
            let told = json!({"done": self.done, "snippets": self.snippets, "rolled": rolled});
            screen.line(&json_pretty(&told))?;
        } else {
            remark("Have a good evening. `cozyvttctl status` tells how everything is.");
        }
        Ok(Exit::Fine)
    }
}
