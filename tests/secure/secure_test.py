#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""secure_test.py PROBE VRAM FAKES...: no variable has an effect where a program has rights that its user has not.

PROBE (secure_probe.c) and the command run with every variable of the library set, started by an unprivileged user:
first as they are, which must show that the variables work, then set-uid, set-gid and with a file capability, which must
show that none does: no option changed, no library that a variable names loaded, no file made where one says, not a
word printed. Needs root; exit code 77 where that, or the file system, does not allow it.
"""
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

USER, OTHER = 65533, 65531  # nobody has these; USER starts the programs
FAKES = {}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def variables(vram, out):
    """A value other than the default for every option, and the other variables that the library or its drivers read."""
    text = {"backends": "host,sim,cuda", "backend_order": "cuda,host", "sim": "real=on", "opencl_memory": "svm",
            "preset": "inference", "quotas": "tenant=4G", "tracking": "on", "leaks": "text", "log": "debug",
            "ladder": "drain", "trace": f"{out}/trace.vrt", "leak_file": f"{out}/leaks", "share_dir": f"{out}/share",
            "calibration_cache": f"{out}/cache", "system_root": f"{out}/root", "broker": f"{out}/broker",
            "leak_suppressions": f"{out}/suppressions", "pressure_emergency": "0.95", **FAKES}
    numbers = {"size": "64M", "integer": "3", "duration": "5s", "fraction": "0.5"}
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": f"{out}/runtime", "HOME": "/nonexistent",
                   "NVTX_INJECTION64_PATH": FAKES["nvtx_library"], "COLUMNS": "40", "CLICOLOR_FORCE": "1"}
    answer = subprocess.run([vram, "info", "--options", "--json", "--backend", "host"], capture_output=True, text=True,
                            check=True).stdout
    for row in json.loads(answer)["options"]:
        name, kind = row["name"], row["type"]
        value = text.get(name, numbers.get(kind))
        if kind == "bool":
            value = "off" if row["default"] == "on" else "on"
        if name.endswith("_library") and name not in FAKES:
            value = f"{out}/lib{name}.so"
        environment[f"VRAM_{name.upper()}"] = value or f"{out}/{name}"
    environment.update(VRAM_LIVE="on", VRAM_POOL="on", VRAM_STRICT="off")
    return environment


def run(command, environment, out):
    os.makedirs(f"{out}/runtime", exist_ok=True)
    for path in (out, f"{out}/runtime"):
        os.chmod(path, 0o777)
    os.chown(f"{out}/runtime", USER, USER)
    os.chmod(f"{out}/runtime", 0o700)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/", user=USER, group=USER,
                          extra_groups=[], timeout=60, check=False)
    made = sorted(os.path.relpath(os.path.join(place, name), out) for place, folders, files in os.walk(out)
                  for name in folders + files if name != "runtime")
    return done, made


def programs(probe, folder):
    """Name and path of each way to be privileged."""
    for name, uid, gid, mode in (("set-uid", OTHER, 0, 0o4755), ("set-gid", 0, OTHER, 0o2755)):
        path = f"{folder}/{name}"
        shutil.copy(probe, path)
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        yield name, path
    path = f"{folder}/capable"
    shutil.copy(probe, path)
    os.chmod(path, 0o755)
    try:  # vfs_cap_data of revision 2, effective: CAP_NET_BIND_SERVICE
        os.setxattr(path, b"security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
    except OSError as error:
        print(f"file capabilities left out: {error}")
        return
    yield "capability", path


def loaded(libraries):
    return [path for path in libraries if any(path.endswith(os.path.basename(fake)) for fake in FAKES.values())]


def check_plain(probe, environment, out):
    """The variables do what they say, or the rest would show nothing."""
    done, made = run([probe], environment, out)
    answer = json.loads(done.stdout)
    wrong = []
    ours = sum(source == 1 for source in answer["options"].values())
    if answer["secure"] or ours < 40 or not done.stderr:
        wrong.append(f"plain: {ours} options from the environment, stderr {done.stderr[:200]!r}, {done.stdout[:200]}")
    if not loaded(answer["libraries"]):
        wrong.append(f"plain: no library of a variable was loaded: {answer['libraries']}")
    wrong += [f"plain: {name} was not made: {made}" for name in ("trace.vrt", "leaks", "runtime/vram")
              if name not in made]
    if answer["status"] != "VRAM_OK":
        wrong.append(f"plain: memory could not be used: {answer['status']}")
    return wrong, ours


def check_secure(name, path, environment, out):
    done, made = run([path], environment, out)
    answer = json.loads(done.stdout)
    if not answer["secure"]:
        return None
    wrong = [f"option {option} comes from source {source}" for option, source in answer["options"].items() if source]
    wrong += [f"{path} was loaded" for path in loaded(answer["libraries"])]
    wrong += [f"{path} was made" for path in made]
    if done.stderr or done.returncode or answer["problems"]:
        wrong.append(f"exit code {done.returncode}, {answer['problems']} problems, stderr {done.stderr[:200]!r}")
    if answer["status"] != "VRAM_OK":
        wrong.append(f"memory could not be used: {answer['status']}")
    return [f"{name}: {line}" for line in wrong]


def check_command(vram, folder, environment, out):
    """The command too: no colours, no width, no option."""
    path = f"{folder}/command"
    shutil.copy(vram, path)
    os.chown(path, OTHER, 0)
    os.chmod(path, 0o4755)
    done, made = run([path, "info", "--options", "--backend", "host"], environment, out)
    wrong = []
    if "\x1b" in done.stdout or "environment" in done.stdout or done.stderr or made:
        wrong.append(f"command: {done.stdout[:300]!r} {done.stderr[:200]!r} {made}")
    if max(map(len, done.stdout.splitlines()), default=0) <= 40:
        wrong.append("command: COLUMNS had an effect")
    return wrong


def main(probe, vram, *fakes):
    if os.geteuid() != 0:
        skip("only root can make a program set-uid to another user")
    with open("/proc/self/status", encoding="ascii") as status:
        if "NoNewPrivs:\t1" in status.read():
            skip("no_new_privs is set here")
    FAKES.update(fake.split("=", 1) for fake in fakes)
    remains = [f"/dev/shm/vram-{uid}" for uid in (USER, OTHER) if not os.path.exists(f"/dev/shm/vram-{uid}")]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in list(FAKES):  # where every user can read them
            FAKES[name] = shutil.copy(FAKES[name], folder)
        plain = shutil.copy(probe, f"{folder}/plain")
        os.chmod(plain, 0o755)
        wrong, ours = check_plain(plain, variables(vram, f"{folder}/out-plain"), f"{folder}/out-plain")
        ways = 0
        for name, path in programs(probe, folder):
            assert os.stat(path).st_mode & stat.S_IXOTH
            found = check_secure(name, path, variables(vram, f"{folder}/out-{name}"), f"{folder}/out-{name}")
            if found is None:
                print(f"{name} has no effect here: the file system is mounted nosuid")
                continue
            ways += 1
            wrong += found
        if ways:
            wrong += check_command(vram, folder, variables(vram, f"{folder}/out-command"), f"{folder}/out-command")
    for path in remains:
        shutil.rmtree(path, ignore_errors=True)
    if not ways and not wrong:
        skip("the file system is mounted nosuid")
    print("\n".join(wrong) or f"{ours} options by variables, in {ways} kinds of privileged programs none")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
