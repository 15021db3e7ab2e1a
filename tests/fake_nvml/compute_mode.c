/* The compute mode of a GPU, kept in a file beside the script: as the driver's, it outlives whoever set it. */
#include "fake_nvml.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_MODE = 0, EXCLUSIVE_THREAD = 1, LAST_MODE = 3 };

static void name_file(const Gpu *gpu, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s.compute_mode.%s", getenv("FAIRY_FAKE_NVML"), gpu->uuid);
}

EXPORT int nvmlDeviceGetComputeMode(Handle *handle, unsigned *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    char path[PATH_MAX];
    name_file(gpu, path, sizeof path);
    *found = DEFAULT_MODE;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return SUCCESS;
    if (fscanf(file, "%u", found) != 1)
        *found = DEFAULT_MODE;
    fclose(file);
    return SUCCESS;
}

EXPORT int nvmlDeviceSetComputeMode(Handle *handle, unsigned mode)
{
    CALL_ON(handle, WHOLE);
    if (mode > LAST_MODE)
        return INVALID_ARGUMENT;
    if (mode == EXCLUSIVE_THREAD || gpu->mig)
        return NOT_SUPPORTED;
    char path[PATH_MAX];
    name_file(gpu, path, sizeof path);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        abort();
    fprintf(file, "%u\n", mode);
    fclose(file);
    return SUCCESS;
}
