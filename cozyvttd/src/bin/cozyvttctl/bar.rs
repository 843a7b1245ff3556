//! A bar for what takes long: on standard error, and only where a person looks.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use cozyvtt_proto::control::CallProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::Layout;
use crate::text::plain;

/// What is done sooner needs no bar.
const MOMENT: Duration = Duration::from_millis(300);

/// The bar; it goes when this value does.
#[derive(Debug)]
pub(crate) struct Bar {
    begun: Instant,
    shown: Option<ProgressBar>,
}

impl Bar {
    /// Whether somebody would see one.
    pub(crate) fn would_be_seen() -> bool {
        stderr().is_terminal()
    }

    /// For what begins now.
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            shown: None,
        }
    }

    /// Shows how it gets on.
    pub(crate) fn tell(&mut self, progress: &CallProgress) {
        if self.shown.is_none() && self.begun.elapsed() < MOMENT {
            return;
        }
        let bar = self.shown.get_or_insert_with(|| {
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr())
        });
        bar.set_style(style(progress, Layout::of_stderr()));
        bar.set_length(progress.of.unwrap_or(progress.done));
        bar.set_position(progress.done);
        bar.set_message(plain(&progress.what));
        bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn style(progress: &CallProgress, layout: Layout) -> ProgressStyle {
    let numbers = if progress.bytes {
        "{bytes} of {total_bytes}"
    } else {
        "{elapsed}"
    };
    // A template of ours, so this cannot fail.
    ProgressStyle::with_template(&format!("{{msg}} {{bar:30}} {numbers}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars(layout.pick("█▌░", "#>."))
}
