#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lavapipe.sh [--layers] COMMAND...: runs a command with Mesa's Vulkan driver for the CPU, lavapipe, and
# no other. With --layers under Khronos's validation layers, synchronisation included: any message of
# theirs is a failure, and so is their absence from the process. Exit code 77, with the reason, where
# loader, driver or layers are not installed. --self-test shows that each of these is told from the others.
set -eu

# expect CODE SCRIPT: what this script makes of a command that does that, under layers.
expect() {
    code=0
    sh "$0" --layers sh -c "$2" >/dev/null 2>&1 || code=$?
    [ "$code" -eq "$1" ] || {
        echo "lavapipe.sh: exit code $code and not $1 for: $2"
        exit 1
    }
}

if [ "$1" = --self-test ]; then
    loaded='echo "Insert instance layer \"VK_LAYER_KHRONOS_validation\""'
    sh "$0" --layers true || [ $? -ne 77 ] || exit 77
    expect 1 "true"                                                  # no layers
    expect 0 "$loaded"                                               # all is well
    expect 1 "$loaded; exit 1"                                       # the command failed
    expect 2 "$loaded; exit 2"                                       # and was misused
    expect 139 "$loaded; kill -SEGV \$\$"                            # and died
    expect 1 "$loaded; echo VUID-vkMapMemory-memory-00678"           # the layers said something
    expect 1 "$loaded; echo 'Validation Warning: [ x ]'; exit 2"     # and the command failed too
    echo "7 outcomes, each told from the others"
    exit 0
fi

layers=""
if [ "$1" = --layers ]; then
    layers=yes
    shift
fi

skip() {
    echo "skipped: $1"
    exit 77
}

ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
"$ldconfig" -p | grep -q 'libvulkan\.so\.1' || skip "no libvulkan.so.1 (package libvulkan1)"
driver=""
for file in /usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json; do
    [ -e "$file" ] && driver=$file
done
[ -n "$driver" ] || skip "no lavapipe (package mesa-vulkan-drivers)"
export VK_DRIVER_FILES="$driver" VK_ICD_FILENAMES="$driver"

[ -n "$layers" ] || exec "$@"

[ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ] ||
    skip "no validation layers (package vulkan-validationlayers)"
export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
export VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
said=$(mktemp)
trap 'rm -f "$said"' EXIT
code=0
VK_LOADER_DEBUG=layer "$@" >"$said" 2>&1 || code=$?
grep -q 'Insert instance layer "VK_LAYER_KHRONOS_validation"' "$said" || {
    grep -v 'LAYER' "$said"
    echo "lavapipe.sh: the validation layers were not loaded"
    exit 1
}
sed -E '/^(ERROR|WARNING|INFO|DEBUG)? *\|? *(LAYER|\[?Vulkan Loader)/d' "$said" # without the loader's own lines
messages=$(grep -c -E 'VUID|SYNC-HAZARD|UNASSIGNED|Validation ([A-Z][a-z]+ )?(Error|Warning)' "$said" || true)
echo "validation messages: $messages"
[ "$messages" -eq 0 ] && exit "$code"
exit 1
