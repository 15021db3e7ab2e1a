/* What we use of the driver's and of NVML's interface, in our own words: names and layouts are theirs, and only what the hooks read is spelled out. */
#ifndef CUDA_ABI_H
#define CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int Result; /* 0 is success, in both */
enum {
    CUDA_INVALID_VALUE = 1, CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_INITIALIZED = 3, CUDA_NOT_FOUND = 500, CUDA_NOT_SUPPORTED = 801,
    CUDA_MPS_CONNECTION_FAILED = 805, NVML_UNINITIALIZED = 1, NVML_FUNCTION_NOT_FOUND = 13,
};

typedef int Device;                  /* its number in this process's visible order */
typedef unsigned long long Pointer;  /* of device memory */
typedef unsigned Pointer32;          /* as before CUDA 3.2; the functions without _v2 still take it */
typedef unsigned long long Handle;   /* of physical memory */
typedef void *Context, *Stream, *Pool, *Array, *Graph, *Node, *Exec, *NvmlDevice;

enum { ON_DEVICE = 1, ON_DEVICE_DOMAIN = 6 }; /* kinds of location; all others are the host's */
typedef struct {
    int kind, id; /* of a domain, the lowest byte of id is the device */
} Location;

enum { TYPE_MANAGED = 2 };
typedef struct {
    int type, handle_types;
    Location location;
    /* more, not ours to read */
} AllocationProperties;

typedef struct {
    int type, handle_types;
    Location location;
    void *security;
    size_t most_bytes;
    unsigned char reserved[56];
} PoolProperties;

enum { POOL_RESERVED_NOW = 5, POOL_USED_NOW = 7, GRAPH_RESERVED_NOW = 2 }; /* attributes; all of 64 bits */

typedef struct {
    size_t width, height;
    int format;
    unsigned channels;
} ArrayShape;
typedef struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
} Array3dShape;
typedef struct {
    unsigned width, height;
    int format;
    unsigned channels;
} ArrayShape32;
typedef struct {
    unsigned width, height, depth;
    int format;
    unsigned channels, flags;
} Array3dShape32;
enum { ARRAY_SPARSE = 0x40, ARRAY_DEFERRED = 0x80 }; /* flags of arrays whose memory comes later, by handles */

enum { NODE_CHILD_GRAPH = 4, NODE_MEM_ALLOC = 10 };
typedef struct {
    PoolProperties pool;
    const void *access;
    size_t access_count, bytes;
    Pointer pointer;
} AllocNode;
typedef struct {
    int type, reserved[3];
    union {
        AllocNode alloc;
        unsigned char room[232];
    };
    long long last;
} NodeParams;

/* One step of mapping handles into sparse arrays. */
enum { ARRAY_MAP = 1 };
typedef struct {
    int resource_kind;
    void *resource;
    int subresource_kind;
    union {
        unsigned level[8];
        struct {
            unsigned layer;
            unsigned long long offset, size;
        } tail;
    } subresource;
    int operation, handle_kind;
    Handle handle;
    unsigned long long offset;
    unsigned device_mask, flags, reserved[2];
} ArrayMapping;

enum { LIMIT_PRINTF_FIFO = 1, LIMIT_MALLOC_HEAP = 2 }; /* of cuCtxSetLimit */
enum { PER_THREAD_STREAM = 2 };                        /* a flag of cuGetProcAddress, and the greatest stream that is no pointer */
enum { VERSION_NOT_SUFFICIENT = 2 };                   /* how cuGetProcAddress_v2 says why there is none */

typedef struct {
    unsigned long long total, free, used;
} NvmlMemory;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} NvmlMemory2;

#endif
