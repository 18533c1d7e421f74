//! The loop of `longhaul top`: it waits for keys, the clock, answers of the daemon and signals, and draws after each.

use super::model::{Action, Contact, Model};
use super::terminal::Screen;
use super::view::{self, Palette};
use crate::admin::client::{self, Ask, NoAnswer};
use crate::admin::snapshot::Snapshot;
use crate::time::now;
use jiff::tz::TimeZone;
use longhaul_core::curve::Span;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Rect;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

/// The daemon to watch, and the style of the screen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Control socket of the daemon.
    pub socket: PathBuf,
    /// Time between two requests.
    pub interval: Duration,
    /// Whether to use colours.
    pub colour: bool,
    /// Returns what systemd says of the service, where the daemon is one. It may block. It is called while the daemon is gone.
    pub systemd: Option<fn() -> Option<String>>,
}

/// Why there is no picture.
#[derive(Debug)]
pub enum Failed {
    /// The daemon does not answer.
    Daemon(NoAnswer),
    /// The terminal failed.
    Terminal(io::Error),
    /// The program cannot run. The text is the reason.
    Start(String),
}

/// Shows the full screen until the operator quits, or until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// The program has no right to ask the daemon, or the terminal fails. A daemon that is missing is no error: the screen waits
/// for it.
pub fn run(options: &Options) -> Result<(), Failed> {
    let runtime = runtime()?;
    let shown = runtime.block_on(show(options));
    // A blocking call, such as systemctl, is not waited for.
    runtime.shutdown_background();
    shown
}

/// Returns one picture as text, with lines of up to 120 characters. It takes one interval, because a rate needs two snapshots.
///
/// # Errors
/// The daemon does not answer.
pub fn once(options: &Options) -> Result<String, Failed> {
    let mut model = model(options);
    runtime()?.block_on(async {
        for pause in [options.interval, Duration::ZERO] {
            let snapshot = look(&options.socket, None).await.map_err(Failed::Daemon)?;
            model.now = now();
            model.answered(Ok(*snapshot));
            sleep(pause).await;
        }
        Ok(())
    })?;
    Ok(text(&mut model))
}

/// Returns the picture with all its lines.
fn text(model: &mut Model) -> String {
    let (tunnels, flows) =
        model.picture.as_ref().map_or((0, 0), |(picture, _)| (picture.tunnels.len(), picture.flows.len()));
    // The problems and the tunnels have at most a third of the screen each.
    let lines = u16::try_from(flows + 3 * tunnels + 60).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, ONCE_WIDTH, lines.min(MAX_ONCE_LINES));
    let mut buffer = Buffer::empty(area);
    view::draw(model, Palette { colour: false }, &mut buffer, area);
    // The last line has the keys.
    let line = |row: u16| -> String { (0..area.width).map(|column| buffer[(column, row)].symbol()).collect() };
    let lines: Vec<String> = (0..area.height.saturating_sub(1)).map(line).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// Something that has happened.
enum Happened {
    Answer(Result<Box<Snapshot>, NoAnswer>),
    Killed(u64, Result<(), String>),
    Systemd(Option<String>),
}

/// The sources of events.
struct Sources {
    input: mpsc::Receiver<io::Result<Event>>,
    jobs: JoinSet<Happened>,
    clock: Interval,
    ask: Interval,
    signals: [Signal; 3],
    /// When the request for a snapshot was sent that is on its way.
    asking: Option<Instant>,
    /// Whether systemd is being asked.
    asking_systemd: bool,
}

async fn show(options: &Options) -> Result<(), Failed> {
    let mut sources = Sources::open(options.interval)?;
    let mut model = model(options);
    let mut screen = Screen::open(Palette { colour: options.colour }).map_err(Failed::Terminal)?;
    sources.read_input()?;
    loop {
        screen.draw(&mut model).map_err(Failed::Terminal)?;
        if sources.next(options, &mut model).await?.is_break() {
            return Ok(());
        }
    }
}

impl Sources {
    fn open(every: Duration) -> Result<Sources, Failed> {
        let signal = |kind| signal(kind).map_err(|err| Failed::Start(format!("cannot wait for signals: {err}")));
        let mut sources = Sources {
            input: mpsc::channel(1).1,
            jobs: JoinSet::new(),
            clock: interval(Duration::from_secs(1)),
            ask: interval(every),
            signals: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ],
            asking: None,
            asking_systemd: false,
        };
        sources.clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        sources.ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(sources)
    }

    /// Starts the thread that reads keys. It ends with the process, because reading cannot be interrupted.
    fn read_input(&mut self) -> Result<(), Failed> {
        let (keys, input) = mpsc::channel(64);
        self.input = input;
        let read = move || while keys.blocking_send(event::read()).is_ok() {};
        let thread = thread::Builder::new().name("keys".into()).spawn(read);
        thread.map(drop).map_err(|err| Failed::Start(format!("cannot start a thread: {err}")))
    }

    /// Waits for the next event and gives it to `model`. Returns whether the program goes on.
    async fn next(&mut self, options: &Options, model: &mut Model) -> Result<ControlFlow<()>, Failed> {
        let [terminate, interrupt, hangup] = &mut self.signals;
        // Every arm is a receive or a tick, which loses nothing when another arm is first.
        tokio::select! {
            _ = terminate.recv() => return Ok(ControlFlow::Break(())),
            _ = interrupt.recv() => return Ok(ControlFlow::Break(())),
            _ = hangup.recv() => return Ok(ControlFlow::Break(())),
            input = self.input.recv() => return self.keys(input, options, model),
            _ = self.clock.tick() => {
                model.now = now();
                if self.asking.is_some_and(|since| since.elapsed() >= PATIENCE) {
                    model.answered(Err(NoAnswer::Hangs("the daemon does not answer".into())));
                }
            }
            _ = self.ask.tick() => self.ask(options, model.wanted_curves()),
            Some(done) = self.jobs.join_next() => {
                model.now = now();
                match done {
                    Ok(happened) => self.take(happened, options, model)?,
                    Err(err) => return Err(Failed::Start(format!("a task failed: {err}"))),
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Gives a key to `model`, and those that have come since: the screen is drawn once for all of them.
    fn keys(
        &mut self,
        first: Option<io::Result<Event>>,
        options: &Options,
        model: &mut Model,
    ) -> Result<ControlFlow<()>, Failed> {
        let mut next = first;
        while let Some(event) = next {
            let action = match event.map_err(Failed::Terminal)? {
                Event::Key(key) => model.key(key),
                _ => None,
            };
            match action {
                Some(Action::Quit) => return Ok(ControlFlow::Break(())),
                Some(Action::Kill(flow)) => self.kill(flow, options),
                None => {}
            }
            next = self.input.try_recv().ok();
        }
        // The channel is closed if the thread has ended.
        if self.input.is_closed() {
            Err(Failed::Start("the keys cannot be read".into()))
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }

    /// Asks for a snapshot, with curves of a time if they are wanted, unless a request is on its way.
    fn ask(&mut self, options: &Options, curves: Option<Span>) {
        if self.asking.is_none() {
            self.asking = Some(Instant::now());
            let socket = options.socket.clone();
            self.jobs.spawn(async move { Happened::Answer(look(&socket, curves).await) });
        }
    }

    fn kill(&mut self, flow: u64, options: &Options) {
        let socket = options.socket.clone();
        self.jobs.spawn(async move {
            let answer = client::ask(&socket, Ask::Kill(flow)).await;
            Happened::Killed(flow, answer.map(drop).map_err(|err| err.to_string()))
        });
    }

    fn take(&mut self, happened: Happened, options: &Options, model: &mut Model) -> Result<(), Failed> {
        match happened {
            // A right that is missing at the start will not come.
            Happened::Answer(Err(err @ NoAnswer::Failed(_))) if model.contact == Contact::Asking => {
                return Err(Failed::Daemon(err));
            }
            Happened::Answer(answer) => {
                self.asking = None;
                if let (Err(NoAnswer::NoDaemon(_)), Some(systemd), false) =
                    (&answer, options.systemd, self.asking_systemd)
                {
                    self.asking_systemd = true;
                    self.jobs.spawn_blocking(move || Happened::Systemd(systemd()));
                }
                model.answered(answer.map(|snapshot| *snapshot));
            }
            // The next picture comes by the clock: rates over a shorter time would be wrong by much.
            Happened::Killed(flow, outcome) => model.killed(flow, outcome),
            Happened::Systemd(said) => {
                self.asking_systemd = false;
                model.systemd_said(said);
            }
        }
        Ok(())
    }
}

/// Asks the daemon for its state.
async fn look(socket: &Path, curves: Option<Span>) -> Result<Box<Snapshot>, NoAnswer> {
    let bytes = client::ask(socket, curves.map_or(Ask::Status, Ask::Curves)).await?;
    serde_json::from_slice(&bytes).map(Box::new).map_err(|err| NoAnswer::Failed(format!("the daemon's answer: {err}")))
}

fn model(options: &Options) -> Model {
    Model::new(options.socket.display().to_string(), TimeZone::system(), now())
}

fn runtime() -> Result<Runtime, Failed> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|err| Failed::Start(format!("cannot start: {err}")))
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Daemon(err) => err.fmt(f),
            Failed::Terminal(err) => write!(f, "the terminal: {err}"),
            Failed::Start(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failed {}

/// Time after which a daemon that has not answered is called silent. It needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Width of the lines of [`once`], in characters.
const ONCE_WIDTH: u16 = 120;
/// Maximum number of lines of [`once`]. Scripts that need all flows read the JSON document.
const MAX_ONCE_LINES: u16 = 5000;
