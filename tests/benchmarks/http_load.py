"""Asks a server at a fixed rate: ``python http_load.py HOST PORT RATE SECONDS < paths``. Prints latencies as JSON.

A process of its own, and no more than sockets, so that what is measured is the server. The loop is open: a request is
sent when it is due, whether or not the earlier ones are answered, and its latency counts from when it was due.
"""

import asyncio
import json
import sys
import time


class Connection:
    """One kept-alive connection, one request at a time."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer

    async def get(self, path: str) -> int:
        self._writer.write(f"GET {path} HTTP/1.1\r\nhost: {self._host}\r\n\r\n".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        await self._reader.readexactly(length)
        return int(head.split(b" ", 2)[1])


async def measure(host: str, port: int, rate: float, seconds: float, paths: list[str]) -> list[float]:
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(16):
        connection = Connection(host, *await asyncio.open_connection(host, port))
        await connection.get(paths[0])
        idle.put_nowait(connection)
    latencies: list[float] = []

    async def ask(path: str, due: float) -> None:
        connection = await idle.get()
        status = await connection.get(path)
        latencies.append(time.perf_counter() - due)
        idle.put_nowait(connection)
        if status != 200:
            raise RuntimeError(f"{path} answered {status}")

    start = time.perf_counter() + 0.05
    async with asyncio.TaskGroup() as tasks:
        for at in range(round(rate * seconds)):
            due = start + at / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(ask(paths[at % len(paths)], due))
    return latencies


if __name__ == "__main__":
    host, port, rate, seconds = sys.argv[1:]
    paths = sys.stdin.read().split()
    print(json.dumps(asyncio.run(measure(host, int(port), float(rate), float(seconds), paths))))
