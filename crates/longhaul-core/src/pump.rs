//! A pump is one direction of one flow. It guarantees that every byte it reads is written. It passes on the end of the
//! stream only after the last byte, and only in this direction.
//!
//! ```text
//!            filled(n > 0)              drained, n left
//!    Fill ------------------> Drain ---------------+
//!     |  ^                      |  <---------------+
//!     |  +---- drained, empty --+
//!     +-- filled(0): end of stream --> Fin -- finned --> Done
//! ```
//! The caller's buffer, a pipe or memory, holds the bytes that were read and not yet written. Fill happens only when
//! the buffer is empty, so that `EAGAIN` from splice(2) can only mean "the socket is empty". Other relays lost wake-ups
//! because `EAGAIN` has two meanings. Fin happens only when the buffer is empty, so no tail is left in it.

/// The next step of a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PumpStep {
    /// Move bytes from the source socket into the empty buffer.
    Fill,
    /// Move bytes from the buffer into the sink socket.
    Drain,
    /// Send FIN on the sink socket. The source has ended and the buffer is empty.
    Fin,
    /// Nothing is left to do: FIN was sent.
    Done,
}

/// State of one direction: the next step, the bytes in the buffer, and the bytes that went through.
#[derive(Clone, Copy, Debug)]
pub struct Pump {
    step: PumpStep,
    held: usize,
    moved: u64,
}

impl Pump {
    /// Returns a pump whose buffer is empty and whose source has not ended. Its sink took `moved` bytes before it began.
    pub const fn new(moved: u64) -> Pump {
        Pump { step: PumpStep::Fill, held: 0, moved }
    }

    /// Returns the next step.
    pub const fn step(&self) -> PumpStep {
        self.step
    }

    /// Returns the number of bytes in the buffer: read from the source, not yet written to the sink.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Returns the total number of bytes that the sink socket took, including those before the pump began.
    pub const fn moved(&self) -> u64 {
        self.moved
    }

    /// Records that the source gave `bytes` into the buffer; 0 is the end of its stream. Call it only after
    /// [`PumpStep::Fill`].
    pub fn filled(&mut self, bytes: usize) {
        debug_assert_eq!(self.step, PumpStep::Fill);
        self.held = bytes;
        self.step = if bytes == 0 { PumpStep::Fin } else { PumpStep::Drain };
    }

    /// Records that the sink took `bytes` out of the buffer, at most [`held`](Pump::held). Call it only after
    /// [`PumpStep::Drain`].
    pub fn drained(&mut self, bytes: usize) {
        debug_assert!(self.step == PumpStep::Drain && bytes <= self.held);
        self.held -= bytes;
        self.moved += bytes as u64;
        if self.held == 0 {
            self.step = PumpStep::Fill;
        }
    }

    /// Records that FIN was sent on the sink. Call it only after [`PumpStep::Fin`].
    pub fn finned(&mut self) {
        debug_assert_eq!(self.step, PumpStep::Fin);
        self.step = PumpStep::Done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Simulates the kernel: a source that gives its bytes in pieces, a sink that takes them in pieces, and a pipe
    /// between them. `pieces` are the numbers of bytes that successive calls may move; 0 stands for EAGAIN.
    fn run(stream: &[u8], pieces: &[usize]) -> (Vec<u8>, bool, Pump) {
        let (mut pump, mut source, mut pipe) = (Pump::new(0), stream, VecDeque::<u8>::new());
        let (mut sink, mut fin) = (Vec::new(), false);
        let mut pieces = pieces.iter().copied().cycle();
        while pump.step() != PumpStep::Done {
            let piece = pieces.next().unwrap_or(1);
            match pump.step() {
                PumpStep::Fill => {
                    assert!(pipe.is_empty(), "filled a pipe that was not empty");
                    let n = piece.min(source.len());
                    if n > 0 || source.is_empty() {
                        pipe.extend(&source[..n]);
                        source = &source[n..];
                        pump.filled(n);
                    }
                }
                PumpStep::Drain => {
                    let n = piece.min(pump.held());
                    sink.extend(pipe.drain(..n));
                    pump.drained(n);
                }
                PumpStep::Fin => {
                    assert!(pipe.is_empty() && source.is_empty(), "FIN before the last byte");
                    fin = true;
                    pump.finned();
                }
                PumpStep::Done => {}
            }
        }
        (sink, fin, pump)
    }

    proptest! {
        #[test]
        fn every_byte_goes_through_in_order_and_then_one_fin(
            stream in proptest::collection::vec(any::<u8>(), 0..4000),
            mut pieces in proptest::collection::vec(0usize..700, 0..40),
        ) {
            pieces.push(1); // some call makes progress, or the test would not end
            let (sink, fin, pump) = run(&stream, &pieces);
            prop_assert_eq!(&sink, &stream);
            prop_assert!(fin);
            prop_assert_eq!(pump.moved(), stream.len() as u64);
            prop_assert_eq!(pump.held(), 0);
        }
    }

    #[test]
    fn an_empty_stream_is_only_a_fin() {
        let (sink, fin, pump) = run(b"", &[1]);
        assert_eq!((sink.len(), fin, pump.moved()), (0, true, 0));
    }
}
