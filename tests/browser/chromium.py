"""Headless Chromium by its DevTools protocol: pages, what they ask for and say, pictures, PDF."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from .views import View

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60.0
_NULL = subprocess.DEVNULL
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--disable-dev-shm-usage", "--disable-gpu"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND"),  # a request is seen, and goes nowhere
)


def executable() -> str | None:
    """The browser's path, where there is one."""
    return next((path for path in map(shutil.which, NAMES) if path is not None), None)


class BrowserError(RuntimeError):
    """The browser did not start, did not answer, or refused a command."""


@dataclass
class Page:
    """One open page, with everything that it said (`messages`) and asked for (`requests`) since it was opened."""

    browser: "Chromium"
    session: str
    view: View
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    loaders: set[str] = field(default_factory=set)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.send(method, parameters, self.session)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"JavaScript failed: {_exception(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def load(self, file: Path) -> None:
        """Go to a file and wait until it has loaded; what the page before said and asked for is forgotten."""
        self.messages.clear()
        self.requests.clear()
        answer = self.send("Page.navigate", url=file.resolve().as_uri())
        if "errorText" in answer:
            raise BrowserError(f"{file} cannot be opened: {answer['errorText']}")
        while answer["loaderId"] not in self.loaders:
            self.browser.hear(lambda _: True, f"the request to load {file}")
        self.evaluate("document.fonts.ready.then(() => new Promise(done => setTimeout(done, 50)))")

    def scroll(self) -> None:
        """Show every part of the page for a moment: what waits for being seen is asked for."""
        self.evaluate("""(async () => {
            for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight) {
                scrollTo(0, y);
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            }
        })()""")

    def emulate(self, *, printed: bool = False) -> None:
        """The medium, and the system's colors as the view has them."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if self.view.dark else "light"}]
        self.send("Emulation.setEmulatedMedia", media="print" if printed else "", features=features)

    def screenshot(self, *, whole: bool = True) -> bytes:
        """A PNG of the whole page, or of what the window shows."""
        clip = {}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {**size, "scale": 1}, "captureBeyondViewport": True}
        return base64.b64decode(self.send("Page.captureScreenshot", format="png", **clip)["data"])

    def pdf(self) -> bytes:
        """The printed page, with the backgrounds."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def heard(self, method: str, parameters: dict[str, Any]) -> None:
        """Keep an event that the browser reported."""
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            said = " ".join(str(one.get("value", one.get("description"))) for one in parameters["args"])
            self.messages.append(f"console.{parameters['type']}: {said}")
        elif method == "Log.entryAdded":
            entry = parameters["entry"]
            self.messages.append(f"{entry['source']} {entry['level']}: {entry['text']} {entry.get('url', '')}".strip())
        elif method == "Runtime.exceptionThrown":
            self.messages.append(f"exception: {_exception(parameters['exceptionDetails'])}")
        elif method == "Page.javascriptDialogOpening":
            self.messages.append(f"{parameters['type']}: {parameters['message']}")
            self.browser.post("Page.handleJavaScriptDialog", {"accept": False}, self.session)
        elif method == "Page.lifecycleEvent" and parameters["name"] == "load":
            self.loaders.add(parameters["loaderId"])


class Chromium:
    """A browser of our own, with a fresh profile; use it as a context manager."""

    def __init__(self, path: str) -> None:
        self._pages: dict[str, Page] = {}
        self._number = 0
        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="cesaro-chromium-", ignore_cleanup_errors=True)
            self.profile = Path(stack.enter_context(folder))
            command = [path, *_FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
            stderr = stack.enter_context((self.profile / "stderr.txt").open("wb"))
            self._process = subprocess.Popen(command, stdin=_NULL, stdout=_NULL, stderr=stderr, start_new_session=True)
            stack.callback(self._kill)
            # There is nothing to compress on the way to the same machine, and no proxy in between. Pings would come from a thread
            # that uses `random`, which Hypothesis forbids in the tests beside it.
            link = connect(self._address(), max_size=None, compression=None, proxy=None, ping_interval=None)
            self._socket = stack.enter_context(link)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _kill(self) -> None:
        """End the browser and all its processes, which form a group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @contextmanager
    def open(self, file: Path, view: View) -> Iterator[Page]:
        """The page of a file, once it has loaded; it shares nothing with other pages."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        try:
            target = self.send("Target.createTarget", {"url": "about:blank", "browserContextId": context})["targetId"]
            session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
            page = self._pages[session] = Page(self, session, view)
            for domain in ("Page", "Runtime", "Network", "Log"):
                page.send(f"{domain}.enable")
            size = {"width": view.width, "height": view.height, "deviceScaleFactor": view.scale}
            page.send("Emulation.setDeviceMetricsOverride", **size, mobile=view.mobile)
            page.send(
                "Page.setFontSizes", fontSizes={"standard": round(16 * view.text), "fixed": round(13 * view.text)}
            )
            page.emulate()
            page.send("Page.setLifecycleEventsEnabled", enabled=True)
            page.load(file)
            yield page
        finally:
            with suppress(ConnectionClosed):
                self.send("Target.disposeBrowserContext", {"browserContextId": context})

    def send(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        """The answer to a command; what the pages report in the meantime is kept."""
        number = self.post(method, parameters or {}, session)
        answer = self.hear(lambda message: message.get("id") == number, method)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def post(self, method: str, parameters: dict[str, Any], session: str | None) -> int:
        """Send a command without waiting for its answer, and return its number."""
        self._number += 1
        whose = {} if session is None else {"sessionId": session}
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters, **whose}))
        return self._number

    def hear(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Take messages up to a wanted one."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                message = json.loads(self._socket.recv(timeout=max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                raise BrowserError(f"Chromium gave no answer to {what} in {SECONDS:.0f} seconds.") from None
            page = self._pages.get(message.get("sessionId", ""))
            if page is not None and "method" in message:
                page.heard(message["method"], message["params"])
            if wanted(message):
                return dict(message)

    def _address(self) -> str:
        """Where the browser listens: it writes that to a file of its profile."""
        file, deadline = self.profile / "DevToolsActivePort", time.monotonic() + SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.02)
        said = (self.profile / "stderr.txt").read_text(errors="replace")[-2_000:]
        raise BrowserError(f"Chromium did not start (exit code {self._process.poll()}). It said: {said}")


def _exception(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description", details["text"]))
