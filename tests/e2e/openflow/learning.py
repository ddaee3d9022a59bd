"""A learning switch for os-ken in OpenFlow 1.3: its controller sees the first packets only."""

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3


class Learning(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    def add(self, datapath, priority, match, actions):
        parser, proto = datapath.ofproto_parser, datapath.ofproto
        apply = parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)
        datapath.send_msg(
            parser.OFPFlowMod(datapath=datapath, priority=priority, match=match, instructions=[apply])
        )

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        datapath = event.msg.datapath
        parser, proto = datapath.ofproto_parser, datapath.ofproto
        to_controller = parser.OFPActionOutput(proto.OFPP_CONTROLLER, proto.OFPCML_NO_BUFFER)
        self.add(datapath, 0, parser.OFPMatch(), [to_controller])

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def received(self, event):
        message = event.msg
        datapath = message.datapath
        parser, proto = datapath.ofproto_parser, datapath.ofproto
        in_port = message.match["in_port"]
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        self.ports[frame.src] = in_port
        out = self.ports.get(frame.dst, proto.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out)]
        if out != proto.OFPP_FLOOD:
            self.add(datapath, 1, parser.OFPMatch(in_port=in_port, eth_dst=frame.dst), actions)
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath,
                buffer_id=message.buffer_id,
                in_port=in_port,
                actions=actions,
                data=message.data if message.buffer_id == proto.OFP_NO_BUFFER else None,
            )
        )
