/* What is measured of a device: a line for each call that answers one number, then those that answer more. */
#include "fake_nvml.h"

#include <string.h>

typedef unsigned long long Big;
typedef struct { Big total, free, used; } Memory;
typedef struct { unsigned version; Big total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned version, sensor; int temperature; } Temperature;
typedef struct { unsigned version; int margin; } Margin;
typedef struct { unsigned max, high, partial, low, none; } Histogram;

#define NUMBER_IF(function, answers, type, known, value) \
    EXPORT int function(Handle *handle, type *found) \
    { \
        CALL_ON(handle, answers); \
        NEED(found); \
        if (!(known)) \
            return NOT_SUPPORTED; \
        *found = (type)(value); \
        return SUCCESS; \
    }
#define NUMBER(function, answers, type, value) NUMBER_IF(function, answers, type, 1, value)
#define PAIR_IF(function, answers, known, first, second) \
    EXPORT int function(Handle *handle, unsigned *one, unsigned *two) \
    { \
        CALL_ON(handle, answers); \
        NEED(one); \
        NEED(two); \
        if (!(known)) \
            return NOT_SUPPORTED; \
        *one = (unsigned)(first); \
        *two = (unsigned)(second); \
        return SUCCESS; \
    }

enum { LOWEST_LIMIT_MW = 100000, MOST_SM_CLOCK_MHZ = 1410, UTILISATION_PERIOD_US = 206000, KNOWN_THROTTLES = 0x1FF };

static int cuda_major(const Gpu *gpu)
{
    static const int MAJOR[] = { 0, 0, 3, 5, 6, 7, 7, 8, 8, 9, 10 };
    return gpu->architecture >= 0 && gpu->architecture <= 10 ? MAJOR[gpu->architecture] : 10;
}

static int cuda_minor(const Gpu *gpu) { return gpu->architecture == TURING ? 5 : gpu->architecture == ADA ? 9 : 0; }
static int has_ecc(const Gpu *gpu) { return brand(gpu) == BRAND_NVIDIA; }
static int64_t highest_limit_mw(const Gpu *gpu) { return gpu->power_limit_mw > LOWEST_LIMIT_MW ? gpu->power_limit_mw : LOWEST_LIMIT_MW; }
static int is_idle(const Gpu *gpu) { return gpu->utilisation <= 0; }

NUMBER(nvmlDeviceGetBrand, WHOLE, unsigned, brand(gpu))
NUMBER(nvmlDeviceGetArchitecture, WHOLE, unsigned, gpu->architecture)
NUMBER(nvmlDeviceGetMinorNumber, WHOLE, unsigned, gpu->index)
NUMBER(nvmlDeviceGetBoardId, WHOLE, unsigned, (gpu->index + 1) << 8)
NUMBER(nvmlDeviceGetMultiGpuBoard, WHOLE, unsigned, 0)
NUMBER(nvmlDeviceGetNumGpuCores, NOT_CUT, unsigned, 6912)
NUMBER(nvmlDeviceGetPersistenceMode, WHOLE, unsigned, 1)
NUMBER(nvmlDeviceGetDisplayMode, WHOLE, unsigned, 0)
NUMBER(nvmlDeviceGetDisplayActive, WHOLE, unsigned, 0)
NUMBER(nvmlDeviceGetAccountingMode, WHOLE, unsigned, 0)
NUMBER(nvmlDeviceGetPowerUsage, WHOLE, unsigned, gpu->power_mw)
NUMBER(nvmlDeviceGetPowerManagementLimit, WHOLE, unsigned, gpu->power_limit_mw)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, WHOLE, unsigned, gpu->power_limit_mw)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, WHOLE, unsigned, gpu->power_limit_mw)
NUMBER(nvmlDeviceGetPowerManagementMode, WHOLE, unsigned, 1)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, WHOLE, Big, gpu->energy_mj)
NUMBER(nvmlDeviceGetPerformanceState, WHOLE, unsigned, 0)
NUMBER(nvmlDeviceGetPowerState, WHOLE, unsigned, 0)
NUMBER_IF(nvmlDeviceGetFanSpeed, WHOLE, unsigned, gpu->fan != NOT_KNOWN, gpu->fan)
NUMBER(nvmlDeviceGetNumFans, WHOLE, unsigned, gpu->fan != NOT_KNOWN)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, WHOLE, Big, gpu->throttle)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, WHOLE, Big, gpu->throttle)
NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, WHOLE, Big, KNOWN_THROTTLES)
NUMBER(nvmlDeviceGetSupportedClocksEventReasons, WHOLE, Big, KNOWN_THROTTLES)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, WHOLE, unsigned, 4)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, WHOLE, unsigned, 4)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, WHOLE, unsigned, 4)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, WHOLE, unsigned, 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, WHOLE, unsigned, 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, WHOLE, unsigned, 0)
NUMBER_IF(nvmlDeviceGetRetiredPagesPendingStatus, WHOLE, unsigned, gpu->architecture < AMPERE, 0)
NUMBER(nvmlDeviceGetMemoryBusWidth, WHOLE, unsigned, 5120)
NUMBER(nvmlDeviceGetSupportedEventTypes, WHOLE, Big, 0x11F)
PAIR_IF(nvmlDeviceGetPowerManagementLimitConstraints, WHOLE, 1, LOWEST_LIMIT_MW, highest_limit_mw(gpu))
PAIR_IF(nvmlDeviceGetCudaComputeCapability, WHOLE, 1, cuda_major(gpu), cuda_minor(gpu))
PAIR_IF(nvmlDeviceGetEccMode, WHOLE, has_ecc(gpu), 1, 1)
PAIR_IF(nvmlDeviceGetEncoderUtilization, NOT_CUT, 1, 0, UTILISATION_PERIOD_US)
PAIR_IF(nvmlDeviceGetDecoderUtilization, NOT_CUT, 1, 0, UTILISATION_PERIOD_US)
PAIR_IF(nvmlDeviceGetJpgUtilization, NOT_CUT, 1, 0, UTILISATION_PERIOD_US)
PAIR_IF(nvmlDeviceGetOfaUtilization, NOT_CUT, 1, 0, UTILISATION_PERIOD_US)
PAIR_IF(nvmlDeviceGetDriverModel, WHOLE, 0, 0, 0) /* Windows has it */
PAIR_IF(nvmlDeviceGetDriverModel_v2, WHOLE, 0, 0, 0)
PAIR_IF(nvmlDeviceGetGpuOperationMode, WHOLE, 0, 0, 0)

EXPORT int nvmlDeviceGetUtilizationRates(Handle *handle, Utilisation *found)
{
    CALL_ON(handle, NOT_CUT);
    NEED(found);
    *found = (Utilisation){ (unsigned)gpu->utilisation, (unsigned)gpu->memory_utilisation };
    return SUCCESS;
}

static MemoryV2 memory(const Call *call)
{
    const Instance *instance = call->instance ? gpu_instance(call->gpu, (unsigned)call->instance->gi) : NULL;
    Big total = (Big)(instance ? instance->memory_mib : call->gpu->memory_mib) * MIB;
    Big used = (Big)(instance ? instance->used_mib : call->gpu->used_mib) * MIB;
    Big reserved = instance ? 0 : (Big)call->gpu->reserved_mib * MIB;
    return (MemoryV2){ .total = total, .reserved = reserved, .used = used, .free = total > used + reserved ? total - used - reserved : 0 };
}

EXPORT int nvmlDeviceGetMemoryInfo(Handle *handle, Memory *found)
{
    CALL_ON(handle, ANY);
    NEED(found);
    MemoryV2 seen = memory(&call);
    *found = (Memory){ seen.total, seen.free, seen.used + seen.reserved }; /* the old call counts what the driver keeps as used */
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle *handle, MemoryV2 *found)
{
    CALL_ON(handle, ANY);
    NEED(found);
    if (found->version != (sizeof *found | 2u << 24))
        return FUNCTION_NOT_FOUND; /* not VERSION_MISMATCH, as of all others */
    unsigned version = found->version;
    *found = memory(&call);
    found->version = version;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetBAR1MemoryInfo(Handle *handle, Memory *found)
{
    CALL_ON(handle, ANY);
    NEED(found);
    *found = (Memory){ 65536 * MIB, 65535 * MIB, 1 * MIB };
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperature(Handle *handle, unsigned sensor, unsigned *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *found = (unsigned)gpu->temperature_c;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperatureV(Handle *handle, Temperature *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    NEED_VERSION(found->version, Temperature, 1);
    if (found->sensor != 0)
        return INVALID_ARGUMENT;
    found->temperature = (int)gpu->temperature_c;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMarginTemperature(Handle *handle, Margin *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    NEED_VERSION(found->version, Margin, 1);
    if (gpu->architecture < ADA || gpu->slowdown_c == NOT_KNOWN)
        return NOT_SUPPORTED;
    found->margin = (int)(gpu->slowdown_c - gpu->temperature_c);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperatureThreshold(Handle *handle, unsigned threshold, unsigned *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    static const int FROM_SLOWDOWN_C[] = { 3, 0, 6, -4 }; /* shutdown, slowdown, memory's and GPU's highest */
    if (threshold >= 8)
        return INVALID_ARGUMENT;
    if (threshold >= 4 || gpu->slowdown_c == NOT_KNOWN)
        return NOT_SUPPORTED;
    *found = (unsigned)(gpu->slowdown_c + FROM_SLOWDOWN_C[threshold]);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetFanSpeed_v2(Handle *handle, unsigned fan, unsigned *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    if (fan != 0 || gpu->fan == NOT_KNOWN)
        return INVALID_ARGUMENT;
    *found = (unsigned)gpu->fan;
    return SUCCESS;
}

static int clock_mhz(const Gpu *gpu, unsigned kind, int most, unsigned *found) /* kinds: graphics, SM, memory, video */
{
    NEED(found);
    if (kind > 3)
        return NOT_SUPPORTED;
    int64_t sm = most && gpu->sm_clock_mhz < MOST_SM_CLOCK_MHZ ? MOST_SM_CLOCK_MHZ : gpu->sm_clock_mhz;
    *found = (unsigned)(kind == 2 ? gpu->memory_clock_mhz : sm);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetClockInfo(Handle *handle, unsigned kind, unsigned *found) { CALL_ON(handle, WHOLE); return clock_mhz(gpu, kind, 0, found); }

EXPORT int nvmlDeviceGetMaxClockInfo(Handle *handle, unsigned kind, unsigned *found)
{
    if (kind > 3)
        return INVALID_ARGUMENT;
    CALL_ON(handle, WHOLE);
    return clock_mhz(gpu, kind, 1, found);
}

EXPORT int nvmlDeviceGetClock(Handle *handle, unsigned kind, unsigned which, unsigned *found)
{
    CALL_ON(handle, WHOLE);
    return which > 3 ? INVALID_ARGUMENT : clock_mhz(gpu, kind, which == 3, found); /* current, set, default, highest */
}

static int ecc_errors(const Gpu *gpu, unsigned kind, unsigned since, Big *found) /* kind: corrected or not; since: the driver was loaded, or ever */
{
    NEED(found);
    if (kind > 1 || since > 1)
        return INVALID_ARGUMENT;
    if (!has_ecc(gpu))
        return NOT_SUPPORTED;
    *found = (Big)(kind ? gpu->ecc_uncorrected : gpu->ecc_corrected);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTotalEccErrors(Handle *handle, unsigned kind, unsigned since, Big *found)
{
    if (kind > 1 || since > 1)
        return INVALID_ARGUMENT;
    CALL_ON(handle, WHOLE);
    return ecc_errors(gpu, kind, since, found);
}

EXPORT int nvmlDeviceGetMemoryErrorCounter(Handle *handle, unsigned kind, unsigned since, unsigned place, Big *found)
{
    CALL_ON(handle, WHOLE);
    int in_memory = place == 2 || place == 7; /* device memory, and SRAM, where newer GPUs count all but that */
    int code = in_memory ? ecc_errors(gpu, kind, since, found) : NOT_SUPPORTED;
    if (code == SUCCESS && place == 7)
        *found = 0;
    return code;
}

EXPORT int nvmlDeviceGetRemappedRows(Handle *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    CALL_ON(handle, NOT_CUT);
    if (!corrected || !uncorrected || !pending || !failed)
        return INVALID_ARGUMENT;
    if (!can_be_cut(gpu)) /* the same GPUs have HBM with spare rows */
        return NOT_SUPPORTED;
    *corrected = (unsigned)gpu->remapped_corrected;
    *uncorrected = (unsigned)gpu->remapped_uncorrected;
    *pending = (unsigned)gpu->remap_pending;
    *failed = (unsigned)gpu->remap_failed;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRowRemapperHistogram(Handle *handle, Histogram *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    *found = (Histogram){ .max = 640 };
    return can_be_cut(gpu) ? SUCCESS : NOT_SUPPORTED;
}

#define RETIRED_PAGES(function, ...) \
    EXPORT int function(Handle *handle, unsigned cause, unsigned *count, Big *pages __VA_ARGS__) \
    { \
        CALL_ON(handle, WHOLE); \
        (void)pages; \
        NEED(count); \
        if (cause > 1) \
            return INVALID_ARGUMENT; \
        *count = 0; \
        return gpu->architecture < AMPERE ? SUCCESS : NOT_SUPPORTED; \
    }
RETIRED_PAGES(nvmlDeviceGetRetiredPages)
RETIRED_PAGES(nvmlDeviceGetRetiredPages_v2, , Big *times __attribute__((unused)))

/* Twenty milliseconds, as the driver counts what passes in that time. Others may call meanwhile. */
EXPORT int nvmlDeviceGetPcieThroughput(Handle *handle, unsigned direction, unsigned *found)
{
    {
        CALL_ON(handle, WHOLE);
        NEED(found);
        if (direction > 1)
            return INVALID_ARGUMENT;
        *found = is_idle(gpu) ? 0 : 1024; /* KiB/s */
    }
    rest_ms(20);
    return SUCCESS;
}
