"""A program that takes part in the exchange of `linerate upgrade` (`cli/src/takeover.rs`) up to STEP, and then fails.

A message has its numbers of parts, bytes and descriptors, then for each part a header of tag, number of descriptors and
length, and its bytes. Descriptors follow, eight with each byte.
"""
import array, json, os, signal, socket, struct, sys, time

channel = socket.socket(fileno=0)


def read(length):
    data = b""
    while len(data) < length:
        piece, rights, _, _ = channel.recvmsg(length - len(data), socket.CMSG_SPACE(4 * 16))
        if not piece:
            sys.exit("the switch has closed the connection")
        for _, _, descriptors in rights:
            for descriptor in array.array("i", descriptors):
                os.close(descriptor)
        data += piece
    return data


def receive():
    """The bytes of all parts of a message."""
    _, length, descriptors = struct.unpack("<III", read(12))
    rest, data = read(length), b""
    read((descriptors + 7) // 8)
    while rest:
        _, _, length = struct.unpack("<BBI", rest[:6])
        data, rest = data + rest[6 : 6 + length], rest[6 + length :]
    return data


def receive_state():
    while json.loads(receive()) != "end":
        pass


def send(text):
    channel.sendall(struct.pack("<IIIBBI", 1, 6 + len(text), 0, 0, 0, len(text)) + text.encode())


def answer(error=None):
    send(json.dumps({"version": "9.9.9", "error": error, "time": time.monotonic_ns()}))


def hold():
    """Waits here, and says so by a file."""
    open(__file__ + ".held", "w").close()
    time.sleep(1000)


def ends(step):
    """Ends here if this is the step, and ends the switch before if the test says so."""
    if STEP == "held " + step:
        hold()
    if STEP == step:
        if KILLS:
            os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)


ends("at its start")
offer = json.loads(receive())
ends("with the offer")
if STEP == "of another protocol":
    reason = f"version {offer['version']} hands over by protocol {offer['protocol']}, version 9.9.9 takes over by 9"
    answer({"place": "upgrade", "reason": reason, "remedy": "stop the switch, and start the new version"})
elif STEP == "with text that is no answer":
    send("[]")
elif STEP == "with an empty answer":
    channel.sendall(struct.pack("<III", 0, 0, 0))
elif STEP == "with bytes that are no message":
    channel.sendall(b"\xff" * 100)
elif STEP == "without an answer":
    time.sleep(1000)
else:
    answer()
    ends("when it is ready")
    receive_state()
    ends("with the state")
    answer()
    receive()
    ends("with the addresses")
    receive()
    ends("with the descriptions")
    answer()
    ends("with prepared ports")
    receive_state()
    receive()
    ends("with all ports")
    if STEP == "with all ports and without an answer":
        time.sleep(1000)
    if STEP == "with all ports and text that is no answer":
        send("{}")
    if STEP.endswith("with the ports"):
        answer()
        receive()
        ends("with the ports")
    answer({"place": "port \"red\"", "reason": "no memory is left", "remedy": "see the log"})
