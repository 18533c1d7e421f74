//! Tests transfers between servers and clients of others while a relay is killed. No client may take a short file as whole, and no
//! server may store one as whole without an error for its client.

use crate::carry::endings::{OVER_ALL_BUFFERS, SMALL_BUFFERS};
use crate::ftp::servers::*;
use crate::ftp::{assert_tells_error, cut};
use crate::harness::*;
use std::fs;
use std::process::Command;

/// Servers, clients and modes; each runs with the near relay killed (0) and with the far one (1).
const ROWS: [(Kind, Client, Mode); 4] = [
    (Kind::Vsftpd, Client::Curl, Mode::Port),
    (Kind::Proftpd, Client::Lftp, Mode::Epsv),
    (Kind::PureFtpd, Client::Tnftp, Mode::Pasv),
    (Kind::Proftpd, Client::Ftplib, Mode::Port),
];

#[test]
fn a_client_reports_an_error_if_a_relay_is_killed_in_the_middle_of_a_download() {
    let whole = pattern(61, OVER_ALL_BUFFERS);
    for (kind, client, mode) in ROWS {
        for killed in [0, 1] {
            eprintln!("{kind:?}, {client:?}, {mode:?}, {killed}");
            let Some(server) = Server::start(kind, "127.0.0.1", "") else { return };
            server.write("file", &whole);
            let mut chain = Chain::start(&["127.0.0.1"; 2], server.address(), SMALL_BUFFERS);
            let (got, output) = cut(client, mode, &mut chain, |chain| chain.kill(killed));
            assert_tells_error(client, &output);
            assert!(got.len() < whole.len() && whole.starts_with(&got), "{} bytes", got.len());
        }
    }
}

#[test]
fn a_client_reports_an_error_if_a_relay_is_killed_in_the_middle_of_an_upload() {
    let whole = pattern(62, OVER_ALL_BUFFERS);
    for (kind, client, mode) in ROWS {
        for killed in [0, 1] {
            eprintln!("{kind:?}, {client:?}, {mode:?}, {killed}");
            let Some(server) = Server::start(kind, "127.0.0.1", "") else { return };
            let mut chain = Chain::start(&["127.0.0.1"; 2], server.address(), SMALL_BUFFERS);
            let folder = tempfile::tempdir().unwrap();
            let source = folder.path().join("source");
            let stored = || fs::read(server.file("file")).unwrap_or_default();
            let begun = || wait_until("the upload began", || stored().len() > 100_000);
            let output = match client {
                // They store plain files alone.
                Client::Lftp | Client::Tnftp => {
                    fs::write(&source, &whole).unwrap();
                    let process = client.store_slowly(mode, chain.entry(), &source, "file");
                    begun();
                    chain.kill(killed);
                    process.wait_with_output().unwrap()
                }
                // The client reads a pipe that ends only after the relay.
                Client::Curl | Client::Ftplib => {
                    assert!(Command::new("mkfifo").arg(&source).status().unwrap().success());
                    let process = client.store_from(mode, chain.entry(), &source, "file");
                    let mut pipe = fs::File::options().write(true).open(&source).unwrap();
                    std::io::Write::write_all(&mut pipe, &whole[..1_000_000]).unwrap();
                    begun();
                    chain.kill(killed);
                    // Fails if the client has ended.
                    let _ = std::io::Write::write_all(&mut pipe, &whole[1_000_000..]);
                    drop(pipe);
                    process.wait_with_output().unwrap()
                }
            };
            assert_tells_error(client, &output);
            let got = stored();
            assert!(got.len() < whole.len() && whole.starts_with(&got), "{} bytes", got.len());
        }
    }
}
