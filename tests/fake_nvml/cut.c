/* Cutting a GPU by MIG: MIG mode, places of profiles, instances that are made and destroyed. What was cut is kept beside the script, so
 * that every process that reads the same script sees it, and another starts from it after a kill. */
#include "fake_nvml.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned id, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa; } ComputeProfile;
typedef struct { unsigned version, id, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa; char name[96]; } ComputeProfileV2;
enum { NO_SLOT = -1, COMPUTE_KINDS = 9, MULTIPROCESSORS_A_SLICE = 14 };
static const unsigned COMPUTE_SLICES[COMPUTE_KINDS] = { 1, 2, 3, 4, 7, 8, 6, 1, 7 };

static void write_instance(FILE *file, const Instance *one)
{
    fprintf(file, "instance\nuuid %s\nprofile %s\ngi %ld\nci %ld\nslot %ld\nstart %ld\nsize %ld\nmemory_mib %ld\n",
        one->uuid, one->profile, one->gi, one->ci, one->slot, one->start, one->size, one->memory_mib);
}

/* All of it under another name, then renamed: a reader finds the old cut or the new one. */
static void keep_cut(const Machine *machine)
{
    char path[PATH_MAX], beside[PATH_MAX + 8];
    cut_path(path, sizeof path);
    snprintf(beside, sizeof beside, "%s.%d", path, getpid());
    FILE *file = fopen(beside, "we");
    if (file == NULL)
        abort();
    for (const Gpu *gpu = machine->gpus; gpu < machine->gpus + machine->gpu_count; gpu++) {
        fprintf(file, "gpu\nuuid %s\nmig %ld\npending %ld\n", gpu->uuid, gpu->mig, gpu->pending);
        for (size_t i = 0; i < gpu->instance_count; i++)
            write_instance(file, &gpu->instances[i]);
    }
    fclose(file);
    if (rename(beside, path) != 0)
        abort();
}

static int instances_on(const Gpu *gpu, unsigned gi)
{
    int found = 0;
    for (size_t i = 0; i < gpu->instance_count; i++)
        found += (unsigned)gpu->instances[i].gi == gi && gpu->instances[i].ci >= 0;
    return found;
}

static int is_busy(const Gpu *gpu)
{
    size_t found = gpu->process_count;
    for (size_t i = 0; i < gpu->instance_count; i++)
        found += gpu->instances[i].process_count;
    return found > 0;
}

/* On Ampere the mode is taken down, and changes with the next reset, which the fake never does. */
EXPORT int nvmlDeviceSetMigMode(Handle *handle, unsigned mode, int *activation)
{
    CALL_ON(handle, WHOLE);
    NEED(activation);
    if (mode > 1)
        return INVALID_ARGUMENT;
    if (!can_be_cut(gpu))
        return NOT_SUPPORTED;
    if (is_busy(gpu) || gpu->instance_count > 0)
        return IN_USE;
    *activation = SUCCESS;
    gpu->pending = mode;
    if (gpu->architecture == AMPERE && gpu->mig != mode)
        *activation = RESET_REQUIRED;
    else
        gpu->mig = mode;
    keep_cut(call.machine);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Handle *handle, unsigned id, Place *places, unsigned *count)
{
    CALL_ON(handle, WHOLE);
    NEED(count);
    const Profile *profile = profile_by(id, 1);
    if (!can_be_cut(gpu))
        return NOT_SUPPORTED;
    if (profile == NULL)
        return INVALID_ARGUMENT;
    unsigned room = *count;
    for (*count = 0; profile->starts[*count] >= 0; ++*count)
        if (places != NULL && *count < room)
            places[*count] = (Place){ (unsigned)profile->starts[*count], profile->eighths };
    return places == NULL || room >= *count ? SUCCESS : INSUFFICIENT_SIZE;
}

static int is_free(const Gpu *gpu, const Place *place)
{
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Instance *one = &gpu->instances[i];
        if (place->start < one->start + one->size && one->start < place->start + place->size)
            return 0;
    }
    return 1;
}

static int may_begin(const Profile *profile, const Place *place)
{
    for (const int *start = profile->starts; *start >= 0; start++)
        if ((unsigned)*start == place->start)
            return place->size == profile->eighths;
    return 0;
}

static int64_t first_unused(const Gpu *gpu, int wants_slot)
{
    for (int64_t number = wants_slot ? 0 : 1;; number++) {
        int taken = 0;
        for (size_t i = 0; i < gpu->instance_count; i++)
            taken |= (wants_slot ? gpu->instances[i].slot : gpu->instances[i].gi) == number;
        if (!taken)
            return number;
    }
}

EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(Handle *handle, unsigned id, const Place *place, Handle **found)
{
    CALL_ON(handle, WHOLE);
    NEED(place);
    NEED(found);
    const Profile *profile = profile_by(id, 1);
    char refused[2 * WORD_BYTES];
    if (!gpu->mig)
        return NOT_SUPPORTED;
    if (profile == NULL || !may_begin(profile, place))
        return INVALID_ARGUMENT;
    Instance made = { .gi = first_unused(gpu, 0), .ci = -1, .slot = NO_SLOT, .start = place->start, .size = place->size };
    name_profile(gpu, profile, made.profile, sizeof made.profile);
    snprintf(refused, sizeof refused, "%s@%u", made.profile, place->start);
    if (!is_free(gpu, place) || !strcmp(gpu->refuses_cut, refused))
        return INSUFFICIENT_RESOURCES;
    made.memory_mib = gpu->memory_mib * profile->eighths / 8 - 256;
    gpu->instances = realloc(gpu->instances, (gpu->instance_count + 1) * sizeof made);
    if (gpu->instances == NULL)
        abort();
    gpu->instances[gpu->instance_count++] = made;
    keep_cut(call.machine);
    *found = handle_of(GPU_INSTANCE, gpu->uuid, (unsigned)made.gi, NO_INSTANCE);
    return SUCCESS;
}

static void remove_instance(Gpu *gpu, const Instance *gone)
{
    size_t at = (size_t)(gone - gpu->instances);
    memmove(&gpu->instances[at], &gpu->instances[at + 1], (gpu->instance_count - at - 1) * sizeof *gone);
    gpu->instance_count--;
}

EXPORT int nvmlGpuInstanceDestroy(Handle *handle)
{
    CALL_ON(handle, ONE_GPU_INSTANCE);
    if (instances_on(gpu, (unsigned)call.instance->gi) > 0)
        return IN_USE;
    remove_instance(gpu, call.instance);
    keep_cut(call.machine);
    return SUCCESS;
}

static int tell_compute_profile(const Instance *instance, unsigned kind, unsigned engine, ComputeProfileV2 *found)
{
    unsigned slices = 1;
    sscanf(instance->profile, "%u", &slices);
    if (kind >= COMPUTE_KINDS || engine > 0)
        return INVALID_ARGUMENT;
    if (COMPUTE_SLICES[kind] > slices || kind > 6)
        return NOT_SUPPORTED;
    *found = (ComputeProfileV2){ .version = found->version, .id = kind, .slices = COMPUTE_SLICES[kind], .instances = slices / COMPUTE_SLICES[kind],
        .multiprocessors = COMPUTE_SLICES[kind] * MULTIPROCESSORS_A_SLICE, .copy = 1 };
    snprintf(found->name, sizeof found->name, "MIG %uc.%s", COMPUTE_SLICES[kind], instance->profile);
    return SUCCESS;
}

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfoV(Handle *handle, unsigned kind, unsigned engine, ComputeProfileV2 *found)
{
    CALL_ON(handle, ONE_GPU_INSTANCE);
    NEED(found);
    NEED_VERSION(found->version, ComputeProfileV2, 2);
    return tell_compute_profile(call.instance, kind, engine, found);
}

EXPORT int nvmlGpuInstanceGetComputeInstances(Handle *handle, unsigned profile, Handle **found, unsigned *count)
{
    CALL_ON(handle, ONE_GPU_INSTANCE);
    NEED(found);
    NEED(count);
    *count = 0;
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Instance *one = &gpu->instances[i];
        unsigned slices = 0;
        sscanf(one->profile, "%u", &slices);
        if (one->gi == call.instance->gi && one->ci >= 0 && profile < COMPUTE_KINDS && COMPUTE_SLICES[profile] == slices)
            found[(*count)++] = handle_of(COMPUTE_INSTANCE, gpu->uuid, (unsigned)one->gi, (unsigned)one->ci);
    }
    return SUCCESS;
}

EXPORT int nvmlGpuInstanceCreateComputeInstance(Handle *handle, unsigned profile, Handle **found)
{
    CALL_ON(handle, ONE_GPU_INSTANCE);
    NEED(found);
    unsigned slices = 0;
    sscanf(call.instance->profile, "%u", &slices);
    if (profile >= COMPUTE_KINDS || COMPUTE_SLICES[profile] != slices)
        return INVALID_ARGUMENT; /* the real one takes smaller ones too; the product never asks */
    if (call.instance->ci >= 0)
        return INSUFFICIENT_RESOURCES;
    call.instance->ci = 0;
    call.instance->slot = first_unused(gpu, 1);
    snprintf(call.instance->uuid, sizeof call.instance->uuid, "MIG-%016llx-%ld", now_us(), call.instance->gi);
    keep_cut(call.machine);
    *found = handle_of(COMPUTE_INSTANCE, gpu->uuid, (unsigned)call.instance->gi, 0);
    return SUCCESS;
}

EXPORT int nvmlComputeInstanceDestroy(Handle *handle)
{
    CALL_ON(handle, ONE_COMPUTE_INSTANCE);
    Instance *one = call.instance;
    if (one->process_count > 0)
        return IN_USE;
    if (instances_on(gpu, (unsigned)one->gi) > 1) { /* others share its GPU instance, which lives on in them */
        remove_instance(gpu, one);
    } else {
        unsigned slices = 0;
        char whole[WORD_BYTES] = "", unit = 0;
        if (sscanf(one->profile, "%u%c.%63s", &slices, &unit, whole) == 3 && unit == 'c')
            snprintf(one->profile, sizeof one->profile, "%.63s", whole);
        one->ci = -1;
        one->slot = NO_SLOT;
        one->uuid[0] = '\0';
    }
    keep_cut(call.machine);
    return SUCCESS;
}
