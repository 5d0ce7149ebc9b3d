# SPDX-License-Identifier: Apache-2.0
#
# cmake -DPROGRAM=... [-DARGUMENT="..."] -DEXPECTED=... -P compare.cmake: the program must end with 0, say
# nothing on stderr, and print exactly what the file holds.
separate_arguments(arguments UNIX_COMMAND "${ARGUMENT}")
execute_process(COMMAND ${PROGRAM} ${arguments} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE complained)
file(READ ${EXPECTED} expected)
if(NOT code EQUAL 0 OR NOT complained STREQUAL "")
    message(FATAL_ERROR "exit code ${code}, stderr: ${complained}")
endif()
if(NOT said STREQUAL expected)
    message(FATAL_ERROR "expected:\n${expected}\nprinted:\n${said}")
endif()
