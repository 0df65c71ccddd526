"""Host counts at which addressing has broken elsewhere: all hosts are built, and each of them reaches h1."""

from __future__ import annotations

import ipaddress

import pytest

from tests.emulation.conftest import Inside
from workloads.transport.tcp import FIRST_SOURCE_PORT

pytestmark = pytest.mark.lab

FIRST_SENDER = ipaddress.ip_address("10.0.0.2")


@pytest.mark.parametrize("senders", [1, 11, 16, 54, 128, 255, 1023])
def test_every_sender_reaches_the_receiver(inside: Inside, senders: int) -> None:
    told = inside("reach", memory_bytes=(512 << 20) + senders * (3 << 20), keys={"senders": senders, "capture": "off"})
    assert told["sources"] == [f"{FIRST_SENDER + index}:{FIRST_SOURCE_PORT + index}" for index in range(senders)]
    assert told["sent"] == told["received"] == senders * [100]
    assert told["retransmits"] == 0
