# SPDX-License-Identifier: Apache-2.0
#
# What the folders of tests/ share: vram_test, vram_program and vram_driver.

# Programs are found at one place, and every test runs there, whichever folder lists it.
set(tests_source ${CMAKE_CURRENT_LIST_DIR})
set(tests_binary ${PROJECT_BINARY_DIR}/tests)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${tests_binary})

# Hundreds of programs are linked; gold takes a third of the time, where there is one.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold VRAM_LINKS_GOLD)
if(VRAM_LINKS_GOLD AND NOT VRAM_FUZZER)
    add_link_options(-fuse-ld=gold)
endif()

# On aarch64 two options of GCC 12's AddressSanitizer take most of the time: detect_stack_use_after_return, whose fake
# stack fills up, is left out there, also in the long run; LeakSanitizer, which takes four seconds at the end of every
# process, looks at one program there, whose calls are drawn at random. What tests leave in the library they count
# themselves, and memory_left.c does for commands and examples.
set(slow_sanitizer OFF)
if(VRAM_SANITIZE MATCHES "address" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(slow_sanitizer ON)
endif()

# Unit tests, what is hostile or fails, and the bugs of others run where the library checks itself, under
# AddressSanitizer; as users build it they run in make test-long, which builds long_programs for it. PLAIN tests, all
# of which no sanitizer can run, do so in make test.
set(checked_elsewhere OFF)
if(NOT VRAM_SANITIZE AND NOT VRAM_COVERAGE AND CMAKE_BUILD_TYPE STREQUAL "Release")
    set(checked_elsewhere ON)
endif()
add_custom_target(long_programs)

# vram_long_program(<target>...): built for make test-long alone.
function(vram_long_program)
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(long_programs ${ARGN})
endfunction()

# docs.skips reads what these say, instead of running them again.
set(kept_tests)
if(NOT VRAM_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
    foreach(name host sim cuda hip metal_ordered opencl_fake_usm opencl_svm vulkan)
        list(APPEND kept_tests conformance.${name})
    endforeach()
endif()

# vram_test(<name> <label> <seconds> <command>... [SLOW] [PLAIN] [ENVIRONMENT <variable=value>...])
#
# The sanitizers take their time. What may take long begins first, so that no core waits for it at the end. What is
# long runs only when ctest is given -C Long. Drivers that the machine happens to have are for the tests that ask for
# them: a test without an ENVIRONMENT of its own finds no OpenCL. SLOW unit tests are no part of make quick.
function(vram_test name label seconds)
    cmake_parse_arguments(PARSE_ARGV 3 arg "SLOW;PLAIN" "" "ENVIRONMENT")
    set(command ${arg_UNPARSED_ARGUMENTS})
    if(VRAM_SANITIZE STREQUAL "thread" AND "${command}" MATCHES "vram_command")
        return() # the command is not built
    endif()
    if("${label}.${name}" IN_LIST kept_tests)
        list(TRANSFORM command REPLACE "^vram_command$" "$<TARGET_FILE:vram_command>")
        list(PREPEND command ${tests_source}/kept.sh ${tests_binary}/said/${label}.${name})
    endif()
    if(VRAM_SANITIZE OR VRAM_COVERAGE)
        math(EXPR seconds "${seconds} * 3")
    endif()
    math(EXPR limit "${seconds} * 2") # a machine may be slow, and busy with other things
    set(when "")
    if(label STREQUAL "long")
        set(when CONFIGURATIONS Long)
    endif()
    if(slow_sanitizer)
        set(leaks 0)
        if(name STREQUAL "programs_alike")
            set(leaks 1)
        endif()
        list(GET command 0 program)
        if(TARGET ${program})
            list(TRANSFORM command REPLACE "^.+$" "$<TARGET_FILE:${program}>" AT 0)
        endif()
        list(PREPEND command ${CMAKE_COMMAND} -E env
            ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=0:detect_leaks=${leaks})
    endif()
    if(NOT arg_ENVIRONMENT)
        set(arg_ENVIRONMENT "OCL_ICD_VENDORS=/nonexistent")
    endif()
    # Tests count threads and system calls, and leave the user's folder alone: those of the live page ask for it.
    if(NOT "${arg_ENVIRONMENT}" MATCHES "VRAM_LIVE=")
        list(APPEND arg_ENVIRONMENT VRAM_LIVE=off)
    endif()
    set(labels ${label})
    if(checked_elsewhere AND NOT arg_PLAIN AND
       "${label}.${name}" MATCHES "^((unit|drivers|fuzz|others_bugs)[.]|calls[.](faults|misuse|modes)|\
golden[.](formats|injected|lies)|pool[.]torch_(heap|shared))")
        set(when CONFIGURATIONS Long)
        list(APPEND labels long)
    endif()
    if(arg_SLOW)
        list(APPEND labels slow)
    endif()
    add_test(NAME ${label}.${name} COMMAND ${command} ${when} WORKING_DIRECTORY ${tests_binary})
    set_tests_properties(${label}.${name} PROPERTIES
        LABELS "${labels}" TIMEOUT ${limit} COST ${seconds} SKIP_RETURN_CODE 77
        ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# vram_program(<target> <source>... [LIBRARIES <library>...]): a test program that sees the internal headers of the
# libraries, those of the command and those of tests/.
function(vram_program target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
    add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
    target_include_directories(${target} PRIVATE
        ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/cli ${tests_source})
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} vram_compute_static vram_model_static vram_static)
endfunction()

# vram_tool(<name> <source>... [LIBRARIES <library>...]): the same as a part of the one program `tools`, in which the main
# function of the first source, which takes words, is found by this name.
vram_program(tools ${tests_source}/tools.c ${tests_binary}/tools_table.c)
function(vram_tool name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
    list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
    list(GET sources 0 first)
    set_source_files_properties(${first} TARGET_DIRECTORY tools PROPERTIES
        COMPILE_DEFINITIONS main=tools_${name} COMPILE_OPTIONS -Wno-missing-prototypes)
    target_sources(tools PRIVATE ${sources})
    vram_link_before(tools ${arg_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY vram_tools ${name})
endfunction()

# vram_link_before(<target> <library>...): before what the target is linked with, because they need it.
function(vram_link_before target)
    get_target_property(behind ${target} LINK_LIBRARIES)
    set_target_properties(${target} PROPERTIES LINK_LIBRARIES "${ARGN};${behind}")
endfunction()

# When all folders have listed theirs.
function(vram_tools_table)
    get_property(names GLOBAL PROPERTY vram_tools)
    set(mains "")
    set(rows "")
    foreach(name IN LISTS names)
        string(APPEND mains "int tools_${name}(int count, char **words);\n")
        string(APPEND rows "    {\"${name}\", tools_${name}},\n")
    endforeach()
    file(CONFIGURE OUTPUT ${tests_binary}/tools_table.c
        CONTENT "#include \"tools.h\"\n${mains}const struct named_main tools[] = {\n${rows}    {NULL, NULL}};\n")
endfunction()
cmake_language(DEFER CALL vram_tools_table)

# Drivers without a GPU: shared libraries that the backends load in the place of the real ones; and shims that stand
# in front of a driver and fail the calls that a plan names. Where they cannot be built there is no such target.
# vram_driver(<target> <library> <suffix> <sources>...)
function(vram_driver target library suffix)
    if(APPLE)
        return()
    endif()
    add_library(${target} SHARED ${ARGN} ${tests_source}/fake/strike.c)
    target_include_directories(${target} PRIVATE
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/cli ${tests_source})
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${library} SUFFIX ${suffix}
        LIBRARY_OUTPUT_DIRECTORY ${tests_binary}/fake)
endfunction()

# What goes before a command: Vulkan on the CPU, and PoCL, OpenCL on the CPU, which the command asks for its devices.
set(lavapipe ${tests_source}/vulkan/lavapipe.sh)
set(pocl sh ${tests_source}/opencl/pocl.sh $<TARGET_FILE:vram_command> ${tests_binary}/pocl)

# The smallest backend, with a registry that comes before the library's own.
set(smallest_sources ${tests_source}/smallest_backend/smallest_backend.c ${tests_source}/smallest_backend/smallest_registry.c)
