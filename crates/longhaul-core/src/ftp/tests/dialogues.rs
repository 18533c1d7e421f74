//! Dialogues of real servers, in their own words.

use super::*;

#[test]
fn vsftpd_passive() {
    check(
        &v4(),
        r"
        S: 220 (vsFTPd 3.0.3)
        C: USER joe
        S: 331 Please specify the password.
        C: PASS secret
        S: 230 Login successful.
        C: TYPE I
        S: 200 Switching to Binary mode.
        C: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,53).
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005
        C: REST 1000
        S: 350 Restart position accepted (1000).
        C: RETR big file.tar
        * transfer 1 RETR big file.tar
        S: 150 Opening BINARY mode data connection for big file.tar (200000000 bytes).
        S: 226 Transfer complete.
        C: EPSV
        S: 229 Entering Extended Passive Mode (|||30005|).
        c: 229 Entering Extended Passive Mode (|||50002|)
        * open 2 from client, dial 192.0.2.2:30005
        C: LIST
        * transfer 2 LIST
        S: 150 Here comes the directory listing.
        C: \xff\xf4\xff\xf2ABOR
        S: 426 Failure writing network stream.
        S: 226 ABOR successful.
        C: P@SW
        S: 227 Entering Passive Mode (192,0,2,2,117,54).
        c: 227 Entering Passive Mode (198,51,100,1,195,83).
        * open 3 from client, dial 192.0.2.2:30006
        C: QUIT
        S: 221 Goodbye.",
    );
}

#[test]
fn vsftpd_active() {
    check(
        &v4(),
        r"
        S: 220 (vsFTPd 3.0.3)
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: 200 PORT command successful. Consider using PASV.
        C: STOR up
        * dial 1
        * transfer 1 STOR up
        S: 150 Ok to send data.
        S: 226 Transfer complete.
        C: eprt |1|198.51.100.7|40000|
        s: EPRT |1|192.0.2.1|50002|
        * open 2 from server, dial 198.51.100.7:40000
        S: 200 EPRT command successful. Consider using EPSV.
        C: nlst *.txt
        * dial 2
        * transfer 2 NLST *.txt
        S: 150 Here comes the directory listing.
        S: 226 Directory send OK.",
    );
}

#[test]
fn proftpd_on_ipv6() {
    check(
        &strict(CLIENT_V6, SERVER_V6),
        r"
        S: 220 ProFTPD Server (Debian) [2001:db8:5::2]
        C: HOST ftp.example.com
        S: 220 ProFTPD Server (Debian) [2001:db8:5::2]
        C: EPSV 2
        S: 229 Entering Extended Passive Mode (|||30005|)
        c: 229 Entering Extended Passive Mode (|||50001|)
        * open 1 from client, dial [2001:db8:5::2]:30005
        C: MLSD /pub
        * transfer 1 MLSD /pub
        S: 150 Opening BINARY mode data connection for MLSD
        S: 226 Transfer complete
        C: EPRT |2|2001:db8:c::7|40000|
        s: EPRT |2|2001:db8:5::1|50002|
        * open 2 from server, dial [2001:db8:c::7]:40000
        S: 200 EPRT command successful
        C: RETR f
        * dial 2
        * transfer 2 RETR f
        S: 150 Opening BINARY mode data connection for f (200000000 bytes)
        C: ABOR
        S: 426 Transfer aborted. Data connection closed
        S: 226 Abort successful
        C: EPSV ALL
        S: 200 EPSV ALL command successful
        C: PASV
        * refused needs-epsv
        s:
        c: 425 PASV cannot name an IPv6 address, use EPSV
        C: EPSV 1
        * refused bad-family
        s:
        c: 522 Network protocol not supported, use (2)",
    );
}

#[test]
fn pure_ftpd_and_tls() {
    check(
        &v4(),
        r"
        S: 220---------- Welcome to Pure-FTPd [privsep] [TLS] ----------
        S: 220 You will be disconnected after 15 minutes of inactivity.
        C: EPSV
        S: 229 Extended Passive mode OK (|||30005|)
        c: 229 Entering Extended Passive Mode (|||50001|)
        * open 1 from client, dial 192.0.2.2:30005
        C: RETR f
        * transfer 1 RETR f
        S: 150 Accepted data connection
        S: 226-File successfully transferred
        S: 226 0.000 seconds (measured here), 1.00 Mbytes per second
        C: AUTH GSSAPI
        S: 504 Unknown security mechanism
        C: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,53)
        c: 227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30005
        C: auth tls
        S: 234 AUTH TLS OK.
        C: PORT 10,0,0,9,0,22
        S: 227 Entering Passive Mode (10,0,0,9,0,22)
        C: \x16\x03\x01PA
        S: 22\x16",
    );
}

#[test]
fn ibm_i() {
    check(
        &v4(),
        r#"
        S: 220 Connection will close if idle more than 5 minutes.
        C: SYST
        S: 215  OS/400 is the remote operating system. The TCP/IP version is "V7R4M0".
        C: SITE NAMEFMT 1
        S: 250  Now using naming format "1".
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: 200 PORT subcommand request successful.
        C: RETR /QSYS.LIB/MYLIB.LIB/SAVE.FILE
        * dial 1
        * transfer 1 RETR /QSYS.LIB/MYLIB.LIB/SAVE.FILE
        S: 150 Retrieving file /QSYS.LIB/MYLIB.LIB/SAVE.FILE
        S: 250 File transfer completed successfully.
        C: EPSV
        S: 229 Entering Extended Passive Mode (|||30005|).
        c: 229 Entering Extended Passive Mode (|||50002|)
        * open 2 from client, dial 192.0.2.2:30005
        C: APPE MYLIB/SAVE
        * transfer 2 APPE MYLIB/SAVE
        S: 150 Sending file to MYLIB/SAVE
        S: 250 File transfer completed successfully.
        C: QUIT
        S: 221 QUIT subcommand received."#,
    );
}

#[test]
fn aix() {
    check(
        &v4(),
        r"
        S: 220 aix1 FTP server (Version 4.2 Mon Nov 19 18:45:03 CST 2007) ready.
        C: PASS secret
        S: 230-Last unsuccessful login: Mon Nov 19 10:00:00 2007 on ssh from 192.0.2.9
        S: 230-Last login: Tue Nov 20 10:00:00 2007 on ftp from 192.0.2.9
        S: 230 User joe logged in.
        C: EPSV
        S: 500 'EPSV': command not understood.
        C: LPSV
        * refused long-form
        s:
        c: 521 Supported address families are (4,6), by EPRT and EPSV
        C: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,53)
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005
        C: STOU
        * transfer 1 STOU
        S: 150 Opening data connection for f.
        C: \xff\xf4\xff\xf2ABOR
        S: 426 Transfer aborted. Data connection closed.
        S: 226 Abort successful",
    );
}

#[test]
fn an_ipv4_client_of_an_ipv6_server() {
    check(
        &strict(CLIENT_V4, SERVER_V6),
        r"
        S: 220 ready
        C: PASV
        s: EPSV
        S: 229 Entering Extended Passive Mode (|||30005|)
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial [2001:db8:5::2]:30005
        C: EPSV 1
        s: EPSV
        S: 229 Entering Extended Passive Mode (|||30006|)
        c: 229 Entering Extended Passive Mode (|||50002|)
        * open 2 from client, dial [2001:db8:5::2]:30006
        C: EPSV 2
        * refused bad-family
        s:
        c: 522 Network protocol not supported, use (1)
        C: PORT 198,51,100,7,156,64
        s: EPRT |2|2001:db8:5::1|50003|
        * open 3 from server, dial 198.51.100.7:40000
        S: 200 EPRT command successful
        C: EPSV all
        s:
        c: 200 EPSV ALL accepted",
    );
}

#[test]
fn an_ipv6_client_of_an_ipv4_server() {
    check(
        &strict(CLIENT_V6, SERVER_V4),
        r"
        S: 220 ready
        C: EPSV
        s: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,53).
        c: 229 Entering Extended Passive Mode (|||50001|)
        * open 1 from client, dial 192.0.2.2:30005
        C: PASV
        * refused needs-epsv
        s:
        c: 425 PASV cannot name an IPv6 address, use EPSV
        C: EPRT |2|2001:db8:c::7|40000|
        s: EPRT |1|192.0.2.1|50002|
        * open 2 from server, dial [2001:db8:c::7]:40000
        S: 200 EPRT command successful",
    );
}

/// The client does not wait for replies. Refusals keep their place.
#[test]
fn pipelined_commands_get_their_replies_in_order() {
    check(
        &v4(),
        r"
        C: USER joe
        C: PASV
        s:
        C: RETR a
        s:
        C: PORT 10,0,0,9,156,64
        s:
        C: PASV
        s:
        C: RETR b
        s:
        S: 220 ready
        S: 230 in
        s: PASV
        S: 227 ok 192,0,2,2,117,53
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005
        s: RETR a
        * transfer 1 RETR a
        S: 150 a
        S: 226-a
        S: 226 a
        s: PASV
        c: 226 a
        c: 504 Address 10.0.0.9 is neither the client's own nor in ftp.data_from
        * refused third-host
        S: 227 ok 192,0,2,2,117,54
        c: 227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30006
        s: RETR b
        * transfer 2 RETR b
        S: 150 b
        S: 226 b",
    );
}

/// Some servers send one reply to a transfer and its ABOR, or none to a command that comes during a transfer. What they owe is
/// forgotten at the next command that has to wait.
#[test]
fn a_reply_that_never_comes_shifts_no_other() {
    check(
        &v4(),
        r"
        S: 220 ready
        C: RETR f
        C: ABOR
        C: NOOP\x00
        C: LPRT 4,4,1,2,3,4,2,5,6
        s:
        C: PASV
        s:
        S: 226 one reply for all
        ...
        * refused long-form
        c: 521 Supported address families are (4,6), by EPRT and EPSV
        s: PASV
        S: 227 ok 192,0,2,2,117,53
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005
        C: LPSV
        s:
        * refused long-form
        c: 521 Supported address families are (4,6), by EPRT and EPSV
        C: PWD
        S: 257 /",
    );
}

/// PASV that the server never answers, or late.
#[test]
fn a_client_does_not_wait_for_ever_for_pasv() {
    check(
        &v4(),
        r"
        S: 220 ready
        C: PASV
        C: PWD
        s:
        ...
        s: PWD
        S: 257 /
        S: 227 late 192,0,2,2,117,53
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005
        S: 227 twice 192,0,2,2,117,53
        c: 425 The server names an address that nobody asked for
        * refused unasked
        C: EPSV
        ...
        C: PASV
        S: 229 late (|||30005|)
        c: 227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30005",
    );
}

#[test]
fn telnet_sequences_are_passed_before_the_line_they_stand_in() {
    check(
        &v4(),
        r"
        S: \xff\xfd\x06220 ready
        C: \xff\xfb\x06\xff\xf1USER joe
        S: 331 ok
        C: PO\xff\xfc\x01RT 198,51,\xff\xf6100,7,156,64
        s: \xff\xfc\x01\xff\xf6PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: \xff\xfe\x01200 ok
        C: PASV
        S: 22\xff\xfe\x017 ok (192,0,2,2,\xff\xf1117,53)
        c: \xff\xfe\x01\xff\xf1227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30005",
    );
}

/// vsftpd and pure-ftpd do not reply to an empty line, and proftpd does.
#[test]
fn an_empty_line_may_have_a_reply() {
    for blank in ["", r"\x20", r"\x00", r"\x09\x0d"] {
        // Nobody can tell whether a reply will come, if none of another command comes before it.
        check(
            &v4(),
            &format!(
                r"
                S: 220 ready
                C: {blank}
                s: {blank}
                C: PORT 10,0,0,9,200,22
                s:
                C: PWD
                s:
                ...
                * refused third-host
                c: 504 Address 10.0.0.9 is neither the client's own nor in ftp.data_from
                s: PWD
                S: 257 /
                C: PWD
                C: {blank}
                C: LPSV
                s:
                S: 257 /
                S: 500 Invalid command: try being more creative
                * refused long-form
                c: 500 Invalid command: try being more creative
                c: 521 Supported address families are (4,6), by EPRT and EPSV"
            )
            .replace(": \n", ": \\x0d\n"),
        );
        for reply in ["", "S: 500 Invalid command: try being more creative"] {
            check(
                &v4(),
                &format!(
                    r"
                    S: 220 ready
                    C: {blank}
                    C: PWD
                    C: PORT 10,0,0,9,200,22
                    s:
                    C: SYST
                    s:
                    {reply}
                    S: 257 /
                    * refused third-host
                    c: 257 /
                    c: 504 Address 10.0.0.9 is neither the client's own nor in ftp.data_from
                    s: SYST
                    S: 215 UNIX"
                )
                .replace(": \n", ": \\x0d\n"),
            );
        }
    }
}

/// A reply more than the session knows of does not take the place of 227.
#[test]
fn a_late_reply_does_not_hide_227() {
    for late in ["226 late", "225 late", "426 late", "250 late", "425 late", "550 late"] {
        check(
            &v4(),
            &format!(
                r"
                S: 220 ready
                C: PASV
                S: {late}
                S: 227 ok 192,0,2,2,117,53
                c: 227 Entering Passive Mode (198,51,100,1,195,81).
                * open 1 from client, dial 192.0.2.2:30005
                C: RETR f
                * transfer 1 RETR f
                S: 150 ok
                S: 226 done"
            ),
        );
    }
    check(
        &v4(),
        r"
        S: 220 ready
        C: EPSV
        S: 530 Please login with USER and PASS.
        C: PWD
        S: 229 late (|||30005|)
        c: 229 Entering Extended Passive Mode (|||50001|)
        * open 1 from client, dial 192.0.2.2:30005
        S: 257 /
        S: 229 unasked (|||30005|)
        c: 425 The server names an address that nobody asked for
        * refused unasked",
    );
}

/// RFC 959 5.4: 120 comes before 220, as a greeting and as the reply to REIN.
#[test]
fn a_late_greeting_and_rein_shift_no_reply() {
    check(
        &v4(),
        r"
        S: 120 Ready in 1 minute
        C: LPSV
        s:
        S: 220 ready
        c: 220 ready
        c: 521 Supported address families are (4,6), by EPRT and EPSV
        * refused long-form
        C: REIN
        C: LPSV
        s:
        S: 120 Wait
        S: 220 again
        c: 220 again
        c: 521 Supported address families are (4,6), by EPRT and EPSV
        * refused long-form",
    );
}
