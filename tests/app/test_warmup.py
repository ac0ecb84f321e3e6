"""After the warm-up, no kernel is left to compile."""

import json
import subprocess
import sys

# In a process of its own: in this one, other tests may have compiled what the warm-up forgets.
SCRIPT = """
import importlib, json, pkgutil
import monitor
from monitor.app.warmup import warm_up
from monitor.loops import CompiledLoop

warm_up()
names = [each.name for each in pkgutil.walk_packages(monitor.__path__, "monitor.") if each.name.endswith("_loops")]
assert len(names) > 10
modules = [importlib.import_module(name) for name in names]

def compiled():
    return {
        f"{module.__name__}.{name}": sorted(str(kinds) for kinds in value.forms)
        for module in modules for name, value in vars(module).items() if isinstance(value, CompiledLoop)
    }

before = compiled()

from pathlib import Path
from tempfile import TemporaryDirectory
from monitor.app.offline import report_log
from monitor.app.parts import make_decoder, make_partition_settings
from monitor.clock import SystemClock
from monitor.simulation.traffic import Traffic
import numpy as np
from monitor.reports.evaluation.evaluate import evaluate
from monitor.maps import apply_map, choose_method, fit_map
from monitor.scores.labelled import LabelledEvents
from monitor.events.model import RecordBatch
from monitor.store.closed_samples import merge
from monitor.app.settings import Settings
from monitor.sources.log_format import LogRecord
from monitor.events.partitions import partitions_of
from monitor.stream.partition import Partition

HOUR_MS = 3_600_000
START_MS = 1_790_000_000_000
traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS // 2, seed=1, rate=0.5)
settings = Settings.model_validate({
    "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m", "segments": ["region"]}},
    "windows": [{"length": "30m"}, {"last": 100, "length": "1h"}],
    "caps": {"strata": 2},
    "recalibration": {"sample": 100},
    "pipeline": {"max_pending": 2000},
})
with TemporaryDirectory() as folder:
    file = Path(folder, "events.jsonl")
    file.write_bytes(b"\\n".join(message.value or b"" for message in traffic.until(START_MS + HOUR_MS)))
    reports = report_log(file, settings, SystemClock()).snapshot.reports

# What is kept for refits, and read for them and for live maps, of which there are fewer than there were events.
traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS // 2, seed=1, rate=0.5)
values = [message.value or b"" for message in traffic.until(START_MS + HOUR_MS)]
records = [LogRecord(at, START_MS, None, value, ()) for at, value in enumerate(values)]
partition = Partition(0, 0, make_partition_settings(settings))
partition.apply(RecordBatch("events", 0, records, len(records)), make_decoder(settings, SystemClock()), None)
saved = partition.checkpoint().closed_samples
sampled = merge([each.sample for each in saved if each.key.series.model == saved[0].key.series.model], limit=20)

# And what POST /v1/reports may be sent.
sent = [
    evaluate([0.1, 0.4, 0.4, 0.8] * 30, [0, 1, 0, 1] * 30),
    evaluate([0.1, 0.4, 0.4, 0.8] * 30, [0, 1, 0, 1] * 30, weight=[1.0, 0.5, 2.0, 0.3] * 30),
    evaluate([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]] * 40, [0, 1, 2] * 40),
    evaluate([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]] * 3000, [0, 1] * 3000, draws=19),
]
# What POST /v1/events is sent is written by its key.
placed = partitions_of([b"7f3a", b"7f3b"], 4)

# And a batch to recalibrate by a map that needs features.
generator = np.random.default_rng(1)
events = LabelledEvents.of(
    generator.random(2000), generator.integers(0, 2, 2000), features=generator.random((2000, 30))
)
batch = apply_map(fit_map(choose_method("lore"), events), events.prediction, features=events.features)

after = compiled()
new = {name: [each for each in found if each not in before[name]] for name, found in after.items()}
print(json.dumps({
    "reports": sum(bool(report.measures) for report in reports.values()),
    "sampled": len(sampled.events),
    "sent": sum(bool(report.measures) for report in sent),
    "new": {name: found for name, found in new.items() if found},
}))
"""


def test_the_warm_up_leaves_nothing_to_compile() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=540)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["reports"] >= 8
    assert found["sent"] == 4
    assert found["sampled"] == 20
    assert found["new"] == {}
