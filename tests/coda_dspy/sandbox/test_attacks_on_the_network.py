"""Programs that want to talk to somebody: listeners of the test's own, and an address that leads nowhere (RFC 5737)."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def listener(family: int, kind: int, address: object) -> Iterator[socket.socket]:
    with socket.socket(family, kind) as open_socket:
        open_socket.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            open_socket.listen()
        open_socket.settimeout(0.05)
        yield open_socket


TALK = """
import socket
def tell(family, kind, address):
    with socket.socket(family, kind) as link:
        link.settimeout(0.2)
        link.connect(address)
        link.send(b"secret")
        print("GOT", address)
for family, kind, address in TARGETS:
    for way in (lambda: tell(family, kind, address), lambda: tell(family, kind | socket.SOCK_NONBLOCK, address)):
        try:
            way()
        except OSError:
            pass
pair = socket.socketpair()
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
    try:
        socket.socketpair(socket.AF_UNIX, kind)
        print("GOT pair")
    except OSError:
        pass
for target in TARGETS:
    try:
        pair[0].sendto(b"secret", target[2])
        print("GOT sendto")
    except (OSError, TypeError):
        pass
print("done")
"""


def test_nobody_is_reached(attack, open_folder: Path) -> None:
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    path = str(open_folder / "socket")
    with (
        listener(socket.AF_INET, stream, ("127.0.0.1", 0)) as tcp,
        listener(socket.AF_INET, datagram, ("127.0.0.1", 0)) as udp,
        listener(socket.AF_UNIX, stream, path) as unix,
        listener(socket.AF_UNIX, datagram, "\0coda-test-" + open_folder.name) as abstract,
    ):
        Path(path).chmod(0o777)
        listeners = {tcp: stream, udp: datagram, unix: stream, abstract: datagram}
        targets = [(int(one.family), int(kind), one.getsockname()) for one, kind in listeners.items()]
        targets += [(int(socket.AF_INET), int(kind), ("192.0.2.1", 80)) for kind in (stream, datagram)]
        targets += [(int(socket.AF_INET), int(datagram), ("192.0.2.1", 53))]
        result = attack(TALK.replace("TARGETS", repr(targets)))
        assert result.stdout == "done\n", result
        for one, kind in listeners.items():
            with pytest.raises(TimeoutError):
                one.accept() if kind == stream else one.recv(10)


@pytest.mark.parametrize(
    "code",
    [
        "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=0.2)",
        "import socket\nsocket.create_server(('127.0.0.1', 0))",
        "import socket\nsocket.getaddrinfo('example.invalid', 80)",
        "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "import socket\nsocket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0)",
        "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
        "import socket\nsocket.socket(40, socket.SOCK_STREAM, 0)",
    ],
)
def test_no_socket_is_made(attack, code: str) -> None:
    result = attack(code)
    assert result.exit_code == 1
    assert "Error" in result.stderr or "gaierror" in result.stderr


def test_urgent_data_and_descriptors_in_flight_are_refused(attack) -> None:
    code = """
import socket
one, two = socket.socketpair()
for way in (lambda: one.send(b"x", socket.MSG_OOB), lambda: two.recv(1, socket.MSG_OOB), lambda: one.sendmsg([b"x"]),
            lambda: socket.send_fds(one, [b"x"], [0]), lambda: two.recvmsg(1)):
    try:
        one.setblocking(False), two.setblocking(False)
        way()
        print("GOT")
    except PermissionError:
        pass
one.send(b"plain")
print(two.recv(10))
"""
    assert attack(code).stdout == "b'plain'\n"
