# SPDX-License-Identifier: Apache-2.0
#
# Runs at the beginning and the end of `cmake --install`: writes what was installed into the prefix itself, to
# share/doc/libvram/installed.txt, which tools/uninstall reads. A line is a path, relative if it lies in the prefix; a
# folder that the installation made ends in "/". The lines of earlier installations into the same prefix stay: a newer
# version may have fewer files.
set(vram_record_folder share/doc/libvram)

# vram_record_begin(<folders>): notes which of them, and of the folders above them, are not there yet.
function(vram_record_begin folders)
    set(made "")
    foreach(folder IN LISTS folders ITEMS ${vram_record_folder})
        get_filename_component(folder "${folder}" ABSOLUTE BASE_DIR "${CMAKE_INSTALL_PREFIX}/")
        while(NOT EXISTS "$ENV{DESTDIR}${folder}" AND NOT folder STREQUAL "/")
            list(APPEND made "${folder}")
            get_filename_component(folder "${folder}" DIRECTORY)
        endwhile()
    endforeach()
    set(vram_record_folders "${folders}" PARENT_SCOPE)
    set(vram_record_made "${made}" PARENT_SCOPE)
endfunction()

# vram_record_lines(<result>): the files that were installed, and the folders that are ours: those that were made, and
# all below include/vram, lib/cmake/vram and the like.
function(vram_record_lines result)
    set(lines ${CMAKE_INSTALL_MANIFEST_FILES})
    list(TRANSFORM vram_record_made APPEND "/" OUTPUT_VARIABLE made)
    list(APPEND lines ${made})
    foreach(folder IN LISTS vram_record_folders)
        get_filename_component(folder "${folder}" ABSOLUTE BASE_DIR "${CMAKE_INSTALL_PREFIX}/")
        foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
            get_filename_component(above "${file}" DIRECTORY)
            string(FIND "${above}" "${folder}/" at)
            while(at EQUAL 0 AND NOT above STREQUAL folder)
                list(APPEND lines "${above}/")
                get_filename_component(above "${above}" DIRECTORY)
            endwhile()
        endforeach()
    endforeach()
    string(LENGTH "${CMAKE_INSTALL_PREFIX}/" length)
    set(relative "")
    foreach(line IN LISTS lines)
        string(FIND "${line}" "${CMAKE_INSTALL_PREFIX}/" at)
        if(at EQUAL 0 AND NOT line STREQUAL "${CMAKE_INSTALL_PREFIX}/")
            string(SUBSTRING "${line}" ${length} -1 line)
        endif()
        list(APPEND relative "${line}")
    endforeach()
    set(${result} "${relative}" PARENT_SCOPE)
endfunction()

# vram_record_end(): adds what was installed to the record. A macro: CMake's own list of files is the caller's.
macro(vram_record_end)
    vram_record_lines(vram_lines)
    set(vram_record "${CMAKE_INSTALL_PREFIX}/${vram_record_folder}/installed.txt")
    if(EXISTS "$ENV{DESTDIR}${vram_record}")
        file(STRINGS "$ENV{DESTDIR}${vram_record}" vram_earlier)
        list(APPEND vram_lines ${vram_earlier})
    endif()
    list(APPEND vram_lines ${vram_record_folder}/installed.txt)
    list(SORT vram_lines)
    list(REMOVE_DUPLICATES vram_lines)
    list(JOIN vram_lines "\n" vram_lines)
    message(STATUS "Installing: $ENV{DESTDIR}${vram_record}")
    file(WRITE "$ENV{DESTDIR}${vram_record}" "${vram_lines}\n")
    file(CHMOD "$ENV{DESTDIR}${vram_record}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${vram_record}")
endmacro()
