#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run_tests.sh SOURCE: what tools/run-tests makes of tests that fail, with a cmake that builds nothing and a ctest that
# says what the case wants. One failure has a second time, alone, and is told by exit code 3; a crash, a sanitizer's report, many failures and the
# long run have none.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cat >"$work/bin/cmake" <<'EOF'
#!/bin/sh
EOF
# Without -R it is the first run, with it the second.
cat >"$work/bin/ctest" <<'EOF'
#!/usr/bin/env bash
case " $* " in
*" -R "*) echo "second:$*" >>"$WORK/calls" && exit "$SECOND" ;;
esac
printf '%b' "$SAYS"
echo '99% tests passed, some failed'
exit "$FIRST"
EOF
chmod +x "$work"/bin/*

bad='12/99 Test  #7: unit.late ..........***Failed    0.22 sec\n'

# expect NAME CODE SECOND-RUNS FIRST SECOND SAYS [VARIABLE=VALUE]: the exit code, and how often ctest ran again.
expect() {
    local name=$1 code=$2 runs=$3 first=$4 second=$5 says=$6 got=0 ran=0
    shift 6
    rm -f "$work/calls"
    env PATH="$work/bin:$PATH" WORK="$work" FIRST="$first" SECOND="$second" SAYS="$says" "$@" \
        "$source/tools/run-tests" release >"$work/said" 2>&1 || got=$?
    [ ! -e "$work/calls" ] || ran=$(wc -l <"$work/calls")
    if [ "$got" != "$code" ] || [ "$ran" != "$runs" ]; then
        cat "$work/said"
        echo "$name: exit code $got, not $code; run again $ran times, not $runs"
        exit 1
    fi
}

expect passes 0 0 0 0 ''
expect late 3 1 8 0 "$bad"
grep -q 'failed beside others, passed alone: unit.late' "$work/said"
grep -qF -- '-R ^(unit\.late)$' "$work/calls"
expect fails 1 1 8 8 "$bad"
expect two 3 1 8 0 "${bad}13/99 Test #8: unit.later ...***Timeout 60.01 sec\n"
grep -qF -- '-R ^(unit\.late|unit\.later)$' "$work/calls"
expect crash 1 0 8 0 "${bad}13/99 Test #8: unit.c ....***Exception: SegFault  0.1 sec\n"
expect sanitizer 1 0 8 0 "${bad}==1==ERROR: AddressSanitizer: heap-use-after-free\n"
expect undefined 1 0 8 0 "${bad}a.c:1:2: runtime error: signed integer overflow\n"
expect many 1 0 8 0 "$bad$bad$bad$bad"
expect aborted 1 0 8 0 'Subprocess aborted\n'
expect long 1 0 8 0 "$bad" VRAM_TEST_LONG=1
echo "run_tests: all as they should be"
