# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the metrics of two ranks for a second, as the library does, and prints lines; a fake launcher runs it."""

import json
import os
import sys
import time

file = os.environ.get("LOCKSTEP_METRICS")
if not file:
    print("no metrics")
    sys.exit(0)
stem, extension = os.path.splitext(file)
for step in range(12):
    for rank in range(2):
        record = {"time": time.time(), "rank": rank, "ranks": 2, "host": f"n{rank}", "elapsed_s": 2.0,
                  "communication_s": 0.5, "waiting_s": 0.3 - 0.2 * rank,
                  "values": {"loss": 0.31, "progress": 0.5, "images_per_s": 12000}}
        with open(f"{stem}.rank{rank}{extension}", "a", encoding="utf-8") as out:
            out.write(("\n" if step else "") + json.dumps(record))  # the last record is never complete
    print("step", flush=True)
    time.sleep(0.1)
print("last line", flush=True)
