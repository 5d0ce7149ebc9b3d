# SPDX-License-Identifier: Apache-2.0
#
# Debian packages of the components of install.cmake, for cpack -G DEB. tools/deb configures a build for it and calls
# cpack; package_depends.cmake is what cpack reads first.

string(JOIN "~" vram_deb_version ${PROJECT_VERSION} ${vram_version_pre}) # 0.1.0~rc1 is older than 0.1.0
set(vram_deb_soversion ${PROJECT_VERSION_MAJOR})
set(vram_deb_libraries vram compute model) # components with a shared library
set(vram_deb_ucx libvram-ucx${vram_deb_soversion})
if(VRAM_UCX_FOUND)
    list(APPEND vram_deb_libraries ucx)
endif()
set(vram_deb_vram libvram${vram_deb_soversion})
set(vram_deb_compute libvram-compute${vram_deb_soversion})
set(vram_deb_model libvram-model${vram_deb_soversion})
set(vram_deb_development libvram-dev)
set(vram_deb_command vram)
set(vram_deb_python python3-vram)

set(vram_deb_about
"libvram is a GPU memory manager: pools that serve an allocation without a
driver call, on CUDA, OpenCL, Vulkan, HIP, Metal, host memory and simulated
GPUs. Drivers are loaded at run time; none is needed to install it.")

# vram_deb(<component> <section> <multi-arch> <summary> <text>): the package of a component.
function(vram_deb component section multiarch summary text)
    set(package ${vram_deb_${component}})
    string(TOUPPER ${component} name)
    set(prefix CPACK_DEBIAN_${name}_)
    set(${prefix}PACKAGE_NAME ${package} PARENT_SCOPE)
    set(${prefix}FILE_NAME DEB-DEFAULT PARENT_SCOPE)
    set(${prefix}PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(${prefix}PACKAGE_MULTIARCH ${multiarch} PARENT_SCOPE) # heeded by CMake 3.31 and newer
    set(${prefix}DESCRIPTION "GPU memory manager, ${summary}\n${vram_deb_about}\n\n${text}" PARENT_SCOPE)
    install(FILES cmake/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
    if(component IN_LIST vram_deb_libraries)
        # What other packages must depend on when they use the library, and that the linker's cache is renewed.
        string(REGEX REPLACE "[0-9]+$" "" library ${package})
        set(control ${PROJECT_BINARY_DIR}/debian/${component})
        file(WRITE ${control}/shlibs "${library} ${vram_deb_soversion} ${package} (>= ${vram_deb_version})\n")
        file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
        set(${prefix}PACKAGE_CONTROL_EXTRA "${control}/shlibs;${control}/triggers" PARENT_SCOPE)
    endif()
endfunction()

vram_deb(vram libs same "shared library"
"This package holds the shared library libvram.")
vram_deb(compute libs same "matrix products and distances"
"This package holds libvram-compute: matrix products, distances and label
caches on libvram.")
vram_deb(model libs same "memory estimates of models"
"This package holds libvram-model: how much memory a model takes, from its
GGUF, safetensors or config.json file.")
if(VRAM_UCX_FOUND)
    vram_deb(ucx libs same "memory of other processes and machines"
"This package holds libvram-ucx: copies to and from memory of other processes
and machines, on UCX, which is loaded at run time.")
endif()
vram_deb(development libdevel same "development files"
"This package holds the headers, the static libraries, the pkg-config files,
the CMake package, the documents and the examples.")
vram_deb(command utils foreign "command"
"This package holds the command vram: devices and what they can do,
conformance checks, benchmarks, replays of traces and memory estimates.")
vram_deb(python python same "Python package"
"This package holds the package vram for Python 3.9 and newer: pools, buffers,
transfers and reports, and adapters for CuPy, Numba and ONNX Runtime.")
configure_file(cmake/python_prerm ${PROJECT_BINARY_DIR}/debian/python/prerm COPYONLY)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/python/prerm)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libvram)
set(CPACK_PACKAGE_VERSION ${vram_deb_version})
set(CPACK_PACKAGE_VENDOR "the libvram project")
set(CPACK_PACKAGE_CONTACT "the libvram project")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL ${vram_deb_libraries} development command python)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
configure_file(cmake/package_depends.cmake.in ${PROJECT_BINARY_DIR}/package_depends.cmake @ONLY)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package_depends.cmake)
include(CPack)
