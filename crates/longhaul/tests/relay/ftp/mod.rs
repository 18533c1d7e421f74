//! Tests tunnels with `protocol = "ftp"` between real clients and real servers. [`ROWS`] combines them so that each client and
//! each server has every form of data connection, one relay and two, and both IP versions. The files have a few megabytes, so
//! that the tests stay fast; the scenarios of the lab carry long ones.

mod control;
pub(crate) mod dialogue;
pub(crate) mod flows;
mod killed;
mod listeners;
mod modes;
mod places;
mod rules;
pub(crate) mod servers;
mod words;

use crate::carry::endings::{OVER_ALL_BUFFERS, SMALL_BUFFERS};
use crate::ftp::dialogue::Control;
use crate::ftp::servers::*;
use crate::harness::*;
use std::fs;
use std::io::Read;
use std::process::Output;

/// A server, a client, and the path between them.
struct Row {
    server: Kind,
    client: Client,
    mode: Mode,
    /// The addresses on which the relays and then the server listen.
    ips: &'static [&'static str],
}

const V4: &str = "127.0.0.1";
const V6: &str = "[::1]";

/// Rows with every form of data connection, one relay and two, IPv4, IPv6 and both for each server, and for each client as far as
/// it can: ftplib uses EPSV and EPRT only over IPv6, and lftp names `::` in EPRT over loopback, which no server takes.
const ROWS: &[Row] = &[
    Row { server: Kind::Vsftpd, client: Client::Lftp, mode: Mode::Pasv, ips: &[V4, V4, V4] },
    Row { server: Kind::Vsftpd, client: Client::Tnftp, mode: Mode::Eprt, ips: &[V4, V6] },
    Row { server: Kind::Vsftpd, client: Client::Curl, mode: Mode::Port, ips: &[V4, V6, V4] },
    Row { server: Kind::Vsftpd, client: Client::Ftplib, mode: Mode::Epsv, ips: &[V6, V4] },
    Row { server: Kind::Proftpd, client: Client::Lftp, mode: Mode::Epsv, ips: &[V6, V4, V6] },
    Row { server: Kind::Proftpd, client: Client::Tnftp, mode: Mode::Eprt, ips: &[V6, V6] },
    Row { server: Kind::Proftpd, client: Client::Curl, mode: Mode::Pasv, ips: &[V4, V6] },
    Row { server: Kind::Proftpd, client: Client::Ftplib, mode: Mode::Port, ips: &[V4, V6, V4] },
    Row { server: Kind::PureFtpd, client: Client::Lftp, mode: Mode::Port, ips: &[V4, V4] },
    Row { server: Kind::PureFtpd, client: Client::Tnftp, mode: Mode::Pasv, ips: &[V4, V6, V6] },
    Row { server: Kind::PureFtpd, client: Client::Tnftp, mode: Mode::Port, ips: &[V4, V4] },
    Row { server: Kind::PureFtpd, client: Client::Curl, mode: Mode::Epsv, ips: &[V6, V4, V4] },
    Row { server: Kind::PureFtpd, client: Client::Curl, mode: Mode::Eprt, ips: &[V4, V4] },
    Row { server: Kind::PureFtpd, client: Client::Ftplib, mode: Mode::Eprt, ips: &[V6, V6] },
];

/// The sizes of the files.
const SIZES: &[usize] = &[0, 1, 3_000_000];

#[test]
fn every_byte_arrives_with_vsftpd() {
    rows(|row| matches!(row.server, Kind::Vsftpd));
}

#[test]
fn every_byte_arrives_with_proftpd() {
    rows(|row| matches!(row.server, Kind::Proftpd));
}

#[test]
fn every_byte_arrives_with_pure_ftpd() {
    rows(|row| matches!(row.server, Kind::PureFtpd));
}

fn rows(wanted: fn(&&Row) -> bool) {
    for row in ROWS.iter().filter(wanted) {
        let Row { server, client, mode, ips } = row;
        eprintln!("{server:?}, {client:?}, {mode:?}, {ips:?}");
        carry(row, "client", "");
    }
}

/// All of these clients use active mode.
#[test]
fn every_byte_arrives_from_servers_in_passive_mode_for_clients_in_active_mode() {
    for row in [
        Row { server: Kind::Vsftpd, client: Client::Curl, mode: Mode::Eprt, ips: &[V4, V4, V4] },
        Row { server: Kind::Vsftpd, client: Client::Ftplib, mode: Mode::Port, ips: &[V4, V6] },
        Row { server: Kind::Proftpd, client: Client::Lftp, mode: Mode::Port, ips: &[V4, V4] },
        Row { server: Kind::PureFtpd, client: Client::Tnftp, mode: Mode::Port, ips: &[V4, V6, V6] },
        Row { server: Kind::PureFtpd, client: Client::Curl, mode: Mode::Port, ips: &[V4, V4] },
    ] {
        let Row { server, client, mode, ips } = &row;
        eprintln!("{server:?}, {client:?}, {mode:?}, {ips:?}");
        carry(&row, "passive", "");
    }
}

/// All of these clients use passive mode.
#[test]
fn every_byte_arrives_from_servers_in_active_mode_for_clients_in_passive_mode() {
    for (row, settings) in [
        (Row { server: Kind::Vsftpd, client: Client::Curl, mode: Mode::Pasv, ips: &[V4, V4, V4] }, "pasv_enable=NO\n"),
        (Row { server: Kind::Vsftpd, client: Client::Ftplib, mode: Mode::Epsv, ips: &[V4, V6] }, "pasv_enable=NO\n"),
        (Row { server: Kind::Vsftpd, client: Client::Lftp, mode: Mode::Pasv, ips: &[V4, V4] }, "pasv_enable=NO\n"),
        (Row { server: Kind::Proftpd, client: Client::Lftp, mode: Mode::Epsv, ips: &[V6, V4] }, ""),
        (Row { server: Kind::Proftpd, client: Client::Ftplib, mode: Mode::Pasv, ips: &[V4, V4] }, ""),
        (Row { server: Kind::PureFtpd, client: Client::Tnftp, mode: Mode::Epsv, ips: &[V4, V6, V6] }, ""),
        (Row { server: Kind::PureFtpd, client: Client::Curl, mode: Mode::Epsv, ips: &[V4, V4] }, ""),
    ] {
        let Row { server, client, mode, ips } = &row;
        eprintln!("{server:?}, {client:?}, {mode:?}, {ips:?}");
        carry(&row, "active", settings);
    }
}

/// Gets and puts a file of each of [`SIZES`], and looks at the log of each relay. The relays have `ftp.mode` `ftp_mode`, and the server
/// has `settings`.
fn carry(row: &Row, ftp_mode: &str, settings: &str) {
    let (server_ip, relay_ips) = row.ips.split_last().unwrap();
    let Some(server) = Server::start(row.server, server_ip, settings) else { return };
    let chain = Chain::start(relay_ips, server.address(), &["--ftp-mode", ftp_mode]);
    let folder = tempfile::tempdir().unwrap();
    let mut jobs = Vec::new();
    for size in SIZES {
        server.write(&format!("down{size}"), &pattern(1, *size));
        fs::write(folder.path().join(format!("up{size}")), pattern(2, *size)).unwrap();
        jobs.push(Job::Get(format!("down{size}"), folder.path().join(format!("down{size}"))));
        jobs.push(Job::Put(folder.path().join(format!("up{size}")), format!("up{size}")));
    }
    let output = row.client.run(row.mode, chain.entry(), &jobs);
    assert!(output.status.success(), "{output:?}");
    for size in SIZES {
        let got = fs::read(folder.path().join(format!("down{size}")));
        assert_same(&got.unwrap_or_else(|err| panic!("{err}: {output:?}")), &pattern(1, *size));
        let got = || fs::read(server.file(&format!("up{size}"))).unwrap_or_default();
        // A client may end before the server has written the last bytes.
        wait_until("the server has the file", || got().len() >= *size);
        assert_same(&got(), &pattern(2, *size));
    }
    for (index, relay) in chain.relays.iter().enumerate() {
        // The client of a relay behind another is that one.
        let is_passive = match ftp_mode {
            "passive" if index > 0 => true,
            "active" if index > 0 => false,
            _ => row.mode.is_passive(),
        };
        let wanted = sizes_of_transfers(is_passive);
        assert_eq!(transfers(relay, wanted.len()), wanted);
    }
}

/// Returns the commands of [`carry`] with the bytes up and down, sorted.
fn sizes_of_transfers(is_passive: bool) -> Vec<(String, u64, u64)> {
    let both = SIZES.iter().flat_map(|size| {
        let bytes = *size as u64;
        let (up, down) = if is_passive { (0, bytes) } else { (bytes, 0) };
        [(format!("RETR down{size}"), up, down), (format!("STOR up{size}"), down, up)]
    });
    let mut both: Vec<_> = both.collect();
    both.sort();
    both
}

#[test]
fn five_hundred_small_files_are_mirrored_both_ways() {
    let Some(server) = Server::start(Kind::Proftpd, V4, "") else { return };
    let chain = Chain::start(&[V4, V4], server.address(), &[]);
    let bytes = |at: usize| pattern(at as u64, at * 7);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    fs::create_dir(server.file("many")).unwrap();
    (0..500).for_each(|at| server.write(&format!("many/{at}"), &bytes(at)));
    // Two sessions at once.
    let commands =
        format!("mirror --parallel=2 many {place}/many\nmkdir back\nmirror -R --parallel=2 {place}/many back");
    assert_ok(&lftp(Mode::Pasv, chain.entry(), &commands).output().unwrap());
    for at in 0..500 {
        assert_same(&fs::read(folder.path().join(format!("many/{at}"))).unwrap(), &bytes(at));
        assert_same(&fs::read(server.file(&format!("back/{at}"))).unwrap(), &bytes(at));
    }
    let counters = chain.relays[0].counters();
    assert_eq!((&counters["ftp_refused"], &counters["ftp_unused"]), (&0.into(), &0.into()), "{counters}");
}

#[test]
fn two_transfers_run_at_once() {
    let Some(server) = Server::start(Kind::PureFtpd, V4, "") else { return };
    let chain = Chain::start(&[V4, V4], server.address(), SMALL_BUFFERS);
    let folder = tempfile::tempdir().unwrap();
    server.write("slow", &pattern(3, OVER_ALL_BUFFERS));
    server.write("fast", &pattern(4, 3_000_000));
    let mut slow = Client::Ftplib.stream(Mode::Port, chain.entry(), "slow");
    let mut pipe = slow.stdout.take().unwrap();
    let mut got = vec![0; 1];
    pipe.read_exact(&mut got).unwrap();
    let file = folder.path().join("fast");
    let jobs = [Job::Get("fast".into(), file.clone()), Job::Put(file.clone(), "back".into())];
    assert_ok(&Client::Curl.run(Mode::Epsv, chain.entry(), &jobs));
    assert_same(&fs::read(server.file("back")).unwrap(), &pattern(4, 3_000_000));
    pipe.read_to_end(&mut got).unwrap();
    assert_same(&got, &pattern(3, OVER_ALL_BUFFERS));
    assert_ok(&slow.wait_with_output().unwrap());
}

#[test]
fn a_download_that_was_cut_is_resumed() {
    let rows = [
        (Kind::Vsftpd, Client::Curl, Mode::Pasv),
        (Kind::Proftpd, Client::Lftp, Mode::Epsv),
        (Kind::PureFtpd, Client::Tnftp, Mode::Eprt),
        (Kind::Vsftpd, Client::Ftplib, Mode::Port),
    ];
    let whole = pattern(5, OVER_ALL_BUFFERS);
    for (kind, client, mode) in rows {
        eprintln!("{kind:?}, {client:?}, {mode:?}");
        let Some(server) = Server::start(kind, V4, "") else { return };
        server.write("file", &whole);
        let mut chain = Chain::start(&[V4, V4], server.address(), SMALL_BUFFERS);
        let (begun, output) = cut(client, mode, &mut chain, |chain| chain.kill(0));
        assert_tells_error(client, &output);
        assert!(begun.len() < whole.len() && whole.starts_with(&begun), "{} bytes", begun.len());
        chain.restart(0);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, &begun).unwrap();
        assert_ok(&client.run(mode, chain.entry(), &[Job::Resume("file".into(), file.clone())]));
        assert_same(&fs::read(file).unwrap(), &whole);
        let rest = (whole.len() - begun.len()) as u64;
        let line = transfers(&chain.relays[0], 1).remove(0);
        assert_eq!((line.0.as_str(), line.1 + line.2), ("RETR file", rest));
    }
}

#[test]
fn an_upload_is_resumed() {
    let whole = pattern(6, 3_000_000);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, &whole).unwrap();
    for kind in KINDS {
        let Some(server) = Server::start(kind, V4, "") else { return };
        let chain = Chain::start(&[V4], server.address(), &[]);
        for name in ["rest", "appended"] {
            server.write(name, &whole[..1_234_567]);
        }
        // REST and STOR.
        let input = format!("append {} rest\n", file.display());
        assert_ok(&start_ftplib(Mode::Pasv, chain.entry(), &input).wait_with_output().unwrap());
        let url = format!("ftp://tester:secret@{}/appended", chain.entry());
        let append = curl(Mode::Port).args(["-C", "-", "-T"]).arg(&file).arg(url).output().unwrap();
        assert_ok(&append);
        for name in ["rest", "appended"] {
            assert_same(&fs::read(server.file(name)).unwrap(), &whole);
        }
        let ended = transfers(&chain.relays[0], 2);
        assert_eq!(ended.iter().map(|end| end.0.as_str()).collect::<Vec<_>>(), ["APPE appended", "STOR rest"]);
    }
}

#[test]
fn an_abort_with_urgent_data_ends_the_transfer_and_not_the_session() {
    // vsftpd and proftpd need the telnet bytes.
    let rows = [
        (Kind::Vsftpd, Mode::Pasv, "telnet"),
        (Kind::Vsftpd, Mode::Port, "telnet"),
        (Kind::Proftpd, Mode::Port, "telnet"),
        (Kind::Proftpd, Mode::Pasv, "telnet"),
        (Kind::PureFtpd, Mode::Pasv, "plain"),
        (Kind::PureFtpd, Mode::Port, "plain"),
    ];
    for (kind, mode, form) in rows {
        eprintln!("{kind:?}, {mode:?}, {form}");
        let Some(server) = Server::start(kind, V4, "") else { return };
        let chain = Chain::start(&[V4, V4], server.address(), SMALL_BUFFERS);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("after");
        server.write("long", &pattern(7, OVER_ALL_BUFFERS));
        server.write("after", &pattern(8, 100_000));
        let input = format!("abort long {form}\nget after {}\n", file.display());
        assert_ok(&start_ftplib(mode, chain.entry(), &input).wait_with_output().unwrap());
        assert_same(&fs::read(file).unwrap(), &pattern(8, 100_000));
    }
}

#[test]
fn a_client_reports_an_error_if_the_server_is_killed_in_the_middle_of_a_download() {
    let rows = [
        (Kind::Vsftpd, Client::Curl, Mode::Epsv),
        (Kind::Proftpd, Client::Lftp, Mode::Pasv),
        (Kind::PureFtpd, Client::Tnftp, Mode::Port),
        (Kind::Vsftpd, Client::Ftplib, Mode::Pasv),
    ];
    let whole = pattern(9, OVER_ALL_BUFFERS);
    for (kind, client, mode) in rows {
        eprintln!("{kind:?}, {client:?}, {mode:?}");
        let Some(mut server) = Server::start(kind, V4, "") else { return };
        server.write("file", &whole);
        let mut chain = Chain::start(&[V4, V4], server.address(), SMALL_BUFFERS);
        let (got, output) = cut(client, mode, &mut chain, |_| server.kill());
        assert_tells_error(client, &output);
        assert!(got.len() < whole.len() && whole.starts_with(&got), "{} bytes", got.len());
    }
}

/// Fetches `file`, and calls `cut` when the first bytes have come. Returns the bytes and the output of the client.
pub(crate) fn cut(client: Client, mode: Mode, chain: &mut Chain, cut: impl FnOnce(&mut Chain)) -> (Vec<u8>, Output) {
    if let Client::Lftp | Client::Tnftp = client {
        return cut_slow(client, mode, chain, cut);
    }
    let mut process = client.stream(mode, chain.entry(), "file");
    let mut pipe = process.stdout.take().unwrap();
    let mut got = vec![0; 200_000];
    pipe.read_exact(&mut got).unwrap();
    cut(chain);
    pipe.read_to_end(&mut got).unwrap();
    let output = process.wait_with_output().unwrap();
    (got, output)
}

/// Does the same with a client that has no use for a pipe.
fn cut_slow(client: Client, mode: Mode, chain: &mut Chain, cut: impl FnOnce(&mut Chain)) -> (Vec<u8>, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let process = client.fetch_slowly(mode, chain.entry(), "file", &file);
    wait_until("the download began", || fs::metadata(&file).is_ok_and(|file| file.len() > 200_000));
    cut(chain);
    let output = process.wait_with_output().unwrap();
    (fs::read(file).unwrap(), output)
}

pub(crate) fn assert_tells_error(client: Client, output: &Output) {
    match client {
        // tnftp ends with 0 in any case.
        Client::Tnftp => {
            let text = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
            assert!(!text.contains("226 ") && text.contains("421 Service not available"), "{text}");
        }
        _ => assert!(!output.status.success() && !output.stderr.is_empty(), "{output:?}"),
    }
}

fn assert_ok(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_download_ends_in_a_reset_if_the_far_relay_is_killed() {
    for mode in [Mode::Epsv, Mode::Port] {
        let Some(server) = Server::start(Kind::Vsftpd, V4, "") else { return };
        server.write("file", &pattern(10, OVER_ALL_BUFFERS));
        let mut chain = Chain::start(&[V4, V4], server.address(), SMALL_BUFFERS);
        let control = Control::log_in(chain.entry());
        let data = control.begin(mode, "RETR file");
        let mut got = vec![0; 200_000];
        (&data).read_exact(&mut got).unwrap();
        chain.kill(1);
        let (rest, ending) = read_to_end(&data);
        got.extend(rest);
        assert_same(&got, &pattern(10, OVER_ALL_BUFFERS)[..got.len()]);
        assert_eq!((ending, control.ending()), (Ending::Reset, Ending::Reset), "{mode:?}");
    }
}

#[test]
fn encrypted_control_connections_pass_and_the_log_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2"])
        .args(["-keyout", &format!("{place}/pem"), "-out", &format!("{place}/cert")])
        .output();
    assert_ok(&made.expect("openssl runs"));
    let tls = format!(
        "ssl_enable=YES\nforce_local_logins_ssl=YES\nforce_local_data_ssl=YES\nrequire_ssl_reuse=NO\n\
         rsa_cert_file={place}/cert\nrsa_private_key_file={place}/pem\n"
    );
    let Some(server) = Server::start(Kind::Vsftpd, V4, &tls) else { return };
    server.write("file", &pattern(11, 3_000_000));
    let chain = Chain::start(&[V4], server.address(), &[]);
    let file = folder.path().join("file");
    let url = format!("ftp://tester:secret@{}/file", chain.entry());
    for _ in 0..3 {
        // The data connection goes past the relay: on this host the client reaches the server.
        let fetch = curl(Mode::Pasv).args(["--ssl-reqd", "--insecure", "-o"]).arg(&file).arg(&url).output().unwrap();
        assert_ok(&fetch);
        assert_same(&fs::read(&file).unwrap(), &pattern(11, 3_000_000));
    }
    let lines = chain.relays[0].lines_to_counters();
    let said =
        |line: &&serde_json::Value| line["message"].as_str().is_some_and(|text| text.starts_with("FTP over TLS"));
    assert_eq!(lines.iter().filter(said).count(), 1, "{lines:?}");
}
