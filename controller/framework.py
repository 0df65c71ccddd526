"""The OpenFlow framework under the controller: Ryu, or os-ken, its maintained fork, whichever is asked for or
installed. The only module that imports either.

Ryu 4.34 expects `eventlet.wsgi.ALREADY_HANDLED`, which newer eventlets have dropped: it is put back before the import.
`sockets` are those that let the framework's other tasks run while one waits.
"""

from __future__ import annotations

import os
import warnings
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from controller.policy import FRAMEWORK_VARIABLE, FRAMEWORKS


def _choose() -> str:
    """The framework that is asked for, or else the first that is installed; raises ImportError when there is none."""
    asked = os.environ.get(FRAMEWORK_VARIABLE)
    for name in [asked] if asked else FRAMEWORKS:
        if name in FRAMEWORKS and find_spec(name):
            return name
    raise ImportError(f"no OpenFlow framework is installed: {asked or ' or '.join(FRAMEWORKS.values())} is needed")


NAME = _choose()
VERSION = metadata.version(FRAMEWORKS[NAME])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # eventlet says on import that it is deprecated
    from eventlet import wsgi

    if not hasattr(wsgi, "ALREADY_HANDLED"):
        wsgi.ALREADY_HANDLED = object()

    if NAME == "ryu":
        from ryu.base import app_manager
        from ryu.controller import controller, handler, ofp_event
        from ryu.lib import hub
        from ryu.lib.packet import arp, ethernet, lldp, packet
        from ryu.ofproto import ofproto_v1_3, ofproto_v1_5

        App: Any = app_manager.RyuApp
    else:
        from os_ken.base import app_manager
        from os_ken.controller import controller, handler, ofp_event
        from os_ken.lib import hub
        from os_ken.lib.packet import arp, ethernet, lldp, packet
        from os_ken.ofproto import ofproto_v1_3, ofproto_v1_5

        App = app_manager.OSKenApp

    if hub.HUB_TYPE == "eventlet":
        from eventlet.green import socket as sockets
    else:
        import socket as sockets

__all__ = [
    "NAME",
    "VERSION",
    "App",
    "app_manager",
    "arp",
    "controller",
    "ethernet",
    "handler",
    "hub",
    "lldp",
    "ofp_event",
    "ofproto_v1_3",
    "ofproto_v1_5",
    "packet",
    "sockets",
]
