//! What longhaul uses of kernels after Linux 3.10, and what happens where it is missing. docs/kernels.md has the table.

use super::row::Row;
use super::since::{Since, lacks};
use super::table::ROWS;
use longhaul_sys::limits::sysctl;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;

/// Returns the name and the needs of everything that needs a newer kernel, the oldest first.
pub fn features() -> Vec<(String, Since)> {
    let option = |row: &Row| row.since.map(|since| (format!("option `{}`", row.key), since));
    let others = OTHERS.iter().map(|(name, since)| ((*name).to_string(), *since));
    let mut all: Vec<_> = others.chain(ROWS.iter().filter_map(option)).collect();
    all.sort_by_key(|(_, since)| version(since.linux));
    all
}

/// What this kernel lacks, one sentence each.
pub fn missing() -> Vec<String> {
    let missing = features().into_iter().filter(|(_, since)| (since.is_missing)());
    missing
        .map(|(name, Since { linux, without, .. })| format!("this kernel lacks {name} (Linux {linux}): {without}"))
        .collect()
}

/// What no option is about.
const OTHERS: [(&str, Since); 6] = [
    (
        "IP_BIND_ADDRESS_NO_PORT",
        Since {
            linux: "4.2",
            without: "a tunnel with `source` has one port for each of its flows, even to different next hops",
            is_missing: || lacks(sockopt::set_bind_address_no_port),
        },
    ),
    (
        "BBR",
        Since {
            linux: "4.9",
            without: "`congestion = \"auto\"` leaves each leg its congestion control, so a flow is slow where the WAN loses packets",
            // A later kernel may not have loaded the module yet: that is a warning of its own.
            is_missing: || is_older_than("4.9") && lacks(|socket| sockopt::set_congestion(socket, "bbr")),
        },
    ),
    (
        "rates and limits in TCP_INFO",
        Since {
            linux: "4.10",
            without: "`status`, `top` and `/metrics` do not know what limits a live flow",
            is_missing: || tells_less_than(192),
        },
    ),
    (
        "retransmitted bytes in TCP_INFO",
        Since {
            linux: "4.19",
            without: "`bandwidth = \"auto\"` caps no path, and the losses of a live flow are not known",
            is_missing: || tells_less_than(216),
        },
    ),
    (
        "the peer's window in TCP_INFO",
        Since {
            linux: "5.4",
            without: "`status` and `top` do not say when the receiver's window limits a flow",
            is_missing: || tells_less_than(232),
        },
    ),
    (
        "net.ipv4.tcp_migrate_req",
        Since {
            linux: "5.14",
            without: "connections that wait to be accepted are reset when a reload replaces their listener",
            is_missing: || sysctl("net/ipv4/tcp_migrate_req").is_none(),
        },
    ),
];

/// Whether TCP_INFO of this kernel has fewer bytes than `length`: the kernel only ever appends fields.
fn tells_less_than(length: usize) -> bool {
    TcpInfo::length().is_some_and(|known| known < length)
}

/// Whether this kernel says of itself that it is older than `version`.
fn is_older_than(linux: &str) -> bool {
    sysctl("kernel/osrelease").and_then(|release| version(&release)).is_some_and(|own| Some(own) < version(linux))
}

/// The first two numbers of `4.10` or `4.10.0-42-generic`, which sort.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/kernels.md");

    #[test]
    fn versions_sort_by_their_numbers() {
        assert!(version("4.10.0-42-generic") > version("4.9") && version("4.9.337") == version("4.9"));
        assert!(!is_older_than("2.6") && is_older_than("9999.0"));
    }

    #[test]
    fn docs_kernels_md_has_the_table() {
        let (head, rest) =
            PAGE.split_once("| what | since Linux | without it |\n| --- | --- | --- |\n").expect("the table");
        let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
        let rows: String = features()
            .iter()
            .map(|(name, Since { linux, without, .. })| format!("| {name} | {linux} | {without} |\n"))
            .collect();
        let page = format!("{head}| what | since Linux | without it |\n| --- | --- | --- |\n{rows}{after}");
        if std::env::var_os("UPDATE").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernels.md");
            return std::fs::write(file, page).expect("docs/kernels.md");
        }
        assert!(page == PAGE, "run UPDATE=1 cargo test -p longhaul-config --lib docs_kernels_md; read the diff");
    }
}
