# SPDX-License-Identifier: Apache-2.0
#
# Everything that may be found or left out. A row of vram_dependency_lines is printed by the
# summary, so a build says what it has and what a missing package would have added.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED) # part of libc on every platform that is supported

set(vram_dependency_lines "")

# vram_dependency(<name> <found> <what it adds>)
function(vram_dependency name found adds)
    if(found)
        set(line "${name}: found, ${adds}")
    elseif(VRAM_DEPS)
        set(line "${name}: not found, left out: ${adds}")
    else()
        set(line "${name}: left out by VRAM_DEPS=OFF: ${adds}")
    endif()
    set(vram_dependency_lines ${vram_dependency_lines} "${line}" PARENT_SCOPE)
endfunction()

# The libraries of the distribution ship a config file, a pkg-config file or neither: a header and a
# library are what counts.
set(VRAM_CMOCKA_FOUND FALSE)
if(VRAM_BUILD_TESTS)
    if(VRAM_DEPS)
        find_path(CMOCKA_INCLUDE_DIR cmocka.h)
        find_library(CMOCKA_LIBRARY cmocka)
        if(CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY)
            set(VRAM_CMOCKA_FOUND TRUE)
        endif()
    endif()
    vram_dependency(cmocka ${VRAM_CMOCKA_FOUND} "unit tests")
endif()
