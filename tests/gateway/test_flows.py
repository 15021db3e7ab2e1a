"""Bytes between a channel and a descriptor."""
import asyncio
import os
import time

from gpufairy.gateway.flows import Inflow, Outflow, bound_calls


class FakeChannel:
    def __init__(self):
        self.got, self.paused, self.broken = b"", False, False
        self.changed = asyncio.Event()

    def write(self, data, datatype=None):
        if self.broken:
            raise BrokenPipeError
        self.got += data
        self.changed.set()

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False
        self.changed.set()

    async def until(self, claim):
        async with asyncio.timeout(5):
            while not claim():
                self.changed.clear()
                await self.changed.wait()


async def one_round():
    """Everything that is ready now has had its turn."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_output_arrives_and_its_end_is_told_once():
    read, write = os.pipe()
    channel, ends = FakeChannel(), []
    flow = Outflow(read, channel, lambda: ends.append("over"))
    os.write(write, b"hello")
    await channel.until(lambda: channel.got == b"hello")
    os.close(write)
    await one_round()
    flow.stop()
    assert (ends, flow.ended) == (["over"], True)
    os.close(read)


async def test_output_that_is_held_stays_in_the_pipe_until_all_who_hold_it_let_go():
    read, write = os.pipe()
    channel = FakeChannel()
    flow = Outflow(read, channel, lambda: None)
    flow.hold("channel")
    flow.hold("connection")
    os.write(write, b"later")
    await one_round()
    flow.release("channel")
    flow.release("nobody")
    await one_round()
    assert channel.got == b""
    flow.release("connection")
    await channel.until(lambda: channel.got == b"later")
    flow.stop()
    os.close(read)
    os.close(write)


async def test_output_for_a_channel_that_is_closed_stops_the_flow():
    read, write = os.pipe()
    channel = FakeChannel()
    channel.broken = True
    flow = Outflow(read, channel, lambda: None)
    os.write(write, b"lost")
    await one_round()
    assert flow.ended
    os.close(read)
    os.close(write)


async def test_input_beyond_what_a_command_reads_pauses_the_client_and_none_is_lost():
    read, write = os.pipe()
    channel, finished = FakeChannel(), []
    flow = Inflow(write, channel, lambda: finished.append(os.close(write)))
    sent = os.urandom(300_000)
    flow.feed(sent[:200_000])
    assert (channel.paused, flow.full) == (True, True)
    flow.feed(sent[200_000:])
    flow.end()
    got = b""
    while not finished:
        got += os.read(read, 65536)
        await one_round()
    got += b"".join(iter(lambda: os.read(read, 65536), b""))
    assert got == sent
    assert not channel.paused
    os.close(read)


async def test_input_for_a_command_that_has_closed_it_is_dropped_and_the_client_goes_on():
    read, write = os.pipe()
    channel = FakeChannel()
    flow = Inflow(write, channel, lambda: None)
    flow.feed(bytes(200_000))
    assert channel.paused
    os.close(read)
    await channel.until(lambda: not channel.paused)
    flow.feed(b"more")
    flow.end()
    assert not flow.full
    os.close(write)


async def test_the_end_of_input_with_nothing_left_is_passed_on_at_once():
    read, write = os.pipe()
    flow = Inflow(write, FakeChannel(), lambda: os.close(write))
    flow.feed(b"all")
    flow.end()
    assert (os.read(read, 10), os.read(read, 10)) == (b"all", b"")
    os.close(read)


async def test_a_descriptor_that_a_session_made_to_wait_ends_its_own_flow_alone():
    """Whoever is root in a container may hold the same terminal, and take its O_NONBLOCK away."""
    bound_calls()
    ours, theirs = os.openpty()
    channel = FakeChannel()
    flow = Inflow(ours, channel, lambda: None, shared=True)
    os.set_blocking(ours, True)
    began = time.monotonic()
    flow.feed(b"x" * 100_000)
    assert time.monotonic() - began < 3
    assert not flow.full
    os.close(ours)
    os.close(theirs)
