"""A program that takes part in the exchange of `linerate upgrade` (`cli/src/takeover.rs`) up to STEP, and then fails.

A message has its number of parts, and for each part a header of tag, number of descriptors and length.
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
    """The bytes of all parts of a message, or of a port."""
    (parts,) = struct.unpack("<I", read(4))
    data = b""
    for _ in range(parts):
        _, _, length = struct.unpack("<BBI", read(6))
        data += read(length)
    return data


def send(text):
    channel.sendall(struct.pack("<IBBI", 1, 0, 0, len(text)) + text.encode())


def answer(error=None):
    send(json.dumps({"version": "9.9.9", "error": error, "time": time.monotonic_ns()}))


def ends(step):
    """Ends here if this is the step, and ends the switch before if the test says so."""
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
    channel.sendall(struct.pack("<I", 0))
elif STEP == "with bytes that are no message":
    channel.sendall(b"\xff" * 100)
elif STEP == "without an answer":
    time.sleep(1000)
else:
    answer()
    ends("when it is ready")
    receive()
    ends("with the addresses")
    names = json.loads(receive())
    ends("with the names of the ports")
    receive()
    ends("with one port")
    for _ in names[1:]:
        receive()
    ends("with all ports")
    if STEP == "with all ports and without an answer":
        time.sleep(1000)
    if STEP == "with all ports and text that is no answer":
        send("{}")
    answer({"place": "port \"red\"", "reason": "no memory is left", "remedy": "see the log"})
