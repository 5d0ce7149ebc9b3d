# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where. Everything found again by a consumer is relocatable: the
# package may be moved as a whole after it was installed.
include(CMakePackageConfigHelpers)

set(vram_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vram)

install(TARGETS vram vram_static EXPORT vramTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/vram DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h" PATTERN "*.glsl" PATTERN "*.hpp")

install(EXPORT vramTargets NAMESPACE vram:: DESTINATION ${vram_package_dir})
configure_package_config_file(cmake/vramConfig.cmake.in ${PROJECT_BINARY_DIR}/vramConfig.cmake
                              INSTALL_DESTINATION ${vram_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vramConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vramConfig.cmake ${PROJECT_BINARY_DIR}/vramConfigVersion.cmake
        DESTINATION ${vram_package_dir})

# The pkg-config file finds its prefix from where it lies, unless a folder was given as absolute.
set(vram_pc_prefix "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    file(RELATIVE_PATH up "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(vram_pc_prefix "\${pcfiledir}/${up}")
endif()
foreach(dir INCLUDEDIR LIBDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
        set(vram_pc_${dir} "${CMAKE_INSTALL_${dir}}")
    else()
        set(vram_pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
    endif()
endforeach()
configure_file(cmake/libvram.pc.in ${PROJECT_BINARY_DIR}/libvram.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libvram.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The same folders as in the sources, so that the links of the pages hold.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md"
        PATTERN "*.json" PATTERN "*.svg")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.c"
        PATTERN expected EXCLUDE)

if(VRAM_BUILD_COMMAND)
    install(TARGETS vram_command DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES man/vram.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES completions/vram.bash RENAME vram
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES completions/vram.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    install(FILES completions/_vram DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
