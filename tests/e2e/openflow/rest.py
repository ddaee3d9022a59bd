"""The statistics and changes of os-ken over HTTP, with the paths of Ryu's `ofctl_rest`. The address is in `REST`."""

import json
import os

from os_ken.base import app_manager
from os_ken.controller import dpset, ofp_event
from os_ken.controller.handler import MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub, ofctl_v1_3
from os_ken.ofproto import ofproto_v1_3

READ = {
    "desc": ofctl_v1_3.get_desc_stats,
    "flow": ofctl_v1_3.get_flow_stats,
    "aggregateflow": ofctl_v1_3.get_aggregate_flow_stats,
    "table": ofctl_v1_3.get_table_stats,
    "tablefeatures": ofctl_v1_3.get_table_features,
    "port": ofctl_v1_3.get_port_stats,
    "portdesc": ofctl_v1_3.get_port_desc,
    "queue": ofctl_v1_3.get_queue_stats,
    "queueconfig": ofctl_v1_3.get_queue_config,
    "group": ofctl_v1_3.get_group_stats,
    "groupdesc": ofctl_v1_3.get_group_desc,
    "groupfeatures": ofctl_v1_3.get_group_features,
    "meter": ofctl_v1_3.get_meter_stats,
    "meterconfig": ofctl_v1_3.get_meter_config,
    "meterfeatures": ofctl_v1_3.get_meter_features,
    "role": ofctl_v1_3.get_role,
}
CHANGE = {
    "flowentry": ("FC", ofctl_v1_3.mod_flow_entry),
    "groupentry": ("GC", ofctl_v1_3.mod_group_entry),
    "meterentry": ("MC", ofctl_v1_3.mod_meter_entry),
}
COMMANDS = {"add": "ADD", "modify": "MODIFY", "delete": "DELETE"}
REPLIES = [
    getattr(ofp_event, f"EventOFP{name}")
    for name in (
        "DescStatsReply FlowStatsReply AggregateStatsReply TableStatsReply TableFeaturesStatsReply PortStatsReply"
        " PortDescStatsReply QueueStatsReply QueueGetConfigReply GroupStatsReply GroupDescStatsReply"
        " GroupFeaturesStatsReply MeterStatsReply MeterConfigStatsReply MeterFeaturesStatsReply RoleReply"
    ).split()
]


class Rest(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    _CONTEXTS = {"dpset": dpset.DPSet}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.datapaths = kwargs["dpset"]
        self.waiters = {}
        host, port = os.environ["REST"].split(":")
        server = hub.WSGIServer((host, int(port)), self.serve)
        hub.spawn(server.serve_forever)

    @set_ev_cls(REPLIES, MAIN_DISPATCHER)
    def reply(self, event):
        message = event.msg
        lock, messages = self.waiters.get(message.datapath.id, {}).get(message.xid, (None, None))
        if lock is None:
            return
        messages.append(message)
        # Replies about roles and queues have one part.
        if not getattr(message, "flags", 0) & message.datapath.ofproto.OFPMPF_REPLY_MORE:
            del self.waiters[message.datapath.id][message.xid]
            lock.set()

    def serve(self, environment, start):
        words = environment["PATH_INFO"].strip("/").split("/")[1:]
        try:
            body = self.answer(words, environment)
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(body).encode()]
        except LookupError as error:
            start("404 Not Found", [])
            return [repr(error).encode()]

    def answer(self, words, environment):
        if words == ["switches"]:
            return [number for number, _ in self.datapaths.get_all()]
        if environment["REQUEST_METHOD"] == "GET":
            name, number = words
            return READ[name](self.datapath(int(number)), self.waiters)
        name, command = words
        change = json.loads(environment["wsgi.input"].read())
        datapath = self.datapath(change["dpid"])
        if name == "role":
            ofctl_v1_3.set_role(datapath, change)
            return {}
        kind, apply = CHANGE[name]
        code = getattr(datapath.ofproto, f"OFP{kind}_{COMMANDS[command]}")
        apply(datapath, change, code)
        return {}

    def datapath(self, number):
        found = self.datapaths.get(number)
        if found is None:
            raise LookupError(number)
        return found
