/* MPS: its pipe folder, thread percentage and memory limit are set by us just before the driver begins, whatever the user's environment says.
   A wrong pipe folder would silently give the whole GPU, and a limit that names a device which this process cannot see would drop all limits:
   so the folder must have somebody listening, and only the visible devices are named, by their place in the visible order. */
#include "share.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum { PROTOTYPE = -91, AGAIN = -11, WHOLE_PERCENT = 100, LONGEST_LIMIT = 32 * LEDGER_GPUS };
_Static_assert(LONGEST_PATH <= sizeof(((struct sockaddr_un *)0)->sun_path), "a folder of the limits file must fit a socket's address");
struct visible {
    int count;
    int gpu[LEDGER_GPUS]; /* its line in the limits file, or NOT_OURS: visible by number, whose order the driver alone knows */
};

static char *append(char *at, const char *text) {
    while (*text != 0)
        *at++ = *text++;
    *at = 0;
    return at;
}

static char *append_number(char *at, uint64_t value) {
    char digits[21] = {0}, *first = digits + 20;
    do
        *--first = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    return append(at, first);
}

static int connects(const char *folder, int type) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)append(append(address.sun_path, folder), "/control");
    int file = (int)system_call(SYS_socket, AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0);
    if (file < 0)
        return file;
    int answer = (int)system_call(SYS_connect, file, (long)&address, sizeof address, 0, 0, 0);
    close_file(file);
    return answer;
}

/* Somebody listens, or has so many callers at this moment that they wait. */
static bool is_served(const char *folder) {
    int answer = connects(folder, SOCK_SEQPACKET);
    if (answer == PROTOTYPE)
        answer = connects(folder, SOCK_STREAM);
    return answer == 0 || answer == AGAIN;
}

static size_t length_of_one(const char *list) {
    size_t length = 0;
    while (list[length] != 0 && list[length] != ',')
        length++;
    return length;
}

/* One name of CUDA_VISIBLE_DEVICES: a number, or the beginning of a UUID. False: no device of ours, which ends the list for CUDA too. */
static bool is_one(const struct limits *limits, const char *name, size_t length, int *gpu) {
    size_t digits = 0;
    int number = 0;
    *gpu = NOT_OURS;
    for (; length > 0 && *name == ' '; length--)
        name++;
    while (length > 0 && name[length - 1] == ' ')
        length--;
    for (; digits < length && digits < 4 && name[digits] >= '0' && name[digits] <= '9'; digits++)
        number = number * 10 + (name[digits] - '0');
    if (digits == length && length > 0) {
        *gpu = limits->count == 1 ? 0 : NOT_OURS;
        return number < limits->count;
    }
    for (int i = 0; i < limits->count && *gpu == NOT_OURS; i++) {
        size_t alike = 0;
        while (alike < length && limits->gpus[i].word[alike] == name[alike])
            alike++;
        *gpu = length > 4 && alike == length ? i : NOT_OURS;
    }
    return *gpu != NOT_OURS;
}

static struct visible visible_devices(const struct limits *limits) {
    char *(*get)(const char *) = (char *(*)(const char *))function_in(LIBRARY_C, "getenv");
    const char *list = get == NULL ? NULL : get("CUDA_VISIBLE_DEVICES");
    struct visible seen = {0};
    for (int i = 0; list == NULL && i < limits->count; i++)
        seen.gpu[seen.count++] = limits->count == 1 ? 0 : NOT_OURS;
    while (list != NULL && *list != 0 && seen.count < limits->count) {
        size_t length = length_of_one(list);
        if (!is_one(limits, list, length, &seen.gpu[seen.count]))
            break;
        seen.count++;
        list += length + (list[length] == ',');
    }
    return seen;
}

/* "0=20480M,1=…". Where the order is the driver's secret, each may have what the largest has: the ledger holds each to its own. */
static void write_limits(const struct limits *limits, const struct visible *seen, char *into) {
    uint64_t largest = 0;
    for (int i = 0; i < limits->count; i++)
        largest = limits->gpus[i].memory_bytes > largest ? limits->gpus[i].memory_bytes : largest;
    for (int i = 0; i < seen->count; i++) {
        uint64_t mib = (seen->gpu[i] == NOT_OURS ? largest : limits->gpus[seen->gpu[i]].memory_bytes) / MIB;
        into = append(append_number(i > 0 ? append(into, ",") : into, (uint64_t)i), "=");
        into = append(append_number(into, mib > 0 ? mib : 1), "M");
    }
    *into = 0;
}

static int smallest_percent(const struct limits *limits) {
    int percent = WHOLE_PERCENT;
    for (int i = 0; i < limits->count; i++)
        percent = limits->gpus[i].sm_percent < percent ? limits->gpus[i].sm_percent : percent;
    return percent;
}

static bool set_environment(const struct limits *limits) {
    int (*set)(const char *, const char *, int) = (int (*)(const char *, const char *, int))function_in(LIBRARY_C, "setenv");
    int (*unset)(const char *) = (int (*)(const char *))function_in(LIBRARY_C, "unsetenv");
    struct visible seen = visible_devices(limits);
    char percent[8], memory[LONGEST_LIMIT];
    if (set == NULL || unset == NULL)
        return false;
    (void)append_number(percent, (uint64_t)smallest_percent(limits));
    write_limits(limits, &seen, memory);
    bool is_set = set("CUDA_MPS_PIPE_DIRECTORY", limits->mps, 1) == 0 && set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1) == 0;
    is_set = is_set && (seen.count > 0 ? set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory, 1) : unset("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")) == 0;
    is_set = is_set && unset("CUDA_MPS_CLIENT_PRIORITY") == 0;
    return is_set && unset("CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING") == 0;
}

bool mps_prepare(struct process *process) {
    if (process->limits.mps[0] == 0)
        return true;
    if (!is_served(process->limits.mps))
        return false;
    lock(&process->lock);
    bool is_set = process->is_mps_set || set_environment(&process->limits);
    process->is_mps_set = is_set;
    unlock(&process->lock);
    return is_set;
}

bool mps_names_all(struct process *process) {
    Result (*get_count)(int *) = REAL(Result(*)(int *), cuDeviceGetCount);
    int count = 0;
    if (process->limits.mps[0] == 0)
        return true;
    return get_count != NULL && get_count(&count) == 0 && count == visible_devices(&process->limits).count;
}
