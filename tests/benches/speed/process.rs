//! A process that does not outlive its owner, and what the system says of processes.

use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A tick of the clock in `/proc/PID/stat`: Linux shows programs 100 of them in a second,
/// whatever it counts by itself.
const TICK: Duration = Duration::from_millis(10);

/// A process that does not outlive this value.
#[derive(Debug)]
pub(crate) struct Owned(pub(crate) Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail only if it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Owned {
    /// What of it is in memory, shared pages included, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        self.kib("status", "VmRSS:")
    }

    /// The same with each shared page divided among those who share it.
    pub(crate) fn proportional(&self) -> Result<u64> {
        self.kib("smaps_rollup", "Pss:")
    }

    /// How many files and sockets it has open.
    pub(crate) fn descriptors(&self) -> Result<u64> {
        let open = std::fs::read_dir(self.path("fd"))?;
        Ok(open.count() as u64)
    }

    /// How long it has been using a processor.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(self.path("stat"))?;
        // The name in parentheses may hold spaces; behind it, the times of the process in
        // its own code and in the kernel are the fields 12 and 13.
        let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let mut ticks = || -> Result<u32> { Ok(fields.next().context("no times")?.parse()?) };
        Ok(TICK * (ticks()? + ticks()?))
    }

    fn kib(&self, file: &str, name: &str) -> Result<u64> {
        let text = std::fs::read_to_string(self.path(file))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_suffix("kB"))
            .with_context(|| format!("no {name} in {file}"))?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.0.id())
    }
}
