# SPDX-License-Identifier: Apache-2.0
#
# How our own files are compiled. Directory properties: a project that adds this one as a
# subdirectory keeps its own flags.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -O3 buys nothing here, and its guesses at uninitialised variables are wrong ones.
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

add_compile_definitions(_GNU_SOURCE)

# Adds a compiler flag for C when the compiler knows it.
function(vram_add_flag flag)
    string(MAKE_C_IDENTIFIER "VRAM_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
        add_compile_options($<$<COMPILE_LANGUAGE:C>:${flag}>)
    endif()
endfunction()

foreach(flag -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
             -Wconversion -Wno-sign-conversion)
    vram_add_flag(${flag})
endforeach()
if(VRAM_WERROR)
    vram_add_flag(-Werror)
endif()

# Checks that cost nothing are part of every build; the sanitizers bring their own. tests/consumers/hardened.py looks for
# them in the installed files.
if(NOT VRAM_SANITIZE)
    vram_add_flag(-fstack-protector-strong)
    vram_add_flag(-fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        vram_add_flag(-fcf-protection)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
        vram_add_flag(-mbranch-protection=standard)
    endif()
    # Level 3 needs a compiler that knows the size of what malloc returned, and a C library that asks for it.
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("#include <string.h>
        int main(int argc, char **argv) { return (int)strlen(argv[argc - 1]); }" VRAM_FORTIFIES_3)
    unset(CMAKE_REQUIRED_FLAGS)
    set(fortify 2)
    if(VRAM_FORTIFIES_3)
        set(fortify 3)
    endif()
    add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
                        $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${fortify}>)
endif()

# Programs lie at random addresses, and what the loader has filled in is read-only, in programs and libraries alike.
check_pie_supported(LANGUAGES C)
if(NOT APPLE)
    foreach(flag LINKER:-z,now LINKER:-z,relro LINKER:-z,noexecstack)
        string(MAKE_C_IDENTIFIER "VRAM_LINKS_${flag}" known)
        check_linker_flag(C ${flag} ${known})
        if(${known})
            add_link_options(${flag})
        endif()
    endforeach()
endif()

# VR_DEBUG turns on the checks of ourselves: lock ranks, no lock held across a driver call.
if(VRAM_SANITIZE)
    add_compile_definitions(VR_DEBUG)
    add_compile_options(-fsanitize=${VRAM_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer -Og -g1 -Wno-maybe-uninitialized)
    add_link_options(-fsanitize=${VRAM_SANITIZE})
else()
    add_compile_definitions($<$<CONFIG:Debug>:VR_DEBUG>)
endif()

if(VRAM_COVERAGE)
    add_compile_options(--coverage -O0 -fprofile-update=atomic)
    add_link_options(--coverage)
endif()

# Flags of the shared library alone. The drivers that we load keep threads and exit handlers, so it
# is never unloaded (nodelete).
set(vram_link_flags "")
if(NOT APPLE)
    check_linker_flag(C LINKER:-z,nodelete VRAM_LINKS_NODELETE)
    if(VRAM_LINKS_NODELETE)
        list(APPEND vram_link_flags LINKER:-z,nodelete)
    endif()
    # A sanitizer's run-time library is found only when the program is linked.
    if(NOT VRAM_SANITIZE)
        list(APPEND vram_link_flags LINKER:-z,defs)
    endif()
endif()
