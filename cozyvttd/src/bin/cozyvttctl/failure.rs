//! Why a command did not work, what the person is told, and the exit code.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use cozyvtt_proto::profile::addressed;

use crate::terminal::{BAD, Layout, STRONG};
use crate::text;

/// The exit codes, as `--help` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It worked.
    Fine,
    /// The call failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The daemon cannot be reached.
    Unreachable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
        })
    }
}

/// Why a command did not work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell the person.
    Told(Box<Told>),
    /// Standard output does not take what is written.
    Output(io::Error),
}

/// What the person is told.
#[derive(Debug)]
pub(crate) struct Told {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What went wrong, one sentence.
    pub(crate) problem: String,
    /// What to look at and what to do, one sentence a line.
    pub(crate) advice: Vec<String>,
    /// Lines shown as they are, such as the place of a typing error.
    pub(crate) exhibit: Vec<String>,
}

impl Failure {
    /// The call failed.
    pub(crate) fn failed(problem: impl Into<String>) -> Self {
        Self::told(Exit::Failed, problem)
    }

    /// The command line is wrong.
    pub(crate) fn usage(problem: impl Into<String>) -> Self {
        Self::told(Exit::Usage, problem)
    }

    /// The daemon cannot be reached.
    pub(crate) fn unreachable(problem: impl Into<String>) -> Self {
        Self::told(Exit::Unreachable, problem)
    }

    fn told(exit: Exit, problem: impl Into<String>) -> Self {
        Self::Told(Box::new(Told {
            exit,
            problem: problem.into(),
            advice: Vec::new(),
            exhibit: Vec::new(),
        }))
    }

    /// The same failure with one more sentence of advice.
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        if let Self::Told(told) = &mut self {
            told.advice.push(advice.into());
        }
        self
    }

    /// The same failure with one more line shown as it is.
    pub(crate) fn show(mut self, line: impl Into<String>) -> Self {
        if let Self::Told(told) = &mut self {
            told.exhibit.push(line.into());
        }
        self
    }

    /// Tells the person on standard error; the exit code to end with. A reader
    /// that has seen enough (`| head`) is no failure.
    pub(crate) fn report(&self) -> Exit {
        let layout = Layout::of_stderr();
        let lines = match self {
            Self::Output(error) if error.kind() == ErrorKind::BrokenPipe => return Exit::Fine,
            Self::Output(error) => vec![format!(
                "{BAD}error{BAD:#}: cannot write the output: {}",
                text::plain(&error.to_string())
            )],
            Self::Told(told) => told.lines(layout),
        };
        let mut stderr = anstream::stderr().lock();
        for line in lines {
            // Standard error is the last place there is to complain.
            let _ = writeln!(stderr, "{line}");
        }
        match self {
            Self::Output(_) => Exit::Failed,
            Self::Told(told) => told.exit,
        }
    }
}

impl Told {
    fn lines(&self, layout: Layout) -> Vec<String> {
        let problem = text::plain(&addressed(&self.problem));
        let mut lines = layout.wrap(&format!("error: {problem}"), 2);
        if let Some(first) = lines.first_mut()
            && let Some(rest) = first.strip_prefix("error:")
        {
            *first = format!("{BAD}error{BAD:#}:{STRONG}{rest}{STRONG:#}");
        }
        for line in &self.exhibit {
            lines.push(format!("  {}", text::escape_hidden(line)));
        }
        for advice in &self.advice {
            let mark = layout.pick("→", "->");
            let advice = format!("{mark} {}", text::plain(&addressed(advice)));
            let hang = mark.chars().count() + 1;
            let indented = layout.narrower(2).wrap(&advice, hang);
            lines.extend(indented.into_iter().map(|line| format!("  {line}")));
        }
        lines
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(failure.report(), Exit::Fine);
    }

    #[test]
    fn words_of_the_daemon_reach_the_terminal_without_control_characters() {
        let failure = Failure::failed("bad\u{1b}[2Jthing").advise("do\u{202e}this");
        let Failure::Told(told) = failure else {
            panic!("a told failure")
        };
        let lines = told.lines(Layout::test(80)).join("\n");
        assert!(lines.contains("bad\u{fffd}[2Jthing"), "{lines:?}");
        assert!(lines.contains("→ dothis"), "{lines:?}");
    }
}
