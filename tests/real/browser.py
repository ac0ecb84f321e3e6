"""A real browser that is used: pages are opened, typed into and clicked. Speaks the DevTools protocol over a pipe."""

import base64
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.chromium import chromium

# What is true of it need not be what is left of it on its way here: an element is not, for one.
_LOOK = "(() => { const found = (%s); return found ? {found} : null; })()"


class BrowserError(Exception):
    """The browser did not do what it was told. Says what it answered."""


class BrowserEndedError(Exception):
    """There is no browser any more."""


class Browser:
    """One tab of a browser of its own, with a profile that is thrown away. Of one thread.

    Parameters
    ----------
    width
        Of the window, in pixels.
    """

    def __init__(self, *, width: int = 1200) -> None:
        self.complaints: list[str] = []
        """What it wrote to its console, and what it refused to load."""
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # The browser reads from its descriptor 3 and writes to its 4: a shell puts them there.
        redirect = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "browser", str(chromium()), *self._options(width)],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._from, self._to = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        # A browser that hangs is ended, so that what waits for it reads the end of the pipe.
        self._watch = threading.Timer(2 * PATIENCE_SECONDS, self._process.kill)
        self._watch.daemon = True
        self._watch.start()
        self._number = 0
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _options(self, width: int) -> list[str]:
        return [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile.name}",
            f"--window-size={width},1000",
            "about:blank",
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._watch.cancel()
        self._to.close()  # the browser ends when nobody speaks to it any more
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()
        self._profile.cleanup()

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url=url)
        self.until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; of a promise, what it becomes."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script[:200]}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def until(self, condition: str) -> Any:
        """Wait until an expression is true, and return it. What the page shows instead is told if it never is."""
        said = ""

        def look() -> Any:
            nonlocal said
            try:
                return self.evaluate(_LOOK % condition)
            except BrowserError as error:
                # The page has not what is asked for yet, or is just leaving for the next.
                said = str(error)
                return None

        return eventually(
            look, shown=lambda: f"{condition}; {said}; the page shows: {self.text()}", pause_seconds=0.02
        )["found"]

    def sees(self, text: str) -> None:
        """Wait until the page shows a text. What it shows instead is told if it never does."""
        self.until(f"document.body.innerText.includes({json.dumps(text)})")

    def text(self) -> str:
        """What a person sees."""
        shown: str = self.evaluate("document.body.innerText")
        return shown

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key: Enter or Tab."""
        code, sent = {"Enter": (13, "\r"), "Tab": (9, "")}[key]
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=sent)

    def resize(self, width: int, height: int = 900) -> None:
        """Be a screen of another size."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def cookies(self) -> list[dict[str, Any]]:
        """All that the browser keeps for the page."""
        found: list[dict[str, Any]] = self._call("Network.getCookies")["cookies"]
        return found

    def forget(self) -> None:
        """Have no cookies."""
        self._call("Network.clearBrowserCookies")

    def screenshot(self, target: Path, *, dark: bool = False) -> None:
        """A picture of what is seen, as PNG."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)
        target.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        call: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            call["sessionId"] = self._session
        self._to.write(json.dumps(call).encode() + b"\0")
        self._to.flush()
        while True:
            said = self._read()
            if said.get("id") == self._number:
                if "error" in said:
                    raise BrowserError(f"{method}: {said['error']['message']}")
                return said["result"]
            self._listen(said)

    def _listen(self, said: dict[str, Any]) -> None:
        told = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        # That a request was answered with an error is the page's to tell, and no complaint.
        elif said.get("method") == "Log.entryAdded" and told["entry"]["source"] != "network":
            self.complaints.append(told["entry"]["text"])
        elif said.get("method") == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(told["args"]))

    def _read(self) -> dict[str, Any]:
        parts = []
        while (byte := self._from.read(1)) != b"\0":
            if not byte:
                raise BrowserEndedError("the browser ended")
            parts.append(byte)
        said: dict[str, Any] = json.loads(b"".join(parts))
        return said
