/* Limits of a GPU's memory for a cgroup, as drivers from r615 on have them: kept in a file beside the script. A machine whose driver is
 * older answers that there is no such function. */
#include "fake_nvml.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *cgroup; unsigned long long soft, hard; } SetLimits;
typedef struct { const char *cgroup; unsigned long long soft, hard, used; } GotLimits;
enum { FIRST_DRIVER = 615 };
#define NO_LIMIT 0xFFFFFFFFFFFFFFFFull

static void name_file(const Gpu *gpu, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s.memory_limits.%s", getenv("FAIRY_FAKE_NVML"), gpu->uuid);
}

static int has_limits(const Machine *machine)
{
    return atoi(machine->driver) >= FIRST_DRIVER;
}

EXPORT int nvmlDeviceSetMemoryLimits_v1(Handle *handle, const SetLimits *limits)
{
    CALL_ON(handle, WHOLE);
    if (!has_limits(call.machine))
        return FUNCTION_NOT_FOUND;
    NEED(limits);
    if (limits->cgroup == NULL || strncmp(limits->cgroup, "/sys/fs/cgroup/", 15) != 0 || limits->soft > limits->hard)
        return INVALID_ARGUMENT;
    char path[PATH_MAX];
    name_file(gpu, path, sizeof path);
    FILE *file = fopen(path, "ae");
    if (file == NULL)
        abort();
    fprintf(file, "%s %llu %llu\n", limits->cgroup, limits->soft, limits->hard);
    fclose(file);
    return SUCCESS;
}

/* The last one counts. */
EXPORT int nvmlDeviceGetMemoryLimits_v1(Handle *handle, GotLimits *limits)
{
    CALL_ON(handle, WHOLE);
    if (!has_limits(call.machine))
        return FUNCTION_NOT_FOUND;
    NEED(limits);
    limits->soft = limits->used = 0;
    limits->hard = NO_LIMIT;
    char path[PATH_MAX], cgroup[PATH_MAX];
    unsigned long long soft, hard;
    name_file(gpu, path, sizeof path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return SUCCESS;
    while (fscanf(file, "%4095s %llu %llu", cgroup, &soft, &hard) == 3)
        if (strcmp(cgroup, limits->cgroup) == 0) {
            limits->soft = soft;
            limits->hard = hard;
        }
    fclose(file);
    return SUCCESS;
}
