//! Tests tunnels with `protocol = "ftp"` between real clients and real servers. [`ROWS`] combines them so that each client and
//! each server has every form of data connection, one relay and two, and both IP versions. The files have a few megabytes, so
//! that the tests stay fast; the scenarios of the lab carry long ones.

mod control;
mod dialled;
pub(crate) mod dialogue;
pub(crate) mod flows;
mod killed;
mod listeners;
mod modes;
mod places;
mod pyftpdlib;
mod rules;
pub(crate) mod servers;
mod words;

use crate::ftp::servers::*;
use crate::harness::*;
use std::fs;
use std::process::Output;

/// A server, a client, its data connections, the relays' `ftp.mode`, and the addresses on which the relays and then the server listen.
type Row = (Kind, Client, Mode, &'static str, &'static [&'static str]);

const V4: &str = "127.0.0.1";
const V6: &str = "[::1]";

/// Rows with every form of data connection, one relay and two, IPv4, IPv6 and both for each server, and for each client as far as
/// it can: ftplib uses EPSV and EPRT only over IPv6, and lftp names `::` in EPRT over loopback, which no server takes. Then each server and
/// each client in the modes that the relay changes.
const ROWS: &[Row] = &[
    (Kind::Vsftpd, Client::Lftp, Mode::Pasv, "client", &[V4, V4, V4]),
    (Kind::Vsftpd, Client::Tnftp, Mode::Eprt, "client", &[V4, V6]),
    (Kind::Vsftpd, Client::Curl, Mode::Port, "client", &[V4, V6, V4]),
    (Kind::Vsftpd, Client::Ftplib, Mode::Epsv, "client", &[V6, V4]),
    (Kind::Proftpd, Client::Lftp, Mode::Epsv, "client", &[V6, V4, V6]),
    (Kind::Proftpd, Client::Tnftp, Mode::Eprt, "client", &[V6, V6]),
    (Kind::Proftpd, Client::Curl, Mode::Pasv, "client", &[V4, V6]),
    (Kind::Proftpd, Client::Ftplib, Mode::Port, "client", &[V4, V6, V4]),
    (Kind::PureFtpd, Client::Lftp, Mode::Port, "client", &[V4, V4]),
    (Kind::PureFtpd, Client::Tnftp, Mode::Pasv, "client", &[V4, V6, V6]),
    (Kind::PureFtpd, Client::Tnftp, Mode::Port, "client", &[V4, V4]),
    (Kind::PureFtpd, Client::Curl, Mode::Epsv, "client", &[V6, V4, V4]),
    (Kind::PureFtpd, Client::Curl, Mode::Eprt, "client", &[V4, V4]),
    (Kind::PureFtpd, Client::Ftplib, Mode::Eprt, "client", &[V6, V6]),
    (Kind::Vsftpd, Client::Curl, Mode::Eprt, "passive", &[V4, V4, V4]),
    (Kind::Vsftpd, Client::Ftplib, Mode::Port, "passive", &[V4, V6]),
    (Kind::Proftpd, Client::Lftp, Mode::Port, "passive", &[V4, V4]),
    (Kind::PureFtpd, Client::Tnftp, Mode::Port, "passive", &[V4, V6, V6]),
    (Kind::PureFtpd, Client::Curl, Mode::Port, "passive", &[V4, V4]),
    (Kind::Vsftpd, Client::Curl, Mode::Pasv, "active", &[V4, V4, V4]),
    (Kind::Vsftpd, Client::Ftplib, Mode::Epsv, "active", &[V4, V6]),
    (Kind::Vsftpd, Client::Lftp, Mode::Pasv, "active", &[V4, V4]),
    (Kind::Proftpd, Client::Lftp, Mode::Epsv, "active", &[V6, V4]),
    (Kind::Proftpd, Client::Ftplib, Mode::Pasv, "active", &[V4, V4]),
    (Kind::PureFtpd, Client::Tnftp, Mode::Epsv, "active", &[V4, V6, V6]),
    (Kind::PureFtpd, Client::Curl, Mode::Epsv, "active", &[V4, V4]),
];

/// The sizes of the files.
const SIZES: &[usize] = &[0, 1, 3_000_000];

#[test]
fn every_byte_arrives_with_vsftpd() {
    ROWS.iter().filter(|row| row.0 == Kind::Vsftpd).for_each(carry);
}

#[test]
fn every_byte_arrives_with_proftpd() {
    ROWS.iter().filter(|row| row.0 == Kind::Proftpd).for_each(carry);
}

#[test]
fn every_byte_arrives_with_pure_ftpd() {
    ROWS.iter().filter(|row| row.0 == Kind::PureFtpd).for_each(carry);
}

/// Gets and puts a file of each of [`SIZES`], and looks at the log of each relay.
fn carry(&(server, client, mode, ftp_mode, ips): &Row) {
    eprintln!("{server:?}, {client:?}, {mode:?}, {ftp_mode}, {ips:?}");
    let (server_ip, relay_ips) = ips.split_last().unwrap();
    let settings = if (server, ftp_mode) == (Kind::Vsftpd, "active") { "pasv_enable=NO\n" } else { "" };
    let Some(server) = Server::start(server, server_ip, settings) else { return };
    let chain = Chain::start(relay_ips, server.address(), &["--ftp-mode", ftp_mode]);
    let folder = tempfile::tempdir().unwrap();
    let mut jobs = Vec::new();
    for size in SIZES {
        server.write(&format!("down{size}"), &pattern(1, *size));
        fs::write(folder.path().join(format!("up{size}")), pattern(2, *size)).unwrap();
        jobs.push(Job::Get(format!("down{size}"), folder.path().join(format!("down{size}"))));
        jobs.push(Job::Put(folder.path().join(format!("up{size}")), format!("up{size}")));
    }
    let output = client.run(mode, chain.entry(), &jobs);
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
            _ => mode.is_passive(),
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

fn assert_ok(output: &Output) {
    assert!(output.status.success(), "{output:?}");
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
    let said = |line: &&serde_json::Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("FTP over TLS") && text.contains("fixed passive ports"))
    };
    assert_eq!(lines.iter().filter(said).count(), 1, "{lines:?}");
}
