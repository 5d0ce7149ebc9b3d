#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oom_test.py TEST_REPORT: the reports that the unit test plants are valid by docs/schema as JSON.

The test writes one document for each cause. Each is also spoilt in every object, and the schema must
notice. Exit code 77 (skipped) without jsonschema.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import schema_test


def check(path):
    with open(path, encoding="utf-8") as stream:
        document = json.load(stream, object_pairs_hook=schema_test.no_repeats)
    assert document["schema"] == "vram.oom/1", "another schema"
    validator = schema_test.schema_of(document["schema"])
    validator.validate(document)
    for what, wrong in schema_test.spoilt(document):
        assert not validator.is_valid(wrong), f"the schema accepts {what}"
    return document["cause"]


def main(test):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, OOM_JSON=folder)
        done = subprocess.run([test], env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout
        causes = [check(path) for path in sorted(glob.glob(os.path.join(folder, "*.json")))]
    cases = os.listdir(os.path.join(schema_test.ROOT, "tests", "golden", "oom"))
    assert sorted(causes) == sorted(case.split(".")[0] for case in cases), f"reports of {causes} alone"
    print(f"{len(causes)} reports")


if __name__ == "__main__":
    main(sys.argv[1])
