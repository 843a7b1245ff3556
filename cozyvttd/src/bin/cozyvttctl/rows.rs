//! The rows of hops that `status` and `doctor` show: a mark, a name, what was found, the mend.

use cozyvtt_proto::control::{Hop, HopState};
use textwrap::core::display_width;

use crate::terminal::{BAD, CARE, GOOD, Layout};
use crate::text::{pad, plain};

/// Each hop with its mark, its name and its detail, and below it what mends it.
pub(crate) fn lines(hops: &[Hop], layout: Layout) -> Vec<String> {
    let names = hops.iter().map(|hop| display_width(&plain(&hop.name)));
    lines_with(hops, names.max().unwrap_or(0), layout)
}

/// The same with so many columns for the names, for rows that come one after the other.
pub(crate) fn lines_with(hops: &[Hop], name_width: usize, layout: Layout) -> Vec<String> {
    let mut lines = Vec::new();
    for hop in hops {
        let name = &plain(&hop.name);
        let (style, mark) = match hop.state {
            HopState::Ok => (GOOD, layout.pick("✓", "ok  ")),
            HopState::Waiting => (CARE, layout.pick("…", "wait")),
            HopState::Broken => (BAD, layout.pick("✗", "FAIL")),
            HopState::Unknown => (CARE, layout.pick("?", "?   ")),
        };
        // Two blanks, the mark, a blank, the name, two blanks.
        let indent = 5 + display_width(mark) + name_width;
        let column = layout.narrower(indent);
        let mut texts = column.wrap(&plain(&hop.detail), 0);
        if let Some(fix) = &hop.fix {
            let arrow = layout.pick("→", "->");
            let hang = display_width(arrow) + 1;
            texts.extend(column.wrap(&format!("{arrow} {}", plain(fix)), hang));
        }
        for (number, text) in texts.into_iter().enumerate() {
            let line = if number == 0 {
                format!("  {style}{mark}{style:#} {}  {text}", pad(name, name_width))
            } else {
                format!("{:indent$}{text}", "")
            };
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}
