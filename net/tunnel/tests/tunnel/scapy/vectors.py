"""Writes vectors.txt: packets in tunnels as Scapy builds them.

Each line has the settings, the payload, and the frame with outer headers. The settings of a control packet of Geneve end
with its options.
"""

import sys

from scapy.all import IP, TCP, UDP, Dot1Q, Ether, ICMPv6EchoRequest, IPv6, Raw, raw
from scapy.contrib.erspan import ERSPAN_II
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.gtp import GTP_U_Header
from scapy.layers.l2 import GRE
from scapy.layers.vxlan import VXLAN

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
V4 = ("192.0.2.1", "198.51.100.2")
V6 = ("2001:db8::1", "2001:db8:1::2")
PORTS = {"vxlan": 4789, "geneve": 6081, "options": 6081, "gtpu": 2152}
PAYLOADS = [
    IP(src="10.0.0.1", dst="10.0.0.2", ttl=63, tos=0x2D) / TCP(sport=1, dport=2) / Raw(b"even"),
    IPv6(src="fd00::1", dst="fd00::2", hlim=62, tc=0x4E) / UDP(sport=3, dport=4) / Raw(b"odd"),
    IPv6(src="fd00::1", dst="fd00::2", hlim=1) / ICMPv6EchoRequest(data=b"x" * 33),
]


# One that must be known, one without data, and one of several words.
OPTIONS = [
    GeneveOptions(classid=0x0102, type=0x80, data=b"\x01\x02\x03\x04"),
    GeneveOptions(classid=0xFFFF, type=7),
    GeneveOptions(classid=0x0101, type=1, data=bytes(range(12))),
]
TAGGED = Dot1Q(vlan=0xABC, prio=5) / PAYLOADS[1]


def header(kind, key, payload):
    """The headers between UDP or IP and the payload."""
    if kind == "vxlan":
        return VXLAN(flags=8, vni=key)
    if kind == "geneve":
        return GENEVE(vni=key, proto=0x6558)
    if kind == "options":
        return GENEVE(vni=key, proto=0x6558, oam=1, critical=1, options=OPTIONS)
    if kind == "gtpu":
        return GTP_U_Header(teid=key, gtp_type=255)
    if kind == "erspan":
        tag = payload.getlayer(Dot1Q)
        vlan = {"vlan": tag.vlan, "cos": tag.prio, "en": 3} if tag else {}
        return GRE(proto=0x88BE, seqnum_present=1, seqence_number=0x01020304) / ERSPAN_II(
            ver=1, session_id=key, **vlan
        )
    if kind == "gre" and key is None:
        return GRE(proto=0x6558)
    if kind == "gre":
        return GRE(proto=0x6558, key_present=1, key=key)
    return GRE(proto=0x6558, key_present=1, key=key << 8 | 0x5A)


def network(addresses, protocol, ttl, tos, number):
    """The outer IP header."""
    if ":" in addresses[0]:
        return IPv6(src=addresses[0], dst=addresses[1], hlim=ttl, tc=tos, nh=protocol)
    return IP(src=addresses[0], dst=addresses[1], ttl=ttl, tos=tos, id=number, flags="DF", proto=protocol)


def frame(kind, key, addresses, payload, checksum):
    """A frame with outer headers."""
    number, ttl, tos = 0x1234, 17, payload[IP].tos if IP in payload else payload[IPv6].tc
    inner = Ether(src="02:00:00:00:00:03", dst="02:00:00:00:00:04") / payload
    outer = Ether(src=MACS[0], dst=MACS[1])
    if kind == "ipip":
        protocol = 4 if IP in payload else 41
        return inner, outer / network(addresses, protocol, ttl, tos, number) / payload
    if kind not in PORTS:
        return inner, outer / network(addresses, 47, ttl, tos, number) / header(kind, key, payload) / inner
    udp = UDP(sport=49152 + 0x5A, dport=PORTS[kind])
    if not checksum:
        udp.chksum = 0
    content = payload if kind == "gtpu" else inner
    return inner, outer / network(addresses, 17, ttl, tos, number) / udp / header(kind, key, payload) / content


def lines():
    """All lines."""
    for kind, keys in [
        ("vxlan", [0, 7, 0xFFFFFF]),
        ("geneve", [0xABCDEF]),
        ("gre", [None, 0xDEADBEEF]),
        ("nvgre", [0x123456]),
        ("erspan", [0, 0x3FF]),
        ("ipip", [None]),
        ("gtpu", [0xCAFEBABE]),
        ("options", [0x010203]),
    ]:
        for key in keys:
            for addresses in (V4, V6):
                for payload in PAYLOADS + [TAGGED] * (kind == "erspan"):
                    for checksum in (False, True) if kind in PORTS else (False,):
                        if addresses is V6 and kind in PORTS and not checksum:
                            continue
                        inner, built = frame(kind, key, addresses, payload, checksum)
                        shown = "-" if key is None else key
                        name = "geneve" if kind == "options" else kind
                        settings = f"{name} {shown} {addresses[0]} {addresses[1]} {int(checksum)}"
                        if kind == "options":
                            settings += " " + b"".join(map(raw, OPTIONS)).hex()
                        yield f"{settings}; {raw(inner).hex()}; {raw(built).hex()}"


if __name__ == "__main__":
    sys.stdout.write("".join(line + "\n" for line in lines()))
