//! Samples of a duration, and what is told of them.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::report::{Figure, Unit};

/// Samples, shortest first; at least one.
#[derive(Debug)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Of these.
    pub(crate) fn new(mut samples: Vec<Duration>) -> Result<Self> {
        ensure!(!samples.is_empty(), "nothing was measured");
        samples.sort_unstable();
        Ok(Self(samples))
    }

    /// The one in the middle, in seconds.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// What `percent` of a hundred do not exceed, in seconds.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.saturating_sub(1)].as_secs_f64()
    }

    /// Median and 99 %.
    pub(crate) fn figure(&self, what: impl Into<String>) -> Figure {
        Figure::new(what, self.median(), Unit::Seconds).high(self.percentile(99))
    }
}

/// The one in the middle of some numbers.
pub(crate) fn middle(mut numbers: Vec<u64>) -> Result<u64> {
    ensure!(!numbers.is_empty(), "nothing was measured");
    numbers.sort_unstable();
    Ok(numbers[numbers.len() / 2])
}
