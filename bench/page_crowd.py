"""Pages that only listen, by the thousand, in one process of their own: each opens the stream of changes, and never says goodbye.

Run as `python -m bench.page_crowd PORT FROM COUNT` with cookies as lines of standard input: a line when all are told something.
"""
import asyncio
import sys

from gpufairy.engines.open_files import raise_open_files

ALL_THERE = "all there"
AT_ONCE = 200


async def listen(port: int, source: str, cookies: list[str]) -> None:
    room, kept = asyncio.Semaphore(AT_ONCE), []

    async def page(cookie: str) -> None:
        async with room:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            writer.write(f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            await reader.readuntil(b"event: hello")
        kept.append(writer)
        while await reader.read(65536):
            pass

    pages = [asyncio.create_task(page(cookie)) for cookie in cookies]
    while len(kept) < len(cookies):
        await asyncio.sleep(0.05)
        for one in pages:
            if one.done():
                one.result()
    print(ALL_THERE, flush=True)
    await asyncio.wait(pages)


if __name__ == "__main__":
    raise_open_files()
    given = [line.strip() for line in sys.stdin]
    asyncio.run(listen(int(sys.argv[1]), sys.argv[2], [given[number % len(given)] for number in range(int(sys.argv[3]))]))
