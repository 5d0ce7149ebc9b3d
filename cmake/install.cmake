# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where. Everything found again by a consumer is relocatable: the
# package may be moved as a whole after it was installed.
#
# Components, of which cmake/package.cmake makes a package each: vram, compute, model, ucx (a shared library each),
# command, python (in Debian packages alone), and development for everything else. Without --component all are installed.
include(CMakePackageConfigHelpers)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(vram_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vram)
set(vram_completion_dirs ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
set(vram_manual man/vram.1)
if(VRAM_DEB) # where Debian's zsh looks, and what its policy asks of manual pages
    list(TRANSFORM vram_completion_dirs REPLACE "site-functions$" "vendor-completions")
    set(vram_manual ${PROJECT_BINARY_DIR}/vram.1.gz)
    execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/man/vram.1 OUTPUT_FILE ${vram_manual}
                    COMMAND_ERROR_IS_FATAL ANY)
endif()

# What was installed is recorded in the prefix, for tools/uninstall. A package manager keeps records of its own.
set(vram_record ${PROJECT_SOURCE_DIR}/cmake/install_record.cmake)
set(vram_keeps_record OFF)
if(PROJECT_IS_TOP_LEVEL AND NOT VRAM_DEB)
    set(vram_keeps_record ON)
    set(folders ${vram_package_dir} ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_INCLUDEDIR}/vram
        ${CMAKE_INSTALL_LIBDIR}/vram/vulkan ${CMAKE_INSTALL_LIBDIR}/vram
        ${CMAKE_INSTALL_DATADIR}/vram ${CMAKE_INSTALL_DOCDIR} ${CMAKE_INSTALL_BINDIR}
        ${CMAKE_INSTALL_MANDIR}/man1 ${vram_completion_dirs})
    install(CODE "include(\"${vram_record}\")\nvram_record_begin(\"${folders}\")" ALL_COMPONENTS)
endif()

# vram_install_library(<component> <name> <target>...): lib<name>, and <name>Targets.cmake for it.
function(vram_install_library component name)
    install(TARGETS ${ARGN} EXPORT ${name}Targets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                    COMPONENT ${component} NAMELINK_COMPONENT development
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT ${name}Targets NAMESPACE vram:: DESTINATION ${vram_package_dir})
endfunction()
vram_install_library(vram vram vram vram_static)
vram_install_library(compute vram-compute vram_compute vram_compute_static)
vram_install_library(model vram-model vram_model vram_model_static)
if(VRAM_UCX_FOUND)
    vram_install_library(ucx vram-ucx vram_ucx vram_ucx_static)
endif()
install(DIRECTORY include/vram DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h" PATTERN "*.glsl" PATTERN "*.hpp")

configure_package_config_file(cmake/vramConfig.cmake.in ${PROJECT_BINARY_DIR}/vramConfig.cmake
                              INSTALL_DESTINATION ${vram_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vramConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vramConfig.cmake ${PROJECT_BINARY_DIR}/vramConfigVersion.cmake
        DESTINATION ${vram_package_dir})

# A pkg-config file finds its prefix from where it lies, unless a folder was given as absolute. A package is not moved:
# with its prefix written out, pkg-config knows the system's own folders and can put a sysroot in front of them.
set(vram_pc_prefix "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT VRAM_DEB)
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
set(vram_pc_files libvram libvram-compute libvram-model)
if(VRAM_UCX_FOUND)
    list(APPEND vram_pc_files libvram-ucx)
endif()
foreach(name IN LISTS vram_pc_files)
    configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
# `pkg-config vram` too: by the name that CMake's package and the headers have.
file(WRITE ${PROJECT_BINARY_DIR}/vram.pc
     "Name: vram\nDescription: libvram by its other name\nVersion: ${vram_version_text}\nRequires: libvram\n")
install(FILES ${PROJECT_BINARY_DIR}/vram.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The same folders as in the sources, so that the links of the pages hold.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md"
        PATTERN "*.json" PATTERN "*.png" PATTERN "*.svg")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.c" PATTERN "*.h"
        PATTERN "*.comp" PATTERN "*.cu" PATTERN "*.hip" PATTERN "*.md" PATTERN "*.py" PATTERN expected EXCLUDE)
get_filename_component(pages "${CMAKE_INSTALL_DOCDIR}" ABSOLUTE BASE_DIR "/relative")
string(REGEX REPLACE "^/relative/" "\${CMAKE_INSTALL_PREFIX}/" pages "${pages}")
install(CODE "include(\"${PROJECT_SOURCE_DIR}/cmake/installed_pages.cmake\")
vram_pages_unlink(\"\$ENV{DESTDIR}${pages}\")")

# For the operators of Prometheus and Grafana (docs/monitoring.md).
install(DIRECTORY contrib/prometheus contrib/grafana DESTINATION ${CMAKE_INSTALL_DATADIR}/vram COMPONENT command)

# The crate, as source: a path for Cargo.toml (docs/rust.md).
install(DIRECTORY bindings/rust/src bindings/rust/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/vram/rust
        FILES_MATCHING PATTERN "*.rs")
install(FILES bindings/rust/Cargo.toml bindings/rust/Cargo.lock bindings/rust/build.rs bindings/rust/README.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/vram/rust)

if(VRAM_BUILD_COMMAND)
    list(GET vram_completion_dirs 0 bash)
    list(GET vram_completion_dirs 1 fish)
    list(GET vram_completion_dirs 2 zsh)
    install(TARGETS vram_command DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
    install(FILES ${vram_manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
    install(FILES completions/vram.bash RENAME vram DESTINATION ${bash} COMPONENT command)
    install(FILES completions/vram.fish DESTINATION ${fish} COMPONENT command)
    install(FILES completions/_vram DESTINATION ${zsh} COMPONENT command)
endif()

# vram run looks there for its library; the manifest names it relative to itself.
if(VRAM_BUILD_COMMAND AND TARGET vram_run)
    install(TARGETS vram_run LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/vram COMPONENT command)
    install(FILES interpose/VkLayer_vram_run.json DESTINATION ${CMAKE_INSTALL_LIBDIR}/vram/vulkan
            COMPONENT command)
endif()

# Debian's Python looks there. Elsewhere the package comes as a wheel, with a library of its own: docs/python.md.
if(VRAM_DEB)
    install(DIRECTORY bindings/python/vram DESTINATION lib/python3/dist-packages COMPONENT python
            PATTERN __pycache__ EXCLUDE PATTERN native EXCLUDE)
    install(FILES bindings/python/vram_autoload.py DESTINATION lib/python3/dist-packages COMPONENT python)
    install(DIRECTORY bindings/python/vram.egg-info DESTINATION lib/python3/dist-packages COMPONENT python)
    install(TARGETS vram_cupy LIBRARY DESTINATION lib/python3/dist-packages/vram/native COMPONENT python)
endif()

if(vram_keeps_record)
    install(CODE "vram_record_end()" ALL_COMPONENTS)
endif()
