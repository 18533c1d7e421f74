//! `longhaul lab up`: builds the lab of a scenario, which stands until Ctrl-C.

use crate::carrier::row::Carrier;
use crate::carrier::table as carriers;
use crate::cmd::changes::Changes;
use crate::cmd::progress::say;
use crate::cmd::signals;
use crate::cmd::standing::Standing;
use crate::error::unknown;
use crate::scenario::library;
use crate::scenario::model::Run;
use crate::world::user::User;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Build the lab of a scenario, to try programs by hand
///
/// Builds the hosts, the relays and the WAN of the scenario's first run, and starts servers on host B. Prints the commands that
/// enter the hosts, the addresses, and commands to try. The lab stands until Ctrl-C, tells what the link has carried and dropped, and leaves nothing behind.
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
    #[arg(long, value_name = "NAME", value_parser = carriers::find)]
    carrier: Option<&'static Carrier>,
    #[command(flatten)]
    changes: Changes,
}

/// The lab to build.
struct Plan {
    /// The scenario's name.
    scenario: String,
    /// The run, with the changes of the command line.
    run: Run,
}

impl Up {
    /// Builds the lab. Returns 0 once it was taken down, 1 if it could not be built, 2 for a wrong file or value.
    pub(crate) fn run(self) -> ExitCode {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(lines) => {
                lines.iter().for_each(|line| say(line));
                return ExitCode::from(2);
            }
        };
        self.keep(&plan).unwrap_or_else(|why| {
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

    /// Builds the lab and waits for a signal.
    fn keep(&self, Plan { scenario, run }: &Plan) -> Result<ExitCode, String> {
        let user = User::become_root().map_err(|why| format!("the lab cannot be built: {why}"))?;
        let (stands, ending) = on_signal()?;
        let standing =
            Standing::build(run, self.carrier, &user).map_err(|why| format!("the lab cannot be built: {why}"))?;
        stands.store(true, Ordering::Release);
        let told = write!(std::io::stdout(), "{}", standing.manual(scenario, run, &user));
        // Without a reader of its description the lab is of no use.
        told.and_then(|()| std::io::stdout().flush())
            .map_err(|err| format!("the description of the lab cannot be written: {err}"))?;
        let _ = ending.recv();
        // Nobody may read it any more.
        let _ = write!(std::io::stdout(), "{}", standing.seen());
        drop(standing);
        Ok(ExitCode::SUCCESS)
    }
}

/// Handles signals. While the lab is being built, a signal ends the process. Once the caller has set the returned flag, a signal
/// sends a message to the returned receiver, whose thread takes the lab down.
fn on_signal() -> Result<(Arc<AtomicBool>, Receiver<()>), String> {
    let stands = Arc::new(AtomicBool::new(false));
    let (end, ending) = mpsc::channel();
    let is_standing = Arc::clone(&stands);
    let tidy = move || {
        if is_standing.load(Ordering::Acquire) && end.send(()).is_ok() {
            // A process on a host may delay the end. After this time the process exits, and the kernel removes the rest.
            std::thread::sleep(PATIENCE);
        }
    };
    signals::end_with(tidy).map_err(|why| why.to_string())?;
    Ok((stands, ending))
}

/// Maximum time for taking down.
const PATIENCE: Duration = Duration::from_secs(4);

fn no_run(runs: &[Run], id: &str) -> String {
    unknown(&format!("run {id:?}"), id, runs.iter().map(|run| run.id.as_str()), "there are")
}
