#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reports_test.py UNIT: the JSON reports that unit tests write are valid by docs/schema.

Each test writes its reports into the folder that REPORT_JSON names, unit.report one for each cause in oom.txt into that
of OOM_JSON. Each report is also spoilt in every object, and the schema must notice. Exit code 77 (skipped) without
jsonschema.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import schema_test

EXPECTED = {"vram.leaks/1", "vram.named/1", "vram.stats/1", "vram.transfers/1"}


def check(path):
    with open(path, encoding="utf-8") as stream:
        document = json.load(stream, object_pairs_hook=schema_test.no_repeats)
    validator = schema_test.schema_of(document["schema"])
    validator.validate(document)
    for what, wrong in schema_test.spoilt(document):
        assert not validator.is_valid(wrong), f"{document['schema']}: the schema accepts {what}"
    return document


def written(unit, variable, *tests):
    """The documents that unit tests write."""
    with tempfile.TemporaryDirectory() as folder:
        for test in tests:
            done = subprocess.run([unit, test], env={**os.environ, variable: folder}, capture_output=True, text=True,
                                  timeout=120, check=False)
            assert done.returncode == 0, done.stdout
        return [check(path) for path in glob.glob(os.path.join(folder, "*.json"))]


def main(unit):
    found = {document["schema"] for document in written(unit, "REPORT_JSON", "leaks", "named", "stats_write",
                                                        "transfer_stats")}
    assert found == EXPECTED, f"reports of {sorted(found)} alone"
    causes = written(unit, "OOM_JSON", "report")
    assert {document["schema"] for document in causes} == {"vram.oom/1"}, "another schema"
    with open(os.path.join(schema_test.ROOT, "tests", "golden", "oom.txt"), encoding="utf-8") as stream:
        texts = [line[3:].strip() for line in stream if line.startswith("== ")]
    assert sorted(document["cause"] for document in causes) == sorted(texts), "another cause"
    print(f"{len(found) + len(causes)} reports")


if __name__ == "__main__":
    main(sys.argv[1])
