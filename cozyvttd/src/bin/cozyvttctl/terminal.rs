//! What the terminal can show, and where output goes.

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use cozyvtt_proto::profile::addressed;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Something works.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Something is on its way, or deserves a look.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Something is broken.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// The part of a line to read first.
pub(crate) const STRONG: Style = Style::new().bold();
/// The part of a line to read last.
pub(crate) const QUIET: Style = Style::new().dimmed();
/// Dice.
pub(crate) const DICE: Style = AnsiColor::Cyan.on_default();

/// Narrower terminals are treated as this wide; lines would fall apart.
const NARROWEST: usize = 40;

/// How lines are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Columns of the terminal; `None` when the output goes to a file or a
    /// program, which gets long lines whole.
    pub(crate) width: Option<usize>,
    /// The locale has more than ASCII.
    pub(crate) unicode: bool,
}

impl Layout {
    pub(crate) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    pub(crate) fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(stream: &(impl IsTerminal + std::os::fd::AsFd)) -> Self {
        let width = stream.is_terminal().then(|| {
            let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
            // A terminal that does not know its size says 0.
            if columns == 0 {
                80
            } else {
                usize::from(columns).max(NARROWEST)
            }
        });
        Self {
            width,
            unicode: locale_is_utf8(&|name| std::env::var(name).ok()),
        }
    }

    #[cfg(test)]
    pub(crate) fn test(width: usize) -> Self {
        Self {
            width: Some(width),
            unicode: true,
        }
    }

    /// `sign` where the locale can show it, else `ascii`.
    pub(crate) fn pick(self, sign: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { sign } else { ascii }
    }

    /// What stands for the rest of a line that was cut.
    pub(crate) fn ellipsis(self) -> &'static str {
        self.pick("…", "...")
    }

    /// The layout of a column that leaves `columns` to its left.
    pub(crate) fn narrower(self, columns: usize) -> Self {
        Self {
            width: self
                .width
                .map(|width| width.saturating_sub(columns).max(20)),
            ..self
        }
    }

    /// `text` in lines of this width, all but the first indented by `hang`.
    pub(crate) fn wrap(self, text: &str, hang: usize) -> Vec<String> {
        let Some(width) = self.width else {
            return vec![text.to_owned()];
        };
        let indent = " ".repeat(hang);
        // Commands and paths are copied from these lines: no hyphen splits them.
        let options = Options::new(width)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .subsequent_indent(&indent);
        // A command is copied whole: its first blank is none where lines break.
        let text = text.replace("cozyvttctl ", "cozyvttctl\u{a0}");
        textwrap::wrap(&text, options)
            .into_iter()
            .map(|line| line.replace('\u{a0}', " "))
            .collect()
    }
}

fn locale_is_utf8(environment: &dyn Fn(&str) -> Option<String>) -> bool {
    // locale(7): the first of these that is set and not empty decides.
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(environment)
        .find(|value| !value.is_empty())
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

/// Standard output, with colours only where they are shown.
pub(crate) struct Screen {
    out: AutoStream<io::Stdout>,
    /// How to lay out lines for it.
    pub(crate) layout: Layout,
}

impl Screen {
    pub(crate) fn stdout() -> Self {
        Self {
            out: anstream::stdout(),
            layout: Layout::of_stdout(),
        }
    }

    /// Writes lines, and sees to it that they arrive.
    ///
    /// # Errors
    ///
    /// Whatever the system says, a closed pipe among it.
    pub(crate) fn lines<L: AsRef<str>>(
        &mut self,
        lines: impl IntoIterator<Item = L>,
    ) -> io::Result<()> {
        for line in lines {
            writeln!(self.out, "{}", line.as_ref())?;
        }
        self.out.flush()
    }

    /// Writes one line.
    ///
    /// # Errors
    ///
    /// As [`Screen::lines`].
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.lines([line])
    }
}

/// A remark beside the output: on standard error, so that a pipe stays clean.
pub(crate) fn remark(text: &str) {
    let mut stderr = anstream::stderr().lock();
    for line in Layout::of_stderr().wrap(&addressed(text), 0) {
        // A remark that nobody can read is no reason to stop.
        let _ = writeln!(stderr, "{QUIET}{line}{QUIET:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(vars: &[(&str, &str)]) -> bool {
        locale_is_utf8(&|name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_locale_decides_which_marks_are_shown() {
        assert!(utf8(&[("LANG", "de_DE.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!utf8(&[]));
    }

    #[test]
    fn a_command_in_a_sentence_is_not_split_at_its_hyphens() {
        let lines = Layout::test(40).wrap("Say which folder it is in with --socket-dir DIR.", 2);
        assert_eq!(
            lines,
            ["Say which folder it is in with", "  --socket-dir DIR."]
        );
    }

    #[test]
    fn a_command_and_its_first_word_stay_on_one_line() {
        let lines = Layout::test(40).wrap("Whatever it is, then run: cozyvttctl reload", 0);
        assert_eq!(lines, ["Whatever it is, then run:", "cozyvttctl reload"]);
    }

    #[test]
    fn a_file_gets_long_lines_whole() {
        let layout = Layout {
            width: None,
            unicode: true,
        };
        assert_eq!(layout.wrap(&"word ".repeat(100), 2).len(), 1);
    }
}
