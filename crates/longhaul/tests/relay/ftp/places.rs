//! Tests FTP where addresses and ports are not as on one host: behind a NAT, between two servers, and in the range from which the
//! kernel chooses ports.

use crate::ftp::dialogue::{Control, Dialogue, six};
use crate::ftp::servers::*;
use crate::harness::*;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// Clients know the near relay 10.1.0.2 only as 198.51.100.7, in whose place nftables puts it.
#[test]
fn ftp_advertise_lets_clients_in_through_a_nat() {
    in_own_network(|| {
        if Command::new("nft").arg("--version").output().is_err() {
            return skip("nft(8) is not installed");
        }
        run("ip address add 10.1.0.2/32 dev lo && ip route add local 198.51.100.7 dev lo");
        run(NAT);
        let Some(server) = Server::start(Kind::Vsftpd, "127.0.0.1", "") else { return };
        server.write("file", &pattern(71, 300_000));
        let (listen, to) = ("10.1.0.2:2121", server.address().to_string());
        let flags = ["--protocol", "ftp", "--ftp-ports", "50000-50009", "--ftp-advertise", "198.51.100.7"];
        let relay = Relay::start(&[&["relay", "--listen", listen, "--to", &to], &flags[..]].concat());
        let entry: SocketAddr = "198.51.100.7:2121".parse().unwrap();
        assert_eq!(Control::log_in(entry).passive(Mode::Pasv).ip(), entry.ip());
        let folder = tempfile::tempdir().unwrap();
        for (client, mode) in [(Client::Curl, Mode::Pasv), (Client::Curl, Mode::Epsv), (Client::Lftp, Mode::Pasv)] {
            let (file, back) = (folder.path().join("file"), format!("back-{client:?}-{mode:?}"));
            let jobs = [Job::Get("file".into(), file.clone()), Job::Put(file.clone(), back.clone())];
            let output = client.run(mode, entry, &jobs);
            assert!(output.status.success(), "{client:?}, {mode:?}: {output:?}");
            assert_same(&fs::read(&file).unwrap(), &pattern(71, 300_000));
            wait_until("the server has it", || fs::read(server.file(&back)).is_ok_and(|got| got.len() == 300_000));
            fs::remove_file(file).unwrap();
        }
        assert_eq!(relay.counters()["ftp_refused"], 0);
    });
}

/// A client tells two servers, each behind a relay, to send a file from one to the other (FXP).
#[test]
fn a_file_goes_from_server_to_server_if_both_relays_name_each_other() {
    let Some(source) = Server::start(Kind::Vsftpd, "127.0.0.2", "") else { return };
    let Some(target) = Server::start(Kind::Proftpd, "127.0.0.3", "") else { return };
    let bytes = pattern(72, 3_000_000);
    source.write("file", &bytes);
    for is_named in [true, false] {
        let flags = if is_named { &["--ftp-data-from", "127.0.0.4/31"][..] } else { &[] };
        let chains = [("127.0.0.4", &source), ("127.0.0.5", &target)]
            .map(|(ip, server)| Chain::start(&[ip], server.address(), flags));
        let [from, to] = chains.each_ref().map(|chain| Control::log_in(chain.entry()));
        let place = from.passive(Mode::Pasv);
        assert_eq!(place.ip().to_string(), "127.0.0.4");
        to.say(&format!("PORT {}", six(place)));
        let reply = to.reply();
        if !is_named {
            assert_eq!(reply, "504 Address 127.0.0.4 is neither the client's own nor in ftp.data_from");
            continue;
        }
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
}

#[test]
fn a_running_transfer_shares_its_port_with_the_next_one() {
    in_own_network(|| {
        let ftp = Dialogue::begin(1, &["--ftp-ports", "50000-50000"]);
        let (first, first_far) = ftp.data(true);
        talk(&first, &first_far);
        let (second, second_far) = ftp.data(false);
        assert_eq!(first.peer_addr().unwrap().port(), 50000);
        assert_eq!(second_far.peer_addr().unwrap().port(), 50000);
        talk(&second, &second_far);
        talk(&first, &first_far);
    });
}

#[test]
fn check_warns_of_data_ports_that_the_kernel_gives_to_others() {
    in_own_network(|| {
        set_sysctl("net/ipv4/ip_local_port_range", "40000 49999");
        let check = |ports: &str| {
            let keys = format!("protocol = \"ftp\"\nftp.ports = \"{ports}\"\n");
            let output = check(&tunnel_to("files", "127.0.0.1:2121", &["127.0.0.1:21"], &keys));
            stdout(&output) + &stderr(&output)
        };
        let warning = "ports of ftp.ports, 49990 to 50009, are in net.ipv4.ip_local_port_range, 40000 to 49999";
        let remedy = "run sysctl -w net.ipv4.ip_local_reserved_ports=49990-50009";
        let text = check("49990-50009");
        assert!(text.contains(warning) && text.contains(remedy), "{text}");
        let text = check("50000-50009");
        assert!(!text.contains("ftp.ports,"), "{text}");
        set_sysctl("net/ipv4/ip_local_reserved_ports", "49990-50009");
        let text = check("49990-50009");
        assert!(!text.contains("ftp.ports,"), "{text}");
    });
}

fn run(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// Puts 10.1.0.2 in the place of 198.51.100.7, and rejects those who connect to 10.1.0.2 itself.
const NAT: &str = "nft 'table ip outside {
    chain translate {
        type nat hook output priority -100;
        ip daddr 198.51.100.7 tcp dport { 2121, 50000-50009 } dnat to 10.1.0.2;
    }
    chain direct {
        type filter hook output priority 0;
        ct status dnat accept;
        ip daddr 10.1.0.2 tcp dport { 2121, 50000-50009 } reject with tcp reset;
    }
}'";
