"""Asks a service whether it is ready, and whether it refuses whom it does not know. Arguments: its address, seconds."""  # noqa: INP001 - runs by itself

import sys
import time

import httpx

url, seconds = sys.argv[1], float(sys.argv[2])
deadline = time.monotonic() + seconds
while True:
    try:
        answer = httpx.get(f"{url}/readyz", timeout=5)
        said = f"{answer.status_code}: {answer.text}"
    except httpx.HTTPError as error:
        answer, said = None, repr(error)
    if answer is not None and answer.status_code == 200:
        break
    if time.monotonic() >= deadline:
        sys.exit(f"{url}/readyz is not ready after {seconds:g} s: {said}")
    sys.stderr.write(f"waiting for {url}/readyz: {said}\n")
    time.sleep(1)
sys.stderr.write(f"ready: {said}\n")

status = httpx.get(f"{url}/v1/models", timeout=5).status_code
if status != 401:
    sys.exit(f"{url}/v1/models answered {status} to a request without a key; 401 was expected")
sys.stderr.write("requests without a key are refused\n")
