//! Reads lines of a bounded length, and gives the memory of long ones back.

use std::io::{self, BufRead, BufReader, Read};

/// How much is read from the source at once, in bytes.
const CHUNK: usize = 32 * 1024;

/// Up to this many bytes, a line lives in a small buffer that is kept.
const SMALL: usize = 64 * 1024;

/// What is reserved for a longer line. Only the pages that are written to cost
/// memory. The size lies above 32 MiB because that is the point from which
/// glibc always maps an allocation by itself and unmaps it when it is freed;
/// below, it would learn from the first long line to keep such memory.
const LARGE: usize = 33 * 1024 * 1024;

/// One line, as far as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// All of it, with its newline.
    Whole(&'a [u8]),
    /// The source ended before the newline came; at least one byte.
    Unfinished(&'a [u8]),
    /// It is over the limit. This is its beginning; the rest is skipped.
    TooLong(&'a [u8]),
}

/// Cuts a source into lines.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    source: BufReader<R>,
    /// Longest line, in bytes without its newline.
    limit: usize,
    line: Vec<u8>,
    /// The line that was given last goes on, and nobody wants the rest.
    skipping: bool,
}

impl<R: Read> LineReader<R> {
    /// Reads lines of at most `limit` bytes (without the newline) from `source`.
    pub(crate) fn new(source: R, limit: usize) -> Self {
        Self {
            source: BufReader::with_capacity(CHUNK, source),
            limit,
            line: Vec::new(),
            skipping: false,
        }
    }

    /// What is read from.
    pub(crate) fn source(&self) -> &R {
        self.source.get_ref()
    }

    /// The next line, or `None` at the end. Waits for it.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.line.capacity() >= LARGE {
            self.line = Vec::new();
        }
        self.line.clear();
        if self.skipping {
            self.source.skip_until(b'\n')?;
            self.skipping = false;
        }
        // One byte above the limit, for the newline or for the proof that the
        // line is too long.
        let most = self.limit + 1;
        self.read_up_to(most.min(SMALL))?;
        if self.line.len() == SMALL && !self.line.ends_with(b"\n") && most > SMALL {
            self.line.reserve_exact(LARGE - SMALL);
            self.read_up_to(most - SMALL)?;
        }
        Ok(if self.line.ends_with(b"\n") {
            Some(Line::Whole(&self.line))
        } else if self.line.len() == most {
            self.skipping = true;
            Some(Line::TooLong(&self.line))
        } else if self.line.is_empty() {
            None
        } else {
            Some(Line::Unfinished(&self.line))
        })
    }

    /// Appends to the line until its newline, but no more than `most` bytes.
    fn read_up_to(&mut self, most: usize) -> io::Result<()> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        self.source
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.line)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time, as a pipe may.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(buffer.len());
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn lines_come_whole_however_the_bytes_arrive() {
        let text = "first\n\nzweite ä\n".as_bytes();
        for step in 1..=text.len() {
            let mut lines = LineReader::new(Dripping(text, step), 100);
            assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"first\n")));
            assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"\n")));
            let last = "zweite ä\n".as_bytes();
            assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(last)));
            assert_eq!(lines.next_line().unwrap(), None);
        }
    }

    #[test]
    fn a_last_line_without_a_newline_is_told_apart() {
        let mut lines = LineReader::new(&b"one\ntwo"[..], 100);
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"one\n")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Unfinished(b"two")));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn the_newline_does_not_count_against_the_limit() {
        let mut lines = LineReader::new(&b"12345\n123456\n1\n"[..], 5);
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"12345\n")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::TooLong(b"123456")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"1\n")));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn a_last_line_of_exactly_the_limit_is_not_too_long() {
        let mut lines = LineReader::new(&b"12345"[..], 5);
        assert_eq!(lines.next_line().unwrap(), Some(Line::Unfinished(b"12345")));
    }

    #[test]
    fn an_overlong_line_that_never_ends_is_told_once() {
        let mut lines = LineReader::new(&b"1234567890"[..], 5);
        assert_eq!(lines.next_line().unwrap(), Some(Line::TooLong(b"123456")));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn lines_around_the_size_of_the_small_buffer_come_whole() {
        for length in [SMALL - 1, SMALL, SMALL + 1, 3 * SMALL] {
            let mut text = vec![b'x'; length];
            text.push(b'\n');
            let source = [&text[..], b"next\n"].concat();
            let mut lines = LineReader::new(&source[..], 4 * SMALL);
            assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(&text)));
            assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"next\n")));
        }
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back_before_the_next_is_awaited() {
        let mut text = vec![b'x'; 5 * SMALL];
        text.push(b'\n');
        let mut lines = LineReader::new(&text[..], 10 * SMALL);
        lines.next_line().unwrap();
        assert!(lines.line.capacity() > 5 * SMALL);
        lines.next_line().unwrap();
        assert!(lines.line.capacity() < 2 * SMALL);
    }
}
