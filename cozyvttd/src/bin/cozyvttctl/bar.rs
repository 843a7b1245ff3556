//! A bar for what takes long: on standard error, and only where a person looks.

use std::io::{IsTerminal as _, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cozyvtt_proto::control::CallProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use crate::terminal::Layout;
use crate::text::plain;

/// What is done sooner needs no bar.
const MOMENT: Duration = Duration::from_millis(300);

/// The bar; it goes when this value does.
#[derive(Debug)]
pub(crate) struct Bar {
    state: Arc<Mutex<State>>,
    moment: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The moment is over.
    due: bool,
    last: Option<CallProgress>,
    shown: Option<ProgressBar>,
}

impl Bar {
    /// Whether somebody would see one.
    pub(crate) fn would_be_seen() -> bool {
        stderr().is_terminal()
    }

    /// For what begins now.
    pub(crate) fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let waiting = Arc::clone(&state);
        let moment = tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            // What stands still is shown as well.
            let mut state = lock(&waiting);
            state.due = true;
            state.draw();
        });
        Self { state, moment }
    }

    /// Shows how it gets on.
    pub(crate) fn tell(&self, progress: CallProgress) {
        let mut state = lock(&self.state);
        state.last = Some(progress);
        state.draw();
    }
}

impl State {
    fn draw(&mut self) {
        let Some(progress) = self.last.as_ref().filter(|_| self.due) else {
            return;
        };
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
        self.moment.abort();
        if let Some(bar) = lock(&self.state).shown.take() {
            bar.finish_and_clear();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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
