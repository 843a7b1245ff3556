//! Keeps account of a run while it goes on: times each step, tells it, and
//! writes it down.

use std::future::Future;

use tokio::time::Instant;

use super::plan::Plan;
use super::report::{Outcome, Phase, Report, Step};
use super::snapshot::Trouble;
use super::veil::Veil;
use crate::failure::Failure;
use crate::terminal::{BAD, CARE, GOOD, QUIET, STRONG, Screen};
use crate::text::{pad, plain};

/// Columns of a step's name.
const NAME: usize = 16;

pub(super) struct Ledger<'a> {
    pub(super) report: Report,
    pub(super) veil: Veil,
    screen: &'a mut Screen,
    /// The report alone is printed.
    silent: bool,
    begun: Instant,
    /// No step begins after this.
    deadline: Instant,
    phase: Option<Phase>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        report: Report,
        veil: Veil,
        screen: &'a mut Screen,
        silent: bool,
        deadline: Instant,
    ) -> Self {
        Self {
            report,
            veil,
            screen,
            silent,
            begun: Instant::now(),
            deadline,
            phase: None,
        }
    }

    /// Makes a step and writes down what came of it; whether it went well.
    pub(super) async fn step(
        &mut self,
        phase: Phase,
        plan: Plan,
        work: impl Future<Output = Result<String, Trouble>>,
    ) -> Result<bool, Failure> {
        let begun = Instant::now();
        let result = if begun >= self.deadline {
            Err(Trouble::Failed("there was no time left for it".to_owned()))
        } else {
            tokio::time::timeout_at(self.deadline, work)
                .await
                .unwrap_or_else(|_| Err(Trouble::Failed("it took too long".to_owned())))
        };
        let (outcome, detail) = match result {
            Ok(detail) => (Outcome::Ok, detail),
            Err(Trouble::Failed(why)) => (Outcome::Failed, why),
            Err(Trouble::Skipped(why)) => (Outcome::Skipped, why),
        };
        let step = Step {
            phase,
            name: plan.name,
            sends: plan.sends,
            outcome,
            detail: self.veil.text(&plain(&detail)),
            duration_ms: millis(begun),
        };
        self.tell(&step)?;
        self.report.steps.push(step);
        Ok(outcome == Outcome::Ok)
    }

    /// A step that is not made.
    pub(super) async fn skip(
        &mut self,
        phase: Phase,
        plan: Plan,
        why: &str,
    ) -> Result<(), Failure> {
        let skipped = std::future::ready(Err(Trouble::Skipped(why.to_owned())));
        let plan = Plan { sends: &[], ..plan };
        self.step(phase, plan, skipped).await.map(drop)
    }

    /// Notes how long it all took.
    pub(super) fn close(&mut self) {
        self.report.duration_ms = millis(self.begun);
    }

    /// The screen, for what comes after the run.
    pub(super) fn screen(&mut self) -> &mut Screen {
        self.screen
    }

    /// The time left for a person to answer.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    fn tell(&mut self, step: &Step) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        if self.phase.replace(step.phase) != Some(step.phase) {
            let title = match step.phase {
                Phase::Arrive => "Getting to the table",
                Phase::Before => "Reading",
                Phase::Write => "Writing",
                Phase::After => "Reading again",
                Phase::Compare => "Comparing",
            };
            self.screen.line(&format!("{STRONG}{title}{STRONG:#}"))?;
        }
        let layout = self.screen.layout;
        let (style, mark) = match step.outcome {
            Outcome::Ok => (GOOD, layout.pick("✓", "ok  ")),
            Outcome::Failed => (BAD, layout.pick("✗", "FAIL")),
            Outcome::Skipped => (CARE, layout.pick("–", "skip")),
        };
        let indent = NAME + mark.chars().count() + 4;
        let text = format!("{} ({} ms)", step.detail, step.duration_ms);
        for (number, line) in layout.narrower(indent).wrap(&text, 0).iter().enumerate() {
            if number == 0 {
                let name = pad(step.name, NAME);
                self.screen
                    .line(&format!("  {style}{mark}{style:#} {name} {line}"))?;
            } else {
                self.screen
                    .line(&format!("{:indent$}{QUIET}{line}{QUIET:#}", ""))?;
            }
        }
        Ok(())
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
