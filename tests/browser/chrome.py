"""A headless browser, controlled by the DevTools protocol over two pipes."""

import base64
import contextlib
import dataclasses
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT = 60  # seconds for one answer


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclasses.dataclass
class Page:
    """A loaded page.

    Attributes:
        png: a screenshot of the whole page, as bytes.
        problems: events of the browser's console: errors, warnings, refused content.
        requests: the requested addresses.
    """

    png: bytes
    problems: list
    requests: list


class Chrome:
    """A Chromium with one page. A context manager."""

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        profile = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        inward, commands = os.pipe()
        answers, outward = os.pipe()
        inward, outward = _move(inward), _move(outward)

        def connect_pipes():  # in the child: it reads from 3 and writes to 4
            os.dup2(inward, 3)
            os.dup2(outward, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [find(), *flags, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=connect_pipes, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(inward)
        os.close(outward)
        self._commands = self._stack.enter_context(open(commands, "wb", buffering=0))
        self._answers = self._stack.enter_context(open(answers, "rb", buffering=0))
        self._rest, self._number, self._session, self._events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stack.close()

    def open(self, path, width, scheme):
        """Open a page from a file, ``width`` pixels wide, in ``light`` or ``dark``: a ``Page``."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.prefer(scheme)
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._wait("Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
        screenshot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        problems = [event for event in self._events if event["method"] in _PROBLEMS]
        requests = [e["params"]["request"]["url"] for e in self._events if e["method"] == "Network.requestWillBeSent"]
        return Page(base64.b64decode(screenshot["data"]), problems, requests)

    def prefer(self, scheme, media=""):
        """Set the preferred colour scheme, light or dark. ``media`` may be ``print``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, expression):
        """Return the value of a JavaScript expression on the page. Waits for promises."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def call(self, method, **params):
        """Send one command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._events.append(answer)

    def _wait(self, method):
        while not any(event["method"] == method for event in self._events):
            self._events.append(self._receive())

    def _receive(self):
        deadline = time.monotonic() + LIMIT
        while b"\0" not in self._rest:
            remaining = max(0.0, deadline - time.monotonic())
            assert select.select([self._answers], [], [], remaining)[0], "the browser does not answer"
            part = self._answers.read(1 << 16)
            assert part, "the browser ended"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


_PROBLEMS = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.loadingFailed"}


def _move(descriptor):
    """Move a pipe to a descriptor number of at least 10, above those of the browser."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
