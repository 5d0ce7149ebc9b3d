#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""prometheus_test.py BINARY: a Prometheus server scrapes `vram exporter` and answers queries; its alerts fire.

Exit code 77 (skipped) without Prometheus (Debian: prometheus) or if the command has no HTTP server.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
import exporter_test  # noqa: E402
import pages  # noqa: E402

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: vram
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def ask(port, path, **parameters):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def wait_for(what, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = what()
        except OSError:
            found = None
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def main(arguments):
    if not shutil.which("prometheus"):
        print("skipped: Prometheus is not installed (Debian: prometheus)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        runtime = os.path.join(folder, "runtime")
        os.mkdir(runtime, 0o700)
        pages.example(runtime)
        with exporter_test.exporter(arguments[0], runtime) as (_, port):
            config, server_port = os.path.join(folder, "prometheus.yml"), free_port()
            rules = os.path.join(exporter_test.ROOT, "contrib", "prometheus", "vram_alerts.yml")
            with open(config, "w", encoding="utf-8") as stream:
                stream.write(CONFIG.format(rules=rules, port=port))
            with open(os.path.join(folder, "log"), "wb") as log:
                server = subprocess.Popen(["prometheus", f"--config.file={config}",
                                           f"--storage.tsdb.path={folder}/data",
                                           f"--web.listen-address=127.0.0.1:{server_port}"], stdout=log, stderr=log)
            try:
                check(server_port)
            finally:
                server.terminate()
                server.wait(timeout=30)
    print("all passed")
    return 0


def check(port):
    query = 'sum(vram_pool_held_bytes{pid="4711"})'
    answer = wait_for(lambda: ask(port, "query", query=query)["result"])
    assert answer and answer[0]["value"][1] == str(24 * pages.GIB), answer
    print(f"{query} = {answer[0]['value'][1]}")
    targets = ask(port, "targets")["activeTargets"]
    assert [target["health"] for target in targets] == ["up"], targets
    # It took the OpenMetrics form: types and units that the other form cannot say.
    kinds = ask(port, "metadata")
    assert kinds["vram_pool_pressure"][0]["type"] == "stateset", kinds["vram_pool_pressure"]
    assert kinds["vram_pool_held_bytes"][0]["unit"] == "bytes"
    critical = ask(port, "query", query='vram_pool_pressure{vram_pool_pressure="critical"} == 1')["result"]
    assert [sample["metric"]["pool"] for sample in critical] == ["kv"], critical
    # The alert on pressure waits for two minutes before it fires, and is pending until then.
    alerts = wait_for(lambda: [alert for alert in ask(port, "alerts")["alerts"]])
    assert alerts and {alert["labels"]["alertname"] for alert in alerts} == {"VramPressureCritical"}, alerts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
