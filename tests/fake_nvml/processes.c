/* Who is on a device, and how much of it they use. On a GPU cut by MIG: all of its instances' processes. */
#include "fake_nvml.h"

#include <stdlib.h>

typedef unsigned long long Big;
typedef struct { unsigned pid; Big memory; } RowV1;
typedef struct { unsigned pid; Big memory; unsigned gi, ci; } Row; /* _v2 and _v3 */
typedef struct { unsigned pid; Big memory; unsigned gi, ci; Big protected_memory; } Detail;
typedef struct { unsigned version, mode, count; Detail *details; } DetailList;
typedef struct { unsigned pid; Big timestamp_us; unsigned sm, mem, encoder, decoder; } Sample;
typedef struct { Big timestamp_us; unsigned pid, sm, mem, encoder, decoder, jpeg, ofa; } SampleV1;
typedef struct { unsigned version, count; Big newer_than_us; SampleV1 *samples; } SampleList;

enum { DRIVERS_SAMPLES = 100 }; /* the driver asks for room for so many, whoever runs */
#define MEMORY_NOT_KNOWN (~0ull)

/* Calls `take` for each process on the device, with the ids of its instance. */
typedef void Take(void *into, const Process *process, unsigned gi, unsigned ci);

static void each_process(const Call *call, Take *take, void *into)
{
    const Gpu *gpu = call->gpu;
    int hides = !call->instance && gpu->hides_instances;
    for (size_t i = 0; !call->instance && i < gpu->process_count; i++)
        take(into, &gpu->processes[i], NO_INSTANCE, NO_INSTANCE);
    for (const Instance *instance = gpu->instances; gpu->mig && instance < gpu->instances + gpu->instance_count; instance++)
        for (size_t i = 0; (!call->instance || call->instance == instance) && i < instance->process_count; i++)
            take(into, &instance->processes[i], hides ? NO_INSTANCE : (unsigned)instance->gi, hides ? NO_INSTANCE : (unsigned)instance->ci);
}

typedef enum { ROW_V1, ROW, DETAIL } Layout;
typedef struct { char kind; Layout layout; void *rows; unsigned room, count; } Listing; /* kind 0: every kind */

static void list_process(void *into, const Process *process, unsigned gi, unsigned ci)
{
    Listing *listing = into;
    if (listing->kind && listing->kind != process->kind)
        return;
    unsigned at = listing->count++;
    if (at >= listing->room)
        return;
    unsigned pid = (unsigned)process->pid;
    Big memory = process->memory_mib == NOT_KNOWN ? MEMORY_NOT_KNOWN : (Big)process->memory_mib * MIB;
    if (listing->layout == ROW_V1)
        ((RowV1 *)listing->rows)[at] = (RowV1){ pid, memory };
    else if (listing->layout == ROW)
        ((Row *)listing->rows)[at] = (Row){ pid, memory, gi, ci };
    else
        ((Detail *)listing->rows)[at] = (Detail){ pid, memory, gi, ci, 0 };
}

/* Too little room: nothing but how much is needed. None there: success, whatever the room. */
static int list_processes(const Call *call, char kind, Layout layout, void *rows, unsigned *count)
{
    NEED(count);
    Listing needed = { .kind = kind };
    each_process(call, list_process, &needed);
    if (rows == NULL && *count != 0 && needed.count != 0)
        return INVALID_ARGUMENT;
    unsigned room = *count;
    *count = needed.count;
    if (room < needed.count)
        return INSUFFICIENT_SIZE;
    Listing listing = { .kind = kind, .layout = layout, .rows = rows, .room = room };
    each_process(call, list_process, &listing);
    return SUCCESS;
}

#define PROCESSES(function, kind, layout) \
    EXPORT int function(Handle *handle, unsigned *count, void *rows) { CALL_ON(handle, ANY); return list_processes(&call, kind, layout, rows, count); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, 'c', ROW_V1)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 'c', ROW)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 'c', ROW)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, 'g', ROW_V1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 'g', ROW)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 'g', ROW)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, 'm', ROW_V1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'm', ROW)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'm', ROW)

EXPORT int nvmlDeviceGetRunningProcessDetailList(Handle *handle, DetailList *list)
{
    CALL_ON(handle, ANY);
    NEED(list);
    NEED_VERSION(list->version, DetailList, 1);
    if (list->mode > 3)
        return INVALID_ARGUMENT;
    return list_processes(&call, "cgm\0"[list->mode], DETAIL, list->details, &list->count);
}

typedef struct { Big newer_than_us, now_us; Sample *samples; unsigned room, count; } Sampling;

static void sample_process(void *into, const Process *process, unsigned gi, unsigned ci)
{
    (void)gi, (void)ci;
    Sampling *sampling = into;
    if ((process->sm == NOT_KNOWN && process->mem == NOT_KNOWN) || sampling->now_us <= sampling->newer_than_us)
        return;
    unsigned at = sampling->count++;
    if (at < sampling->room)
        sampling->samples[at] = (Sample){
            .pid = (unsigned)process->pid,
            .timestamp_us = sampling->now_us,
            .sm = process->sm == NOT_KNOWN ? 0 : (unsigned)process->sm,
            .mem = process->mem == NOT_KNOWN ? 0 : (unsigned)process->mem,
        };
}

/* Asked without room, the driver says how much it likes, not how many there are: that is told by the next call. */
static int sample_processes(const Call *call, Sample *samples, unsigned *count, Big newer_than_us)
{
    Sampling sampling = { newer_than_us, now_us(), samples, samples ? *count : 0, 0 };
    each_process(call, sample_process, &sampling);
    int has_room = samples && *count > 0;
    if (has_room && sampling.count == 0)
        return NOT_FOUND;
    if (!has_room || sampling.count > *count) {
        *count = sampling.count > DRIVERS_SAMPLES ? sampling.count : DRIVERS_SAMPLES;
        return INSUFFICIENT_SIZE;
    }
    *count = sampling.count;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetProcessUtilization(Handle *handle, Sample *samples, unsigned *count, Big newer_than_us)
{
    NEED(count);
    CALL_ON(handle, samples && *count > 0 ? NOT_CUT : ANY); /* how much room it likes is told of any device, also where it has no samples */
    return sample_processes(&call, samples, count, newer_than_us);
}

EXPORT int nvmlDeviceGetProcessesUtilizationInfo(Handle *handle, SampleList *list)
{
    CALL_ON(handle, NOT_CUT);
    NEED(list);
    NEED_VERSION(list->version, SampleList, 1);
    Sample *samples = list->samples && list->count ? calloc(list->count, sizeof *samples) : NULL;
    int code = sample_processes(&call, samples, &list->count, list->newer_than_us);
    for (unsigned i = 0; code == SUCCESS && i < list->count; i++) {
        const Sample *sample = &samples[i];
        list->samples[i] = (SampleV1){ .timestamp_us = sample->timestamp_us, .pid = sample->pid, .sm = sample->sm, .mem = sample->mem };
    }
    free(samples);
    return code;
}
