//! Loss in bursts, after Gilbert and Elliott: the line is good or bad, each segment may turn it over, and in each state
//! segments are lost with another probability. Without those two numbers a good line loses nothing and a bad one
//! everything (Gilbert): then p / (p + r) of all segments are lost, 1 / r of them in a row on average.
//!
//! Elliott: Estimates of error rates for codes on burst-noise channels, 1963; the letters are those of tc-netem(8)'s
//! gemodel.

use crate::loss::percentage;
use crate::random::{Chance, Random};
use crate::{Exit, Packet, Row, Stage, StageError, Traits, value};

pub(super) const ROW: Row = Row {
    key: "burst-loss",
    help: "loss in bursts (Gilbert-Elliott): a segment makes a good line bad with probability p and a bad one good with \
           probability r; what is lost meanwhile, if it is not 0% and 100%, is added as `good 0.01% bad 50%`",
    sample: "p 0.1% r 30%",
    events: Some("bursts"),
    needs: None,
    traits: Traits { dropped_by: "the link's burst-loss", ..Traits::NONE },
    build: |value, seed| {
        let line = BurstLoss::read(value, seed)?;
        Ok(line.loses().then(|| Box::new(line) as Box<dyn Stage>))
    },
};

struct BurstLoss {
    random: Random,
    /// The good state, where it begins, and the bad one.
    states: [State; 2],
    is_bad: bool,
    /// Number of segments that pass before the state changes.
    left: u64,
}

struct State {
    /// The probability of leaving it, for each segment.
    leave: f64,
    share: f64,
    loss: Chance,
}

impl BurstLoss {
    fn read(text: &str, seed: u64) -> Result<BurstLoss, StageError> {
        let form = StageError::Form(ROW.sample);
        let ("", [Some(p), Some(r), good, bad]) = value::parts(text, ["p", "r", "good", "bad"]).ok_or(form)? else {
            return Err(form);
        };
        let state = |leave: &str, share: &str, seed| -> Result<State, StageError> {
            let leave = percentage(leave)?;
            let share = percentage(share)?;
            Ok(State { leave, share, loss: Chance::new(share, seed) })
        };
        let good = state(p, good.unwrap_or("0"), seed.wrapping_add(1))?;
        let bad = state(r, bad.unwrap_or("100%"), seed.wrapping_add(2))?;
        let mut random = Random::new(seed);
        let left = random.failures(good.leave);
        Ok(BurstLoss { random, states: [good, bad], is_bad: false, left })
    }

    /// Whether anything is ever lost.
    fn loses(&self) -> bool {
        let [good, bad] = &self.states;
        good.share > 0.0 || (good.leave > 0.0 && bad.share > 0.0)
    }

    /// The segment that turns the state over is already in the new one, and the next that does is at least one later.
    fn turn(&mut self, exit: &mut Exit) {
        self.is_bad = !self.is_bad;
        exit.happened(u64::from(self.is_bad));
        let leave = self.states[usize::from(self.is_bad)].leave;
        self.left = self.random.failures(leave).saturating_add(1);
    }
}

impl Stage for BurstLoss {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        let mut left = Some(packet);
        while let Some(packet) = left {
            if self.left == 0 {
                self.turn(exit);
            }
            let run = packet.front(u32::try_from(self.left).unwrap_or(u32::MAX));
            self.left -= u64::from(run.segments);
            left = packet.after(run.segments);
            self.states[usize::from(self.is_bad)].loss.split_hits(run, |piece, is_hit| {
                if !is_hit {
                    exit.push(piece);
                }
            });
        }
    }
}
