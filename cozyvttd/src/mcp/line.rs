//! Lines of bounded length from a byte stream.

use std::io;

use cozyvtt_proto::MAX_LINE_BYTES;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What a line turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A whole line, without its newline.
    Whole(Vec<u8>),
    /// The stream ended within a line. It may look whole and still be cut off,
    /// so nothing may be done on its account.
    CutOff,
    /// A line longer than [`MAX_LINE_BYTES`]; it is gone.
    TooLong,
    /// The stream has ended.
    End,
}

/// Reads lines. A read that is abandoned half-way loses nothing.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    stream: BufReader<R>,
    partial: Vec<u8>,
    /// The present line was too long; what is left of it is passed over.
    skipping: bool,
    limit: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::new(stream),
            partial: Vec::new(),
            skipping: false,
            limit: MAX_LINE_BYTES,
        }
    }

    /// The next line.
    pub(super) async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.stream.fill_buf().await?;
            if available.is_empty() {
                let skipped = std::mem::take(&mut self.skipping);
                let rest = std::mem::take(&mut self.partial);
                return Ok(match (skipped, rest.is_empty()) {
                    (true, _) => Line::TooLong,
                    (false, true) => Line::End,
                    (false, false) => Line::CutOff,
                });
            }
            let newline = available.iter().position(|&byte| byte == b'\n');
            let part = &available[..newline.unwrap_or(available.len())];
            if !self.skipping {
                if self.partial.len() + part.len() > self.limit {
                    self.skipping = true;
                    self.partial = Vec::new();
                } else {
                    self.partial.extend_from_slice(part);
                }
            }
            let taken = part.len() + usize::from(newline.is_some());
            self.stream.consume(taken);
            if newline.is_some() {
                let line = std::mem::take(&mut self.partial);
                return Ok(if std::mem::take(&mut self.skipping) {
                    Line::TooLong
                } else {
                    Line::Whole(line)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &str, limit: usize) -> Vec<Line> {
        let mut reader = LineReader::new(text.as_bytes());
        reader.limit = limit;
        let mut lines = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                Line::End => return lines,
                line => lines.push(line),
            }
        }
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_come_one_by_one_and_one_without_an_end_is_not_taken_for_a_line() {
        assert_eq!(
            lines("a\n\nbc\nd", 10).await,
            [whole("a"), whole(""), whole("bc"), Line::CutOff]
        );
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over_whole() {
        assert_eq!(
            lines("aaaa\nbbbbb\ncccc\ndddddd", 4).await,
            [whole("aaaa"), Line::TooLong, whole("cccc"), Line::TooLong]
        );
    }
}
