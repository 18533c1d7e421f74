//! One setting of one system, as a row of data.

use super::goal::Goal;

/// One setting of one system. The commands are lines for the system's shell, with words in braces:
///
/// | word | stands for |
/// | --- | --- |
/// | `{value}` | the value to set |
/// | `{old}` | the value before the change |
/// | `{interface}` | the network interface towards the WAN |
/// | `{network}`, `{gateway}` | the destination of the route to the far site, and its router |
#[derive(Debug)]
pub struct Setting {
    /// Name, as the system's own commands have it. Unique within the system.
    pub name: &'static str,
    /// Where it is set: `interface`, `whole system`, `route` ..
    pub place: &'static str,
    /// Unit of the value: `bytes`, `on/off`, `word` ..
    pub unit: &'static str,
    /// Default, as text; several where releases differ.
    pub default: &'static str,
    /// Range of the value, or the value that caps it; may be empty.
    pub limits: &'static str,
    /// What the setting does to a connection.
    pub effect: Effect,
    /// Returns the value that the path needs, in the form that the commands take; `None` if the path needs no change.
    pub want: fn(&Goal) -> Option<String>,
    /// Command that shows the present value.
    pub read: &'static str,
    /// Command that sets the value now; empty if only the permanent form exists.
    pub set_now: &'static str,
    /// Command that makes the value permanent; it may set it now, too.
    pub set_permanent: &'static str,
    /// Command that undoes both.
    pub undo: &'static str,
    /// What to know before the change; may be empty.
    pub caveat: &'static str,
    /// The document that names it.
    pub source: &'static str,
    /// Whether its commands were tried on such a host.
    pub verified: bool,
}

/// What a setting does to a connection: the audit knows by it what a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It caps the window that the receiver offers, in bytes.
    ReceiveWindow,
    /// It caps the bytes that the sender has in flight, in bytes.
    SendWindow,
    /// It caps both.
    Window,
    /// It caps the values of other settings, such as `sb_max`.
    Ceiling,
    /// It switches window scaling: without it a window has 65,535 bytes at most.
    Scaling,
    /// It changes how the sender recovers from loss.
    Recovery,
    /// It changes the size of packets.
    PacketSize,
    /// It costs processor time or delays small messages; it sets no limit that can be computed.
    Other,
}

/// The words that replace the braces of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill<'a> {
    /// The value to set.
    pub value: &'a str,
    /// The value before the change; a word such as `OLD` if it is unknown.
    pub old: &'a str,
    /// The network interface towards the WAN.
    pub interface: &'a str,
    /// The destination of the route to the far site.
    pub network: &'a str,
    /// The router of that route.
    pub gateway: &'a str,
}

impl Fill<'_> {
    /// Returns `command` with its words in braces replaced.
    pub fn into_command(self, command: &str) -> String {
        // The value comes last: it may come from a paste, and is not to be searched for braces.
        let words = [
            ("{interface}", self.interface),
            ("{network}", self.network),
            ("{gateway}", self.gateway),
            ("{old}", self.old),
            ("{value}", self.value),
        ];
        words.iter().fold(command.to_string(), |text, (word, value)| text.replace(word, value))
    }
}
