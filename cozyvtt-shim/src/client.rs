//! The client's end: stdin, stdout, and whether anybody is still there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::exit;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The client's ear: whole lines on stdout, one at a time, from any thread.
///
/// When the client is gone there is nothing left to do, so what finds that out
/// ends the process.
#[derive(Debug)]
pub(crate) struct Client {
    stdout: Mutex<Patient>,
}

impl Client {
    /// Stdin, and the client that reads stdout.
    pub(crate) fn on_stdio() -> io::Result<(Patient, Self)> {
        // Rust's own handles would buffer once more, and take a closed stdout
        // for one that swallows everything.
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let stdout = Mutex::new(Patient(stdout));
        Ok((Patient(stdin), Self { stdout }))
    }

    /// Writes `line`, which ends with its newline.
    pub(crate) fn say(&self, line: &[u8]) {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        if stdout.write_all(line).is_err() {
            exit(0);
        }
    }
}

/// Ends the process as soon as nobody can read stdout any more. A client that
/// died is noticed even while another thread is stuck in a write.
pub(crate) fn leave_when_gone() {
    // Without any flag asked for, `poll` reports only that the other end is
    // closed. Files and terminals that stay open never report it.
    if wait_for(io::stdout().as_fd(), PollFlags::empty()).is_ok() {
        exit(0);
    }
}

/// A stdio file that may have been left non-blocking by whoever shares it.
#[derive(Debug)]
pub(crate) struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(self.0.as_fd(), PollFlags::IN)?;
                }
                done => return done,
            }
        }
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(self.0.as_fd(), PollFlags::OUT)?;
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits until one of `flags`, or the end of `file`, is there.
fn wait_for(file: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(file, flags)], None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}
