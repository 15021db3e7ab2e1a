/* nvmlDeviceGetFieldValues: numbers by their id, each with an answer of its own. */
#include "fake_nvml.h"

typedef struct {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    unsigned type;
    int code;
    union { double real; unsigned small; unsigned long long big; int with_sign; } value;
} Field;

/* REAL is what the driver says of whole numbers too: it leaves the type of some fields at nought. */
enum { REAL = 0, SMALL = 1, BIG = 3 };
enum { NEVER, ALWAYS, IF_KNOWN, NOT_CUT_ALONE };
typedef struct { unsigned id, type, when; size_t at; } Source;
#define FROM(field) offsetof(Gpu, field)

static const Source SOURCES[] = {
    { 3, BIG, ALWAYS, FROM(ecc_corrected) }, { 4, BIG, ALWAYS, FROM(ecc_uncorrected) }, { 5, BIG, ALWAYS, FROM(ecc_corrected) },
    { 6, BIG, ALWAYS, FROM(ecc_uncorrected) }, { 82, SMALL, IF_KNOWN, FROM(memory_temperature_c) }, { 83, BIG, ALWAYS, FROM(energy_mj) },
    { 142, BIG, NOT_CUT_ALONE, FROM(remapped_corrected) }, { 143, BIG, NOT_CUT_ALONE, FROM(remapped_uncorrected) },
    { 144, BIG, NOT_CUT_ALONE, FROM(remap_pending) }, { 145, BIG, NOT_CUT_ALONE, FROM(remap_failed) },
    { 185, SMALL, ALWAYS, FROM(power_mw) }, { 186, SMALL, ALWAYS, FROM(power_mw) }, { 188, REAL, ALWAYS, FROM(power_limit_mw) },
    { 189, REAL, ALWAYS, FROM(power_limit_mw) }, { 190, REAL, ALWAYS, FROM(power_limit_mw) }, { 191, BIG, ALWAYS, FROM(energy_mj) },
    { 192, REAL, ALWAYS, FROM(power_limit_mw) }, { 197, SMALL, ALWAYS, FROM(pcie_tx_bytes) }, { 198, SMALL, ALWAYS, FROM(pcie_rx_bytes) },
    { 0, 0, NEVER, 0 },
};
/* How far the four limits of temperature (shutdown, slowdown, memory's and GPU's highest) lie from the GPU's own. */
enum { FIRST_LIMIT = 193, LIMITS = 4 };
static const int LIMITS_C[LIMITS] = { -8, -2, 0, 0 };

static int from_source(const Gpu *gpu, const Source *source, Field *field)
{
    int64_t number = *(const int64_t *)((const char *)gpu + source->at);
    if ((source->when == IF_KNOWN && number == NOT_KNOWN) || (source->when == NOT_CUT_ALONE && gpu->mig))
        return NOT_SUPPORTED;
    field->type = source->type;
    if (source->type == SMALL)
        field->value.small = (unsigned)number;
    else
        field->value.big = (unsigned long long)number;
    return SUCCESS;
}

static int fill(const Gpu *gpu, Field *field)
{
    if (field->id >= FIRST_LIMIT && field->id < FIRST_LIMIT + LIMITS && gpu->architecture >= ADA) {
        field->type = REAL;
        field->value.with_sign = LIMITS_C[field->id - FIRST_LIMIT];
        return SUCCESS;
    }
    for (const Source *source = SOURCES; source->when != NEVER; source++)
        if (source->id == field->id)
            return from_source(gpu, source, field);
    return NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetFieldValues(Handle *handle, int count, Field *fields)
{
    CALL_ON(handle, WHOLE);
    NEED(fields);
    if (count <= 0)
        return INVALID_ARGUMENT;
    for (Field *field = fields; field < fields + count; field++) {
        field->timestamp_us = (long long)now_us();
        field->latency_us = 0;
        field->value.big = 0;
        field->code = fill(gpu, field);
    }
    return SUCCESS;
}
