/* Cards, their visible order, contexts, and what happens at the beginning and end of every call: failures, stops, the log. */
#include "fake_cuda.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CONTEXTS = 64, STACK = 16 };
pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static Card cards[MOST_CARDS];
static int card_count, visible[MOST_CARDS], visible_count;
static enum { NEVER, BEGUN, PARENT_HAS } begun;
static Context contexts[MOST_CONTEXTS], primaries[MOST_CARDS];
static int primary_refs[MOST_CARDS], contexts_on[MOST_CARDS];
static __thread Context *stack[STACK];
static __thread int depth; /* the current one is stack[depth] */

uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

void note(const char *format, ...)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    char line[1024];
    va_list values;
    if (path == NULL)
        return;
    int size = snprintf(line, sizeof line, "%d ", getpid());
    va_start(values, format);
    size += vsnprintf(line + size, sizeof line - 2 - (size_t)size, format, values);
    va_end(values);
    line[size++] = '\n';
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, (size_t)size) != size)
        abort();
    close(file);
}

/* Of "name=code,name=code" the code, of "name:when" one. */
static int told(const char *variable, const char *name, char mark)
{
    const char *text = getenv(variable);
    size_t length = strlen(name);
    for (; text != NULL && *text != 0; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL)
        if (strncmp(text, name, length) == 0 && text[length] == mark)
            return mark == '=' ? atoi(text + length + 1) : text[length + 1];
    return 0;
}

/* The true one does not serve the child of a process that had begun either. */
static void forked(void)
{
    begun = begun == NEVER ? NEVER : PARENT_HAS;
}

int begin_lightly(void)
{
    return begun == BEGUN ? OK : NOT_INITIALIZED;
}

int begin(const char *function)
{
    if (begun != BEGUN && strcmp(function, "cuInit") != 0)
        return NOT_INITIALIZED;
    if (told("FAKE_CUDA_STOP", function, ':') == 'b')
        raise(SIGSTOP);
    return told("FAKE_CUDA_FAIL", function, '=');
}

int end(const char *function, int code)
{
    note("%s = %d", function, code);
    if (told("FAKE_CUDA_STOP", function, ':') == 'a')
        raise(SIGSTOP);
    return code;
}

static void read_cards(void)
{
    const char *text = getenv("FAKE_CUDA_CARDS");
    for (card_count = 0; text != NULL && *text != 0 && card_count < MOST_CARDS; text += *text == ',') {
        unsigned long long bytes;
        int size = 0;
        if (sscanf(text, "%63[^:]:%llu%n", cards[card_count].uuid, &bytes, &size) != 2)
            break;
        cards[card_count++].bytes = bytes;
        text += size;
    }
}

static int named_card(const char *word, size_t length)
{
    for (; length > 0 && *word == ' '; length--)
        word++;
    if (*word >= '0' && *word <= '9')
        return atoi(word) < card_count ? atoi(word) : -1;
    for (int i = 0; i < card_count; i++)
        if (length > 4 && strncmp(word, cards[i].uuid, length) == 0)
            return i;
    return -1;
}

/* As CUDA reads it: the first name that is no card ends the list. */
static void read_visible(void)
{
    const char *word = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    for (int i = 0; word == NULL && i < card_count; i++)
        visible[visible_count++] = i;
    while (word != NULL && *word != 0 && visible_count < MOST_CARDS) {
        size_t length = strcspn(word, ",");
        int card = named_card(word, length);
        if (card < 0)
            break;
        visible[visible_count++] = card;
        word += length + (word[length] == ',');
    }
}

API int cuInit(unsigned flags)
{
    static const char *const KEPT[] = {
        "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_CLIENT_PRIORITY",
        "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING",
    };
    CALL();
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        if (getenv(KEPT[i]) != NULL)
            note("env %s=%s", KEPT[i], getenv(KEPT[i]));
    if (flags != 0)
        DONE(INVALID_VALUE);
    if (begun == PARENT_HAS)
        DONE(NOT_INITIALIZED);
    if (begun == NEVER) {
        read_cards();
        read_visible();
    }
    if (visible_count == 0)
        DONE(NO_DEVICE);
    if (begun == NEVER)
        pthread_atfork(NULL, NULL, forked);
    begun = BEGUN;
    DONE(OK);
}

int card_of(Device device) { return device < 0 || device >= visible_count ? -1 : visible[device]; }
uint64_t card_bytes(int card) { return cards[card].bytes; }
Context *current_context(void) { return depth > 0 && stack[depth] && stack[depth]->alive ? stack[depth] : NULL; }

int current_device(Device *device)
{
    Context *context = current_context();
    if (context == NULL)
        return INVALID_CONTEXT;
    *device = context->device;
    return OK;
}

API int cuDriverGetVersion(int *version) { *version = (int)setting("FAKE_CUDA_VERSION", 13040); return OK; }
API int cuDeviceGetCount(int *count) { CALL(); *count = visible_count; return OK; }
API int cuCtxGetDevice(Device *device) { return begin_lightly() == OK ? current_device(device) : NOT_INITIALIZED; }
API int cuCtxGetCurrent(Context **context) { *context = current_context(); return begin_lightly(); }
API int cuCtxSetFlags(unsigned flags) { CALL(); (void)flags; return OK; }
API int cuCtxSetLimit(int limit, size_t value) { CALL(); (void)limit; (void)value; DONE(current_context() ? OK : INVALID_CONTEXT); }

API int cuDeviceGet(Device *device, int ordinal)
{
    CALL();
    if (card_of(ordinal) < 0)
        return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

API int cuDeviceGetName(char *name, int length, Device device)
{
    CALL();
    snprintf(name, (size_t)length, "Fake card %d", card_of(device));
    return OK;
}

/* Of a MIG instance the older one tells the whole card's, which here is all zeros. */
static int give_uuid(unsigned char *into, Device device, bool is_new)
{
    int card = card_of(device), at = 0;
    if (card < 0)
        return INVALID_DEVICE;
    memset(into, 0, 16);
    if (!is_new && strncmp(cards[card].uuid, "MIG-", 4) == 0)
        return OK;
    for (const char *text = cards[card].uuid + 4; *text != 0 && at < 16; text++)
        if (*text != '-' && sscanf(text++, "%2hhx", &into[at]) == 1)
            at++;
    return OK;
}

API int cuDeviceGetUuid(unsigned char *uuid, Device device) { CALL(); return give_uuid(uuid, device, false); }
#ifndef FAKE_CUDA_OLD
API int cuDeviceGetUuid_v2(unsigned char *uuid, Device device) { CALL(); return give_uuid(uuid, device, true); }
#endif

API int cuDeviceTotalMem_v2(size_t *bytes, Device device)
{
    CALL();
    if (card_of(device) < 0)
        DONE(INVALID_DEVICE);
    *bytes = card_bytes(card_of(device));
    DONE(OK);
}

API int cuDeviceTotalMem(unsigned *bytes, Device device)
{
    size_t all;
    int code = cuDeviceTotalMem_v2(&all, device);
    if (code == OK)
        *bytes = all > UINT32_MAX ? UINT32_MAX : (unsigned)all;
    return code;
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    Device device;
    CALL();
    int code = current_device(&device), card = code == OK ? card_of(device) : 0;
    if (code != OK)
        DONE(code);
    *total = card_bytes(card);
    *free_bytes = *total - truth_used(card);
    DONE(OK);
}

API int cuMemGetInfo(unsigned *free_bytes, unsigned *total)
{
    size_t left, all;
    int code = cuMemGetInfo_v2(&left, &all);
    if (code == OK)
        *free_bytes = (unsigned)(left > UINT32_MAX ? UINT32_MAX : left), *total = (unsigned)(all > UINT32_MAX ? UINT32_MAX : all);
    return code;
}

/* The first context of a process on a card costs memory that no allocating call shows. */
static int open_context(Context *context, Device device, int is_primary)
{
    int card = card_of(device);
    if (contexts_on[card] == 0 && !truth_take(card, setting("FAKE_CUDA_CONTEXT_BYTES", 8 << 20), card_bytes(card)))
        return OUT_OF_MEMORY;
    contexts_on[card]++;
    *context = (Context){ device, is_primary, 1 };
    return OK;
}

static void close_context(Context *context)
{
    int card = card_of(context->device);
    live_drop_context(context);
    context->alive = 0;
    if (--contexts_on[card] == 0)
        truth_give(card, setting("FAKE_CUDA_CONTEXT_BYTES", 8 << 20));
}

static void make_current(Context *context)
{
    depth = depth == 0 ? 1 : depth;
    stack[depth] = context;
}

static int create(Context **made, Device device)
{
    if (made == NULL)
        return INVALID_VALUE;
    if (card_of(device) < 0)
        return INVALID_DEVICE;
    pthread_mutex_lock(&door);
    Context *context = contexts;
    while (context < contexts + MOST_CONTEXTS && context->alive)
        context++;
    int code = context == contexts + MOST_CONTEXTS ? OUT_OF_MEMORY : open_context(context, device, 0);
    pthread_mutex_unlock(&door);
    if (code != OK)
        return code;
    if (depth + 1 < STACK)
        stack[++depth] = context;
    *made = context;
    return OK;
}

API int cuCtxCreate(Context **made, unsigned flags, Device device) { CALL(); (void)flags; DONE(create(made, device)); }
API int cuCtxCreate_v2(Context **made, unsigned flags, Device device) { CALL(); (void)flags; DONE(create(made, device)); }
API int cuCtxCreate_v3(Context **made, void *list, int count, unsigned flags, Device device)
{
    CALL();
    (void)list, (void)count, (void)flags;
    DONE(create(made, device));
}
API int cuCtxCreate_v4(Context **made, void *how, unsigned flags, Device device) { CALL(); (void)how, (void)flags; DONE(create(made, device)); }

API int cuCtxDestroy_v2(Context *context)
{
    CALL();
    pthread_mutex_lock(&door);
    int code = context == NULL || !context->alive || context->is_primary ? INVALID_CONTEXT : OK;
    if (code == OK)
        close_context(context);
    pthread_mutex_unlock(&door);
    if (code == OK && depth > 0 && stack[depth] == context)
        depth--;
    DONE(code);
}
API int cuCtxDestroy(Context *context) { return cuCtxDestroy_v2(context); }

API int cuCtxSetCurrent(Context *context) { CALL(); make_current(context); return OK; }
API int cuCtxPushCurrent_v2(Context *context) { CALL(); if (depth + 1 < STACK) stack[++depth] = context; return OK; }
API int cuCtxPopCurrent_v2(Context **context)
{
    CALL();
    if (depth == 0)
        return INVALID_CONTEXT;
    if (context != NULL)
        *context = stack[depth];
    depth--;
    return OK;
}

API int cuDevicePrimaryCtxRetain(Context **made, Device device)
{
    CALL();
    int card = card_of(device), code = OK;
    if (card < 0 || made == NULL)
        DONE(card < 0 ? INVALID_DEVICE : INVALID_VALUE);
    pthread_mutex_lock(&door);
    if (!primaries[card].alive)
        code = open_context(&primaries[card], device, 1);
    if (code == OK) {
        primary_refs[card]++;
        *made = &primaries[card];
    }
    pthread_mutex_unlock(&door);
    DONE(code);
}

/* As through the driver's private tables: no symbol that anybody hooks. */
API int fake_private_retain(Context **made, Device device) { return cuDevicePrimaryCtxRetain(made, device); }

static int drop_primary(Device device, bool all)
{
    int card = card_of(device);
    if (card < 0 || (!all && primary_refs[card] == 0))
        return card < 0 ? INVALID_DEVICE : INVALID_CONTEXT;
    pthread_mutex_lock(&door);
    primary_refs[card] -= !all;
    if (primaries[card].alive && (all || primary_refs[card] == 0))
        close_context(&primaries[card]);
    pthread_mutex_unlock(&door);
    return OK;
}

API int cuDevicePrimaryCtxRelease_v2(Device device) { CALL(); DONE(drop_primary(device, false)); }
API int cuDevicePrimaryCtxReset_v2(Device device) { CALL(); DONE(drop_primary(device, true)); }
API int cuDevicePrimaryCtxRelease(Device device) { CALL(); DONE(drop_primary(device, false)); }
API int cuDevicePrimaryCtxReset(Device device) { CALL(); DONE(drop_primary(device, true)); }
API int cuDevicePrimaryCtxGetState(Device device, unsigned *flags, int *is_active)
{
    CALL();
    if (card_of(device) < 0)
        return INVALID_DEVICE;
    *flags = 0;
    *is_active = primaries[card_of(device)].alive;
    return OK;
}
