/* This process: kept on pages that fork leaves empty in the child, whose memory on the GPU is none of its parent's. */
#include "share.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { SMALL = 1 << 20, PAGE = 2 << 20, SECTOR = 512 };
static struct process *kept;
static bool fork_wipes;
static struct process closed = {.limits = {.state = LIMITS_BROKEN}}; /* if there is no memory even for this: nothing is granted */

static struct process *begin(void) {
    struct process *made = map_private(sizeof *made), *first = NULL;
    if (made == NULL)
        return &closed;
    bool wipes = system_call(SYS_madvise, (long)made, sizeof *made, MADV_WIPEONFORK, 0, 0, 0) == 0; /* since Linux 4.14 */
    if (__atomic_compare_exchange_n(&kept, &first, made, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        fork_wipes = wipes;
        return made;
    }
    unmap(made, sizeof *made);
    return first;
}

static void read_limits(struct process *process) {
    lock(&process->lock);
    if (process->limits.state == LIMITS_UNREAD)
        limits_read(&process->limits);
    unlock(&process->lock);
}

struct process *here(void) {
    struct process *process = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);
    if (process == NULL)
        process = begin();
    if (!fork_wipes && process->number != process_number()) {
        *process = (struct process){.number = process_number()}; /* just forked: this thread is the only one */
    }
    if (__atomic_load_n(&process->limits.state, __ATOMIC_ACQUIRE) == LIMITS_UNREAD)
        read_limits(process);
    return process;
}

int gpu_with(struct process *process, const uint8_t uuid[UUID_BYTES]) {
    for (int i = 0; i < process->limits.count; i++) {
        int alike = 0;
        while (alike < UUID_BYTES && process->limits.gpus[i].uuid[alike] == uuid[alike])
            alike++;
        if (alike == UUID_BYTES)
            return i;
    }
    return NOT_OURS;
}

/* The newer function tells a MIG instance's own. */
static Result get_uuid(Device device, uint8_t uuid[UUID_BYTES]) {
    typedef Result (*GetUuid)(uint8_t *, Device);
    GetUuid get = REAL(GetUuid, cuDeviceGetUuid_v2);
    if (get == NULL)
        get = REAL(GetUuid, cuDeviceGetUuid);
    return get == NULL ? CUDA_NOT_INITIALIZED : get(uuid, device);
}

Result refusal_of(Device device) {
    uint8_t uuid[UUID_BYTES];
    Result result = get_uuid(device, uuid);
    return result != 0 ? result : CUDA_OUT_OF_MEMORY;
}

/* By UUID, so that no order of visible devices changes anything. */
int gpu_of(struct process *process, Device device) {
    uint8_t uuid[UUID_BYTES];
    if (device < 0 || device >= MOST_DEVICES)
        return NOT_OURS;
    int16_t known = __atomic_load_n(&process->gpu_of[device], __ATOMIC_RELAXED);
    if (known != 0)
        return known == NOT_OURS ? NOT_OURS : known - 1;
    if (get_uuid(device, uuid) != 0)
        return NOT_OURS;
    int gpu = gpu_with(process, uuid);
    __atomic_store_n(&process->gpu_of[device], (int16_t)(gpu == NOT_OURS ? NOT_OURS : gpu + 1), __ATOMIC_RELAXED);
    return gpu;
}

uint64_t limit_of(struct process *process, int gpu) {
    return gpu == NOT_OURS || process->is_closed ? 0 : process->limits.gpus[gpu].memory_bytes;
}

bool charge(struct process *process, int gpu, uint64_t bytes) {
    return gpu != NOT_OURS && !process->is_closed && book_reserve(&process->book, gpu, bytes, limit_of(process, gpu));
}

void give_back(struct process *process, int gpu, uint64_t bytes) {
    if (gpu != NOT_OURS && bytes > 0)
        book_release(&process->book, gpu, bytes);
}

uint64_t times(uint64_t a, uint64_t b) {
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t rounded_up(uint64_t bytes, uint64_t step) {
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) / step * step;
}

/* The driver cuts small pieces out of pages and gives whole pages to the rest. */
static uint64_t taken_bytes(uint64_t bytes) {
    return rounded_up(bytes, bytes > SMALL ? PAGE : SECTOR);
}

Result current_device(struct wanted *wanted) {
    Result (*get_device)(Device *) = REAL(Result(*)(Device *), cuCtxGetDevice);
    Result (*get_context)(Context *) = REAL(Result(*)(Context *), cuCtxGetCurrent);
    *wanted = (struct wanted){.process = here(), .gpu = NOT_OURS};
    if (get_device == NULL || get_context == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = get_device(&wanted->device);
    if (result == 0)
        result = get_context(&wanted->context);
    if (result == 0)
        wanted->gpu = gpu_of(wanted->process, wanted->device);
    return result;
}

/* A context made behind our back, through the driver's private tables, is met at the latest here. */
static bool is_context_charged(const struct wanted *wanted) {
    struct process *process = wanted->process;
    if (wanted->gpu == NOT_OURS || __atomic_load_n(&process->contexts[wanted->gpu], __ATOMIC_RELAXED) > 0)
        return wanted->gpu != NOT_OURS;
    lock(&process->lock);
    bool is_charged = process->contexts[wanted->gpu] > 0;
    if (!is_charged && charge(process, wanted->gpu, process->limits.gpus[wanted->gpu].context_bytes)) {
        process->contexts[wanted->gpu] = 1;
        process->primaries[wanted->device] = wanted->context;
        is_charged = true;
    }
    unlock(&process->lock);
    return is_charged;
}

/* What the pools keep unused is given up before anything is refused, as the driver does when a card is full. */
static Result charge_wanted(struct wanted *wanted, uint64_t bytes) {
    struct process *process = wanted->process;
    wanted->bytes = taken_bytes(bytes);
    if (charge(process, wanted->gpu, wanted->bytes))
        return 0;
    if (wanted->gpu == NOT_OURS || process->pool_bytes[wanted->gpu] == 0)
        return CUDA_OUT_OF_MEMORY;
    lock(&process->lock);
    pools_trim(process, wanted->gpu);
    unlock(&process->lock);
    return charge(process, wanted->gpu, wanted->bytes) ? 0 : CUDA_OUT_OF_MEMORY;
}

Result ask_here(struct wanted *wanted) {
    Result result = current_device(wanted);
    return result != 0 || is_context_charged(wanted) ? result : CUDA_OUT_OF_MEMORY;
}

Result ask(struct wanted *wanted, uint64_t bytes) {
    Result result = ask_here(wanted);
    return result != 0 ? result : charge_wanted(wanted, bytes);
}

Result ask_on(struct wanted *wanted, Device device, uint64_t bytes) {
    *wanted = (struct wanted){.process = here(), .device = device};
    wanted->gpu = gpu_of(wanted->process, device);
    return wanted->gpu == NOT_OURS ? refusal_of(device) : charge_wanted(wanted, bytes);
}

Result took(const struct wanted *wanted, Result result, enum kind kind, uint64_t key) {
    struct process *process = wanted->process;
    if (result != 0) {
        give_back(process, wanted->gpu, wanted->bytes);
        return result;
    }
    lock(&process->lock);
    struct live *live = live_add(&process->lives, kind, key, wanted->bytes, (uint64_t)wanted->context);
    if (live != NULL) { /* else it stays charged until the process ends */
        live->gpu = (int16_t)wanted->gpu;
        live->device = (int16_t)wanted->device;
    }
    unlock(&process->lock);
    return 0;
}
