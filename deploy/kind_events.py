"""Sends events to the service on this machine, or looks for them: python kind_events.py send|look COUNT [PORT].

For kind.sh, which runs it in the service's pod; the key is in MONITOR_API_KEY. The model's allowed lateness has to be a minute.
"""  # noqa: INP001 - runs by itself

import json
import os
import random
import sys
import time

import httpx

MODEL = "kind"
SECONDS = 120.0
MARKERS = 200
"""Events of this moment, in every partition: others are settled once the allowed lateness has passed."""


def main() -> None:
    """Send so many events if asked to, and wait until the service has measured just as many."""
    what, count = sys.argv[1], int(sys.argv[2])
    port = sys.argv[3] if len(sys.argv) > 3 else "8000"
    headers = {"authorization": f"Bearer {os.environ['MONITOR_API_KEY']}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as http:
        if what == "send":
            answer = http.post(
                "/v1/events", content="\n".join(events(count)), headers={"content-type": "application/x-ndjson"}
            )
            sys.stderr.write(f"sent: {answer.status_code} {answer.text}\n")
            answer.raise_for_status()
        measured = None
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            answer = http.get(f"/v1/models/{MODEL}/report", params={"window": "1h"})
            measured = answer.json().get("n") if answer.is_success else answer.text
            if measured == count:
                sys.stderr.write(f"measured: {count} events, verdict {answer.json()['diagnosis']}\n")
                return
            time.sleep(0.5)
    sys.exit(f"{count} events were expected in the report of {MODEL}, got {measured}")


def events(count: int) -> list[str]:
    """Events of an overconfident model, of the last 50 minutes but the last two, the oldest first; and markers."""
    chance = random.Random(1)  # noqa: S311 - no secret
    now_ms = time.time_ns() // 1_000_000
    lines = []
    for number in range(count + MARKERS):
        p = chance.random()
        age_ms = 120_000 + (count - number) * 2_880_000 // count if number < count else 0
        lines.append(
            json.dumps(
                {
                    "type": "labelled",
                    "model": MODEL,
                    "version": "1",
                    "id": str(number),
                    "ts": now_ms - age_ms,
                    "p": p,
                    "y": int(chance.random() < 0.5 + (p - 0.5) / 2),
                }
            )
        )
    return lines


main()
