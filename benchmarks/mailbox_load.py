"""A served mailbox under load and faults: `rado room serve` in a process of its own, on the loopback.

    python benchmarks/mailbox_load.py [--only clients,readers]

| part | what is done |
|---|---|
| clients | 100 clients put and get small signed messages for 30 seconds |
| readers | 40 clients at once read a room with 20,000 messages from its begin |
| half | 260 connections with half a request, at a server that may open 200 files; the same with TLS, and no handshake |
| bodies | 15 messages of 60 MB, without a signature and without an end |
| restart | the server is killed, and started again, in a room of 50 holders, who are threads of one process |
| five | five processes of `rado room join`, over a folder and over HTTP in turns |

Memory is the resident set of the server, the largest so far and some seconds after. Each part writes its key of
experiments/results/mailbox.json, with the load of the machine before and after; once all are there, docs/rooms.md has
them. Exits with 1 where a request fails that should not, the server needs more than 300 MB, or a room over HTTP takes
more than 1.3 times one over a folder.
"""

import argparse
import http.client
import json
import os
import resource
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import radoboost as rb
import rooms_page
from holders_processes import NAMES, seconds_together, write_table
from measuring import keep, shortfalls
from radoboost.holder.rooms.http_mailbox import WebMailbox, unpack_mailbox_news
from radoboost.holder.rooms.mailbox_server import TIME_HEADER
from radoboost.holder.rooms.signed_messages import Identity, sign_message

RADO = [sys.executable, "-m", "radoboost"]
CLIENTS, SECONDS = 100, 30.0
READERS, MESSAGES, MESSAGE_BYTES = 40, 20_000, 500
HALF, FILES, ASKED = 260, 200, 40
BODIES, BODY_BYTES = 15, 60 * 2**20
HOLDERS, AWAY = 50, 3.0
RUNS, WANTED_RATIO, WANTED_MB = 3, 1.3, 300.0


class Served:
    """A server in a process, over a folder; its address, token and memory."""

    def __init__(self, folder, *args, files=None):
        self.folder, self._args, self._files = folder, args, files
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.port = 0
        self.start()

    def start(self):
        limit = None if self._files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self._files,) * 2)
        self.process = subprocess.Popen(
            [*RADO, "room", "serve", "--port", str(self.port), "--json", "--folder", str(self.folder), *self._args],
            stdout=subprocess.PIPE, stderr=self.errors, text=True, preexec_fn=limit,
        )  # fmt: skip
        said = json.loads(self.process.stdout.readline())
        self.address, self.token = said["address"], said["token"]
        self.port = urlsplit(self.address).port

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.process.wait(60)
        self.process.stdout.close()

    @property
    def said(self):
        """How many bytes it wrote to stderr."""
        return os.fstat(self.errors.fileno()).st_size

    def megabytes(self, field="VmRSS"):
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

    def memory(self, seconds=5.0):
        """The largest so far, and what is left after a while."""
        time.sleep(seconds)
        return {"highest_mb": self.megabytes("VmHWM"), "left_mb": self.megabytes()}


@contextmanager
def served(*args, folder=None, files=None):
    with tempfile.TemporaryDirectory() as place:
        server = Served(folder or place, *args, files=files)
        try:
            yield server
        finally:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                server.stop()
            server.process.kill()
            server.errors.close()


def in_threads(count, work):
    """What `work` of each number comes to, all at once."""
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))


def spread(seconds):
    ordered = sorted(seconds)
    return {"median_ms": 1000 * statistics.median(ordered), "p99_ms": 1000 * ordered[int(0.99 * (len(ordered) - 1))]}


# ---- many clients


def clients():
    """Each puts a message, and reads what is new, again and again."""
    with served() as server:
        before = server.megabytes()
        room = WebMailbox(server.address, make=True, token=server.token).name
        end, values = time.monotonic() + SECONDS, np.arange(20)

        def take_part(number):
            holder = Identity.create(f"holder-{number:03}")
            name, times = holder.party.name, {"put": [], "get": [], "failures": []}
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

            def ask(kind, method, path, body=None):
                begun = time.perf_counter()
                try:
                    connection.request(
                        method, f"{urlsplit(room).path}{path}", body, {TIME_HEADER: f"{time.time():.0f}"}
                    )
                    answer = connection.getresponse()
                    content = answer.read()
                    if answer.status not in (200, 201, 204):
                        times["failures"].append(answer.status)
                    times[kind].append(time.perf_counter() - begun)
                    return content
                except (OSError, http.client.HTTPException) as error:
                    times["failures"].append(repr(error))
                    connection.close()

            def put(stage, kind, body, arrays=None):
                content = sign_message(holder, bytes(32), stage, kind, body, arrays)
                ask("put", "PUT", f"/messages/{stage:04}/{kind}/{name}", content)

            put(0, "hello", {"public_key": holder.party.public_key.hex()})
            stage = 0
            while time.monotonic() < end:
                stage += 1
                put(stage, "keys", {}, {"values": values})
                ask("get", "GET", f"/messages/{stage:04}/keys/{name}")
            connection.close()
            return times

        ends = in_threads(CLIENTS, take_part)
        failures = [one for times in ends for one in times["failures"]]
        results = {"clients": CLIENTS, "seconds": SECONDS, "failures": len(failures), "first_failures": failures[:3]}
        for kind in ("put", "get"):
            times = [one for client in ends for one in client[kind]]
            results[kind] = {"per_second": len(times) / SECONDS, **spread(times)}
        return {**results, "before_mb": before, **server.memory()}


# ---- many readers


def readers():
    """All read all messages, by requests as holders send them."""
    with tempfile.TemporaryDirectory() as folder:
        room = "a" * 32
        for stage in range(MESSAGES // 100):
            place = Path(folder) / room / f"{stage + 1:04}" / "masked"
            place.mkdir(parents=True)
            for k in range(100):
                (place / f"holder-{k:03}").write_bytes(bytes(MESSAGE_BYTES))
        with served(folder=folder) as server:
            before, begun = server.megabytes(), time.perf_counter()

            def read(_):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                epoch, start, more, seen, answers = "", 0, True, 0, []
                while more:
                    asked = time.perf_counter()
                    connection.request("GET", f"/{room}/news?epoch={epoch}&start={start}")
                    answer = connection.getresponse()
                    content = answer.read()
                    answers.append(time.perf_counter() - asked)
                    if answer.status != 200:
                        return answer.status, seen, answers
                    epoch, start, more, messages = unpack_mailbox_news(content)
                    seen += sum(len(content or b"") == MESSAGE_BYTES for _, content in messages)
                connection.close()
                return 200, seen, answers

            ends = in_threads(READERS, read)
            seconds = time.perf_counter() - begun
            return {
                "readers": READERS,
                "messages": MESSAGES,
                "all_read": sum(status == 200 and seen == MESSAGES for status, seen, _ in ends),
                "seconds": seconds,
                "slowest_answer": max(max(answers) for *_, answers in ends),
                "before_mb": before,
                **server.memory(),
            }


# ---- half requests


def certificate(folder):
    """A certificate for this machine, signed by itself: files of it and of its key."""
    place, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(place)],
        check=True, capture_output=True,
    )  # fmt: skip
    return place, key


def asked_while_held(server, context=None):
    """How long an honest client waits for answers, each on a connection of its own, while half requests are held."""
    held = []
    for _ in range(HALF):
        one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        if context is None:
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Half: ")
        held.append(one)
    cpu, begun, seconds, failures = cpu_seconds(server), time.monotonic(), [], []
    for _ in range(ASKED):
        asked = time.perf_counter()
        try:
            connection = (
                http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                if context is None
                else http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
            )
            connection.request("GET", "/")
            if (status := connection.getresponse().status) != 200:
                failures.append(status)
            connection.close()
        except (OSError, http.client.HTTPException) as error:
            failures.append(repr(error))
        seconds.append(time.perf_counter() - asked)
        time.sleep(0.1)
    share = (cpu_seconds(server) - cpu) / (time.monotonic() - begun)
    for one in held:
        one.close()
    return {
        "half_requests": HALF,
        "files": FILES,
        "asked": ASKED,
        "failures": failures,
        **spread(seconds),
        "cpu_share": share,
        "stderr_bytes": server.said,
    }


def cpu_seconds(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def half():
    with served(files=FILES) as server:
        plain = {**asked_while_held(server), **server.memory(1.0)}
    with tempfile.TemporaryDirectory() as folder:
        cert, key = certificate(folder)
        with served("--cert", str(cert), "--key", str(key), "--host", "127.0.0.1", files=FILES) as server:
            tls = asked_while_held(server, ssl.create_default_context(cafile=cert))
            return {"plain": plain, "tls": {**tls, **server.memory(1.0)}}


def bodies():
    """Large messages without an end: half of them begin as a holder's may, and of the others nothing is signed."""
    with served() as server:
        room = urlsplit(WebMailbox(server.address, make=True, token=server.token).name).path
        before, held, answers = server.megabytes(), [], []
        holder = Identity.create("north")
        line = sign_message(holder, bytes(32), 1, "masked", {}).partition(b"\n")[0] + b"\n"
        hello = sign_message(holder, bytes(32), 0, "hello", {"public_key": holder.party.public_key.hex()})
        assert WebMailbox(f"{server.address}{room}").put("0000/hello/north", hello)

        def send(number):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            held.append(one)
            length = b"Content-Length: %d" % (BODY_BYTES + 1) if number % 2 else b"Transfer-Encoding: chunked"
            head = f"PUT {room}/messages/0001/masked/north HTTP/1.1\r\nHost: x\r\n{TIME_HEADER}: {time.time():.0f}\r\n"
            with suppress(OSError):
                one.sendall(head.encode() + length + b"\r\n\r\n")
                for turn in range(BODY_BYTES // 2**16):
                    piece = bytes(2**16) if turn or number < BODIES // 2 else line.ljust(2**16, b" ")
                    one.sendall(piece if number % 2 else b"10000\r\n" + piece + b"\r\n")
            one.settimeout(10)
            with suppress(OSError):
                answers.append(one.recv(1000).split(b" ")[1].decode())

        in_threads(BODIES, send)
        results = {"bodies": BODIES, "bytes": BODY_BYTES, "answers": sorted(answers), "before_mb": before}
        results |= server.memory(1.0)
        for one in held:
            one.close()
        return results


# ---- a room whose server is killed


def restart():
    """All holders end with one release, of the rows of all."""
    rng = np.random.default_rng(0)
    tables = [(rng.uniform(0, 9, (20, 2)), rng.integers(0, 2, 20)) for _ in range(HOLDERS)]
    with served() as server:
        box = WebMailbox(server.address, make=True, token=server.token)
        bounds = {"x0": (0, 9), "x1": (0, 9)}
        rb.open_room(box, classes=(0, 1), parties=HOLDERS, tolerate=5, n_rados=10, schema=bounds)
        begun, kept = time.perf_counter(), Path(server.folder) / urlsplit(box.name).path.strip("/")
        away = []

        def kill():
            while len(list(kept.glob("0001/masked/*"))) < HOLDERS // 2:
                time.sleep(0.05)
            server.stop(signal.SIGKILL)
            away.append(time.perf_counter() - begun)
            time.sleep(AWAY)
            server.start()
            away.append(time.perf_counter() - begun)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()

        def join(number):
            identity = Identity.create(f"holder-{number:02}")
            return rb.join_room(
                box.name,
                *tables[number],
                identity=identity,
                confirm=lambda code, parties: True,
                counts=None,
                patience=300.0,
                wait=600.0,
                compute=rb.Compute(threads=1),
            )

        releases = in_threads(HOLDERS, join)
        killer.join()
        results = {
            "holders": HOLDERS,
            "seconds": time.perf_counter() - begun,
            "killed_and_back_after": away,
            "messages": len([name for name in box.names("") if name]),
            "releases": len({release.digest for release in releases}),
            "rows": releases[0].n_examples,
            "all_rows": sum(len(labels) for _, labels in tables),
        }
        return {**results, **server.memory()}


# ---- over HTTP and over a folder


def five():
    """Seconds from the first start of a process to the last end, in turns; the first turn fills caches."""
    seconds = {"folder": [], "http": []}
    with tempfile.TemporaryDirectory() as place, served() as server:
        place = Path(place)
        rng = np.random.default_rng(0)
        for name in NAMES:
            (place / name).mkdir()
            x = rng.uniform(-1, 1, (2000, 5))
            write_table(place / name / "table.csv", x, np.where(x @ [1, 0.5, -0.5, 0, 0.2] > 0, 1, -1))
            Identity.create(name).save(place / name / "key.pem")
        for turn in range(RUNS + 1):
            for way, where in {"folder": str(place / f"{turn}.room"), "http": server.address}.items():
                taken = one_room(place, where, server.token)
                if turn:
                    seconds[way].append(taken)
                print(f"  {way} {taken:.1f} s", flush=True)
    ratio = statistics.median(seconds["http"]) / statistics.median(seconds["folder"])
    return {"holders": len(NAMES), "seconds": seconds, "ratio": ratio}


def one_room(place, where, token):
    bounds = {f"x{k}": (-1, 1) for k in range(5)}
    room = WebMailbox(where, make=True, token=token) if "://" in where else where
    rb.open_room(
        room, label="label", classes=("-1", "1"), parties=len(NAMES), mechanism=rb.Moments(epsilon=1.0), schema=bounds
    )
    return seconds_together(place, where if isinstance(room, str) else room.name)


# ---- all of them

PARTS = {
    "clients": clients, "readers": readers, "half": half, "bodies": bodies, "restart": restart, "five": five
}  # fmt: skip


def short_of(results):
    for name, part in results.items():
        for row in (part["plain"], part["tls"]) if name == "half" else (part,):
            if row.get("failures"):
                yield f"{name}: requests failed: {row['failures']}"
            if row.get("highest_mb", 0.0) > WANTED_MB:
                yield f"{name}: the server needs {row['highest_mb']:.0f} MB, not {WANTED_MB:.0f}"
    if "readers" in results and results["readers"]["all_read"] < READERS:
        yield f"{results['readers']['all_read']} of {READERS} readers have read all"
    if "restart" in results:
        room = results["restart"]
        if room["releases"] != 1 or room["rows"] != room["all_rows"]:
            yield f"a room of {HOLDERS} ends with {room['releases']} releases, of {room['rows']} rows"
    if "five" in results and results["five"]["ratio"] > WANTED_RATIO:
        yield f"a room over HTTP takes {results['five']['ratio']:.2f} times one over a folder"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, with commas")
    names, results = parser.parse_args().only.split(","), {}
    for name in names:
        print(name, flush=True)
        load = os.getloadavg()[0]
        results[name] = {**PARTS[name](), "load_before_and_after": [load, os.getloadavg()[0]]}
        print(json.dumps(results[name]), flush=True)
        keep(f"mailbox/{name}", results[name])
    rooms_page.write()
    shortfalls(list(short_of(results)))


if __name__ == "__main__":
    main()
