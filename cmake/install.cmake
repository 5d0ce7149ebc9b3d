# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where. Everything found again by a consumer is relocatable: the
# package may be moved as a whole after it was installed.
include(CMakePackageConfigHelpers)

set(vram_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vram)

# vram_install_library(<name> <target>...): the libraries of one component, and vram<Name>Targets.cmake for them.
function(vram_install_library name)
    install(TARGETS ${ARGN} EXPORT ${name}Targets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT ${name}Targets NAMESPACE vram:: DESTINATION ${vram_package_dir})
endfunction()
vram_install_library(vram vram vram_static)
vram_install_library(vram-compute vram_compute vram_compute_static)
vram_install_library(vram-model vram_model vram_model_static)
install(DIRECTORY include/vram DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h" PATTERN "*.glsl" PATTERN "*.hpp")

configure_package_config_file(cmake/vramConfig.cmake.in ${PROJECT_BINARY_DIR}/vramConfig.cmake
                              INSTALL_DESTINATION ${vram_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vramConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vramConfig.cmake ${PROJECT_BINARY_DIR}/vramConfigVersion.cmake
        DESTINATION ${vram_package_dir})

# A pkg-config file finds its prefix from where it lies, unless a folder was given as absolute.
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
foreach(name libvram libvram-compute libvram-model)
    configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

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
