//! Tests transfers between servers and clients of others while a relay or the server is killed. No client may take a short file as whole, and no
//! server may store one as whole without an error for its client.

use crate::carry::endings::{OVER_ALL_BUFFERS, SMALL_BUFFERS};
use crate::ftp::dialogue::{Dialogue, Form};
use crate::ftp::servers::*;
use crate::harness::*;
use std::fs;
use std::process::Output;

/// Servers, clients and modes.
const ROWS: [(Kind, Client, Mode); 3] = [
    (Kind::Vsftpd, Client::Curl, Mode::Port),
    (Kind::Proftpd, Client::Lftp, Mode::Epsv),
    (Kind::PureFtpd, Client::Tnftp, Mode::Pasv),
];

/// The process that is killed: the near relay (0), the far one (1), or the server (2). After the end of a relay, the client resumes.
#[test]
fn a_client_reports_an_error_if_a_relay_or_the_server_is_killed_and_its_download_is_resumed() {
    let whole = pattern(61, OVER_ALL_BUFFERS);
    for (kind, client, mode) in ROWS {
        for killed in [0, 1, 2] {
            eprintln!("{kind:?}, {client:?}, {mode:?}, {killed}");
            let Some(mut server) = Server::start(kind, "127.0.0.1", "") else { return };
            server.write("file", &whole);
            let mut chain = Chain::start(&["127.0.0.1"; 2], server.address(), SMALL_BUFFERS);
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("file");
            let process = client.fetch_slowly(mode, chain.entry(), "file", &file);
            wait_until("the download began", || fs::metadata(&file).is_ok_and(|file| file.len() > 200_000));
            if killed == 2 {
                server.kill()
            } else {
                chain.kill(killed)
            }
            let output = process.wait_with_output().unwrap();
            let begun = fs::read(&file).unwrap();
            assert_tells_error(client, &output);
            assert!(begun.len() < whole.len() && whole.starts_with(&begun), "{} bytes", begun.len());
            if killed == 2 {
                continue;
            }
            chain.restart(killed);
            let output = client.run(mode, chain.entry(), &[Job::Resume("file".into(), file.clone())]);
            assert!(output.status.success(), "{output:?}");
            assert_same(&fs::read(file).unwrap(), &whole);
        }
    }
}

#[test]
fn a_data_connection_and_its_control_connection_are_reset_if_the_far_relay_is_killed() {
    for form in Form::ALL {
        let mut ftp = Dialogue::begin(2, form.flags());
        let (client, server) = ftp.data(form);
        talk(&client, &server);
        ftp.chain.kill(1);
        assert_eq!((read_to_end(&client).1, ftp.client.ending()), (Ending::Reset, Ending::Reset), "{form:?}");
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
            fs::write(&source, &whole).unwrap();
            let process = client.store_slowly(mode, chain.entry(), &source, "file");
            wait_until("the upload began", || stored().len() > 100_000);
            chain.kill(killed);
            let output = process.wait_with_output().unwrap();
            assert_tells_error(client, &output);
            let got = stored();
            assert!(got.len() < whole.len() && whole.starts_with(&got), "{} bytes", got.len());
        }
    }
}

fn assert_tells_error(client: Client, output: &Output) {
    match client {
        // tnftp ends with 0 in any case.
        Client::Tnftp => {
            let text = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
            assert!(!text.contains("226 ") && text.contains("421 Service not available"), "{text}");
        }
        _ => assert!(!output.status.success() && !output.stderr.is_empty(), "{output:?}"),
    }
}
