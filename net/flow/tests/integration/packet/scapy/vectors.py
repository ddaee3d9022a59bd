"""Prints test vectors for actions on packets, which Scapy builds before and after each action.

A line has three parts, separated by `;`: actions, the frame, and the frame after the actions. Scapy computes all lengths
and checksums of both frames. Run with Scapy 2.5: python3 vectors.py > vectors.txt
"""

import copy
import ipaddress
import logging

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.compat import raw  # noqa: E402
from scapy.contrib.mpls import MPLS  # noqa: E402
from scapy.contrib.spbm import SPBM  # noqa: E402
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP  # noqa: E402
from scapy.layers.inet6 import (  # noqa: E402
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.layers.sctp import SCTP, SCTPChunkData  # noqa: E402
from scapy.packet import Raw  # noqa: E402

MACS = {"dst": "02:00:00:00:00:01", "src": "02:00:00:00:00:02"}
PAYLOAD = Raw(bytes(range(33)))


def line(actions, before, after):
    print(f"{actions}; {raw(before).hex()}; {raw(after).hex()}")


def changed(packet, layer, **fields):
    """A copy in which fields of the first layer of a kind differ."""
    packet = copy.deepcopy(packet)
    for name, value in fields.items():
        setattr(packet[layer], name, value)
    return packet


def ether(payload, *tags):
    packet = Ether(**MACS)
    for tag in tags:
        packet = packet / tag
    return packet / payload


def transports():
    return [
        ("tcp", TCP, TCP(sport=1000, dport=80, seq=7, ack=9, flags="PA", options=[("MSS", 1460)]) / PAYLOAD),
        ("udp", UDP, UDP(sport=1000, dport=53) / PAYLOAD),
        ("sctp", SCTP, SCTP(sport=1000, dport=99, tag=5) / SCTPChunkData(tsn=1, data=bytes(27))),
    ]


def networks():
    v4 = IP(src="10.0.0.1", dst="10.0.0.2", tos=0xB9, ttl=64, id=77, options=[IPOption_NOP()] * 4)
    v6 = IPv6(src="fe80::1", dst="fe80::2", tc=0xB9, fl=0x12345, hlim=64)
    hop = v6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()
    return [("0x0800", IP, v4), ("0x86dd", IPv6, v6), ("0x86dd", IPv6, hop)]


def hexadecimal(address):
    return hex(int(ipaddress.ip_address(address)))


def set_network(packet, layer):
    if layer is IP:
        line(f"set nw_src {hexadecimal('192.168.1.9')}", packet, changed(packet, IP, src="192.168.1.9"))
        line(f"set nw_dst {hexadecimal('192.168.1.9')}", packet, changed(packet, IP, dst="192.168.1.9"))
        line("set nw_dst 0xff000000 0xff00ff00", packet, changed(packet, IP, dst="255.0.0.2"))
        line("set ip_dscp 9", packet, changed(packet, IP, tos=9 << 2 | 1))
        line("set nw_ecn 2", packet, changed(packet, IP, tos=0xBA))
        line("set_nw_ttl 3", packet, changed(packet, IP, ttl=3))
        line("dec_nw_ttl", packet, changed(packet, IP, ttl=63))
    else:
        line(f"set ipv6_src {hexadecimal('2001:db8::77')}", packet, changed(packet, IPv6, src="2001:db8::77"))
        line(f"set ipv6_dst {hexadecimal('2001:db8::77')}", packet, changed(packet, IPv6, dst="2001:db8::77"))
        line("set ipv6_label 0xabcde", packet, changed(packet, IPv6, fl=0xABCDE))
        line("set ip_dscp 9", packet, changed(packet, IPv6, tc=9 << 2 | 1))
        line("set nw_ecn 2", packet, changed(packet, IPv6, tc=0xBA))
        line("set_nw_ttl 3", packet, changed(packet, IPv6, hlim=3))
        line("dec_nw_ttl", packet, changed(packet, IPv6, hlim=63))


def set_fields():
    for _, layer, network in networks():
        for name, transport, payload in transports():
            packet = ether(network / payload)
            line("set eth_dst 0x0a0b0c0d0e0f", packet, changed(packet, Ether, dst="0a:0b:0c:0d:0e:0f"))
            line("set eth_src 0x0a0b0c0d0e0f", packet, changed(packet, Ether, src="0a:0b:0c:0d:0e:0f"))
            set_network(packet, layer)
            for tags in [(), (Dot1AD(vlan=9), Dot1Q(vlan=8))]:
                tagged = ether(network / payload, *tags)
                line(f"set {name}_src 4321", tagged, changed(tagged, transport, sport=4321))
                line(f"set {name}_dst 0x1100 0xff00", tagged, changed(tagged, transport, dport=0x1100 | payload.dport))
    unsummed = ether(IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2, chksum=0) / PAYLOAD)
    line("set udp_dst 3", unsummed, changed(unsummed, UDP, dport=3))
    line("set nw_src 0x01020304", unsummed, changed(unsummed, IP, src="1.2.3.4"))


def set_icmp():
    echo = ether(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(type=8, id=5) / PAYLOAD)
    line("set icmp_type 0", echo, changed(echo, ICMP, type=0))
    line("set icmp_code 4", echo, changed(echo, ICMP, code=4))
    line("set nw_src 0x01020304", echo, changed(echo, IP, src="1.2.3.4"))
    six = ether(IPv6(src="fe80::1", dst="fe80::2") / ICMPv6EchoRequest(id=5, data=bytes(5)))
    line("set icmpv6_type 129", six, changed(six, ICMPv6EchoRequest, type=129))
    line("set icmpv6_code 4", six, changed(six, ICMPv6EchoRequest, code=4))
    line("set ipv6_src 0x77", six, changed(six, IPv6, src="::77"))
    for message, option, name in [
        (ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, "nd_sll"),
        (ICMPv6ND_NA, ICMPv6NDOptDstLLAddr, "nd_tll"),
    ]:
        packet = ether(IPv6(src="fe80::1", dst="fe80::2", hlim=255) / message(tgt="fe80::9"))
        packet = packet / option(lladdr="02:00:00:00:00:07")
        line(f"set nd_target {hexadecimal('fe80::5')}", packet, changed(packet, message, tgt="fe80::5"))
        line(f"set {name} 0x0a0b0c0d0e0f", packet, changed(packet, option, lladdr="0a:0b:0c:0d:0e:0f"))


def set_arp():
    packet = ether(ARP(op=1, hwsrc="02:00:00:00:00:05", psrc="10.0.0.5", hwdst="02:00:00:00:00:06", pdst="10.0.0.6"))
    line("set arp_op 2", packet, changed(packet, ARP, op=2))
    line("set arp_spa 0x01020304", packet, changed(packet, ARP, psrc="1.2.3.4"))
    line("set arp_tpa 0x01020304", packet, changed(packet, ARP, pdst="1.2.3.4"))
    line("set arp_sha 0x0a0b0c0d0e0f", packet, changed(packet, ARP, hwsrc="0a:0b:0c:0d:0e:0f"))
    line("set arp_tha 0x0a0b0c0d0e0f", packet, changed(packet, ARP, hwdst="0a:0b:0c:0d:0e:0f"))


def vlan(payload):
    plain, tagged = ether(payload), ether(payload, Dot1Q(vlan=10, prio=5, id=1))
    line("push_vlan 0x8100", plain, ether(payload, Dot1Q(vlan=0)))
    line("push_vlan 0x88a8", plain, ether(payload, Dot1AD(vlan=0)))
    twice = ether(payload, Dot1AD(vlan=10, prio=5, id=1), Dot1Q(vlan=10, prio=5, id=1))
    line("push_vlan 0x88a8", tagged, twice)
    line("pop_vlan", twice, tagged)
    line("pop_vlan, pop_vlan", twice, plain)
    line("set vlan_vid 0x1014", tagged, changed(tagged, Dot1Q, vlan=20))
    line("set vlan_pcp 2", tagged, changed(tagged, Dot1Q, prio=2))
    line("set vlan_tci 0x5014", plain, ether(payload, Dot1Q(vlan=20, prio=2)))
    line("set vlan_tci 0", tagged, plain)
    before = ether(payload, Dot1AD(vlan=10, prio=5), Dot1Q(vlan=10))
    after = ether(payload, Dot1AD(vlan=3), Dot1AD(vlan=10, prio=5), Dot1Q(vlan=10))
    line("push_vlan 0x88a8, set vlan_vid 0x1003, set vlan_pcp 0", before, after)


def mpls(payload, ethertype, ttl):
    plain, tag = ether(payload), Dot1Q(vlan=10)
    one = ether(MPLS(label=0, cos=0, s=1, ttl=ttl) / payload)
    line("push_mpls 0x8847", plain, one)
    line("push_mpls 0x8848", plain, changed(one, Ether, type=0x8848))
    line("push_mpls 0x8847", ether(payload, tag), ether(MPLS(label=0, cos=0, s=1, ttl=ttl) / payload, tag))
    line("set mpls_label 0xabcde", one, changed(one, MPLS, label=0xABCDE))
    line("set mpls_tc 5", one, changed(one, MPLS, cos=5))
    line("set_mpls_ttl 9", one, changed(one, MPLS, ttl=9))
    line("dec_mpls_ttl", one, changed(one, MPLS, ttl=ttl - 1))
    entry = {"label": 5, "cos": 3, "ttl": 9}
    stacked = ether(MPLS(s=0, **entry) / MPLS(s=1, **entry) / payload)
    line("push_mpls 0x8847", ether(MPLS(s=1, **entry) / payload), stacked)
    line("pop_mpls 0x8847", stacked, ether(MPLS(s=1, **entry) / payload))
    line(f"pop_mpls {ethertype}", one, plain)
    line(f"pop_mpls {ethertype}", ether(MPLS(s=1, ttl=4) / payload, tag), ether(payload, tag))
    differing = ether(MPLS(s=0, ttl=4) / MPLS(s=1, ttl=8) / payload)
    line("copy_ttl_in", differing, ether(MPLS(s=0, ttl=4) / MPLS(s=1, ttl=4) / payload))
    line("copy_ttl_out", differing, ether(MPLS(s=0, ttl=8) / MPLS(s=1, ttl=8) / payload))
    low = ether(MPLS(s=1, ttl=4) / payload)
    name = "ttl" if ethertype == "0x0800" else "hlim"
    line("copy_ttl_in", low, changed(low, type(payload), **{name: 4}))
    line("copy_ttl_out", low, changed(low, MPLS, ttl=ttl))


def pbb(payload):
    for tags, prio in [((), 0), ((Dot1Q(vlan=10, prio=5),), 5)]:
        customer = ether(payload, *tags)
        backbone = Ether(**MACS) / SPBM(prio=prio, dei=0, nca=0, isid=0) / customer
        line("push_pbb 0x88e7", customer, backbone)
        line("pop_pbb", backbone, customer)
        line("set pbb_isid 0xabcdef", backbone, changed(backbone, SPBM, isid=0xABCDEF))
        line("set pbb_uca 1", backbone, changed(backbone, SPBM, nca=1))
        complete = Ether(dst="0a:0b:0c:0d:0e:0f", src=MACS["src"]) / Dot1AD(vlan=7)
        complete = complete / SPBM(prio=prio, dei=0, nca=0, isid=5) / customer
        actions = "push_pbb 0x88e7, set pbb_isid 5, set eth_dst 0x0a0b0c0d0e0f, push_vlan 0x88a8, set vlan_vid 0x1007"
        line(actions, customer, complete)
        line("pop_vlan, pop_pbb", complete, customer)
        again = Ether(**MACS) / SPBM(prio=0, dei=0, nca=0, isid=0x1234)
        inner = changed(backbone, SPBM, isid=0x1234)
        line("push_pbb 0x88e7", inner, again / inner)


def special():
    routed = IPv6(src="fe80::1", dst="fe80::2") / IPv6ExtHdrRouting(addresses=["fe80::8"], segleft=1)
    packet = ether(routed / UDP(sport=1, dport=2) / PAYLOAD)
    line("set ipv6_dst 0x77", packet, changed(packet, IPv6, dst="::77"))
    line("set ipv6_src 0x77", packet, changed(packet, IPv6, src="::77"))
    later = ether(IP(src="10.0.0.1", dst="10.0.0.2", frag=5, proto=17) / PAYLOAD)
    line("set nw_src 0x01020304", later, changed(later, IP, src="1.2.3.4"))
    later = ether(IPv6(src="fe80::1", dst="fe80::2") / IPv6ExtHdrFragment(offset=5, nh=17) / PAYLOAD)
    line("set ipv6_src 0x77", later, changed(later, IPv6, src="::77"))
    inner = IP(src="10.0.0.1", dst="10.0.0.2", ttl=9) / UDP(sport=1, dport=2) / PAYLOAD
    outer = ether(IP(src="10.0.1.1", dst="10.0.1.2", ttl=64) / inner)
    copied = copy.deepcopy(outer)
    copied[IP].payload.ttl = 64
    line("copy_ttl_in", outer, copied)
    line("copy_ttl_out", outer, changed(outer, IP, ttl=9))
    line("move tcp_src tcp_dst", *moved())


def three_tags(payload):
    inner = (Dot1AD(vlan=8, prio=3), Dot1Q(vlan=7, prio=2))
    three = ether(payload, Dot1AD(vlan=9, prio=5), *inner)
    line("set eth_src 0x0a0b0c0d0e0f", three, changed(three, Ether, src="0a:0b:0c:0d:0e:0f"))
    line("set vlan_vid 0x1014", three, changed(three, Dot1AD, vlan=20))
    line("push_vlan 0x88a8", three, ether(payload, *(Dot1AD(vlan=9, prio=5) for _ in range(2)), *inner))
    line("pop_vlan", three, ether(payload, *inner))
    line("pop_vlan, pop_vlan, pop_vlan", three, ether(payload))


def cut(payload):
    """Frames that end within a header, down to that of Ethernet."""
    packet, tagged = ether(payload), ether(payload, Dot1AD(vlan=9), Dot1Q(vlan=8))
    pushed = ether(payload, Dot1Q(vlan=0))
    renamed, popped = changed(packet, Ether, dst="0a:0b:0c:0d:0e:0f"), ether(payload, Dot1Q(vlan=8))
    for length in range(14, 58, 3):
        line("set eth_dst 0x0a0b0c0d0e0f", raw(packet)[:length], raw(renamed)[:length])
        line("push_vlan 0x8100", raw(packet)[:length], raw(pushed)[: length + 4])
        if length >= 18:
            line("pop_vlan", raw(tagged)[:length], raw(popped)[: length - 4])


def moved():
    packet = ether(IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1000, dport=80) / PAYLOAD)
    return packet, changed(packet, TCP, dport=1000)


def main():
    set_fields()
    set_icmp()
    set_arp()
    for ethertype, _, network in networks():
        payload = network / UDP(sport=1000, dport=53) / PAYLOAD
        vlan(payload)
        mpls(payload, ethertype, 64)
        pbb(payload)
    special()
    for _, _, network in networks()[:2]:
        payload = network / TCP(sport=1000, dport=80) / PAYLOAD
        three_tags(payload)
        cut(payload)


main()
