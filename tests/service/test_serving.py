"""The listening socket and the connections that are accepted from it."""

from __future__ import annotations

import asyncio
import socket

from regard.service.serving import open_port


def test_an_accepted_connection_sends_at_once():
    """Without TCP_NODELAY a response of two packets waits for an acknowledgement, 40 ms later."""
    options = []

    async def accept(reader, writer):
        accepted = writer.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def connect(opened):
        async with await asyncio.start_server(accept, sock=opened):
            reader, writer = await asyncio.open_connection(*opened.getsockname())
            await reader.read()
            writer.close()
            await writer.wait_closed()

    asyncio.run(connect(open_port(0)))
    assert options == [1]
