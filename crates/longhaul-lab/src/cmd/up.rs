//! `longhaul lab up`: builds the lab of a scenario and leaves it standing.
//!
//! The process starts a second process in its own session, waits until that has built the lab and described it, and exits. The
//! second process exits if nobody reads its description.

use crate::carrier::{self, Carrier};
use crate::cmd::changes::Changes;
use crate::cmd::note::{Claim, Claimed, Note};
use crate::cmd::progress::say;
use crate::cmd::signals;
use crate::cmd::standing::Standing;
use crate::scenario::{Run, library};
use crate::world::user::User;
use clap::Args;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Build the lab of a scenario and leave it standing
///
/// Use it to try programs by hand. Builds the hosts, the relays and the WAN of the scenario's first run, and starts servers on
/// host B. Prints the commands that enter the hosts, the addresses, and commands to try. The lab stands until `longhaul lab
/// down`.
///
/// Runs as root, or as any user where the system allows user namespaces.
#[derive(Args, Debug, Clone)]
pub(crate) struct Up {
    /// A scenario of `longhaul lab list`, or a file
    #[arg(value_name = "NAME|FILE")]
    name: String,
    /// The lab of this run [default: the first]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Start this carrier on the relays [default: none]
    ///
    /// Without a carrier the relay hosts only route.
    #[arg(long, value_name = "NAME", value_parser = carrier::find)]
    carrier: Option<&'static Carrier>,
    #[command(flatten)]
    changes: Changes,
    /// Stay in the foreground until Ctrl-C
    #[arg(long)]
    foreground: bool,
    /// Marks the process that the command starts in the background
    #[arg(long, hide = true, conflicts_with = "foreground")]
    detached: bool,
}

/// The lab to build.
struct Plan {
    /// The scenario's name.
    scenario: String,
    /// The run, with the changes of the command line.
    run: Run,
}

impl Up {
    /// Builds the lab. Returns 0 if it stands, 1 if it could not be built, 2 for a wrong file or value.
    pub(crate) fn run(self) -> ExitCode {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(lines) => {
                lines.iter().for_each(|line| say(line));
                return ExitCode::from(2);
            }
        };
        let done = if self.foreground || self.detached { self.keep(&plan) } else { launch() };
        done.unwrap_or_else(|why| {
            say(&format!("longhaul: {why}"));
            ExitCode::FAILURE
        })
    }

    /// Returns the lab to build.
    fn plan(&self) -> Result<Plan, Vec<String>> {
        let mut scenario = library::find(&self.name)?;
        let can = |run: &Run| run.skip.is_none();
        let at = match &self.run {
            Some(id) => scenario.runs.iter().position(|run| run.id == *id).ok_or_else(|| no_run(&scenario.runs, id)),
            None => scenario.runs.iter().position(can).ok_or_else(|| "none of its runs can be emulated".to_string()),
        };
        let wrong = |why| vec![format!("error: {}: {why}", scenario.name)];
        let mut run = scenario.runs.swap_remove(at.map_err(wrong)?);
        if let Some(why) = &run.skip {
            return Err(vec![format!("error: {}: run {} cannot be emulated: {why}", scenario.name, run.id)]);
        }
        self.changes.apply(&mut run);
        Ok(Plan { scenario: scenario.name, run })
    }

    /// Builds the lab in this process and waits for a signal.
    fn keep(&self, Plan { scenario, run }: &Plan) -> Result<ExitCode, String> {
        if self.detached {
            longhaul_sys::process::own_session().map_err(|err| err.to_string())?;
        }
        let mut claim = match Claim::take().map_err(|why| why.to_string())? {
            Claimed::Ours(claim, _) => claim,
            Claimed::Taken(note) => return Err(taken(&note)),
        };
        let user = User::become_root().map_err(|why| format!("the lab cannot be built: {why}"))?;
        let (stands, ending) = on_signal(&claim)?;
        let mut note =
            Note { process: std::process::id(), scenario: scenario.clone(), run: run.id.clone(), ..Note::default() };
        claim.write(&note).map_err(|why| why.to_string())?;
        let standing =
            Standing::build(run, self.carrier, &user).map_err(|why| format!("the lab cannot be built: {why}"))?;
        note.anchors = standing.anchors();
        note.manual = standing.manual(scenario, run, &user);
        claim.write(&note).map_err(|why| why.to_string())?;
        let end = if self.detached { "\0" } else { "\nIt stands until Ctrl-C.\n" };
        let told = write!(std::io::stdout(), "{}{end}", note.manual).and_then(|()| std::io::stdout().flush());
        if let (Err(err), true) = (told, self.detached) {
            return Err(format!("nobody reads the description of the lab: {err}"));
        }
        // Frees the current directory, so that its file system can be unmounted.
        let _ = std::env::set_current_dir("/");
        stands.store(true, Ordering::Release);
        let _ = ending.recv();
        drop(standing);
        drop(claim);
        Ok(ExitCode::SUCCESS)
    }
}

/// Handles signals. While the lab is being built, a signal ends the process. Once the caller has set the returned flag, a signal
/// sends a message to the returned receiver, whose thread takes the lab down.
fn on_signal(claim: &Claim) -> Result<(Arc<AtomicBool>, Receiver<()>), String> {
    let stands = Arc::new(AtomicBool::new(false));
    let (end, ending) = mpsc::channel();
    let is_standing = Arc::clone(&stands);
    let remove = claim.removing();
    let tidy = move || {
        if is_standing.load(Ordering::Acquire) && end.send(()).is_ok() {
            // A process on a host may delay the end. After this time the process exits, and the kernel removes the rest.
            std::thread::sleep(PATIENCE);
        }
        remove();
    };
    signals::end_with(tidy).map_err(|why| why.to_string())?;
    Ok((stands, ending))
}

/// Starts this command again in the background and prints its output.
fn launch() -> Result<ExitCode, String> {
    let program = std::env::current_exe().map_err(|err| format!("finding this program: {err}"))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--detached");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|err| format!("starting the lab's process: {err}"))?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("starting the lab's process: it has no output".into());
    };
    let mut text = Vec::new();
    let _ = BufReader::new(stdout).read_until(0, &mut text);
    if text.pop() == Some(0) {
        // A reader that closes the pipe early, such as `head`, is not an error.
        let _ = std::io::stdout().write_all(&text);
        return Ok(ExitCode::SUCCESS);
    }
    let mut why = String::new();
    let _ = stderr.read_to_string(&mut why);
    let status = child.wait().map_err(|err| format!("the lab's process: {err}"))?;
    match why.trim_end() {
        "" => Err(format!("the lab's process ended with {status}")),
        why => {
            say(why);
            Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
        }
    }
}

/// Maximum time for taking down.
const PATIENCE: Duration = Duration::from_secs(4);

fn taken(note: &Note) -> String {
    let Note { process, scenario, run, manual, .. } = note;
    let which = match (scenario.is_empty(), manual.is_empty()) {
        (true, _) => "a lab is being built or taken down".to_string(),
        (false, true) => format!("the lab of {scenario}, {run}, is being built by process {process}"),
        (false, false) => format!("a lab stands already: {scenario}, {run}, process {process}"),
    };
    let rest = if manual.is_empty() { String::new() } else { format!("\n\n{}", manual.trim_end()) };
    format!("{which}; take it down first: longhaul lab down{rest}")
}

fn no_run(runs: &[Run], id: &str) -> String {
    let names = || runs.iter().map(|run| run.id.as_str());
    match longhaul_config::suggest::nearest(id, names()) {
        Some(near) => format!("there is no run {id:?}; did you mean {near}?"),
        None => format!("there is no run {id:?}; there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}
