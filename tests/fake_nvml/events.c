/* Event sets. A waiter looks at the script again and again, outside the mutex; each XID comes once to each set. */
#include "fake_nvml.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { XID_EVENT = 0x8, KNOWN_EVENTS = 0xFFFF, MOST_GPUS = 64, LOOK_EVERY_MS = 20 };

typedef struct { Handle *device; unsigned long long type, data; unsigned gi, ci; } Event;
typedef struct { char uuid[NAME_BYTES]; unsigned long long types; } Watched;
typedef struct {
    Watched watched[MOST_GPUS];
    size_t watched_count, told_count;
    int64_t *told; /* numbers of XIDs */
} EventSet;

EXPORT int nvmlEventSetCreate(EventSet **found)
{
    CALL();
    NEED(found);
    *found = calloc(1, sizeof **found);
    return *found ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int nvmlEventSetFree(EventSet *set)
{
    CALL();
    NEED(set);
    free(set->told);
    free(set);
    return SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(Handle *handle, unsigned long long types, EventSet *set)
{
    CALL_ON(handle, WHOLE);
    NEED(set);
    if (types & ~(unsigned long long)KNOWN_EVENTS)
        return INVALID_ARGUMENT;
    for (size_t i = 0; i < set->watched_count; i++)
        if (!strcmp(set->watched[i].uuid, gpu->uuid)) {
            set->watched[i].types |= types;
            return SUCCESS;
        }
    if (set->watched_count == MOST_GPUS)
        return OUT_OF_MEMORY;
    Watched *watched = &set->watched[set->watched_count++];
    memcpy(watched->uuid, gpu->uuid, sizeof watched->uuid);
    watched->types = types;
    return SUCCESS;
}

static int is_watched(const EventSet *set, const Gpu *gpu)
{
    for (size_t i = 0; i < set->watched_count; i++)
        if (!strcmp(set->watched[i].uuid, gpu->uuid))
            return (set->watched[i].types & XID_EVENT) != 0;
    return 0;
}

static int was_told(const EventSet *set, int64_t number)
{
    for (size_t i = 0; i < set->told_count; i++)
        if (set->told[i] == number)
            return 1;
    return 0;
}

static void remember(EventSet *set, int64_t number)
{
    int64_t *longer = realloc(set->told, (set->told_count + 1) * sizeof *longer);
    if (longer == NULL)
        abort();
    set->told = longer;
    set->told[set->told_count++] = number;
}

/* Returns whether there was one. A lost GPU's last XID still comes. */
static int next_event(EventSet *set, const Machine *machine, Event *found)
{
    for (const Xid *xid = machine->xids; xid < machine->xids + machine->xid_count; xid++) {
        if (xid->gpu < 0 || (size_t)xid->gpu >= machine->gpu_count || was_told(set, xid->number))
            continue;
        const Gpu *gpu = &machine->gpus[xid->gpu];
        if (!is_watched(set, gpu))
            continue;
        remember(set, xid->number);
        Handle *device = handle_of(GPU_DEVICE, gpu->uuid, NO_INSTANCE, NO_INSTANCE);
        *found = (Event){ device, XID_EVENT, (unsigned long long)xid->code, NO_INSTANCE, NO_INSTANCE };
        return 1;
    }
    return 0;
}

static int look(const char *function, EventSet *set, Event *found)
{
    Call call __attribute__((cleanup(end))) = begin(function);
    if (call.code != SUCCESS)
        return call.code;
    return next_event(set, call.machine, found) ? SUCCESS : TIMEOUT;
}

static unsigned long long ticks_us(void) /* a wait is not cut short when the clock is set */
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000ull + (unsigned long long)now.tv_nsec / 1000ull;
}

static int wait_for(const char *function, EventSet *set, Event *found, unsigned timeout_ms)
{
    NEED(set);
    unsigned long long until_us = ticks_us() + timeout_ms * 1000ull;
    for (;;) {
        int code = look(function, set, found);
        unsigned long long now = ticks_us();
        if (code != TIMEOUT || now >= until_us)
            return code;
        unsigned long long left_ms = (until_us - now) / 1000 + 1;
        rest_ms(left_ms < LOOK_EVERY_MS ? (unsigned)left_ms : LOOK_EVERY_MS);
    }
}

EXPORT int nvmlEventSetWait_v2(EventSet *set, Event *found, unsigned timeout_ms)
{
    NEED(found);
    return wait_for(__func__, set, found, timeout_ms);
}

EXPORT int nvmlEventSetWait(EventSet *set, void *found, unsigned timeout_ms)
{
    NEED(found);
    Event seen;
    int code = wait_for(__func__, set, &seen, timeout_ms);
    if (code == SUCCESS)
        memcpy(found, &seen, offsetof(Event, gi)); /* the first layout ends before the instances */
    return code;
}
