//! The terminal: raw mode and the second screen while a [`Screen`] lives. It is as before when the screen is dropped, and
//! before the message of a panic.

use super::model::Model;
use super::view::{self, Palette};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use std::io::{self, BufWriter, Stdout, stdout};
use std::panic;

/// The full screen.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    palette: Palette,
}

impl Screen {
    /// Takes the terminal of this process.
    ///
    /// # Errors
    /// It is no terminal, or it is gone.
    pub(super) fn open(palette: Palette) -> io::Result<Screen> {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        // A frame is some thousand bytes, and one write of them does not flicker.
        let backend = CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, stdout()));
        let screen = Screen { terminal: Terminal::new(backend)?, palette };
        // From here on, dropping it restores the terminal.
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        Ok(screen)
    }

    /// Draws `model`, in the size that the terminal has now.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        let palette = self.palette;
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(model, palette, frame.buffer_mut(), area);
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Makes the terminal as it was. If the terminal is gone, nothing is left to be done.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// Room for a frame of a large terminal, in bytes.
const FRAME_BYTES: usize = 64 << 10;
