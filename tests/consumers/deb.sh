#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh SOURCE CC [FOLDER]: makes the Debian packages, installs them into a system that is an empty folder, and uses
# the library and the command from there; then removes them. FOLDER is a build to start from, for people in a hurry.
set -euo pipefail
source=$1 cc=$2
here=$source/tests/consumers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=${3:-$work/build}
version=$(sed -nE 's/^#define VRAM_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' "$source/include/vram/base.h" |
    paste -sd.)
pre=$(sed -nE 's/^#define VRAM_VERSION_PRE "(.*)"$/\1/p' "$source/include/vram/base.h")
text=$version$pre version=$version${pre:+"~$pre"}
so=${version%%.*}
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
packages=("libvram$so" "libvram-compute$so" "libvram-model$so" libvram-dev vram python3-vram)
libraries=(libvram libvram-compute libvram-model)
if [ -e /usr/include/ucp/api/ucp.h ]; then # as tools/deb
    packages+=("libvram-ucx$so")
    libraries+=(libvram-ucx)
fi
export PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "FAIL: $*"
    [ ! -s "$work/log" ] || cat "$work/log"
    exit 1
}

# quietly COMMAND...: it must succeed.
quietly() {
    "$@" >"$work/log" 2>&1 || fail "$*"
}

file_of() {
    echo "$folder/$1_${version}_$architecture.deb"
}

# depends PACKAGE PATTERN...
depends() {
    local package=$1 said pattern
    shift
    said=$(dpkg-deb -f "$(file_of "$package")" Depends)
    for pattern in "$@"; do
        grep -qE "(^|, )$pattern(,|$)" <<<"$said" || fail "$package depends on $said, not on $pattern"
    done
}

quietly "$source/tools/deb" "$folder"
[ "$(find "$folder" -name '*.deb' | wc -l)" -eq ${#packages[@]} ] || fail "other packages: $(ls "$folder"/*.deb)"
for package in "${packages[@]}"; do
    [ -f "$(file_of "$package")" ] || fail "there is no $(file_of "$package")"
    dpkg-deb -f "$(file_of "$package")" >"$work/log"
    grep -qE '^Description: GPU memory manager, ' "$work/log" || fail "the summary of $package"
    grep -qE '^Maintainer: the libvram project$' "$work/log" || fail "the maintainer of $package"
    grep -qE '^Section: (libs|libdevel|utils|python)$' "$work/log" || fail "the section of $package"
    dpkg-deb --fsys-tarfile "$(file_of "$package")" | tar -t >"$work/log"
    grep -qx "./usr/share/doc/$package/copyright" "$work/log" || fail "$package has no copyright file"
done
equal="\(= ${version//./\\.}\)"
depends "libvram$so" 'libc6 [^,]*'
depends "libvram-compute$so" 'libc6 [^,]*' "libvram$so $equal"
depends "libvram-model$so" 'libc6 [^,]*' "libvram$so $equal"
depends libvram-dev "libvram$so $equal" "libvram-compute$so $equal" "libvram-model$so $equal"
depends vram 'libc6 [^,]*' "libvram$so $equal" "libvram-compute$so $equal" "libvram-model$so $equal"
depends python3-vram 'libc6 [^,]*' 'python3 \(>= 3\.9\)' "libvram$so $equal"
for library in "${libraries[@]}"; do
    dpkg-deb -e "$(file_of "$library$so")" "$work/control"
    [ "$(cat "$work/control/shlibs")" = "$library $so $library$so (>= $version)" ] || fail "shlibs of $library"
    [ "$(cat "$work/control/triggers")" = "activate-noawait ldconfig" ] || fail "triggers of $library"
    [ ! -e "$work/control/postinst" ] || fail "$library$so has a script where a trigger does"
    rm -r "$work/control"
done
echo "ok: ${#packages[@]} packages, what they depend on and what they trigger"

# The folder stands for a system that has nothing but the libraries of this one that ours need.
root=$work/root
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root/etc"
touch "$root/var/lib/dpkg/available"
for package in libc6 zlib1g libzstd1 libgcc-s1 libncursesw6 libtinfo6 libcivetweb1; do
    dpkg-query -s "$package:$architecture" 2>/dev/null && echo
done >"$root/var/lib/dpkg/status"
# The interpreter may be here without a package of its own.
printf 'Package: python3\nStatus: install ok installed\nMaintainer: none\nArchitecture: %s\nVersion: 3.9\nDescription: %s\n\n' \
    "$architecture" "stands for the interpreter that runs below" >>"$root/var/lib/dpkg/status"
there() {
    dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null "$@"
}
(cd "$root" && find . -path ./var -prune -o -print | sort) >"$work/before"

! there -i "$(file_of vram)" >"$work/log" 2>&1 || fail "the command was installed without its libraries"
grep -q "vram depends on libvram$so (= $version)" "$work/log" || fail "dpkg does not name what the command needs"
quietly there -i "$folder"/*.deb
for package in "${packages[@]}"; do
    there -s "$package" | grep -qx 'Status: install ok installed' || fail "$package is not installed"
done
echo "ok: installed by dpkg, not without what they depend on"

# Nothing that an installation brings is in none of the packages.
quietly env DESTDIR="$work/whole" cmake --install "$folder"
(cd "$work/whole" && find . ! -type d | sort) >"$work/wanted"
(cd "$root" && find ./usr ! -type d | sort) >"$work/packed"
diff "$work/wanted" "$work/packed" || fail "the packages hold other files than an installation"
echo "ok: every file is in a package"

export LD_LIBRARY_PATH=$root/usr/lib/$triplet
[ "$("$root/usr/bin/vram" --version)" = "vram $text" ] || fail "the version of the command"
quietly "$root/usr/bin/vram" check --backend sim
! readelf -d "$root/usr/bin/vram" "$LD_LIBRARY_PATH"/*.so | grep -E 'R(UN)?PATH' || fail "a path of libraries is left"
echo "ok: the command, on the shared libraries: $(tail -1 "$work/log")"

PYTHONDONTWRITEBYTECODE= PYTHONPATH=$root/usr/lib/python3/dist-packages quietly python3 -c "
import vram
with vram.Context(backends='host') as context, context.device() as device, device.pool() as pool:
    pool.free(pool.alloc('1MiB'))
assert vram.__file__.startswith('$root'), vram.__file__
from importlib.metadata import distribution
assert [each for each in distribution('vram').entry_points if each.group == 'torch.backends'][0].load()
import vram.cupy
assert vram.cupy._c_functions() is not None"
[ -d "$root/usr/lib/python3/dist-packages/vram/__pycache__" ] || fail "Python has compiled nothing that could be left"
echo "ok: the package for Python"

export PKG_CONFIG_LIBDIR=$LD_LIBRARY_PATH/pkgconfig
[ -z "$(pkg-config --cflags libvram)" ] || fail "the compiler is told of a folder that it searches anyway"
# try SOURCE PACKAGE: as a program is compiled for a system in a folder.
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
try() {
    local said
    # shellcheck disable=SC2046 # lists of flags
    quietly "$cc" "$here/$1" -o "$work/consumer" $(pkg-config --cflags --libs "$2") \
        "-Wl,-rpath-link,$LD_LIBRARY_PATH"
    said=$("$work/consumer") || fail "$2: exit code $?: $said"
    [ "$said" = "libvram $text, devices: 1" ] || fail "$2 said: $said"
    echo "ok: pkg-config, $2"
}
try consumer.c libvram
try compute.c libvram-compute
try model.c libvram-model

CC=$cc quietly cmake -S "$here/find_package" -B "$work/package" -DCMAKE_PREFIX_PATH="$root/usr"
quietly cmake --build "$work/package"
for program in shared static compute model; do
    [ "$("$work/package/$program")" = "libvram $text, devices: 1" ] || fail "find_package, $program"
done
echo "ok: find_package"

quietly there --purge "${packages[@]}"
(cd "$root" && find . -path ./var -prune -o -print | sort) >"$work/after"
diff "$work/before" "$work/after" || fail "purging leaves files"
echo "ok: purged, nothing is left"
