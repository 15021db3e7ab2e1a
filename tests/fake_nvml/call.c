/* One call from outside: read the script again if it was replaced, hang or refuse where it says so, find the device meant. */
#include "fake_nvml.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static Machine *machine;
static unsigned long generation;
static struct stat read_then, cut_then;
static unsigned starts;
static Handle *handles; /* never freed: callers keep them for as long as they like */

static int is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size
        && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void cut_path(char *path, size_t bytes) { snprintf(path, bytes, "%s.cut", getenv("FAIRY_FAKE_NVML")); }

static void read_if_replaced(void)
{
    const char *path = getenv("FAIRY_FAKE_NVML");
    char beside[PATH_MAX];
    struct stat seen, cut = { 0 };
    if (path == NULL || stat(path, &seen) != 0)
        return;
    cut_path(beside, sizeof beside);
    if (stat(beside, &cut) != 0)
        memset(&cut, 0, sizeof cut);
    if (machine && is_same_file(&seen, &read_then) && is_same_file(&cut, &cut_then))
        return;
    Machine *fresh = read_script(path);
    if (fresh == NULL)
        return;
    take_cut(fresh, read_script(beside));
    free_machine(machine);
    machine = fresh;
    read_then = seen;
    cut_then = cut;
    generation++;
}

/* "nvmlDeviceGetMemoryInfo" stands for its _v2 too, as in nvidia-ml-py's names. */
static int stands_for(const char *word, const char *function)
{
    size_t length = strlen(word);
    if (strncmp(word, function, length) != 0)
        return 0;
    const char *rest = function + length;
    return *rest == '\0' || (rest[0] == '_' && rest[1] == 'v' && isdigit((unsigned char)rest[2]));
}

/* Outside the mutex: a driver that hangs in one call still answers others. */
static void hang_if_told(const char *function)
{
    for (size_t i = 0; machine && i < machine->hang_count; i++)
        if (stands_for(machine->hangs[i].text, function)) {
            pthread_mutex_unlock(&door);
            for (;;)
                pause();
        }
}

/* A line each, beside the script: appended, so that a test may empty the file between two looks. */
static void count_if_told(const char *function)
{
    char path[PATH_MAX], line[2 * WORD_BYTES];
    if (machine == NULL || !machine->counts_calls)
        return;
    snprintf(path, sizeof path, "%s.calls", getenv("FAIRY_FAKE_NVML"));
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    int length = snprintf(line, sizeof line, "%s\n", function);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

Call begin(const char *function)
{
    pthread_mutex_lock(&door);
    if (starts == 0) {
        pthread_mutex_unlock(&door);
        return (Call){ .code = UNINITIALIZED };
    }
    read_if_replaced();
    count_if_told(function);
    hang_if_told(function);
    return (Call){ .code = SUCCESS, .inside = 1, .machine = machine };
}

void end(Call *call)
{
    if (call->inside)
        pthread_mutex_unlock(&door);
}

static Call turned_away(Call call, int code)
{
    end(&call);
    return (Call){ .code = code };
}

static const Word *told_answer(const char *function, const Gpu *gpu)
{
    for (const Word *word = gpu->fails; word < gpu->fails + gpu->fail_count; word++)
        if (stands_for(word->text, function))
            return word;
    return NULL;
}

int gpu_refusal(const char *function, const Gpu *gpu)
{
    if (gpu->lost)
        return GPU_IS_LOST;
    const Word *told = told_answer(function, gpu);
    return told ? told->code : SUCCESS;
}

static int is_of(const Handle *handle, const Instance *instance)
{
    if (handle->kind == MIG_DEVICE)
        return !strcmp(handle->uuid, instance->uuid);
    return handle->gi == (unsigned)instance->gi && (handle->kind == GPU_INSTANCE || handle->ci == (unsigned)instance->ci);
}

static void find_again(Handle *handle)
{
    handle->gpu = NULL;
    handle->instance = NULL;
    handle->generation = generation;
    for (Gpu *gpu = machine->gpus; gpu < machine->gpus + machine->gpu_count; gpu++) {
        if (handle->kind != MIG_DEVICE && strcmp(handle->uuid, gpu->uuid) != 0)
            continue;
        if (handle->kind == GPU_DEVICE)
            handle->gpu = gpu;
        for (size_t i = 0; gpu->mig && handle->kind != GPU_DEVICE && !handle->instance && i < gpu->instance_count; i++)
            if (is_of(handle, &gpu->instances[i])) {
                handle->gpu = gpu;
                handle->instance = &gpu->instances[i];
            }
    }
}

/* These know that there are instances and say that theirs are not counted; the others take no handle of an instance at all. */
static const char *const KNOW_INSTANCES[] = {
    "nvmlDeviceGetAccountingMode", "nvmlDeviceGetBoardId", "nvmlDeviceGetClock", "nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetDisplayActive", "nvmlDeviceGetDisplayMode", "nvmlDeviceGetEccMode",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetGpuOperationMode", "nvmlDeviceGetInforomImageVersion", "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetMultiGpuBoard", "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceGetPowerManagementMode",
    "nvmlDeviceGetPowerUsage", "nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons", "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetUtilizationRates", NULL,
};

static int refusal_of_instances(const char *function)
{
    for (const char *const *name = KNOW_INSTANCES; *name; name++)
        if (!strcmp(*name, function))
            return NOT_SUPPORTED;
    return INVALID_ARGUMENT;
}

static int refusal_of_kind(const char *function, const Handle *handle, Answers answers)
{
    if (handle->kind == GPU_INSTANCE || handle->kind == COMPUTE_INSTANCE)
        return answers == (handle->kind == GPU_INSTANCE ? ONE_GPU_INSTANCE : ONE_COMPUTE_INSTANCE) ? SUCCESS : INVALID_ARGUMENT;
    if (answers == ONE_GPU_INSTANCE || answers == ONE_COMPUTE_INSTANCE)
        return INVALID_ARGUMENT;
    if (handle->kind == GPU_DEVICE && answers == CUT)
        return INVALID_ARGUMENT;
    if (handle->kind == MIG_DEVICE && (answers == WHOLE || answers == NOT_CUT))
        return refusal_of_instances(function);
    return handle->kind == GPU_DEVICE && answers == NOT_CUT && handle->gpu->mig ? NOT_SUPPORTED : SUCCESS;
}

static int is_handle(const Handle *wanted)
{
    for (const Handle *handle = handles; handle; handle = handle->next)
        if (handle == wanted)
            return 1;
    return 0;
}

Call begin_on(const char *function, Handle *handle, Answers answers)
{
    Call call = begin(function);
    if (!call.inside)
        return call;
    if (!is_handle(handle))
        return turned_away(call, INVALID_ARGUMENT);
    if (handle->generation != generation)
        find_again(handle);
    if (handle->gpu == NULL)
        return turned_away(call, handle->kind == GPU_DEVICE ? GPU_IS_LOST : INVALID_ARGUMENT);
    int code = gpu_refusal(function, handle->gpu);
    if (code != SUCCESS || told_answer(function, handle->gpu))
        return turned_away(call, code);
    code = refusal_of_kind(function, handle, answers);
    if (code != SUCCESS)
        return turned_away(call, code);
    call.gpu = handle->gpu;
    call.instance = handle->instance;
    return call;
}

Handle *handle_of(HandleKind kind, const char *uuid, unsigned gi, unsigned ci)
{
    for (Handle *handle = handles; handle; handle = handle->next)
        if (handle->kind == kind && handle->gi == gi && handle->ci == ci && !strcmp(handle->uuid, uuid))
            return handle;
    Handle *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        abort();
    fresh->kind = kind;
    fresh->gi = gi;
    fresh->ci = ci;
    snprintf(fresh->uuid, sizeof fresh->uuid, "%s", uuid);
    fresh->next = handles;
    handles = fresh;
    return fresh;
}

int start(const char *function)
{
    pthread_mutex_lock(&door);
    read_if_replaced();
    hang_if_told("nvmlInit");
    hang_if_told(function);
    int code = machine ? (int)machine->init_fails : DRIVER_NOT_LOADED;
    if (code == SUCCESS)
        starts++;
    pthread_mutex_unlock(&door);
    return code;
}

int stop(void)
{
    pthread_mutex_lock(&door);
    int code = starts ? SUCCESS : UNINITIALIZED;
    if (starts)
        starts--;
    pthread_mutex_unlock(&door);
    return code;
}

int give_text(const char *text, char *into, unsigned length)
{
    NEED(into);
    if (strlen(text) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(into, text);
    return SUCCESS;
}

unsigned long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000ull + (unsigned long long)now.tv_nsec / 1000ull;
}

void rest_ms(unsigned milliseconds)
{
    struct timespec rest = { milliseconds / 1000, (long)(milliseconds % 1000) * 1000000l };
    nanosleep(&rest, NULL);
}
