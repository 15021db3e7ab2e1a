/* GPUs cut by MIG: devices in sparse slots, the GPU and compute instances below them, and the profiles they were cut by. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long Big;
typedef Place Placement;
typedef struct { Handle *device; unsigned id, profile; Placement placement; } GpuInstanceInfo;
typedef struct { Handle *device, *gpu_instance; unsigned id, profile; Placement placement; } ComputeInstanceInfo;
typedef struct { unsigned id, peer_to_peer, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa; Big memory_mib; } ProfileInfo;
typedef struct {
    unsigned version, id, peer_to_peer, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    Big memory_mib;
    char name[96];
} ProfileInfoV2;
typedef struct { unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices; Big memory_mib; } Attributes;

static const int ANYWHERE[] = { 0, 1, 2, 3, 4, 5, 6, -1 }, PAIRS[] = { 0, 2, 4, 6, -1 }, LOW_PAIRS[] = { 0, 2, 4, -1 }, HALVES[] = { 0, 4, -1 }, FIRST[] = { 0, -1 };
static const Profile PROFILES[] = {
    { 0, 19, 1, 1, 7, "", ANYWHERE }, { 1, 14, 2, 2, 3, "", LOW_PAIRS }, { 2, 9, 3, 4, 2, "", HALVES }, { 3, 5, 4, 4, 1, "", FIRST },
    { 4, 0, 7, 8, 1, "", FIRST }, { 7, 20, 1, 1, 1, "+me", ANYWHERE }, { 9, 15, 1, 2, 4, "", PAIRS },
};
enum { PROFILE_COUNT = sizeof PROFILES / sizeof *PROFILES, PROFILE_KINDS = 0x12, MULTIPROCESSORS_A_SLICE = 14 };

static unsigned memory_gb(const Gpu *gpu, unsigned eighths) { return (unsigned)((Big)gpu->memory_mib * eighths / 1024 + 7) / 8; }

static void cut_numbers(const Instance *instance, unsigned *compute_slices, unsigned *gpu_slices) /* "1g.5gb", "1c.3g.20gb" */
{
    char unit = 'g';
    *gpu_slices = 1;
    if (sscanf(instance->profile, "%u%c.%u", compute_slices, &unit, gpu_slices) < 1)
        *compute_slices = 1;
    if (unit != 'c')
        *gpu_slices = *compute_slices;
}

static const Profile *profile_of(const Instance *instance)
{
    unsigned compute_slices, slices;
    cut_numbers(instance, &compute_slices, &slices);
    int has_media = strstr(instance->profile, "+me") != NULL;
    for (const Profile *profile = PROFILES; profile < PROFILES + PROFILE_COUNT; profile++)
        if (profile->slices == slices && (profile->more[0] != '\0') == has_media && (slices != 1 || profile->eighths == (instance->size > 1 ? 2u : 1u)))
            return profile;
    return &PROFILES[0];
}

static void told_name(const Gpu *gpu, const Profile *profile, char *name, size_t bytes)
{
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (profile_of(&gpu->instances[i]) == profile && strchr(gpu->instances[i].profile, 'c') == NULL) {
            snprintf(name, bytes, "MIG %s", gpu->instances[i].profile);
            return;
        }
    snprintf(name, bytes, "MIG %ug.%ugb%s", profile->slices, memory_gb(gpu, profile->eighths), profile->more);
}

/* As an instance is called: 1g.5gb */
void name_profile(const Gpu *gpu, const Profile *profile, char *name, size_t bytes)
{
    char told[NAME_BYTES];
    told_name(gpu, profile, told, sizeof told);
    snprintf(name, bytes, "%s", told + strlen("MIG "));
}

Instance *gpu_instance(Gpu *gpu, unsigned gi)
{
    for (size_t i = 0; gpu->mig && i < gpu->instance_count; i++)
        if ((unsigned)gpu->instances[i].gi == gi)
            return &gpu->instances[i];
    return NULL;
}

EXPORT int nvmlDeviceGetMigMode(Handle *handle, unsigned *current, unsigned *pending)
{
    CALL_ON(handle, WHOLE);
    NEED(current);
    NEED(pending);
    *current = gpu->mig != 0;
    *pending = gpu->mig != 0 || gpu->pending > 0;
    return can_be_cut(gpu) ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(Handle *handle, unsigned *found)
{
    CALL_ON(handle, ANY);
    NEED(found);
    *found = call.instance != NULL;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(Handle *handle, unsigned *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    *found = gpu->mig ? MIG_SLOTS : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle *handle, unsigned slot, Handle **found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    for (size_t i = 0; gpu->mig && i < gpu->instance_count; i++)
        if (gpu->instances[i].ci >= 0 && (unsigned)gpu->instances[i].slot == slot) {
            *found = handle_of(MIG_DEVICE, gpu->instances[i].uuid, NO_INSTANCE, NO_INSTANCE);
            return SUCCESS;
        }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle *handle, Handle **found)
{
    CALL_ON(handle, CUT);
    NEED(found);
    *found = handle_of(GPU_DEVICE, gpu->uuid, NO_INSTANCE, NO_INSTANCE);
    return SUCCESS;
}

#define INSTANCE_ID(function, field) \
    EXPORT int function(Handle *handle, unsigned *found) { CALL_ON(handle, CUT); NEED(found); *found = (unsigned)call.instance->field; return SUCCESS; }
INSTANCE_ID(nvmlDeviceGetGpuInstanceId, gi)
INSTANCE_ID(nvmlDeviceGetComputeInstanceId, ci)

#define ATTRIBUTES(function) \
    EXPORT int function(Handle *handle, Attributes *found) \
    { \
        CALL_ON(handle, ANY); \
        NEED(found); \
        if (call.instance == NULL) \
            return NOT_SUPPORTED; \
        *found = (Attributes){ .copy = 1, .memory_mib = (Big)gpu_instance(gpu, (unsigned)call.instance->gi)->memory_mib }; \
        cut_numbers(call.instance, &found->compute_slices, &found->gpu_slices); \
        found->multiprocessors = found->compute_slices * MULTIPROCESSORS_A_SLICE; \
        return SUCCESS; \
    }
ATTRIBUTES(nvmlDeviceGetAttributes)
ATTRIBUTES(nvmlDeviceGetAttributes_v2)

EXPORT int nvmlDeviceGetGpuInstanceById(Handle *handle, unsigned gi, Handle **found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    if (gpu_instance(gpu, gi) == NULL)
        return NOT_FOUND;
    *found = handle_of(GPU_INSTANCE, gpu->uuid, gi, NO_INSTANCE);
    return SUCCESS;
}

/* The caller's room is as long as the profile allows instances, as NVML asks. */
EXPORT int nvmlDeviceGetGpuInstances(Handle *handle, unsigned profile, Handle **found, unsigned *count)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    NEED(count);
    if (!gpu->mig)
        return NOT_SUPPORTED;
    *count = 0;
    for (size_t i = 0; i < gpu->instance_count; i++) {
        Instance *instance = &gpu->instances[i];
        if (profile_of(instance)->id == profile && gpu_instance(gpu, (unsigned)instance->gi) == instance)
            found[(*count)++] = handle_of(GPU_INSTANCE, gpu->uuid, (unsigned)instance->gi, NO_INSTANCE);
    }
    return SUCCESS;
}

EXPORT int nvmlGpuInstanceGetInfo(Handle *handle, GpuInstanceInfo *found)
{
    CALL_ON(handle, ONE_GPU_INSTANCE);
    NEED(found);
    const Instance *instance = call.instance;
    *found = (GpuInstanceInfo){
        handle_of(GPU_DEVICE, gpu->uuid, NO_INSTANCE, NO_INSTANCE), (unsigned)instance->gi, profile_of(instance)->id,
        { (unsigned)instance->start, (unsigned)instance->size },
    };
    return SUCCESS;
}

EXPORT int nvmlGpuInstanceGetComputeInstanceById(Handle *handle, unsigned ci, Handle **found)
{
    CALL_ON(handle, ONE_GPU_INSTANCE);
    NEED(found);
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].gi == call.instance->gi && (unsigned)gpu->instances[i].ci == ci) {
            *found = handle_of(COMPUTE_INSTANCE, gpu->uuid, (unsigned)call.instance->gi, ci);
            return SUCCESS;
        }
    return NOT_FOUND;
}

EXPORT int nvmlComputeInstanceGetInfo_v2(Handle *handle, ComputeInstanceInfo *found)
{
    CALL_ON(handle, ONE_COMPUTE_INSTANCE);
    NEED(found);
    unsigned compute_slices, gpu_slices;
    cut_numbers(call.instance, &compute_slices, &gpu_slices);
    *found = (ComputeInstanceInfo){
        handle_of(GPU_DEVICE, gpu->uuid, NO_INSTANCE, NO_INSTANCE),
        handle_of(GPU_INSTANCE, gpu->uuid, (unsigned)call.instance->gi, NO_INSTANCE),
        (unsigned)call.instance->ci, compute_slices - 1, { 0, compute_slices },
    };
    return SUCCESS;
}

static int tell_profile(const Gpu *gpu, const Profile *profile, ProfileInfoV2 *found)
{
    if (!can_be_cut(gpu) || profile == NULL)
        return NOT_SUPPORTED;
    *found = (ProfileInfoV2){
        .version = found->version, .id = profile->id, .slices = profile->slices, .instances = profile->most,
        .multiprocessors = profile->slices * MULTIPROCESSORS_A_SLICE, .copy = 1, .memory_mib = (Big)gpu->memory_mib * profile->eighths / 8,
    };
    told_name(gpu, profile, found->name, sizeof found->name);
    return SUCCESS;
}

const Profile *profile_by(unsigned number, int is_id)
{
    for (const Profile *profile = PROFILES; profile < PROFILES + PROFILE_COUNT; profile++)
        if (number == (is_id ? profile->id : profile->kind))
            return profile;
    return NULL;
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(Handle *handle, unsigned kind, ProfileInfo *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    if (kind >= PROFILE_KINDS)
        return INVALID_ARGUMENT;
    ProfileInfoV2 seen = { 0 };
    int code = tell_profile(gpu, profile_by(kind, 0), &seen);
    if (code == SUCCESS)
        *found = (ProfileInfo){ .id = seen.id, .slices = seen.slices, .instances = seen.instances, .multiprocessors = seen.multiprocessors, .copy = seen.copy, .memory_mib = seen.memory_mib };
    return code;
}

#define PROFILE_INFO_V(function, is_id, most) \
    EXPORT int function(Handle *handle, unsigned number, ProfileInfoV2 *found) \
    { \
        CALL_ON(handle, WHOLE); \
        NEED(found); \
        NEED_VERSION(found->version, ProfileInfoV2, 2); \
        return number >= (most) ? INVALID_ARGUMENT : tell_profile(gpu, profile_by(number, is_id), found); \
    }
PROFILE_INFO_V(nvmlDeviceGetGpuInstanceProfileInfoV, 0, PROFILE_KINDS)
PROFILE_INFO_V(nvmlDeviceGetGpuInstanceProfileInfoByIdV, 1, NO_INSTANCE)
