/* GPM: two samples, and what happened between them. The script says the values; the newer sample's are told. */
#include "fake_nvml.h"

#include <stdlib.h>
#include <string.h>

enum { GPM_VERSION = 1, MOST_METRICS = 333, KEPT_METRICS = 64 };

typedef struct { unsigned metric; int code; double value; const char *short_name, *long_name, *unit; } Told;
typedef struct Sample {
    char uuid[NAME_BYTES];
    unsigned gi;
    unsigned long long taken_us; /* 0: not yet */
    size_t count;
    Metric metrics[KEPT_METRICS];
} Sample;
typedef struct { unsigned version, count; Sample *first, *second; Told told[]; } Query;
typedef struct { unsigned version, is_supported; } Support;

static int supports_gpm(const Gpu *gpu)
{
    int found = gpu->has_gpm != 0;
    for (size_t i = 0; i < gpu->instance_count; i++)
        found |= gpu->instances[i].has_gpm != 0;
    return found;
}

EXPORT int nvmlGpmQueryDeviceSupport(Handle *handle, Support *found)
{
    CALL_ON(handle, ANY);
    NEED(found);
    if (found->version != GPM_VERSION)
        return VERSION_MISMATCH;
    found->is_supported = (unsigned)supports_gpm(gpu);
    return SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(Sample **found)
{
    CALL();
    NEED(found);
    *found = calloc(1, sizeof **found);
    return *found ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int nvmlGpmSampleFree(Sample *sample)
{
    CALL();
    NEED(sample);
    free(sample);
    return SUCCESS;
}

static int take(Sample *sample, const Gpu *gpu, unsigned gi, const Metric *metrics, size_t count)
{
    *sample = (Sample){ .gi = gi, .taken_us = now_us(), .count = count < KEPT_METRICS ? count : KEPT_METRICS };
    memcpy(sample->uuid, gpu->uuid, sizeof sample->uuid);
    if (count)
        memcpy(sample->metrics, metrics, sample->count * sizeof *metrics);
    return SUCCESS;
}

static int take_instance(Sample *sample, Gpu *gpu, unsigned gi)
{
    if (!supports_gpm(gpu))
        return NOT_SUPPORTED;
    const Instance *instance = gpu_instance(gpu, gi);
    if (instance == NULL)
        return INVALID_ARGUMENT;
    return instance->has_gpm ? take(sample, gpu, gi, instance->metrics, instance->metric_count) : NOT_SUPPORTED;
}

EXPORT int nvmlGpmSampleGet(Handle *handle, Sample *sample)
{
    CALL_ON(handle, ANY);
    NEED(sample);
    if (call.instance)
        return take_instance(sample, gpu, (unsigned)call.instance->gi);
    return gpu->has_gpm ? take(sample, gpu, NO_INSTANCE, gpu->metrics, gpu->metric_count) : NOT_SUPPORTED;
}

EXPORT int nvmlGpmMigSampleGet(Handle *handle, unsigned gi, Sample *sample)
{
    CALL_ON(handle, WHOLE);
    NEED(sample);
    return take_instance(sample, gpu, gi);
}

static void tell(const Sample *sample, Told *told)
{
    told->code = NOT_SUPPORTED;
    told->value = 0;
    told->short_name = told->long_name = "metric";
    told->unit = "";
    for (const Metric *metric = sample->metrics; metric < sample->metrics + sample->count; metric++)
        if (metric->id == told->metric) {
            told->code = SUCCESS;
            told->value = metric->value;
        }
}

EXPORT int nvmlGpmMetricsGet(Query *query)
{
    CALL();
    NEED(query);
    if (query->version != GPM_VERSION)
        return VERSION_MISMATCH;
    const Sample *first = query->first, *second = query->second;
    if (!first || !second || query->count == 0 || query->count > MOST_METRICS)
        return INVALID_ARGUMENT;
    if (!first->taken_us || !second->taken_us || first->gi != second->gi || strcmp(first->uuid, second->uuid) != 0)
        return INVALID_ARGUMENT;
    for (Told *told = query->told; told < query->told + query->count; told++)
        tell(second, told);
    return SUCCESS;
}
