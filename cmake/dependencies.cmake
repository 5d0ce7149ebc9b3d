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

# The library needs none today. Libraries are looked for by header and file: what distributions ship
# along differs.
set(VRAM_ZLIB_FOUND FALSE)
set(VRAM_ZSTD_FOUND FALSE)
if(VRAM_BUILD_COMMAND)
    if(VRAM_DEPS)
        find_path(ZLIB_INCLUDE_DIR zlib.h)
        find_library(ZLIB_LIBRARY z)
        if(ZLIB_INCLUDE_DIR AND ZLIB_LIBRARY)
            set(VRAM_ZLIB_FOUND TRUE)
        endif()
        find_path(ZSTD_INCLUDE_DIR zstd.h)
        find_library(ZSTD_LIBRARY zstd)
        if(ZSTD_INCLUDE_DIR AND ZSTD_LIBRARY)
            set(VRAM_ZSTD_FOUND TRUE)
        endif()
    endif()
    vram_dependency(zlib "${VRAM_ZLIB_FOUND}" "vram report and replay read gzip'd traces")
    vram_dependency(zstd "${VRAM_ZSTD_FOUND}" "vram report and replay read zstd'd traces")
endif()

set(VRAM_CMOCKA_FOUND FALSE)
if(VRAM_BUILD_TESTS)
    if(VRAM_DEPS)
        find_path(CMOCKA_INCLUDE_DIR cmocka.h)
        find_library(CMOCKA_LIBRARY cmocka)
        if(CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY)
            set(VRAM_CMOCKA_FOUND TRUE)
        endif()
        # The distribution's own Python has the distribution's modules.
        find_program(VRAM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
        find_program(VRAM_PYTHON python3)
        find_program(VRAM_CXX NAMES c++ g++ clang++)
        find_program(VRAM_MANDOC mandoc)
        find_path(VRAM_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include)
        find_path(VRAM_VULKAN_INCLUDE vulkan/vulkan_core.h)
        find_path(VRAM_OPENCL_INCLUDE CL/cl.h)
    else()
        foreach(name VRAM_PYTHON VRAM_CXX VRAM_MANDOC VRAM_CUDA_INCLUDE VRAM_VULKAN_INCLUDE
                VRAM_OPENCL_INCLUDE)
            unset(${name} CACHE)
        endforeach()
    endif()
    vram_dependency(cmocka "${VRAM_CMOCKA_FOUND}" "unit tests")
    vram_dependency(python3 "${VRAM_PYTHON}" "lint, golden, document and consumer tests")
    vram_dependency(c++ "${VRAM_CXX}" "public headers tried as C++")
    vram_dependency(mandoc "${VRAM_MANDOC}" "manual page checked")
    vram_dependency(cuda.h "${VRAM_CUDA_INCLUDE}" "our declarations of CUDA compared with NVIDIA's")
    vram_dependency(cl.h "${VRAM_OPENCL_INCLUDE}" "our declarations of OpenCL compared with its own")
    vram_dependency(vulkan.h "${VRAM_VULKAN_INCLUDE}" "our declarations of Vulkan compared with its own")
endif()
