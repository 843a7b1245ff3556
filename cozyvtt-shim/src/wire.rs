//! The daemon's ear: whole lines on the socket, one at a time, from any thread.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use rustix::net::{SendFlags, send};

/// The writing end of a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
    /// Held while a line is written.
    pen: Mutex<()>,
}

impl Wire {
    /// Writes to `stream`.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            pen: Mutex::new(()),
        }
    }

    /// Writes `line`, which ends with its newline. A line that could not be written
    /// whole ends the connection: without its newline the daemon never acts upon it,
    /// and nothing may follow it.
    pub(crate) fn write(&self, line: &[u8]) -> io::Result<()> {
        let _pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.stream).write_all(line).inspect_err(|_| self.end())
    }

    /// Writes `line` if that takes no waiting: nobody else is writing, and there is room.
    pub(crate) fn write_if_free(&self, line: &[u8]) {
        let Ok(_pen) = self.pen.try_lock() else {
            return;
        };
        match send(&self.stream, line, SendFlags::DONTWAIT) {
            // Nothing may follow the beginning of a line.
            Ok(written) if written < line.len() => self.end(),
            // No room, or an end that the reader is about to find.
            Ok(_) | Err(_) => {}
        }
    }

    /// Says that nothing more will come; answers are still read.
    pub(crate) fn half_close(&self) {
        // If the daemon is gone already, the reader is about to find out.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the connection, which frees whoever reads or writes.
    pub(crate) fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
