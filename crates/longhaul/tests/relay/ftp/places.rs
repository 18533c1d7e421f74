//! Tests FTP where addresses and ports are not as on one host: between two servers, and on a port of several connections.

use crate::ftp::dialogue::{Control, Dialogue, Form, six};
use crate::ftp::servers::*;
use crate::harness::*;
use std::fs;

/// A client tells two servers, each behind a relay, to send a file from one to the other (FXP).
#[test]
fn a_file_goes_from_server_to_server_if_both_relays_name_each_other() {
    let Some(source) = Server::start(Kind::Vsftpd, "127.0.0.2", "") else { return };
    let Some(target) = Server::start(Kind::Proftpd, "127.0.0.3", "") else { return };
    let bytes = pattern(72, 3_000_000);
    source.write("file", &bytes);
    let chains = [("127.0.0.4", &source), ("127.0.0.5", &target)]
        .map(|(ip, server)| Chain::start(&[ip], server.address(), &["--ftp-data-from", "127.0.0.4/31"]));
    let [from, to] = chains.each_ref().map(|chain| Control::log_in(chain.entry()));
    let place = from.passive(Mode::Pasv);
    assert_eq!(place.ip().to_string(), "127.0.0.4");
    to.say(&format!("PORT {}", six(place)));
    let reply = to.reply();
    assert!(reply.starts_with("200 "), "{reply}");
    to.say("STOR copy");
    from.say("RETR file");
    for control in [&to, &from] {
        let replies = [control.reply(), control.reply()];
        assert!(replies[0].starts_with("150 ") && replies[1].starts_with("226 "), "{replies:?}");
    }
    assert_same(&fs::read(target.file("copy")).unwrap(), &bytes);
    // In active mode the server is the one that connects, so what it stores goes down.
    assert_eq!(transfers(&chains[0].relays[0], 1), [("RETR file".to_string(), 0, 3_000_000)]);
    assert_eq!(transfers(&chains[1].relays[0], 1), [("STOR copy".to_string(), 0, 3_000_000)]);
}

#[test]
fn a_running_transfer_shares_its_port_with_the_next_one() {
    in_own_network(|| {
        let ftp = Dialogue::begin(1, &["--ftp-ports", "50000-50000"]);
        let (first, first_far) = ftp.data(Form::Passive);
        talk(&first, &first_far);
        let (second, second_far) = ftp.data(Form::Active);
        assert_eq!(first.peer_addr().unwrap().port(), 50000);
        assert_eq!(second_far.peer_addr().unwrap().port(), 50000);
        talk(&second, &second_far);
        talk(&first, &first_far);
    });
}
