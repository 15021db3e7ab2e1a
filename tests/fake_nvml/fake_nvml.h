/* A fake libnvidia-ml.so.1: what a script file says, told through NVML's own calls. Layouts, versions and codes are NVML's. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <stddef.h>
#include <stdint.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, RESET_REQUIRED = 16, IN_USE = 19, OUT_OF_MEMORY = 20,
    INSUFFICIENT_RESOURCES = 23, VERSION_MISMATCH = 25,
};
enum { TURING = 6, AMPERE = 7, ADA = 8, HOPPER = 9 };
enum { BRAND_GEFORCE = 5, BRAND_NVIDIA_RTX = 13, BRAND_NVIDIA = 14 };
enum { NAME_BYTES = 96, WORD_BYTES = 64, MOST_FAILS = 16, MIG_SLOTS = 7 };
#define MIB (1024ull * 1024ull)
#define NOT_KNOWN (-1)            /* of a number in the script: Python's None */
#define NO_INSTANCE 0xFFFFFFFFu   /* the id of a GPU or compute instance outside MIG */

typedef struct { char text[WORD_BYTES]; int code; } Word; /* a function's name, and what it answers */
typedef struct { unsigned id; double value; } Metric;
typedef struct { int64_t pid, memory_mib, sm, mem; char kind; } Process; /* kind: c, g or m, for compute, graphics and MPS */
typedef struct { int64_t gpu, code, number; } Xid;

typedef struct {
    int64_t gi, ci, slot, start, size, memory_mib, used_mib, has_gpm;
    char uuid[NAME_BYTES], profile[WORD_BYTES];
    Metric *metrics;
    Process *processes;
    size_t metric_count, process_count;
} Instance;

typedef struct {
    int64_t memory_mib, used_mib, reserved_mib, utilisation, memory_utilisation, power_mw, power_limit_mw, energy_mj;
    int64_t temperature_c, memory_temperature_c, slowdown_c, fan, sm_clock_mhz, memory_clock_mhz, throttle;
    int64_t ecc_corrected, ecc_uncorrected, remapped_corrected, remapped_uncorrected, remap_pending, remap_failed;
    int64_t pcie_tx_bytes, pcie_rx_bytes, architecture, mig, pending, lost, has_gpm, hides_instances;
    char name[NAME_BYTES], uuid[NAME_BYTES], refuses_cut[WORD_BYTES];
    Word fails[MOST_FAILS];
    Metric *metrics;
    Process *processes;
    Instance *instances;
    size_t fail_count, metric_count, process_count, instance_count;
    unsigned index;
} Gpu;

typedef struct {
    char driver[WORD_BYTES];
    int64_t cuda, init_fails, counts_calls;
    Gpu *gpus;
    Word *hangs;
    Xid *xids;
    size_t gpu_count, hang_count, xid_count;
} Machine;

Machine *read_script(const char *path); /* NULL: there is none */
void free_machine(Machine *machine);
void take_cut(Machine *machine, Machine *cut); /* the GPUs are cut as `cut` says, which is freed */
void cut_path(char *path, size_t bytes); /* where what was cut is kept */

/* What a caller holds. It names a device for good: after a re-cut it finds the same one, or nothing. */
typedef enum { GPU_DEVICE, MIG_DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE } HandleKind;
typedef struct Handle {
    HandleKind kind;
    char uuid[NAME_BYTES]; /* of the MIG device, else of the GPU */
    unsigned gi, ci;
    unsigned long generation; /* of the script in which gpu and instance were found */
    Gpu *gpu;
    Instance *instance;
    struct Handle *next;
} Handle;

Handle *handle_of(HandleKind kind, const char *uuid, unsigned gi, unsigned ci);

/* Which devices a function answers for. A GPU cut by MIG has no utilisation: see its instances. Refused is as the driver refuses. */
typedef enum { WHOLE, NOT_CUT, ANY, CUT, ONE_GPU_INSTANCE, ONE_COMPUTE_INSTANCE } Answers;

/* One call from outside. While it lasts, nobody else is inside and the machine below stays the same. */
typedef struct { int code, inside; Machine *machine; Gpu *gpu; Instance *instance; } Call;

Call begin(const char *function);
Call begin_on(const char *function, Handle *handle, Answers answers);
void end(Call *call);
int start(const char *function); /* the answer of nvmlInit */
int stop(void);
int gpu_refusal(const char *function, const Gpu *gpu); /* by the script, else SUCCESS */

#define EXPORT __attribute__((visibility("default")))
#define CALL() \
    Call call __attribute__((cleanup(end))) = begin(__func__); \
    if (call.code != SUCCESS || !call.inside) return call.code
#define CALL_ON(handle, answers) \
    Call call __attribute__((cleanup(end))) = begin_on(__func__, handle, answers); \
    if (call.code != SUCCESS || !call.inside) return call.code; \
    Gpu *gpu = call.gpu; \
    (void)gpu
#define NEED(pointer) if ((pointer) == NULL) return INVALID_ARGUMENT
#define NEED_VERSION(given, layout, number) \
    if ((given) != (sizeof(layout) | (unsigned)(number) << 24)) return VERSION_MISMATCH

int give_text(const char *text, char *into, unsigned length);
unsigned long long now_us(void);
void rest_ms(unsigned milliseconds);
int brand(const Gpu *gpu);
int can_be_cut(const Gpu *gpu);

/* By NVML_GPU_INSTANCE_PROFILE_…: the id under which the driver lists it, its slices, its eighths of the memory, where it may begin. */
typedef struct { unsigned start, size; } Place;
typedef struct { unsigned kind, id, slices, eighths, most; const char *more; const int *starts; } Profile;
const Profile *profile_by(unsigned number, int is_id);
void name_profile(const Gpu *gpu, const Profile *profile, char *name, size_t bytes);
Instance *gpu_instance(Gpu *gpu, unsigned gi); /* the first device in it: it speaks for the memory and the GPM of all of them */

#endif
