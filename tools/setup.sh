#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/setup.sh PURPOSE   PURPOSE is run, test, analyze, coverage, format, fresh, deb, wheel, release or other-arch
#
# Installs what the purpose needs and what is missing, and says what and why. When nothing is
# missing it does nothing: no network, no root. Packages are installed on Debian and Ubuntu; on any
# other system their names are printed and the exit code is 2.
set -eu

purpose=${1:-}
missing=""  # packages to install
wishes=""   # packages that are worth having where the distribution offers them

has() { command -v "$1" >/dev/null 2>&1; }
has_compiler() { echo 'int main(void) { return 0; }' | ${CC:-cc} -x c -o /dev/null - 2>/dev/null; }
has_cxx() { echo 'int main() { return 0; }' | ${CXX:-c++} -x c++ -o /dev/null - 2>/dev/null; }
has_header() { echo "#include <$1>" | ${CC:-cc} -E -x c - >/dev/null 2>&1; }
has_python_module() { /usr/bin/python3 -c "import $1" 2>/dev/null; }
# A pattern that names at least one file.
has_file() { for file in $1; do [ -e "$file" ] && return 0; done; return 1; }

has_library() { { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q "$1"; }

has_pocl() { has_library libOpenCL.so.1 && ls /etc/OpenCL/vendors/pocl*.icd >/dev/null 2>&1; }

# need PACKAGES WHY PROBE...: when the probe fails, the packages are missing.
need() {
    packages=$1 why=$2
    shift 2
    "$@" && return 0
    for package in $packages; do
        echo "setup: $package is missing: $why"
    done
    missing="$missing $packages"
}

# wish PACKAGES WHY PROBE...: the same for what the purpose can do without.
wish() {
    packages=$1 why=$2
    shift 2
    "$@" && return 0
    for package in $packages; do
        echo "setup: $package would help: $why"
    done
    wishes="$wishes $packages"
}

need_run() {
    need "gcc libc6-dev" "compiles the library" has_compiler
    need cmake "configures the build" has cmake
    need make "runs the build" has make
}

wish_run() {
    wish zlib1g-dev "reads the gzip'd traces of vram replay and report" has_header zlib.h
    wish libzstd-dev "reads the zstd'd traces of vram replay and report" has_header zstd.h
    wish libcivetweb-dev "serves vram exporter and vram report --serve" has_header civetweb.h
    wish libncurses-dev "is the screen of vram top" has_header curses.h
}

need_test() {
    need_run
    need zlib1g-dev "reads the gzip'd traces of vram replay" has_header zlib.h
    need libzstd-dev "reads the zstd'd traces of vram replay and report" has_header zstd.h
    need g++ "compiles the public headers as C++" has_cxx
    need binutils "lists the symbols that the library exports" has nm
    need pkg-config "builds the pkg-config consumer" has pkg-config
    need python3 "runs the checks of sources and documents" test -x /usr/bin/python3
    need python3-jsonschema "validates the JSON of every verb" has_python_module jsonschema
    need "pocl-opencl-icd ocl-icd-libopencl1" "is an OpenCL device that every machine has" has_pocl
    need mandoc "checks the manual page" has mandoc
    need bash "tries the completion for bash" has bash
    need zsh "tries the completion for zsh" has zsh
    need fish "tries the completion for fish" has fish
    wish ninja-build "builds in less time than make" has ninja
    wish valgrind "counts the instructions of an allocation" has valgrind
    wish "libvulkan1 mesa-vulkan-drivers" "runs the Vulkan backend on the CPU" \
        has_file '/usr/share/vulkan/icd.d/lvp_icd*.json'
    wish vulkan-validationlayers "watches the Vulkan backend" \
        has_file '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json'
    wish libvulkan-dev "compares our declarations of Vulkan with its own" \
        has_header vulkan/vulkan.h
    wish glslang-tools "makes the shaders of the tests and examples anew" has glslangValidator
    wish opencl-c-headers "is what our declarations of OpenCL are compared with" has_header CL/cl.h
    wish libmimalloc2.0 "is what vram bench compares host memory with" has_library libmimalloc.so.2
    wish libcivetweb-dev "serves vram exporter and vram report --serve" has_header civetweb.h
    wish libncurses-dev "is the screen of vram top" has_header curses.h
    wish tmux "is the terminal in which vram top is tried" has tmux
    wish prometheus "judges the metrics of vram exporter and scrapes them" has promtool
    wish python3-prometheus-client "reads the metrics in the OpenMetrics form" \
        has_python_module prometheus_client
    wish mypy "reads the types of the Python package" has_python_module mypy
    wish libucx-dev "builds libvram-ucx, and runs it" has_header ucp/api/ucp.h
    wish ucx-utils "brings ucx_perftest, which libvram-ucx is measured beside" has ucx_perftest
    wish clang-format-14 "checks the layout of the sources" has clang-format-14
}

need_deb() {
    need_run
    need zlib1g-dev "reads the gzip'd traces of vram replay" has_header zlib.h
    need libzstd-dev "reads the zstd'd traces of vram replay and report" has_header zstd.h
    need libcivetweb-dev "serves vram exporter and vram report --serve" has_header civetweb.h
    need libncurses-dev "is the screen of vram top" has_header curses.h
    wish libucx-dev "builds libvram-ucx" has_header ucp/api/ucp.h
    need dpkg-dev "finds what the packages depend on" has dpkg-shlibdeps
}

# The architecture that this machine is not.
find_other() {
    if [ "$(uname -m)" = aarch64 ]; then
        other=x86_64 compiler=gcc-x86-64-linux-gnu cxx=g++-x86-64-linux-gnu libc=libc6-dev-amd64-cross
    else
        other=aarch64 compiler=gcc-aarch64-linux-gnu cxx=g++-aarch64-linux-gnu libc=libc6-dev-arm64-cross
    fi
}

# What tools/other-arch-check and tools/torch-adapters --arch cannot do without. The former fetches the libraries of
# that architecture itself.
need_other_arch() {
    find_other
    need "$compiler $libc" "compiles for the other architecture, $other" has "$other-linux-gnu-gcc"
    need "$cxx" "compiles the adapters for PyTorch for $other" has "$other-linux-gnu-g++"
    need qemu-user "runs programs of $other" has "qemu-$other"
}

# The compiler comes from PyPI.
need_wheel() {
    find_other
    need cmake "configures the build" has cmake
    need make "runs the build" has make
    need python3-venv "holds the compiler" python3 -c "import ensurepip, venv"
    need dpkg-dev "unpacks the sources of what is linked in" has dpkg-source
    need xz-utils "unpacks the sources of what is linked in" has xz
    wish "qemu-user $libc" "tries the wheel of the other architecture" has "qemu-$other"
}

need_analyze() {
    need_run
    need python3 "runs tools/analyze" test -x /usr/bin/python3
    need clang "is another compiler, with an analyzer and MemorySanitizer" has clang
    wish clang-tidy "looks for patterns of bugs" has clang-tidy
    wish cppcheck "is one more analyzer" has cppcheck
    wish musl-tools "builds a static program" has musl-gcc
    wish abigail-tools "compares the interface with the last release's" has abidiff
}

case $purpose in
run)
    need_run
    wish_run
    ;;
test) need_test ;;
analyze) need_analyze ;;
coverage)
    need_test
    need gcovr "counts the lines, with gcc's gcov" has gcovr
    ;;
format) need clang-format-14 "lays out the sources" has clang-format-14 ;;
fresh)
    need debootstrap "makes a fresh system in a folder" has debootstrap
    need git "makes a clean clone" has git
    ;;
deb) need_deb ;;
release)
    need_deb
    need_wheel
    need git "knows the commit" has git
    need python3 "packs the sources and the wheels" has python3
    need cargo "packs the crate" has cargo
    need g++ "compiles the adapters for PyTorch" has_cxx
    need_other_arch
    ;;
wheel) need_wheel ;;
other-arch) need_other_arch ;;
*)
    echo "usage: tools/setup.sh run|test|analyze|coverage|format|fresh|deb|wheel|release|other-arch" >&2
    exit 2
    ;;
esac

[ -n "$missing$wishes" ] || exit 0

if ! has apt-get; then
    [ -n "$missing" ] || exit 0
    echo "setup: this is neither Debian nor Ubuntu. Please install what these packages hold:" >&2
    echo "setup:  $missing" >&2
    exit 2
fi

ask=""    # an option of sudo
lock=300  # seconds to wait for another apt-get
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        # shellcheck disable=SC2086 # no word, or one
        sudo $ask "$@"
    else
        echo "setup: not root and no sudo; please have an administrator run: $*" >&2
        return 2
    fi
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Quiet unless it fails: then all of its words are shown.
apt() {
    if ! as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=$lock "$@" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
}
offered() { apt-cache show "$1" >/dev/null 2>&1; }

install() { apt install -y --no-install-recommends "$@"; }

# The lists may be of any age, and empty on a fresh machine. For a wish alone they are not renewed.
if [ -n "$missing" ]; then
    apt update || echo "setup: apt-get update failed; trying with the lists that are there" >&2
    echo "setup: installing$missing"
    # shellcheck disable=SC2086 # a list of words
    install $missing
fi

# Wishes hold nobody up: sudo asks for no password, and what does not come is left out.
wanted=""
for package in $wishes; do
    if offered "$package"; then
        wanted="$wanted $package"
    else
        echo "setup: $package is not offered here; going on without it"
    fi
done
if [ -n "$wanted" ]; then
    ask="-n" lock=10
    # shellcheck disable=SC2086 # a list of words
    if install $wanted 2>/dev/null; then
        echo "setup: installed$wanted"
    else
        echo "setup: going on without; as root: apt-get install$wanted"
    fi
fi
