# SPDX-License-Identifier: Apache-2.0
"""mutant_field.py: runs tests with mutants, the likeliest first."""
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

from mutant_build import MOST, read, write_changed


def modest():
    """Before a test's program: what a mutant breaks must not break the machine."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass


def wait_for(child, limit):
    """(exit code or None at the limit, seconds of processor time)"""
    pause, end = 0.002, time.monotonic() + limit
    while time.monotonic() < end:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, used.ru_utime + used.ru_stime
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    return None, limit


def run_test(test, limit, variables):
    """(exit code or None when it took too long, seconds, seconds of processor time). It has temporary folders of its
    own, and a group that is killed whole at the end. A test that was skipped has not failed."""
    with tempfile.TemporaryDirectory(prefix="m") as temporary, tempfile.TemporaryFile() as said:
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1", **test["environment"],
                       "TMPDIR": temporary, "XDG_RUNTIME_DIR": temporary, **variables}
        output = said if test.get("wants") else subprocess.DEVNULL
        begun = time.monotonic()
        child = subprocess.Popen(test["command"], cwd=test["folder"], env=environment, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=output, start_new_session=True, preexec_fn=modest)
        code, used = wait_for(child, limit)
        took = time.monotonic() - begun
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        if test.get("wants") and code is not None:
            said.seek(0)
            text = said.read().decode(errors="replace")
            code = 0 if any(re.search(want, text) for want in test["wants"]) else 1
        return code, took, used


class Field:
    """The tests, what each reaches and takes, and which of them noticed mutants of which file."""

    def __init__(self, tests, options):
        self.tests, self.options = tests, options
        self.kills, self.tries, self.lock = {}, {}, threading.Lock()
        self.left_out = {}

    def measure_one(self, test):
        """What the test reaches and takes. One that fails is run a second time: the machine is busy."""
        most = self.options.slowest
        for _ in range(2):
            with tempfile.NamedTemporaryFile(prefix="met") as met:
                met.write(bytes(MOST))
                met.flush()
                code, test["wall"], test["seconds"] = run_test(test, min(40 * most, 30 + 8 * most),
                                                               {"MUTANTS_MET": met.name})
                met.seek(0)
                test["met"] = [number for number, byte in enumerate(met.read()) if byte]
            if code is None or test["seconds"] > most:
                test["why"] = "slow"
                break
            test["why"] = {0: None, 77: "skipped"}.get(code, "fails without a mutant")
            if code in (0, 77):
                break

    def measure(self, pool, drawn, path=None):
        """Or takes the measures of an earlier run with the same mutants from a file, which it else writes."""
        of = hashlib.sha256("\n".join(m["key"] for m in drawn).encode()).hexdigest()
        measures = json.loads(read(path)) if path and self.options.keep and os.path.exists(path) else {}
        known = measures.get("tests", {}) if measures.get("of") == of else {}
        for test in self.tests:
            test.update(known.get(test["name"], {}))
        list(pool.map(self.measure_one, [test for test in self.tests if "met" not in test]))
        if path:
            kept = ("wall", "seconds", "met", "why")
            write_changed(path, json.dumps({"of": of, "tests": {test["name"]: {name: test[name] for name in kept}
                                                                for test in self.tests}}))
        self.left_out = {test["name"]: test["why"] for test in self.tests if test["why"]}
        self.tests = [test for test in self.tests if not test["why"]]
        file_of = {mutant["number"]: mutant["file"] for mutant in drawn}
        for test in self.tests:
            test["per_file"] = {}
            for number in test["met"]:
                if number in file_of:
                    test["per_file"][file_of[number]] = test["per_file"].get(file_of[number], 0) + 1
            test["met"] = set(test["met"])

    def order(self, mutant):
        """The tests that reach the mutant: the one that noticed it before, then those that are quick, about its file,
        and noticed others there."""
        def cost(test):
            key = test["name"], mutant["file"]
            about = test["per_file"].get(mutant["file"], 0) / max(1, len(test["met"]))
            return test["name"] != mutant.get("first"), (test["seconds"] + 0.02) / (
                (self.kills.get(key, 0) + about + 0.01) / (self.tries.get(key, 0) + 1))
        return sorted((test for test in self.tests if mutant["number"] in test["met"]), key=cost)

    def limit(self, test):
        """Seconds after which a test hangs: by the clock, because a deadlock takes no processor time."""
        return self.options.patience + 4 * test["wall"]

    def notices(self, test, number):
        """Exit code, None after a hang, or 0 if the test does not notice the mutant. It must fail twice, with more time
        then, and pass without the mutant right after: a busy machine makes tests fail, too."""
        code = 0
        for times, variables in ((1, {"MUTANT": str(number)}), (2, {"MUTANT": str(number)}), (2, {})):
            limit = min(times * self.limit(test), self.options.until - time.monotonic())
            now = run_test(test, max(0.0, limit), variables)[0]
            if (now in (0, 77)) == bool(variables) or time.monotonic() >= self.options.until:
                return 0
            code = now if variables else code
        return code

    def judge(self, mutant):
        """Runs the tests until one notices the mutant. Without a result when the time was over."""
        with self.lock:
            tests = self.order(mutant)
        spent, tried = 0.0, 0
        for test in tests:
            if spent > self.options.budget or time.monotonic() >= self.options.until:
                break
            code = self.notices(test, mutant["number"])
            spent += test["seconds"]
            tried += 1
            with self.lock:
                key = test["name"], mutant["file"]
                self.tries[key] = self.tries.get(key, 0) + 1
                self.kills[key] = self.kills.get(key, 0) + (code != 0)
            if code != 0:
                mutant.update(result="killed", by=test["name"] + (" (time)" if code is None else ""), tests=tried)
                return mutant
        if time.monotonic() < self.options.until:
            mutant.update(result="survived" if tests else "not reached", by=None, tests=tried)
        return mutant
