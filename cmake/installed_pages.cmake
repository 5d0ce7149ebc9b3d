# SPDX-License-Identifier: Apache-2.0
#
# Runs at the end of `cmake --install`. The installed pages lie beside each other as in the sources, but what they say
# of files that are not installed there is no link: `[ops.h](../src/device/ops.h)` becomes `ops.h`.
function(vram_pages_unlink folder)
    file(GLOB_RECURSE pages "${folder}/*.md")
    foreach(page IN LISTS pages)
        file(READ "${page}" text)
        string(REGEX REPLACE "\\[([^]]*)\\]\\((\\.\\./)*(include|src|tests|traces|tools|bench|cli)/[^)]*\\)" "\\1"
               unlinked "${text}")
        if(NOT unlinked STREQUAL text)
            file(WRITE "${page}" "${unlinked}")
        endif()
    endforeach()
endfunction()
