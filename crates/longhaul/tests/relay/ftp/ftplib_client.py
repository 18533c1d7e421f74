"""Moves files by Python's ftplib. The tests and benches/ftp run it, with the arguments HOST PORT passive|active.

Lines on its input, in which NAME is a file of the server and FILE one of this host:

get NAME FILE     put FILE NAME
resume NAME FILE  append FILE NAME      get or put the rest of a file whose beginning is there
stream NAME -                           gets a file to the standard output
missing NAME -                          asks for a file that is missing
abort NAME telnet|plain                 gets the first bytes of a file, and aborts
"""

import ftplib
import os
import socket
import sys


def main():
    host, port, mode = sys.argv[1:]
    ftp = ftplib.FTP(timeout=60)
    ftp.trust_server_pasv_ipv4_address = True
    ftp.connect(host, int(port))
    ftp.login("tester", "secret")
    ftp.set_pasv(mode == "passive")
    ftp.voidcmd("TYPE I")
    for line in sys.stdin:
        obey(ftp, *line.split())
    ftp.quit()


def obey(ftp, verb, source, target):
    if verb == "get":
        with open(target, "wb") as file:
            ftp.retrbinary("RETR " + source, file.write)
    elif verb == "resume":
        with open(target, "ab") as file:
            ftp.retrbinary("RETR " + source, file.write, rest=os.path.getsize(target))
    elif verb == "stream":
        ftp.retrbinary("RETR " + source, sys.stdout.buffer.write)
    elif verb == "put":
        with open(source, "rb") as file:
            ftp.storbinary("STOR " + target, file)
    elif verb == "append":
        with open(source, "rb") as file:
            rest = ftp.size(target)
            file.seek(rest)
            ftp.storbinary("STOR " + target, file, rest=rest)
    elif verb == "missing":
        try:
            ftp.retrbinary("RETR " + source, sys.stdout.buffer.write)
        except ftplib.error_perm as err:
            print(err)
    elif verb == "abort":
        abort(ftp, source, target == "telnet")
    else:
        sys.exit("no such verb: " + verb)


def abort(ftp, name, has_telnet):
    data = ftp.transfercmd("RETR " + name)
    data.recv(1)
    if has_telnet:
        # RFC 959 4.1.3: Interrupt Process, and the Data Mark as urgent data
        ftp.sock.sendall(b"\xff\xf4")
        ftp.sock.sendall(b"\xff\xf2", socket.MSG_OOB)
        ftp.putcmd("ABOR")
    else:
        ftp.sock.sendall(b"ABOR\r\n", socket.MSG_OOB)
    data.close()
    # pure-ftpd drops commands that come before the transfer has ended. It takes the urgent LF for one.
    while "Unknown command" in ftp.getmultiline():
        pass
    ftp.putcmd("NOOP")
    while not ftp.getmultiline().startswith("200"):
        pass


main()
