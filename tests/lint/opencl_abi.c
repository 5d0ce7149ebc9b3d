/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_abi.c: our declarations of OpenCL against Khronos's own, by the compiler.
 *
 * Compiling this file is the test; there is nothing to run. The build does so where it finds
 * CL/cl.h of OpenCL 3.0; elsewhere the test is skipped, with that reason.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#if __has_include(<CL/cl_layer.h>) /* older headers do not tell the order of a loader's table */
#include <CL/cl_layer.h>
#endif

#include "abi.h"
#include "backend/opencl/opencl_api.h"
#include "layer_opencl_abi.h"

/* ------------------------------------------------------------------- values */

#define CODE(NAME, value) SAME(VR_CL_##NAME, CL_##NAME);
VR_CL_CODES(CODE)

SAME(VR_CL_PLATFORM_VERSION, CL_PLATFORM_VERSION);
SAME(VR_CL_PLATFORM_NAME, CL_PLATFORM_NAME);
SAME(VR_CL_DEVICE_TYPE, CL_DEVICE_TYPE);
SAME(VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
SAME(VR_CL_DEVICE_MEM_BASE_ADDR_ALIGN, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
SAME(VR_CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_GLOBAL_MEM_SIZE);
SAME(VR_CL_DEVICE_AVAILABLE, CL_DEVICE_AVAILABLE);
SAME(VR_CL_DEVICE_COMPILER_AVAILABLE, CL_DEVICE_COMPILER_AVAILABLE);
SAME(VR_CL_DEVICE_NAME, CL_DEVICE_NAME);
SAME(VR_CL_DEVICE_VERSION, CL_DEVICE_VERSION);
SAME(VR_CL_DEVICE_EXTENSIONS, CL_DEVICE_EXTENSIONS);
SAME(VR_CL_DEVICE_SVM_CAPABILITIES, CL_DEVICE_SVM_CAPABILITIES);
SAME(VR_CL_DEVICE_UUID_KHR, CL_DEVICE_UUID_KHR);
SAME(VR_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV);
SAME(VR_CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV);
SAME(VR_CL_DEVICE_PCI_BUS_INFO_KHR, CL_DEVICE_PCI_BUS_INFO_KHR);
SAME(VR_CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_CPU);
SAME(VR_CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_ALL);
SAME(VR_CL_SVM_COARSE_GRAIN_BUFFER, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER);
SAME(VR_CL_SVM_FINE_GRAIN_BUFFER, CL_DEVICE_SVM_FINE_GRAIN_BUFFER);
SAME(VR_CL_MEM_READ_WRITE, CL_MEM_READ_WRITE);
SAME(VR_CL_MEM_ALLOC_HOST_PTR, CL_MEM_ALLOC_HOST_PTR);
SAME(VR_CL_MEM_SVM_FINE_GRAIN_BUFFER, CL_MEM_SVM_FINE_GRAIN_BUFFER);
SAME(VR_CL_MAP_READ, CL_MAP_READ);
SAME(VR_CL_MAP_WRITE, CL_MAP_WRITE);
SAME(VR_CL_MIGRATE_HOST, CL_MIGRATE_MEM_OBJECT_HOST);
SAME(VR_CL_BUFFER_CREATE_TYPE_REGION, CL_BUFFER_CREATE_TYPE_REGION);
SAME(VR_CL_CONTEXT_DEVICES, CL_CONTEXT_DEVICES);
SAME(VR_CL_QUEUE_CONTEXT, CL_QUEUE_CONTEXT);
SAME(VR_CL_QUEUE_DEVICE, CL_QUEUE_DEVICE);
SAME(VR_CL_QUEUE_PROPERTIES, CL_QUEUE_PROPERTIES);
SAME(VR_CL_QUEUE_OUT_OF_ORDER, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
SAME(VR_CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_KHR);
SAME(VR_CL_QUEUE_PRIORITY_HIGH_KHR, CL_QUEUE_PRIORITY_HIGH_KHR);
SAME(VR_CL_QUEUE_PRIORITY_LOW_KHR, CL_QUEUE_PRIORITY_LOW_KHR);
SAME(VR_CL_EVENT_COMMAND_EXECUTION_STATUS, CL_EVENT_COMMAND_EXECUTION_STATUS);
SAME(VR_CL_COMPLETE, CL_COMPLETE);
SAME(VR_CL_PROGRAM_BUILD_LOG, CL_PROGRAM_BUILD_LOG);
SAME(VR_CL_KERNEL_NUM_ARGS, CL_KERNEL_NUM_ARGS);
SAME(VR_CL_KERNEL_ARG_ADDRESS_QUALIFIER, CL_KERNEL_ARG_ADDRESS_QUALIFIER);
SAME(VR_CL_ARG_GLOBAL, CL_KERNEL_ARG_ADDRESS_GLOBAL);
SAME(VR_CL_ARG_LOCAL, CL_KERNEL_ARG_ADDRESS_LOCAL);
SAME(VR_CL_ARG_CONSTANT, CL_KERNEL_ARG_ADDRESS_CONSTANT);
SAME(VR_CL_ARG_PRIVATE, CL_KERNEL_ARG_ADDRESS_PRIVATE);

/* ------------------------------------------------------------------ layouts */

SAME(sizeof(struct vr_cl_region), sizeof(cl_buffer_region));
SAME(offsetof(struct vr_cl_region, size), offsetof(cl_buffer_region, size));
SAME(sizeof(struct vr_cl_pci), sizeof(cl_device_pci_bus_info_khr));
SAME(offsetof(struct vr_cl_pci, function), offsetof(cl_device_pci_bus_info_khr, pci_function));

/* ------------------------------------------------------ the layer of vram run */

#ifdef CL_LAYER_API_VERSION
#define PLACE(place, returns, name, parameters)                                                    \
    SAME(place, offsetof(struct _cl_icd_dispatch, name) / sizeof(void *));
LAYER_CL_FUNCTIONS(PLACE)
_Static_assert(sizeof(struct _cl_icd_dispatch) >= LAYER_CL_PLACES * sizeof(void *), "places");
SAME(LAYER_CL_API_VERSION, CL_LAYER_API_VERSION);
SAME(LAYER_CL_NAME, CL_LAYER_NAME);
SAME(LAYER_CL_API_VERSION_100, CL_LAYER_API_VERSION_100);
#endif
SAME(LAYER_CL_DEVICE_PARENT, CL_DEVICE_PARENT_DEVICE);
SAME(LAYER_CL_DEVICE_FREE_MEMORY_AMD, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD);
SAME(LAYER_CL_MEM_USE_HOST_PTR, CL_MEM_USE_HOST_PTR);
SAME(LAYER_CL_EXTERNAL_FIRST, CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR);
_Static_assert(LAYER_CL_EXTERNAL_LAST >= CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, "imports");
SAME(sizeof(struct layer_cl_image_desc), sizeof(cl_image_desc));
SAME(offsetof(struct layer_cl_image_desc, samples), offsetof(cl_image_desc, num_samples));
SAME(offsetof(struct layer_cl_image_desc, parent), offsetof(cl_image_desc, mem_object));

/* --------------------------------------------------------------- prototypes */

/* The list is expanded once more with Khronos's types in the place of ours: each row must then have
   the very type of the function that cl.h declares under that name. */
#define vr_cl_int      cl_int
#define vr_cl_uint     cl_uint
#define vr_cl_bits     cl_bitfield
#define vr_cl_props    cl_context_properties
#define vr_cl_platform _cl_platform_id
#define vr_cl_device   _cl_device_id
#define vr_cl_context  _cl_context
#define vr_cl_queue    _cl_command_queue
#define vr_cl_memory   _cl_mem
#define vr_cl_event    _cl_event
#define vr_cl_program  _cl_program
#define vr_cl_kernel   _cl_kernel
typedef void notify_fn(cl_event event, cl_int status, void *user);
typedef void built_fn(cl_program program, void *user);
#define vr_cl_notify_fn notify_fn
#define vr_cl_built_fn  built_fn

#define IS(name, type)                                _Static_assert(_Generic(&name, type : true, default : false), #name);
#define CALL(name, need, parameters, arguments)       IS(name, cl_int(*) parameters)
#define MAKE(name, need, type, parameters, arguments) IS(name, type *(*)parameters)
#define GIVE(name, need, parameters, arguments)       IS(name, void *(*)parameters)
#define TAKE(name, need, parameters, arguments)       IS(name, void(*) parameters)
VR_OPENCL_FUNCTIONS(CALL, MAKE, GIVE, TAKE)

#define layer_cl_image_desc   _cl_image_desc
#define layer_cl_image_format _cl_image_format
typedef void free_fn(cl_command_queue queue, cl_uint count, void **pointers, void *user);
#define layer_cl_free_fn                        free_fn
#define LAYER(place, returns, name, parameters) IS(name, returns(*) parameters)
LAYER_CL_FUNCTIONS(LAYER)
