"""Chromium without a window, driven by its DevTools protocol over two pipes: no package is needed."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find():
    """The browser's path: $CHROMIUM, or the first on the path; None if there is none."""
    found = (shutil.which(name) for name in (os.environ.get("CHROMIUM", ""), *NAMES) if name)
    return next((path for path in found if path), None)


class Browser:
    """One tab. What the page logs and raises is in `errors`, what it fetches in `requests`."""

    def __init__(self, path, profile):
        there, ours = os.pipe()  # commands
        mine, back = os.pipe()  # answers
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (there, back)]

        def connect():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             f"--user-data-dir={profile}"],
            preexec_fn=connect, pass_fds=(3, 4), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for fd in (there, back, *ends):
            os.close(fd)
        self.commands, self.answers = os.fdopen(ours, "wb"), os.fdopen(mine, "rb")
        self.number, self.rest, self.session = 0, b"", None
        self.errors, self.requests, self.loaded = [], [], False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        told = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = told["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.commands.close()
        self.answers.close()

    def send(self, method, **params):
        """The result of a command; what happens meanwhile is noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        self.commands.flush()
        while True:
            told = self.receive()
            if told.get("id") == self.number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told["result"]

    def receive(self):
        while b"\0" not in self.rest:
            read = os.read(self.answers.fileno(), 1 << 16)
            if not read:
                raise RuntimeError("the browser is gone")
            self.rest += read
        text, _, self.rest = self.rest.partition(b"\0")
        told = json.loads(text)
        method, params = told.get("method", ""), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:2000])
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        self.loaded |= method == "Page.loadEventFired"
        return told

    def size(self, width, height):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def dark(self, is_dark):
        value = "dark" if is_dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, path):
        """Load a file, to its end."""
        self.errors, self.requests, self.loaded = [], [], False
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        while not self.loaded:
            self.receive()
        self.settle()

    def settle(self):
        """Wait for two frames to be drawn."""
        frames = "new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))"
        self.run(f"{frames}.then(() => true)")

    def run(self, script):
        """The value of an expression on the page."""
        told = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script}: {json.dumps(told['exceptionDetails'])[:2000]}")
        return told["result"].get("value")

    def press(self, key, shift=False):
        """A key, as a person would."""
        code = {"Enter": 13, "Escape": 27}.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        event = {
            "key": key, "text": text, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0,
        }  # fmt: skip
        self.send("Input.dispatchKeyEvent", type="keyDown", **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def click(self, x, y, count=1):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for n in range(1, count + 1):
            at = {"x": x, "y": y, "button": "left", "clickCount": n}
            self.send("Input.dispatchMouseEvent", type="mousePressed", **at)
            self.send("Input.dispatchMouseEvent", type="mouseReleased", **at)
        self.settle()

    def move(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def picture(self, path):
        """A screenshot as PNG."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(base64.b64decode(data))
