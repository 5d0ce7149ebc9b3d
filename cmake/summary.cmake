# SPDX-License-Identifier: Apache-2.0
#
# What this build is and what it found: the last lines that cmake prints.
if(PROJECT_IS_TOP_LEVEL)
    set(parts "library")
    foreach(part COMMAND TESTS EXAMPLES)
        if(VRAM_BUILD_${part})
            string(TOLOWER ${part} name)
            list(APPEND parts ${name})
        endif()
    endforeach()
    list(JOIN parts ", " parts)
    message(NOTICE "libvram ${vram_version_text} (${CMAKE_BUILD_TYPE}): ${parts}")
    foreach(line IN LISTS vram_dependency_lines)
        message(NOTICE "  ${line}")
    endforeach()
    message(NOTICE "  GPU drivers: loaded at run time, none is needed to build")
endif()
